"""Time label scores at each instruction set of this machine, beside NumPy, in one run: `make bench-levels`.

A level is fixed when the extension is first asked, so each has a process of its own; they and NumPy take
turns, and the best of all turns counts. The table names the processor and goes to `levels.md`, which the
documentation shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy_forms
import tightset as ts
from report import shown, table
from tightset import _core
from workloads import title, workload

TARGET = Path(__file__).with_name("levels.md")
LEVELS = ("avx512", "avx2", "sse2", "neon", "fallback")
NUMPY = {"NumPy, in blocks": numpy_forms.in_blocks, "NumPy, no sort": numpy_forms.no_sort}
WORKS = ("A", "B", "C")
TURNS, SECONDS = 3, 0.5


def best(call):
    """Return the least time of calls within some time, of at least two."""
    call()
    times, end = [], time.perf_counter() + SECONDS
    while len(times) < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def at_this_level(name):
    """Return the level of this process and its time for a workload."""
    logits, labels = workload(name)
    return _core.simd_level(), best(lambda: ts.label_scores(logits, labels, "aps"))


def at_level(level, name):
    """Return the time of a workload in a process at a level, or None where the machine does not have it."""
    run = [sys.executable, __file__, name]
    environment = {**os.environ, "TIGHTSET_SIMD": level}
    found = subprocess.run(run, env=environment, capture_output=True, check=True, text=True)
    at, seconds = json.loads(found.stdout)
    return seconds if at == level else None


def processor():
    """Return the name of the processor, as the system has it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "an unnamed processor"


def measured():
    """Return the best times, by workload and by what was timed."""
    times = {name: {} for name in WORKS}
    for _ in range(TURNS):
        for name, of_work in times.items():
            found = {level: at_level(level, name) for level in LEVELS}
            found |= {what: best(partial(form, *workload(name))) for what, form in NUMPY.items()}
            for what, seconds in found.items():
                if seconds is not None:
                    of_work[what] = min(seconds, of_work.get(what, seconds))
    return times


def main():
    times = measured()
    present = [level for level in LEVELS if level in times["A"]]
    rows = []
    for level in present:
        row = [level]
        for name in WORKS:
            own = times[name][level]
            row += [shown(own), *(f"{times[name][what] / own:.3g} x" for what in NUMPY)]
        rows.append(row)
    head = ["level", *(cell for name in WORKS for cell in (title(name), *NUMPY))]
    text = (
        f"Label scores (entropy-reweighted APS, float32) on {processor()}, {ts.get_num_threads()} threads;\n"
        "NumPy as a multiple of each time:\n\n" + table(head, rows) + "\n"
    )
    print(text)
    TARGET.write_text(text)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(at_this_level(sys.argv[1])))
    else:
        main()

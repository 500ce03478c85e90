"""Calibrate `er-aps` on a memory map of 8 GB and print the table of docs/scale.md.

``python benches/memory_map.py FILE`` writes the logits, float32, to FILE unless they are there; they stay.
Times are of the processor, so that other work on the machine matters less. What they are compared with is a
tenth of the rows as an array in memory, in the same process.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import numpy as np

import tightset as ts

ROWS, LABELS, BLOCK = 2_000_000, 1000, 8192
RECIPE, ALPHA = "er-aps", 0.1


def main(path, rows):
    labels = np.random.default_rng(1).integers(LABELS, size=rows)
    write(path, labels)
    logits = np.memmap(path, dtype=np.float32, mode="r", shape=(rows, LABELS))

    def blocks():
        for start in range(0, rows, BLOCK):
            yield logits[start : start + BLOCK], labels[start : start + BLOCK]

    np.add.reduce(logits, axis=None)  # brings the pages into memory
    print(
        f"{rows:,} rows of {LABELS}, {logits.nbytes / 1e9:.1f} GB, {RECIPE}, {ts.get_num_threads()} threads"
    )
    print("| | processor time an element | seconds on the clock | anonymous memory beyond the start |")
    print("|---|---|---|---|")
    whole = measure(
        "`ts.calibrate` on the map, `max_memory` 256 MiB",
        logits.size,
        lambda: ts.calibrate(logits, labels, ALPHA, RECIPE, max_memory=2**28),
    )
    in_memory(np.array(logits[: rows // 10]), labels[: rows // 10])
    streamed = measure(
        f"`ts.calibrate_stream` on blocks of {BLOCK} rows, `max_memory` 64 MiB",
        logits.size,
        lambda: ts.calibrate_stream(blocks, ALPHA, RECIPE, max_memory=2**26),
    )
    assert whole == streamed


def in_memory(logits, labels):
    measure(
        "`ts.calibrate` on a tenth of the rows, in memory",
        logits.size,
        lambda: ts.calibrate(logits, labels, ALPHA, RECIPE),
    )


def write(path, labels):
    """Write the logits block by block, unless a file of their size is there."""
    if path.exists() and path.stat().st_size == 4 * LABELS * len(labels):
        return
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for start in range(0, len(labels), BLOCK):
            y = labels[start : start + BLOCK]
            z = 2 * rng.standard_normal((len(y), LABELS), dtype=np.float32)
            z[np.arange(len(y)), y] += 6
            file.write(z.data)


def measure(what, elements, call):
    """Print a row of the table and return what the call does."""
    before = anonymous()
    peak, stop = [before], threading.Event()
    watch = threading.Thread(target=lambda: follow(peak, stop))
    watch.start()
    clock, processor = time.perf_counter(), time.process_time()
    try:
        found = call()
    finally:
        processor, clock = time.process_time() - processor, time.perf_counter() - clock
        stop.set()
        watch.join()
    total = f"{(peak[0] - before) / 1e6:.0f} MB (in all {peak[0] / 1e6:.0f} MB)"
    print(f"| {what} | {1e9 * processor / elements:.0f} ns | {clock:.0f} | {total} |", flush=True)
    return found


def follow(peak, stop):
    while not stop.wait(0.02):
        peak[0] = max(peak[0], anonymous())


def anonymous():
    """Return the bytes of memory of this process that no file backs; pages of the map are not among them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    message = "this system does not tell anonymous memory apart"
    raise OSError(message)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else ROWS)

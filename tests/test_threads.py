"""Threads, forks and the environment; each case in a process of its own, with a watchdog."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic


def run(code, *, timeout=60, **environment):
    """Run a script; a hang fails the test instead of stopping it."""
    variables = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**variables, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def output(code, **environment):
    done = run(code, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


COUNT = """
import numpy as np, os, tightset as ts
print(ts.get_num_threads())
before = len(os.listdir("/proc/self/task"))
ts.entropy(np.zeros((20_000, 50), np.float32))
print(len(os.listdir("/proc/self/task")) - before)
"""

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")


@linux
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TIGHTSET_NUM_THREADS": "3"}, 3),
        ({"TIGHTSET_NUM_THREADS": "3", "RAYON_NUM_THREADS": "5", "OMP_NUM_THREADS": "7"}, 3),
        ({"RAYON_NUM_THREADS": "5", "OMP_NUM_THREADS": "7"}, 5),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({}, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1),
    ],
)
def test_environment(environment, expected):
    asked, started = output(COUNT, **environment)
    assert int(asked) == expected
    assert int(started) == (expected if expected > 1 else 0)


@linux
def test_affinity_is_respected():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + COUNT
    assert output(code) == ["1", "0"]


@linux
def test_a_forked_process_asks_anew_how_many_threads_it_may_have():
    code = """
import os, tightset as ts
allowed = os.sched_getaffinity(0)
print(ts.get_num_threads() == len(allowed), flush=True)
if os.fork() == 0:
    os.sched_setaffinity(0, {min(allowed)})
    print(ts.get_num_threads() == 1, flush=True)
    os._exit(0)
os.wait()
print(ts.get_num_threads() == len(allowed))
"""
    assert output(code) == ["True"] * 3


@pytest.mark.parametrize("value", ["0", "-1", "x", "100000"])
@pytest.mark.parametrize("variable", ["TIGHTSET_NUM_THREADS", "OMP_NUM_THREADS"])
def test_absurd_values_name_the_variable(variable, value):
    done = run(COUNT, **{variable: value})
    assert (
        f'ValueError: {variable} must be a number of threads between 1 and 1024, got "{value}"' in done.stderr
    )
    # Small calls, and calls that say, do not ask.
    calls = "ts.entropy([[0.0]]); ts.entropy(np.zeros((20_000, 50)), n_threads=2)"
    code = f"import numpy as np, tightset as ts; {calls}"
    assert run(code, **{variable: value}).returncode == 0


def test_setting_wins_over_the_environment_and_can_be_changed():
    code = """
import tightset as ts
ts.set_num_threads(3)
print(ts.get_num_threads())
ts.set_num_threads(None)
print(ts.get_num_threads())
"""
    assert output(code, TIGHTSET_NUM_THREADS="5") == ["3", "5"]
    for bad in (0, 1025):
        with pytest.raises(ValueError, match="n_threads must be"):
            ts.set_num_threads(bad)


@linux
def test_small_calls_start_no_threads_and_import_starts_none():
    code = """
import os
import numpy as np
before = len(os.listdir("/proc/self/task"))
import tightset as ts
rng = np.random.default_rng(0)
predictor = ts.calibrate(rng.normal(size=(100, 5)), rng.integers(5, size=100), 0.1, "aps")
for _ in range(10):
    predictor.predict_set(rng.normal(size=5))
print(len(os.listdir("/proc/self/task")) - before)
"""
    assert output(code, OPENBLAS_NUM_THREADS="1") == ["0"]


FORK = """
import os, sys, hashlib
import numpy as np
import tightset as ts

rng = np.random.default_rng(0)
logits, labels = rng.normal(size=(10_000, 20)).astype(np.float32), rng.integers(20, size=10_000)
predictor = ts.calibrate(logits, labels, 0.1, "aps", n_threads=4)

def digest():
    parts = []
    for n in (1, 2, 64, 10_000):
        z, y = logits[:n], labels[:n]
        sets = predictor.predict_set(z, n_threads=4)
        parts += [ts.entropy(z, n_threads=4), ts.label_scores(z, y, n_threads=4), sets.indices, sets.mask]
        parts += [ts.all_scores(z, n_threads=3), predictor.predict_p(z, n_threads=2)]
        parts += [ts.softmax(z), ts.ranks(z, y)]
    return hashlib.sha256(b"".join(np.ascontiguousarray(p).tobytes() for p in parts)).hexdigest()

def forked(work):
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        os.write(writer, work().encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text

here = digest()
print(here, forked(digest), forked(lambda: digest() + " " + forked(digest)), digest())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_children_and_grandchildren():
    digests = output(FORK)
    assert len(digests) == 5
    assert len(set(digests)) == 1


FORK_WHILE_BUSY = """
import os, threading, time
import numpy as np
import tightset as ts
z = np.zeros((5000, 10), np.float32)
stop = threading.Event()

def busy():
    n = 0
    while not stop.is_set():
        n += 1
        ts.entropy(z, n_threads=2 + n % 5)

threads = [threading.Thread(target=busy) for _ in range(2)]
for t in threads: t.start()
for _ in range(40):
    if not (pid := os.fork()):
        ts.entropy(z, n_threads=2)
        os._exit(0)
    deadline = time.monotonic() + 20
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, 9)
            print("hung")
            break
        time.sleep(0.001)
stop.set()
for t in threads: t.join()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forking_while_pools_are_made():
    assert output(FORK_WHILE_BUSY, PYTHONWARNINGS="ignore") == ["done"]


MULTIPROCESSING = """
import multiprocessing, numpy as np, tightset as ts
z = np.random.default_rng(0).normal(size=(5000, 20))

def work(i):
    return float(ts.entropy(z[i:], n_threads=2).sum())

if __name__ == "__main__":
    here = [work(i) for i in range(8)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(work, range(8)) == here
    print("equal")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_multiprocessing():
    assert output(MULTIPROCESSING) == ["equal"]


LONG = """
import numpy as np, sys, time, tightset as ts
row = np.random.default_rng(0).normal(size=(1, 1000)).astype(np.float32)
logits = np.broadcast_to(row, (2_000_000, 1000))
labels = np.zeros(2_000_000, int)
{prepare}
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted")
else:
    print("finished")
"""
CALLS = {
    "label_scores": "ts.label_scores(logits, labels, temperature=np.arange(1, 50) / 10)",
    "calibrate": "ts.calibrate(logits, labels, 0.1, max_memory=2**26)",
    "predict_set": "p.predict_set(logits)",
    "entropy": "[ts.entropy(logits) for _ in range(100)]",
}


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_long_calls(name):
    prepare = "p = ts.calibrate(logits[:1000], labels[:1000], 0.01, ts.Recipe('thr', None, 50.0))"
    code = LONG.format(prepare=prepare if name == "predict_set" else "", call=CALLS[name])
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        # The promise is half a second; a loaded machine gets more before the test calls it a failure.
        out, error = process.communicate(timeout=8)
    finally:
        process.kill()
    assert out == "interrupted\n", error


def test_slices_change_nothing(rng):
    """A call of many slices gives what its parts give."""
    logits, labels = synthetic(rng, 9000, 1000, dtype=np.float32)
    whole = ts.label_scores(logits, labels, temperature=[0.5, 2.0], ranked=True)
    parts = [
        ts.label_scores(logits[i : i + 100], labels[i : i + 100], temperature=[0.5, 2.0], ranked=True)
        for i in range(0, 9000, 100)
    ]
    assert whole.tobytes() == np.concatenate(parts, axis=1).tobytes()

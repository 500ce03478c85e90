"""Faults of the core that were found from outside: each test says what must hold instead."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tightset as ts
from conftest import SCORES, synthetic
from tightset import _core

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the kernel of Linux")


def key_of(scores):
    """Return keys in the order of the scores, as the core makes them."""
    bits = (scores + 0.0).view(np.uint64)
    return np.where(bits >> 63, ~bits, bits | np.uint64(1 << 63))


def refused_or(expected, call, name):
    """Assert that a call gives what is expected, or refuses the argument of that name."""
    try:
        found = call()
    except ValueError as error:
        message = str(error)
    else:
        np.testing.assert_array_equal(found, expected)
        return
    assert name in message


def test_order_statistics_of_column_major_scores(rng):
    """Order statistics of a column-major array are those of its rows, or the array is refused."""
    scores = rng.normal(size=(3, 50))
    expected = np.sort(scores)[:, [0, 9, 49]]
    refused_or(expected, lambda: _core.order_statistics(np.asfortranarray(scores), [1, 10, 50]), "scores")


def test_keys_of_column_major_scores(rng):
    """The keys of a column-major array are those of its rows, or the array is refused."""
    scores = rng.normal(size=(3, 50))
    slots = ([2, 0], np.zeros(2, np.uint64), np.full(2, 64, np.uint32))
    refused_or(key_of(scores)[[2, 0]], lambda: _core.keys_within(np.asfortranarray(scores), *slots), "scores")


@pytest.mark.parametrize("argument", ["scores", "counts"])
def test_digits_of_column_major_arrays(rng, argument):
    """Digits of a column-major array are counted by its rows, into any array, or the array is refused."""
    scores, counts = rng.normal(size=(3, 50)), np.zeros((3, 16), np.uint64)
    expected = [np.bincount((row >> np.uint64(60)).astype(int), minlength=16) for row in key_of(scores)]
    given = {"scores": scores, "counts": counts}
    given[argument] = np.asfortranarray(given[argument])
    slots = {"runs": [0, 1, 2], "bases": np.zeros(3, np.uint64), "widths": np.full(3, 64, np.uint32)}

    def counted():
        _core.count_digits(**given, **slots)
        return given["counts"]

    refused_or(expected, counted, argument)


@linux
@pytest.mark.slow  # two calls of some sixty still end otherwise on some machines: see the CHANGELOG
@pytest.mark.parametrize("n_threads", [1, 2])
def test_calls_that_lack_memory_raise(n_threads):
    """A call with too little memory raises MemoryError, and does not end the process."""
    script = Path(__file__).with_name("short_memory.py")
    run = [sys.executable, str(script), str(n_threads)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
    done = subprocess.run(run, capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0, done.stderr
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ends) > 50
    assert [end for end in ends if end[2] not in ("MemoryError", "finished")] == []
    least = min(margin for _, margin, _ in ends)
    assert {end for _, margin, end in ends if margin == least} == {"MemoryError"}


NAMESPACES = """
import ctypes, os, signal, time
import numpy as np
import tightset as ts

NEWUSER, NEWPID = 0x10000000, 0x20000000
libc = ctypes.CDLL(None, use_errno=True)
logits = np.zeros((5000, 10), np.float32)

def forked(work, seconds):
    if libc.unshare(NEWPID) and libc.unshare(NEWUSER | NEWPID):
        print("refused:", os.strerror(ctypes.get_errno()), flush=True)
        return
    if not (pid := os.fork()):
        work()
        os._exit(0)
    deadline = time.monotonic() + seconds
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            print("hung", flush=True)
            return
        time.sleep(0.01)

def used():
    ts.entropy(logits, n_threads=2)
    print("process", os.getpid(), flush=True)

def child():
    used()
    forked(used, 15)

forked(child, 30)
"""


@linux
def test_a_child_with_the_process_id_of_its_parent_makes_its_own_threads():
    """A child with its parent's process id, in a new namespace, does not wait for its parent's threads."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    run = [sys.executable, "-c", NAMESPACES]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    if "refused" in done.stdout:
        pytest.skip(f"process namespaces are {done.stdout.splitlines()[-1]}")
    assert done.stdout.splitlines() == ["process 1", "process 1"]


# Where the words of the C library's floating-point environment have the bits that flush subnormals to zero.
FLUSH = {"x86_64": (7, 0x8040), "aarch64": (0, 1 << 24)}


def flushing(work):
    """Return what `work` gives on a thread that flushes subnormals to zero."""
    libm, (word, bits) = ctypes.CDLL("libm.so.6"), FLUSH[platform.machine()]
    results = []

    def run():
        before, changed = (ctypes.c_uint32 * 16)(), (ctypes.c_uint32 * 16)()
        libm.fegetenv(before)
        libm.fegetenv(changed)
        changed[word] |= bits
        libm.fesetenv(changed)
        try:
            results.append((sys.float_info.min * 0.5, work()))
        finally:
            libm.fesetenv(before)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    [(half, result)] = results
    assert half == 0.0
    return result


SUBNORMAL = 5e-324
FEW = SUBNORMAL * np.arange(-3, 5)
PARAMETERS = {"raps": {"penalty": 0.1, "k_reg": 2}, "saps": {"weight": 0.2}, "mixed": {"weight": 0.3}}
# Thresholds beside which exponentials, or they themselves, are subnormal, each with the next number.
ENDS = np.array([1e-310, -1e-310, 0.0, SUBNORMAL, 710.0, 740.0, -740.0])
ENDS = list(zip(ENDS.tolist(), np.nextafter(ENDS, np.inf).tolist(), strict=True))


def small_calls():
    """Yield calls of the core without logits, by name."""
    yield "kth_smallest", lambda: [_core.kth_smallest(FEW, k) for k in range(1, 9)]
    yield "conformal_threshold", lambda: ts.conformal_threshold(FEW, 0.5)
    yield "order_statistics", lambda: _core.order_statistics(FEW[None], [1, 3, 5])
    yield "conformal_rank", lambda: _core.conformal_rank(10, 1e-310)
    slot = ([0], np.zeros(1, np.uint64), np.full(1, 64, np.uint32))
    yield "keys_within", lambda: _core.keys_within(FEW[None], *slot)[0]
    row = np.array([[1e-310, 2.0, -3.0]])
    for score in SCORES:
        for i, temperature in enumerate((SUBNORMAL, 1e-310, 1e-300, 1e300)):
            settings = {**PARAMETERS.get(score, {}), "temperature": temperature}

            def scored(score=score, settings=settings):
                return _core.all_scores(row, _core.Scoring(score, **settings), ranked=True, seed=0)

            yield f"Scoring {score} {i}", scored
    ends = (1e-310, 3e-310, 0, np.array([2e-310]), 1)
    yield "Survivors", lambda: type(_core.Survivors([(_core.Scoring("aps"), *ends)])).__name__


def row_calls(logits, labels, probabilities, scorings):
    """Yield calls of the core on these rows, by name."""
    given = {"probabilities": probabilities}
    drawn = {"seed": 0, **given}
    for measure in ("entropy", "margin", "gini"):
        yield measure, lambda measure=measure: _core.uncertainty(logits, measure, **given)
    for power, temperature in ((0.0, 1.0), (1.0, 0.05)):
        settings = {"gamma": power, "power": power, "temperature": temperature}
        yield f"softmax {power}", lambda settings=settings: _core.softmax(logits, **settings, **given)
    yield "ranks", lambda: _core.ranks(logits, labels, **given)
    for name, scoring in scorings.items():
        for scale in (False, True):

            def scores(scoring=scoring, scale=scale):
                of_labels = _core.label_scores(logits, labels, [scoring], ranked=scale, **drawn)
                return of_labels, _core.all_scores(logits, scoring, ranked=scale, **drawn)

            yield f"scores {name} {scale}", scores
        yield (
            f"p_values {name}",
            lambda scoring=scoring: _core.p_values(logits, scoring, FEW, smoothed=True, **drawn),
        )
        for i, (lo, hi) in enumerate(ENDS):

            def sets(scoring=scoring, lo=lo, hi=hi):
                pair = _core.Survivors([(scoring, lo, hi, 1, FEW[:0], 1)] * 2)
                counts, between = _core.count_pairs(
                    logits, [scoring], np.array([lo]), np.array([hi]), keep=True, **drawn
                )
                own = _core.predict_sets(logits, scoring, hi, allow_empty=True, **drawn)
                selected = _core.predict_selected_sets(logits, pair, allow_empty=True, **drawn)
                return (*own, *selected, counts, between[0])

            yield f"sets {name} {i}", sets


def all_calls():
    """Return calls of the core, by name, on rows that hold subnormals or lead to them."""
    rng = np.random.default_rng(3)
    calls = dict(small_calls())
    scorings = {s: _core.Scoring(s, power=float(s < "n"), **PARAMETERS.get(s, {})) for s in SCORES}
    for dtype in (np.float32, np.float64):
        tiny = np.finfo(dtype).smallest_subnormal
        for n, k in ((1, 3), (1, 1000), (40, 3), (40, 70)):
            logits = (30 * rng.normal(size=(n, k))).astype(dtype)
            logits[: (n + 1) // 2] = rng.integers(-9, 9, size=((n + 1) // 2, k)) * tiny
            shares = np.full((n, k), 5 * tiny, dtype)
            shares[np.arange(n), rng.integers(k, size=n)] = 1.0
            for rows, probabilities in ((logits, False), (shares, True)):
                labels = rng.integers(k, size=n)
                place = f"{n} rows of {k}, {np.dtype(dtype)}, probabilities={probabilities}"
                for name, call in row_calls(rows, labels, probabilities, scorings):
                    calls[f"{name}, {place}"] = call
    return calls


def bits(call):
    """Return the bytes of what a call gives, or its error."""
    try:
        found = call()
    except ValueError as error:
        return str(error)
    return [np.asarray(part).tobytes() for part in (found if isinstance(found, tuple) else (found,))]


@linux
@pytest.mark.skipif(platform.machine() not in FLUSH, reason="has other floating-point settings")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the environment of glibc")
def test_threads_that_flush_subnormals_get_the_same_bits():
    """Every call gives the same bits on a thread whose settings flush subnormals to zero."""
    calls = all_calls()
    expected = {name: bits(call) for name, call in calls.items()}
    found = flushing(lambda: [bits(call) for call in calls.values()])
    assert [name for name, other in zip(calls, found, strict=True) if other != expected[name]] == []


LONG_RUN = """
import numpy as np
from tightset import _core
run = np.random.default_rng(0).random((1, 4_000_000))
ranks = list(range(2_000_000, 3_000_000, 50))
print("ready", flush=True)
try:
    _core.order_statistics(run, ranks, n_threads=1)
except KeyboardInterrupt:
    print("interrupted")
else:
    print("finished")
"""


def test_ctrl_c_ends_the_order_statistics_of_one_long_run():
    """Ctrl-C ends a search for many order statistics of one long run, unless that is done at once."""
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=12)
    finally:
        process.kill()
        process.communicate()
    assert out in ("interrupted\n", "finished\n"), error


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_levels_that_are_calibrated_together_are_those_of_each_alone(rng, dtype):
    """A predictor of one level does not depend on which other levels are calibrated with it."""
    logits, labels = synthetic(rng, 2000, 200, dtype=dtype)
    levels = [0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02]
    alone = [ts.calibrate(logits, labels, level, "er-aps") for level in levels]
    together = ts.calibrate(logits, labels, levels, "er-aps")
    assert [level for level, a, b in zip(levels, alone, together, strict=True) if a != b] == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scores", [["raps", "aps"], ["aps", "raps"], ["saps", "aps"], ["thr", "aps"]])
def test_candidates_that_are_counted_together_have_the_pairs_of_each_alone(rng, dtype, scores):
    """The pairs that a candidate has do not depend on which other candidates are counted with it."""
    logits, labels = synthetic(rng, 300, 200, dtype=dtype)
    candidates = [_core.Scoring(score, **PARAMETERS.get(score, {})) for score in scores]
    ranked = np.sort(_core.label_scores(logits, labels, candidates, ranked=True, seed=0))
    lo, hi = np.ascontiguousarray(ranked[:, 269]), np.ascontiguousarray(ranked[:, 270])
    together, _ = _core.count_pairs(logits, candidates, lo, hi, seed=0)
    tables = [_core.all_scores(logits, candidate, ranked=True, seed=0) for candidate in candidates]
    pairs = [[(table <= a).sum(), (table <= b).sum()] for table, a, b in zip(tables, lo, hi, strict=True)]
    np.testing.assert_array_equal(together[:, :2], pairs)

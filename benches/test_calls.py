"""Whole calls from Python beside NumPy doing the same: `make bench`.

Times differ from machine to machine; the table at the end shows ratios, from one run. NumPy is timed on a
tenth of the rows where it is slow, and scaled.
"""

from __future__ import annotations

import numpy as np
import pytest
from workloads import SHAPES, best_numpy, logits_and_labels, textbook, textbook_sets

import tightset as ts


@pytest.fixture(scope="module", params=SHAPES)
def workload(request):
    n, k = SHAPES[request.param]
    return f"{n:,} x {k}", *logits_and_labels(n, k)


def timed(benchmark, work, what, call, *, rows=1.0, rounds=5):
    """Time a call on a share of the rows; the table counts it for all of them."""
    benchmark.group = work
    benchmark.extra_info.update(what=what, rows=rows)
    benchmark.pedantic(call, rounds=rounds, warmup_rounds=1)


def test_label_scores(benchmark, workload):
    name, logits, labels = workload
    timed(benchmark, f"label scores, {name}", "tightset", lambda: ts.label_scores(logits, labels, "aps"))


def test_label_scores_one_thread(benchmark, workload):
    name, logits, labels = workload
    call = lambda: ts.label_scores(logits, labels, "aps", n_threads=1)  # noqa: E731
    timed(benchmark, f"label scores, {name}", "tightset, one thread", call)


def test_label_scores_best_numpy(benchmark, workload):
    name, logits, labels = workload
    timed(benchmark, f"label scores, {name}", "NumPy, no sort", lambda: best_numpy(logits, labels), rounds=3)


def test_label_scores_textbook(benchmark, workload):
    name, logits, labels = workload
    part = len(labels) // 10
    call = lambda: textbook(logits[:part], labels[:part])  # noqa: E731
    timed(benchmark, f"label scores, {name}", "NumPy, textbook", call, rows=0.1, rounds=2)


@pytest.mark.parametrize("score", ["thr", "raps", "saps", "rank"])
def test_other_scores(benchmark, score):
    logits, labels = logits_and_labels(*SHAPES["A"])
    name = "the scores, 50,000 x 1000"
    timed(benchmark, name, f"tightset {score}", lambda: ts.label_scores(logits, labels, score))


def test_aps_beside_the_other_scores(benchmark):
    logits, labels = logits_and_labels(*SHAPES["A"])
    name = "the scores, 50,000 x 1000"
    timed(benchmark, name, "tightset", lambda: ts.label_scores(logits, labels, "aps"))


def test_temperatures(benchmark):
    logits, labels = logits_and_labels(*SHAPES["A"])
    name, grid = "temperatures, 50,000 x 1000", np.geomspace(0.1, 100, 32)
    call = lambda: ts.label_scores(logits, labels, "aps", temperature=grid)  # noqa: E731
    timed(benchmark, name, "tightset, 32 at once", call, rounds=3)


def test_one_temperature(benchmark):
    logits, labels = logits_and_labels(*SHAPES["A"])
    name = "temperatures, 50,000 x 1000"
    timed(benchmark, name, "tightset", lambda: ts.label_scores(logits, labels, "aps"))


def test_sets(benchmark, workload):
    name, logits, labels = workload
    predictor = ts.calibrate(logits, labels, 0.1, "aps")
    timed(benchmark, f"plain APS sets, {name}", "tightset", lambda: predictor.predict_set(logits), rounds=3)


def test_sets_textbook(benchmark, workload):
    name, logits, _ = workload
    part = logits[: len(logits) // 10]
    timed(
        benchmark,
        f"plain APS sets, {name}",
        "NumPy, textbook",
        lambda: textbook_sets(part, 0.9),
        rows=0.1,
        rounds=2,
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "fortran"])
def test_layouts(benchmark, dtype):
    logits, labels = logits_and_labels(*SHAPES["A"])
    logits = np.asfortranarray(logits) if dtype == "fortran" else logits.astype(dtype)
    what = "tightset" if dtype == "float32" else f"tightset {dtype}"
    timed(benchmark, "dtypes, 50,000 x 1000", what, lambda: ts.label_scores(logits, labels, "aps"), rounds=3)


@pytest.mark.parametrize("k", [10, 1000, 128_000])
def test_one_row(benchmark, k):
    logits, labels = logits_and_labels(200, k)
    predictor = ts.calibrate(logits, labels, 0.1, "aps")
    benchmark.group = f"one row, {k:,} labels"
    benchmark.extra_info.update(what="tightset predict_set", rows=1.0)
    benchmark(predictor.predict_set, logits[0])

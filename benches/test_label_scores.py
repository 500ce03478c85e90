"""Entropy-reweighted APS scores of labels beside NumPy doing the same, and a pass that only reads."""

from __future__ import annotations

import numpy as np
import pytest

import numpy_forms
import tightset as ts
from tightset import _core
from workloads import in_layout, title, workload

WORKLOADS = pytest.mark.parametrize("name", ["A", "B", "C"])


def work(name):
    return f"label scores, {title(name)}"


@pytest.mark.parametrize("name", ["A", "B", "C", "D", "small", "large"])
def test_tightset(timed, name):
    logits, labels = workload(name)
    call = lambda: ts.label_scores(logits, labels, "aps")  # noqa: E731
    timed(work(name), "tightset", call, rounds=100 if name == "small" else 15)


@pytest.mark.parametrize("name", ["A", "B", "C", "D"])
def test_only_reading(timed, name):
    logits, _ = workload(name)
    maxima = timed(work(name), "only reading", lambda: _core._row_maxima(logits), rounds=15)
    assert np.array_equal(maxima, logits.max(axis=1))


@WORKLOADS
def test_one_thread(timed, name):
    logits, labels = workload(name)
    call = lambda: ts.label_scores(logits, labels, "aps", n_threads=1)  # noqa: E731
    timed(work(name), "tightset, one thread", call)


@WORKLOADS
@pytest.mark.parametrize("form", ["in blocks", "no sort"])
def test_fast_numpy(timed, name, form):
    logits, labels = workload(name)
    compute = numpy_forms.in_blocks if form == "in blocks" else numpy_forms.no_sort
    scores = timed(work(name), f"NumPy, {form}", lambda: compute(logits, labels), rounds=3)
    ours = ts.label_scores(logits, labels, "aps", u=0.5)
    # The fastest NumPy takes float32 sums as they come; the textbook's clipped logarithm costs as much.
    assert np.quantile(np.abs(scores - ours), 0.99) < 1e-4


@WORKLOADS
def test_textbook(timed, name):
    logits, labels = workload(name)
    part = len(labels) // 10
    call = lambda: numpy_forms.textbook(logits[:part], labels[:part])  # noqa: E731
    scores = timed(work(name), "NumPy, textbook", call, share=0.1, rounds=3)
    ours = ts.label_scores(logits[:part], labels[:part], "aps", u=0.5)
    assert np.quantile(np.abs(scores - ours), 0.99) < 1e-4


@pytest.mark.parametrize("score", ["aps", "thr", "raps", "saps", "rank"])
def test_other_scores(timed, score):
    logits, labels = workload("A")
    timed(f"the scores, {title('A')}", f"tightset, {score}", lambda: ts.label_scores(logits, labels, score))


def test_temperatures(timed):
    logits, labels = workload("A")
    grid = np.geomspace(0.1, 100, 32)
    call = lambda: ts.label_scores(logits, labels, "aps", temperature=grid)  # noqa: E731
    timed(work("A"), "tightset, 32 temperatures", call, rounds=3)


@pytest.mark.parametrize("layout", ["float32", "float64", "float16", "bfloat16", "fortran"])
def test_layouts(timed, layout):
    logits, labels = workload("A")
    logits = in_layout(logits, layout)
    call = lambda: ts.label_scores(logits, labels, "aps")  # noqa: E731
    timed(f"dtypes and layouts, {title('A')}", f"tightset, {layout}", call)


def test_fixed_cost(timed):
    """The cost of a call whatever its size: the least that enters the thread pool."""
    logits, labels = workload("small")
    part = 2 * (1 << 15) // logits.shape[1]
    call = lambda: ts.label_scores(logits[:part], labels[:part], "aps")  # noqa: E731
    timed(work("small"), "tightset, a fifteenth of the rows", call, rounds=200, rows=part)

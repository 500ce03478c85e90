"""Whole calls from Python beside NumPy doing the same: `make bench`."""

from __future__ import annotations

import numpy as np
import pytest

import tightset as ts

SHAPES = {"A": (50_000, 1000), "B": (1_000_000, 10), "C": (200_000, 100)}


@pytest.fixture(scope="module", params=SHAPES, ids=lambda s: f"{SHAPES[s][0]}x{SHAPES[s][1]}")
def workload(request):
    """A few strong labels, a long tail."""
    n, k = SHAPES[request.param]
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((n, k), dtype=np.float32)
    labels = rng.integers(k, size=n)
    strong = rng.integers(k, size=(n, 3))
    strong[:, 0] = labels
    gains = 10 * rng.random((n, 3), dtype=np.float32)
    np.put_along_axis(logits, strong, np.take_along_axis(logits, strong, 1) + gains, 1)
    return logits, labels


def textbook(logits, labels):
    """Entropy-reweighted APS with softmax, argsort and cumsum."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    h = -(p * np.log(np.maximum(p, 1e-38))).sum(axis=1, keepdims=True)
    z = logits / np.maximum(h, 1e-30)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    order = np.argsort(-p, axis=1)
    cumulated = np.cumsum(np.take_along_axis(p, order, 1), axis=1)
    rank = (order == labels[:, np.newaxis]).argmax(axis=1)
    rows = np.arange(len(labels))
    return cumulated[rows, rank] - 0.5 * p[rows, labels]


def test_label_scores(benchmark, workload):
    benchmark.group = f"label scores {workload[0].shape}"
    benchmark.pedantic(lambda: ts.label_scores(*workload, "aps"), rounds=5, warmup_rounds=1)


def test_label_scores_textbook_numpy(benchmark, workload):
    benchmark.group = f"label scores {workload[0].shape}"
    benchmark.pedantic(lambda: textbook(*workload), rounds=2)

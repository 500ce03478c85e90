"""Rows for the tests of calibration in blocks."""

from __future__ import annotations

import numpy as np

from conftest import synthetic


def problem(seed=0, n=3000, n_labels=7, *, ties=False):
    rng = np.random.default_rng(seed)
    logits, labels = synthetic(rng, n, n_labels, strength=2.0)
    if ties:
        logits = np.round(logits)[rng.integers(n, size=n)]
        labels = rng.integers(n_labels, size=n)
    return logits, labels, rng.permutation(10 * n)[:n]


def cuts(rng, n, parts):
    """Uneven blocks, some of them empty."""
    edges = np.sort(rng.integers(0, n + 1, size=parts - 1))
    return np.split(np.arange(n), edges)

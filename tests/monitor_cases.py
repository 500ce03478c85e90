"""Streams of scores that can be chosen directly, for tests of monitors.

Rows of two labels with logits (0, s) and label 0 have the ranked thr score s.
"""

from __future__ import annotations

import numpy as np

import tightset as ts


def rows(scores):
    """Logits whose label 0 has these ranked scores."""
    return np.stack([np.zeros(len(scores)), scores], axis=1)


def zeros(scores):
    return np.zeros(len(scores), dtype=np.int64)


def calibrated(scores, alpha=0.1):
    return ts.calibrate(rows(scores), zeros(scores), alpha, "thr")


def tied(scores):
    """Six values: the threshold is one of a fifth of all scores."""
    return np.clip(np.round(scores), -2, 3)


def watch(predictor, scores, level=0.01):
    return ts.monitor.CoverageMonitor(predictor, level).update(rows(scores), zeros(scores))


def labelled(rng, n, strength=3.0):
    labels = rng.integers(4, size=n)
    return rng.normal(size=(n, 4)) * 1.5 + strength * np.eye(4)[labels], labels

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# HYPOTHESIS_PROFILE=deep for long runs; examples are the same every time in the others.
settings.register_profile("fast", max_examples=60, deadline=None, derandomize=True)
settings.register_profile(
    "deep", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# Plots are drawn, not shown.
os.environ["MPLBACKEND"] = "Agg"

SCORES = ("thr", "aps", "raps", "saps", "rank", "mixed")


@pytest.fixture
def rng():
    return np.random.default_rng(20241107)


def synthetic(rng, n, k, strength=3.0, dtype=np.float64):
    """Logits whose scale differs from row to row, and labels that follow them."""
    labels = rng.integers(k, size=n)
    logits = rng.normal(size=(n, k)) + strength * np.eye(k)[labels]
    logits *= rng.gamma(2.0, 1.0, size=(n, 1))
    return logits.astype(dtype), labels

"""Rows for all peers."""

from __future__ import annotations

import numpy as np
import pytest
from peer_cases import K, N


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(3)
    labels = rng.integers(K, size=2 * N)
    logits = 2 * rng.normal(size=(2 * N, K)) + 3 * np.eye(K)[labels]
    return logits, labels

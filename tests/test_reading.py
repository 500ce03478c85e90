"""The pass that only reads, which benchmarks measure the others by, reads everything."""

from __future__ import annotations

import numpy as np
import pytest

from tightset import _core


@pytest.mark.parametrize("k", [1, 3, 10, 64, 100, 1000])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_row_maxima(rng, k, dtype, order):
    logits = np.asarray(rng.normal(size=(300, k)), dtype, order=order)
    logits[::7, k // 2] = -np.inf
    maxima = _core._row_maxima(logits, n_threads=2)
    assert maxima.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_array_equal(maxima, logits.max(axis=1))


def test_threads_are_checked(rng):
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        _core._row_maxima(rng.normal(size=(3, 3)), n_threads=0)

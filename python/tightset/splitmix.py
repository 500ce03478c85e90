"""The finaliser of SplitMix64 (Steele, Lea & Flood 2014) on arrays, of which hashes of rows are made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return words whose every bit depends on every bit of the given ones, no two alike that were not."""
    words = words + _STEP
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))

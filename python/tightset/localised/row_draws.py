"""Normal random vectors that belong to rows: a function of the row's bits, its id and the seed, nothing else.

The same row gets the same vector alone or in any batch, in any order, on any thread. What is hashed is the
whole row in order; U of the scores comes from the core and from other words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tightset.splitmix import mixed

# Keep what is drawn for a row apart: its direction, its length, its number between 0 and 1.
_LENGTH = np.uint64(0x9E3779B97F4A7C15)
_PLACE = np.uint64(0xBF58476D1CE4E5B9)
_STREAM = 0x53686966  # keeps these numbers apart from others of the same seed


def row_keys(rows: NDArray[np.float64], seed: int, row_ids: NDArray[np.uint64] | None) -> NDArray[np.uint64]:
    """Return 64 bits for each row of a float64 array (n, d)."""
    bits = (rows + 0.0).view(np.uint64)  # -0.0 is 0.0
    places = mixed(np.arange(rows.shape[1], dtype=np.uint64))
    # Each value is mixed with its place before the sum, so that no exchange of values goes unnoticed.
    keys = mixed(bits ^ places).sum(axis=1, dtype=np.uint64)
    if row_ids is not None:
        keys = mixed(keys) ^ row_ids
    start = mixed(mixed(np.array([_STREAM], np.uint64)) ^ np.uint64(seed))
    return mixed(keys ^ start)


def normals(keys: NDArray[np.uint64], n_columns: int, draw: int = 0) -> NDArray[np.float64]:
    """Return independent standard normal numbers (n, n_columns), by the method of Box & Muller.

    Another number of the draw gives other numbers of the same rows.
    """
    pairs = (n_columns + 1) // 2
    u = _uniforms(keys, 2 * pairs, draw)
    radius = np.sqrt(-2.0 * np.log(u[:, :pairs]))
    angle = (2.0 * np.pi) * u[:, pairs:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :n_columns]


def in_unit_ball(keys: NDArray[np.uint64], n_columns: int, draw: int = 0) -> NDArray[np.float64]:
    """Return points that are uniform in the unit ball, shape (n, n_columns)."""
    towards = normals(keys, n_columns, draw)
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    u = _uniforms(keys ^ _LENGTH, 1, draw)
    return towards * u ** (1.0 / n_columns)


def uniforms(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number strictly between 0 and 1 for each row, independent of the vectors."""
    return _uniforms(keys ^ _PLACE, 1, 0)[:, 0]


def _uniforms(keys: NDArray[np.uint64], n_columns: int, draw: int) -> NDArray[np.float64]:
    """Return numbers strictly between 0 and 1."""
    counters = np.arange(n_columns, dtype=np.uint64) + np.uint64(draw << 32)
    bits = mixed(keys[:, np.newaxis] ^ mixed(counters))
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

"""Which part of a selection a row belongs to, decided by the row alone.

Rows that come in any order and on several machines have no permutation; a hash of the seed and the row's id
takes its place. Parts then have random sizes, fixed by the ids and the seed.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightset.recipes import Selection
from tightset.splitmix import mixed

Part: TypeAlias = Literal["all", "first", "second"]

# Keeps the split apart from the randomisation of scores, which hashes ids too.
_TAG = 0x53706C69745F7631


def first_part(seed: int, row_ids: NDArray[np.uint64], selection: Selection) -> NDArray[np.bool_]:
    """Return which rows are in the first part: a quarter for ``"held-out"``, else a half."""
    hashes = mixed(row_ids ^ mixed(np.array([(seed + _TAG) % 2**64], dtype=np.uint64)))
    parts = 4 if selection == "held-out" else 2
    return hashes < np.uint64(2**64 // parts)


def parts_of(selection: Selection) -> tuple[Part, Part, Part]:
    """Return the parts for thresholds, sizes and calibration."""
    if selection == "held-out":
        return "first", "first", "second"
    return "first", "second", "first" if selection == "released" else "all"

# Types of the extension module, held to the binary by stubtest.

from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "GENERATOR",
    "VERSION",
    "Cells",
    "InternalError",
    "Scoring",
    "Survivors",
    "_panic_for_tests",
    "_row_maxima",
    "all_scores",
    "cell_p_values",
    "conformal_rank",
    "count_cell_pairs",
    "count_digits",
    "count_pairs",
    "default_threads",
    "keys_within",
    "kth_smallest",
    "label_scores",
    "mask",
    "order_statistics",
    "p_values",
    "permutation",
    "predict_cell_sets",
    "predict_selected_sets",
    "predict_sets",
    "ranks",
    "selected_p_values",
    "set_default_threads",
    "simd_level",
    "softmax",
    "uncertainty",
]

GENERATOR: Final = "row-bits-splitmix64-v1"
VERSION: Final[str]

class InternalError(RuntimeError): ...

@final
class Scoring:
    def __new__(
        cls,
        score: str,
        *,
        penalty: float = 0.0,
        k_reg: int = 0,
        weight: float = 0.0,
        gamma: float = 0.0,
        power: float = 0.0,
        temperature: float = 1.0,
    ) -> Scoring: ...
    def __copy__(self) -> Scoring: ...
    def __deepcopy__(self, _memo: Any, /) -> Scoring: ...

@final
class Survivors:
    def __new__(
        cls,
        survivors: Sequence[tuple[Scoring, float, float, int, NDArray[np.float64], int]],
    ) -> Survivors: ...
    def __copy__(self) -> Survivors: ...
    def __deepcopy__(self, _memo: Any, /) -> Survivors: ...

@final
class Cells:
    def __new__(
        cls,
        cells: Sequence[tuple[Survivors, bool, Sequence[NDArray[np.float64]]],],
        cell_of: NDArray[np.uint32],
        most_ranks: NDArray[np.uint32] | None = None,
    ) -> Cells: ...
    def __copy__(self) -> Cells: ...
    def __deepcopy__(self, _memo: Any, /) -> Cells: ...

def uncertainty(
    logits: NDArray[Any], measure: str, *, probabilities: bool = False, n_threads: int | None = None
) -> NDArray[np.float64]: ...
def softmax(
    logits: NDArray[Any],
    *,
    gamma: float,
    power: float,
    temperature: float,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> NDArray[Any]: ...
def ranks(
    logits: NDArray[Any],
    labels: NDArray[np.int64],
    *,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> NDArray[np.int64]: ...
def label_scores(
    logits: NDArray[Any],
    labels: NDArray[np.int64],
    candidates: Sequence[Scoring],
    *,
    ranked: bool,
    seed: int,
    u: float | NDArray[np.float64] | None = None,
    row_ids: NDArray[np.uint64] | None = None,
    rows: NDArray[np.int64] | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> NDArray[np.float64]: ...
def all_scores(
    logits: NDArray[Any],
    scoring: Scoring,
    *,
    ranked: bool,
    seed: int,
    u: float | NDArray[np.float64] | None = None,
    row_ids: NDArray[np.uint64] | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> NDArray[np.float64]: ...
def p_values(
    logits: NDArray[Any],
    scoring: Scoring,
    sorted_scores: NDArray[np.float64],
    *,
    smoothed: bool,
    seed: int,
    row_ids: NDArray[np.uint64] | None = None,
    rows: NDArray[np.int64] | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> NDArray[np.float64]: ...
def predict_sets(
    logits: NDArray[Any],
    scoring: Scoring,
    threshold: float,
    *,
    allow_empty: bool,
    seed: int,
    u: float | NDArray[np.float64] | None = None,
    row_ids: NDArray[np.uint64] | None = None,
    rows: NDArray[np.int64] | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]: ...
def predict_selected_sets(
    logits: NDArray[Any],
    survivors: Survivors,
    *,
    allow_empty: bool,
    seed: int,
    u: float | NDArray[np.float64] | None = None,
    row_ids: NDArray[np.uint64] | None = None,
    rows: NDArray[np.int64] | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]: ...
def selected_p_values(
    logits: NDArray[Any],
    survivors: Survivors,
    sorted_scores: Sequence[NDArray[np.float64]],
    *,
    seed: int,
    row_ids: NDArray[np.uint64] | None = None,
    rows: NDArray[np.int64] | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> NDArray[np.float64]: ...
def count_pairs(
    logits: NDArray[Any],
    candidates: Sequence[Scoring],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    *,
    keep: bool = False,
    seed: int,
    row_ids: NDArray[np.uint64] | None = None,
    rows: NDArray[np.int64] | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> tuple[NDArray[np.uint64], list[NDArray[np.float64]]]: ...
def predict_cell_sets(
    logits: NDArray[Any],
    cells: Cells,
    *,
    allow_empty: bool,
    seed: int,
    u: float | NDArray[np.float64] | None = None,
    row_ids: NDArray[np.uint64] | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]: ...
def cell_p_values(
    logits: NDArray[Any],
    cells: Cells,
    *,
    smoothed: bool,
    seed: int,
    row_ids: NDArray[np.uint64] | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> NDArray[np.float64]: ...
def count_cell_pairs(
    logits: NDArray[Any],
    candidates: Sequence[Scoring],
    cell_of: NDArray[np.uint32],
    n_cells: int,
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    *,
    keep: bool = False,
    most_ranks: NDArray[np.uint32] | None = None,
    seed: int,
    row_ids: NDArray[np.uint64] | None = None,
    rows: NDArray[np.int64] | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> tuple[NDArray[np.uint64], list[NDArray[np.float64]]]: ...
def order_statistics(
    scores: NDArray[np.float64], ranks: Sequence[int], *, n_threads: int | None = None
) -> NDArray[np.float64]: ...
def count_digits(
    scores: NDArray[np.float64],
    runs: Sequence[int],
    bases: NDArray[np.uint64],
    widths: NDArray[np.uint32],
    counts: NDArray[np.uint64],
    *,
    n_threads: int | None = None,
) -> None: ...
def keys_within(
    scores: NDArray[np.float64],
    runs: Sequence[int],
    bases: NDArray[np.uint64],
    widths: NDArray[np.uint32],
    *,
    n_threads: int | None = None,
) -> list[NDArray[np.uint64]]: ...
def kth_smallest(scores: NDArray[np.float64], k: int) -> float: ...
def conformal_rank(n: int, alpha: float) -> int: ...
def permutation(seed: int, n: int) -> NDArray[np.int64]: ...
def mask(offsets: NDArray[np.int64], labels: NDArray[np.int32], n_labels: int) -> NDArray[np.bool_]: ...
def default_threads() -> int: ...
def set_default_threads(n_threads: int | None) -> None: ...
def simd_level() -> str: ...
def _row_maxima(logits: NDArray[Any], *, n_threads: int | None = None) -> NDArray[Any]: ...
def _panic_for_tests(elements: int) -> None: ...

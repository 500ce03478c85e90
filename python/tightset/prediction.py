"""Sets and p-values of checked rows: by candidates, and by the cells of a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset.cells import Cell, Condition

if TYPE_CHECKING:
    from tightset.predictor import Predictor

Compressed = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Where the labels of each row begin, and the labels, as `PredictionSets` holds them."""


def sets_of(array: NDArray[Any], calibrated: Cell | Predictor, settings: dict[str, Any]) -> Compressed:
    """Return the sets that candidates give."""
    if calibrated.core is not None:
        return _core.predict_selected_sets(array, calibrated.core, **settings)
    (only,) = calibrated.candidates
    return _core.predict_sets(array, only.scoring.core, only.threshold, **settings)


def conditional_sets(
    array: NDArray[Any],
    condition: Condition,
    of_rows: NDArray[np.int64] | None,
    settings: dict[str, Any],
) -> Compressed:
    """Return the sets of a condition's cells; `of_rows` has each row's cell, None if labels have them."""
    if of_rows is None:
        assert condition.core is not None, "labels have cells"
        return _core.predict_cell_sets(array, condition.core, **settings)
    sizes, parts = np.zeros(len(array), dtype=np.int64), []
    for cell in np.unique(of_rows):
        rows = np.flatnonzero(of_rows == cell)
        indptr, labels = sets_of(array, condition.cells[cell], _for_rows(settings, rows))
        sizes[rows] = np.diff(indptr)
        parts.append((rows, labels))
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    indices = np.empty(indptr[-1], dtype=np.int32)
    for rows, labels in parts:
        # The places of each row's labels: its own start, counted on.
        ends = np.cumsum(sizes[rows])
        starts = np.repeat(indptr[rows] - (ends - sizes[rows]), sizes[rows])
        indices[starts + np.arange(len(labels))] = labels
    return indptr, indices


def p_values_of(
    array: NDArray[Any],
    calibrated: Cell | Predictor,
    settings: dict[str, Any],
    *,
    smoothed: bool,
) -> NDArray[np.float64]:
    """Return the p-values that candidates give."""
    scores = calibrated.calibration_scores
    assert scores is not None, "p-values come with scores"
    if calibrated.core is not None:
        _refuse_smoothed(len(calibrated.candidates), smoothed=smoothed)
        return _core.selected_p_values(array, calibrated.core, list(scores), **settings)
    (only,) = calibrated.candidates
    return _core.p_values(array, only.scoring.core, scores[0], smoothed=smoothed, **settings)


def conditional_p_values(
    array: NDArray[Any],
    condition: Condition,
    of_rows: NDArray[np.int64] | None,
    settings: dict[str, Any],
    *,
    smoothed: bool,
) -> NDArray[np.float64]:
    """Return the p-values that a condition's cells give."""
    if of_rows is None:
        assert condition.core is not None, "labels have cells"
        most = max(len(cell.candidates) for cell in condition.cells)
        _refuse_smoothed(most, smoothed=smoothed)
        return _core.cell_p_values(array, condition.core, smoothed=smoothed, **settings)
    found = np.empty(array.shape)
    for i in np.unique(of_rows):
        rows, cell = np.flatnonzero(of_rows == i), condition.cells[i]
        some = _for_rows(settings, rows)
        found[rows] = p_values_of(array, cell, some, smoothed=smoothed)
    return found


def _refuse_smoothed(n_candidates: int, *, smoothed: bool) -> None:
    if smoothed and n_candidates > 1:
        message = f"smoothed must be False with {n_candidates} candidates in use, got True"
        raise ValueError(message)


def _for_rows(settings: dict[str, Any], rows: NDArray[np.int64]) -> dict[str, Any]:
    """Return the settings of a call that reads some rows only."""
    some = {
        name: settings[name][rows] for name in ("u", "row_ids") if isinstance(settings.get(name), np.ndarray)
    }
    return {**settings, **some, "rows": rows}

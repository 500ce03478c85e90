"""The frozen result of a calibration."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import (
    ArrayLike,
    as_flag,
    as_labels,
    as_logits,
    as_row_ids,
    as_thread_count,
    as_uniforms,
    check_as_in_calibration,
    check_texts,
    warn_if_probabilities,
)
from tightset.cells import Candidate, Condition, one_scoring, several
from tightset.pac import Guarantee
from tightset.prediction import conditional_p_values, conditional_sets, p_values_of, sets_of
from tightset.recipes import Recipe
from tightset.scores import Scoring
from tightset.selection_curve import SelectionCurve
from tightset.sets import PredictionSets


@dataclass(frozen=True, slots=True, repr=False)
class Predictor:
    """A calibrated predictor: immutable, safe to share among threads, the same bits everywhere.

    Made by `calibrate` or `load`. For rows exchangeable with the calibration rows, the set of a new
    row contains its label with probability at least 1 - alpha, over the draw of both (exactly for
    recipes with one candidate, ``"modsel"`` or ``"held-out"`` selection, approximately for ``"paper"``
    and ``"released"``). With a `condition` this holds within each of its cells, with ``guarantee="pac"``
    for all but a share `delta` of calibrations.

    Attributes
    ----------
    alpha
        Miscoverage level.
    recipe
        The recipe it was made by.
    n_labels
        K, the number of labels.
    n_calibration
        Rows that set the threshold.
    rank
        Which of their scores, in order, the threshold is; above `n_calibration` it is infinite. With a
        condition, the rank that all rows together would have: each cell has its own.
    candidates
        What prediction uses: one, or with ``"modsel"`` selection those among which each label of a new
        row chooses. With a condition there are none here: its cells have them.
    selection_curve
        What the selection saw, or None when there was nothing to select.
    seed, probabilities, uses_row_ids
        How rows are read, as in calibration.
    condition
        What coverage is conditional on, with the cells' thresholds; None for marginal coverage.
    guarantee, delta, shares
        ``"marginal"``, or ``"pac"`` with the share of calibrations that may fall short, and the number of
        thresholds it was divided among: candidates times cells.
    label_names
        Names of the labels, for people and other programs, or None; see `with_label_names`.
    calibration_scores
        The scores that the thresholds were taken from, one sorted row for each candidate; None if it
        was saved without them or they were never together.
    """

    alpha: float
    recipe: Recipe
    n_labels: int
    n_calibration: int
    rank: int
    candidates: tuple[Candidate, ...]
    seed: int
    probabilities: bool
    uses_row_ids: bool
    condition: Condition | None = None
    guarantee: Guarantee = "marginal"
    delta: float | None = None
    shares: int = 1
    label_names: tuple[str, ...] | None = None
    selection_curve: SelectionCurve | None = field(default=None, compare=False)
    calibration_scores: NDArray[np.float64] | None = field(default=None, compare=False)
    core: _core.Survivors | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "core", several(self.candidates))

    def __repr__(self) -> str:
        # Not all fields: candidates may be hundreds, each with a table of scores.
        if self.condition is not None:
            used = f"{self.condition.n_cells} cells by {self.condition.kind}"
        elif len(self.candidates) == 1:
            used = f"{self.candidates[0].scoring}, threshold {self.candidates[0].threshold:.6g}"
        else:
            used = f"{len(self.candidates)} of {len(self.recipe.candidates)} candidates in use"
        data = f"{self.n_labels} labels, {self.n_calibration} calibration rows"
        return f"Predictor(alpha={self.alpha:g}, {used}, {data}, {self.guarantee})"

    @property
    def scoring(self) -> Scoring:
        """The score, reweighting and temperature in use."""
        if self.condition is not None:
            found = one_scoring(self.condition.cells)
            if found is None:
                message = "cells differ in what they score by: see .condition.cells"
                raise ValueError(message)
            return found
        return self._only().scoring

    @property
    def threshold(self) -> float:
        """A label is in the set when its ranked score is at most this."""
        return self._only().threshold

    def _only(self) -> Candidate:
        if self.condition is not None:
            message = f"thresholds are those of {self.condition.n_cells} cells: see .condition"
            raise ValueError(message)
        if len(self.candidates) != 1:
            message = f"{len(self.candidates)} candidates are in use: see .candidates"
            raise ValueError(message)
        return self.candidates[0]

    def predict_set(
        self,
        logits: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        allow_empty: bool = True,
        u: ArrayLike | None = None,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> PredictionSets:
        """Return the prediction set of each row.

        A set contains the label of a row exchangeable with the calibration rows with probability at
        least 1 - alpha.

        Parameters
        ----------
        logits
            Array of shape (n, K), or one row of shape (K,).
        groups
            The group of each row, or one for all; required exactly when calibration had groups. A group
            that calibration had not is refused, or gets the threshold of all rows with
            ``scarce="pooled"``.
        allow_empty
            Whether a set may be empty, as the guarantee permits for rows that a confident
            classifier finds strange. If not, such a set holds the top label, which only adds
            coverage.
        u
            As in `label_scores`. The default keeps the guarantee; other values are for comparison.
        row_ids
            Required exactly when calibration had them.
        n_threads
            Threads to use at most.

        Examples
        --------
        >>> import numpy as np
        >>> import tightset as ts
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(3, size=500)
        >>> logits = rng.normal(size=(500, 3)) + 2 * np.eye(3)[labels]
        >>> predictor = ts.calibrate(logits, labels, alpha=0.1, recipe="aps")
        >>> [labels.tolist() for labels in predictor.predict_set([[1.0, 0.8, -4.0], [9.0, 0.0, 0.0]])]
        [[0, 1], [0]]
        """
        array = as_logits(logits, n_labels=self.n_labels, one_row=True)
        n = len(array)
        if n > 1 and not self.probabilities:
            warn_if_probabilities(array, stacklevel=2)
        settings: dict[str, Any] = {
            "allow_empty": as_flag(allow_empty, "allow_empty"),
            "seed": self.seed,
            "u": None if u is None else as_uniforms(u, n),
            "row_ids": self._row_ids(row_ids, n),
            "probabilities": self.probabilities,
            "n_threads": None if n_threads is None else as_thread_count(n_threads),
        }
        of_rows = self._cells_of(groups, n)
        if self.condition is None:
            indptr, indices = sets_of(array, self, settings)
        else:
            indptr, indices = conditional_sets(array, self.condition, of_rows, settings)
        return PredictionSets(indptr, indices, self.n_labels)

    def _cells_of(self, groups: ArrayLike | None, n_rows: int) -> NDArray[np.int64] | None:
        condition = self.condition if self.condition and self.condition.kind == "groups" else None
        check_as_in_calibration(groups, "groups", had=condition is not None)
        return None if condition is None else condition.cells_of(groups, n_rows)

    def predict_to(
        self,
        path: str | os.PathLike[str],
        source: Any,
        *,
        allow_empty: bool = True,
        n_threads: int | None = None,
    ) -> int:
        """Write the prediction sets of rows that are read block by block to a Parquet file.

        The file has a column ``labels``, the set of each row as a list of integers by falling probability,
        and ``row_id`` if the rows have ids. It appears when it is whole. Needs pyarrow.

        Parameters
        ----------
        path
            The file, replaced if it exists.
        source
            An iterable of blocks, each an array of logits or a tuple (logits, labels) or (logits, labels,
            row_ids), whose labels are not looked at; or a file as in `calibrate_stream`.
        allow_empty, n_threads
            As in `predict_set`.

        Returns
        -------
        The number of rows.
        """
        from tightset.streaming.predictions import predict_to

        return predict_to(self, path, source, allow_empty=allow_empty, n_threads=n_threads)

    def predict_p(
        self,
        logits: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        smoothed: bool = False,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> NDArray[np.float64]:
        """Return the conformal p-value of every label, shape (n, K).

        For a row exchangeable with the calibration rows, the p-value of its label is at most t with
        probability at most t, for every t; with `smoothed`, exactly t (identical rows share their
        randomisation and need `row_ids` for that). With several candidates in use this holds for
        ``t = alpha``, the level they were selected for. With a condition it holds within each cell: among
        the rows with that label, or of that group. With ``guarantee="pac"`` sets are larger than
        the labels whose p-values are above alpha.

        Parameters
        ----------
        logits
            Array of shape (n, K), or one row of shape (K,).
        groups
            As in `predict_set`.
        smoothed
            Whether ties are broken at random, by a number that the row and the seed determine; with
            one candidate in use only.
        row_ids, n_threads
            As in `predict_set`.
        """
        array = as_logits(logits, n_labels=self.n_labels, one_row=True)
        if not self.has_scores:
            message = (
                "p-values need the calibration scores, which this predictor is without: it was saved without "
                "score_table=True, or calibrated on blocks whose scores were not kept (max_memory)"
            )
            raise ValueError(message)
        is_smoothed = as_flag(smoothed, "smoothed")
        settings: dict[str, Any] = {
            "seed": self.seed,
            "row_ids": self._row_ids(row_ids, len(array)),
            "probabilities": self.probabilities,
            "n_threads": as_thread_count(n_threads),
        }
        of_rows = self._cells_of(groups, len(array))
        if self.condition is None:
            return p_values_of(array, self, settings, smoothed=is_smoothed)
        return conditional_p_values(array, self.condition, of_rows, settings, smoothed=is_smoothed)

    @property
    def has_scores(self) -> bool:
        """Whether the calibration scores are at hand, which p-values need."""
        if self.condition is None:
            return self.calibration_scores is not None
        return all(cell.calibration_scores is not None for cell in self.condition.cells)

    def scores(
        self,
        logits: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> NDArray[np.float64]:
        """Return ranked scores: of the given labels, shape (n,), or of all, shape (n, K).

        A label is in its row's set exactly when its score is at most the threshold: that of its own
        cell, with a condition.
        """
        array = as_logits(logits, n_labels=self.n_labels, one_row=True)
        settings: dict[str, Any] = {
            "ranked": True,
            "seed": self.seed,
            "row_ids": self._row_ids(row_ids, len(array)),
            "probabilities": self.probabilities,
            "n_threads": as_thread_count(n_threads),
        }
        core = self.scoring.core
        if labels is None:
            return _core.all_scores(array, core, **settings)
        scores = _core.label_scores(array, as_labels(labels, len(array)), [core], **settings)
        return scores.reshape(-1)

    def label_scores(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        *,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> NDArray[np.float64]:
        """Return the ranked scores of the given labels under each candidate in use, shape (candidates, n).

        They are on the scale of `calibration_scores`, row by row. One row may come as shape (K,) with a
        label that is a number.
        """
        array = as_logits(logits, n_labels=self.n_labels, one_row=True)
        return _core.label_scores(
            array,
            as_labels(labels, len(array), one_row=np.ndim(logits) == 1),
            [candidate.scoring.core for candidate in self.candidates],
            ranked=True,
            seed=self.seed,
            row_ids=self._row_ids(row_ids, len(array)),
            probabilities=self.probabilities,
            n_threads=as_thread_count(n_threads),
        )

    def with_label_names(self, names: Iterable[str]) -> Predictor:
        """Return the same predictor with a name for each label, which files keep.

        Examples
        --------
        >>> import numpy as np
        >>> import tightset as ts
        >>> rng = np.random.default_rng(0)
        >>> predictor = ts.calibrate(rng.normal(size=(50, 2)), rng.integers(2, size=50), recipe="aps")
        >>> predictor.with_label_names(["cat", "dog"]).label_names
        ('cat', 'dog')
        """
        given = names
        names = () if isinstance(given, str) else tuple(given)
        if not names or not all(isinstance(name, str) for name in names):
            message = f"names must be strings, one for each label, got {given!r}"
            raise TypeError(message)
        if len(names) != self.n_labels:
            message = f"names must hold one name for each of the {self.n_labels} labels, got {len(names)}"
            raise ValueError(message)
        check_texts(names, "names")
        return replace(self, label_names=tuple(str(name) for name in names))

    def save(self, path: str | os.PathLike[str], *, score_table: bool = False) -> None:
        """Write the predictor to a JSON file, whole or not at all.

        Parameters
        ----------
        path
            The file, replaced if it exists.
        score_table
            Whether to keep the calibration scores, 16 bytes each, which `predict_p` needs.
        """
        from tightset.artefact import save

        save(self, path, score_table=score_table)

    def to_json(self, *, score_table: bool = False) -> str:
        """Return what `save` writes."""
        from tightset.artefact import dumps

        return dumps(self, score_table=score_table)

    @staticmethod
    def from_json(text: str) -> Predictor:
        """Return the predictor of a text that `to_json` or a saved file holds; see `load`."""
        from tightset.artefact import loads

        return loads(text)

    def __reduce__(self) -> tuple[Callable[[str], Predictor], tuple[str]]:
        # The selection curve stays behind, as it does in files.
        from tightset.artefact import loads

        return loads, (self.to_json(score_table=self.has_scores),)

    def __copy__(self) -> Predictor:
        return self  # nothing in it can change

    def __deepcopy__(self, memo: dict[int, Any]) -> Predictor:
        return self

    def _row_ids(self, row_ids: ArrayLike | None, n_rows: int) -> NDArray[np.uint64] | None:
        check_as_in_calibration(row_ids, "row_ids", had=self.uses_row_ids)
        return as_row_ids(row_ids, n_rows)

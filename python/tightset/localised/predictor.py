"""Predictors with a threshold for each row, from the weights of calibration rows near it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import (
    ArrayLike,
    as_features,
    as_flag,
    as_logits,
    as_row_ids,
    check_as_in_calibration,
    warn_if_probabilities,
)
from tightset.localised.row_draws import in_unit_ball, normals, row_keys, uniforms
from tightset.quantile import conformal_rank
from tightset.scores import Scoring
from tightset.sets import PredictionSets

Kernel = Literal["gaussian", "box"]

_BLOCK = 2**21
"""Weights at a time, 16 MiB: 2**17 was slower with 20,000 calibration rows, 2**22 with 4,000."""


class _Rows(NamedTuple):
    """Checked rows; without features they are where their probabilities put them."""

    logits: NDArray[Any]
    features: NDArray[np.float64] | None
    ids: NDArray[np.uint64] | None


@dataclass(frozen=True, slots=True, eq=False)
class LocalisedPredictor:
    """A predictor with a threshold for each row, made by `calibrate`; immutable, for any thread.

    For a row exchangeable with the calibration rows, its set contains its label with probability at
    least 1 - alpha, over the draw of all rows and of the row's random shift. With ``draws > 1`` the
    proven bound is 1 - 2 alpha.

    Attributes
    ----------
    alpha, kernel, bandwidth, draws, seed, probabilities
        As given, or the bandwidth that was chosen.
    scoring
        The score, reweighting and temperature.
    n_labels, n_calibration
        K, and the rows that thresholds come from.
    uses_features, uses_row_ids
        Whether prediction needs them.
    calibration_scores, calibration_features
        Sorted scores of the calibration rows, and where these rows are, in units of the bandwidth.
    """

    alpha: float
    scoring: Scoring
    kernel: Kernel
    bandwidth: float
    draws: int
    n_labels: int
    n_calibration: int
    seed: int
    probabilities: bool
    uses_features: bool
    uses_row_ids: bool
    calibration_scores: NDArray[np.float64] = field(repr=False)
    calibration_features: NDArray[np.float64] = field(repr=False)
    _centre: NDArray[np.float64] = field(repr=False)

    def predict_set(
        self,
        logits: ArrayLike,
        features: ArrayLike | None = None,
        *,
        allow_empty: bool = True,
        row_ids: ArrayLike | None = None,
    ) -> PredictionSets:
        """Return the prediction set of each row, which covers as the class says.

        A label is in the set exactly when its ranked score is at most the row's threshold (see
        `thresholds`).

        Parameters
        ----------
        logits
            Array of shape (n, K), or one row of shape (K,).
        features
            Array of shape (n, d), exactly when calibration had features.
        allow_empty
            Whether a set may be empty; if not, such a set holds the top label.
        row_ids
            Required exactly when calibration had them.
        """
        rows = self._rows(logits, features, row_ids)
        allow = as_flag(allow_empty, "allow_empty")
        parts = [
            # A row has its own threshold, and the core takes one: row by row, microseconds each.
            _core.predict_sets(
                rows.logits[i : i + 1],
                self.scoring.core,
                threshold,
                allow_empty=allow,
                seed=self.seed,
                row_ids=None if rows.ids is None else rows.ids[i : i + 1],
                probabilities=self.probabilities,
                n_threads=1,
            )[1]
            for i, threshold in enumerate(self._thresholds(rows).tolist())
        ]
        indptr = np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)])
        return PredictionSets(
            indptr, np.concatenate([np.empty(0, np.int32), *parts], dtype=np.int32), self.n_labels
        )

    def thresholds(
        self, logits: ArrayLike, features: ArrayLike | None = None, *, row_ids: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Return the threshold of each row, on the ranked scale, shape (n,).

        It is infinite, and the set holds all labels, where a row is so far from the calibration rows that
        its own weight is more than alpha of all. Parameters are those of `predict_set`.
        """
        return self._thresholds(self._rows(logits, features, row_ids))

    def predict_p(
        self,
        logits: ArrayLike,
        features: ArrayLike | None = None,
        *,
        smoothed: bool = False,
        row_ids: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Return the local p-value of every label, shape (n, K): it is in the set when this is above alpha.

        For a row exchangeable with the calibration rows, the p-value of its label is at most t with
        probability at most t, for every t; with `smoothed`, exactly t. That is for one draw.

        Parameters
        ----------
        logits, features, row_ids
            As in `predict_set`.
        smoothed
            Whether the row's own weight, and that of ties, counts in part, by a number that the row and the
            seed determine.
        """
        rows = self._rows(logits, features, row_ids)
        is_smoothed = as_flag(smoothed, "smoothed")
        scores = _core.all_scores(
            rows.logits,
            self.scoring.core,
            ranked=True,
            seed=self.seed,
            row_ids=rows.ids,
            probabilities=self.probabilities,
        )
        out = np.empty(scores.shape)
        for part, keys, cumulative, total in self._cumulative_weights(rows):
            below = np.concatenate([np.zeros((len(total), 1)), cumulative], axis=1)
            first, after = (
                np.searchsorted(self.calibration_scores, scores[part], side) for side in ("left", "right")
            )
            found = total[:, np.newaxis] - np.take_along_axis(below, first, axis=1)
            if is_smoothed:
                above = cumulative[:, -1:] - np.take_along_axis(below, after, axis=1)
                found = above + uniforms(keys)[:, np.newaxis] * (found - above)
            out[part] = found / total[:, np.newaxis]
        return out

    def _rows(self, logits: ArrayLike, features: ArrayLike | None, row_ids: ArrayLike | None) -> _Rows:
        array = as_logits(logits, n_labels=self.n_labels, one_row=True)
        check_as_in_calibration(features, "features", had=self.uses_features)
        check_as_in_calibration(row_ids, "row_ids", had=self.uses_row_ids)
        if len(array) > 1 and not self.probabilities:
            warn_if_probabilities(array, stacklevel=3)
        # Bad rows are refused here, by their place among all: sets are made row by row.
        _core.uncertainty(array, "entropy", probabilities=self.probabilities)
        where = None
        if features is not None:
            n_columns = self.calibration_features.shape[1]
            where = as_features(features, len(array), n_columns=n_columns, one_row=True)
        return _Rows(array, where, as_row_ids(row_ids, len(array)))

    def _thresholds(self, rows: _Rows) -> NDArray[np.float64]:
        out = np.empty(len(rows.logits))
        scores = np.append(self.calibration_scores, np.inf)
        for part, _, cumulative, total in self._cumulative_weights(rows):
            if self.kernel == "box" and self.draws == 1:
                # Weights are counts: the conformal rank among the rows in the box, in integers.
                counts, which = np.unique(total.astype(np.int64) - 1, return_inverse=True)
                needed = np.array([float(conformal_rank(int(n), self.alpha)) for n in counts])[which]
            else:
                needed = (1.0 - self.alpha) * total
            out[part] = scores[(cumulative < needed[:, np.newaxis]).sum(axis=1)]
        return out

    def _cumulative_weights(
        self, rows: _Rows
    ) -> Iterator[tuple[slice, NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]]:
        """Yield rows, their keys, cumulative weights of the calibration rows by score, and the whole weight.

        With several draws these are the sums of the normalised weights: the p-value of a score s is the
        weight of the new row and of calibration rows with scores of at least s, so the mean of the
        p-values has the mean weights.
        """
        halves = 0.5 * np.einsum("ij,ij->i", self.calibration_features, self.calibration_features)
        size = max(1, _BLOCK // max(self.n_calibration, self.n_labels))
        for start in range(0, len(rows.logits), size):
            part = slice(start, start + size)
            if rows.features is None:
                where = embedding(rows.logits[part], probabilities=self.probabilities)
            else:
                where = rows.features[part]
            keys = row_keys(where, self.seed, None if rows.ids is None else rows.ids[part])
            new = (where - self._centre) / self.bandwidth
            weights, total = self._weights(new, keys, 0, halves)
            if self.draws > 1:
                weights /= total[:, np.newaxis]
                for draw in range(1, self.draws):
                    more, total = self._weights(new, keys, draw, halves)
                    more /= total[:, np.newaxis]
                    weights += more
                total = np.full(len(new), float(self.draws))
            yield part, keys, np.cumsum(weights, axis=1, out=weights), total

    def _weights(
        self, new: NDArray[np.float64], keys: NDArray[np.uint64], draw: int, halves: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weights of the calibration rows, shape (block, n), and their sum with the new row's own."""
        if self.kernel == "box":
            moved = new + in_unit_ball(keys, new.shape[1], draw)
            # |x_i - x~|^2 <= 1, halved.
            least = 0.5 * np.einsum("ij,ij->i", moved, moved) - 0.5
            products = moved @ self.calibration_features.T
            products -= halves
            inside = (products >= least[:, np.newaxis]).astype(np.float64)
            return inside, inside.sum(axis=1) + 1.0
        shift = normals(keys, new.shape[1], draw)
        # log H(x_i, x~) = -|x_i - x~|^2 / 2; with |x~|^2 / 2 added to all, one matrix product is left.
        logs = (new + shift) @ self.calibration_features.T
        logs -= halves
        own = 0.5 * np.einsum("ij,ij->i", new, new) + np.einsum("ij,ij->i", new, shift)
        top = np.maximum(own, logs.max(axis=1))
        logs -= top[:, np.newaxis]
        weights = np.exp(logs, out=logs)
        return weights, weights.sum(axis=1) + np.exp(own - top)


def embedding(logits: NDArray[Any], *, probabilities: bool) -> NDArray[np.float64]:
    """Return where rows without features are: at the square roots of their probabilities."""
    softmax = _core.softmax(logits, gamma=0.0, power=0.0, temperature=1.0, probabilities=probabilities)
    return np.sqrt(softmax.astype(np.float64, copy=False))

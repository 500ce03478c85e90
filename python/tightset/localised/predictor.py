"""Randomly localised conformal prediction: thresholds of each row's own, from calibration rows like it.

RLCP (Hore & Barber, "Conformal prediction with local weights: randomization enables robust guarantees", 2023)
weights calibration rows by how near they are, not to the new row x but to a point x~ drawn around it from the
kernel H(x, .). Given x~ and the n + 1 rows in any order, row j is the new one with probability proportional
to H(x_j, x~), so the quantile of the scores with these weights covers exactly, which that of weights around x
itself does not. The new row's own weight stands on an infinite score.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import (
    ArrayLike,
    as_alpha,
    as_features,
    as_flag,
    as_integer,
    as_labels,
    as_logits,
    as_number,
    as_row_ids,
    as_seed,
    check_as_in_calibration,
    warn_if_probabilities,
)
from tightset.bandwidth import auto_bandwidth
from tightset.quantile import conformal_rank
from tightset.row_draws import in_unit_ball, normals, row_keys, uniforms
from tightset.scores import ReweightLike, ScoreLike, Scoring
from tightset.sets import PredictionSets
from tightset.warning_kinds import SmallCalibrationWarning

__all__ = ["LocalisedPredictor", "calibrate"]

Kernel = Literal["gaussian", "box"]

_BLOCK = 2**21
"""Weights at a time, 16 MiB: 2**17 was slower with 20,000 calibration rows, 2**22 with 4,000."""

_MOST_SLICE = 1000
"""Rows that a bandwidth is chosen on, at most: more would not change it by much."""


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
                where = _embedding(rows.logits[part], probabilities=self.probabilities)
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


def calibrate(
    logits: ArrayLike,
    labels: ArrayLike,
    alpha: float = 0.1,
    score: ScoreLike = "aps",
    *,
    reweight: ReweightLike = None,
    temperature: float = 1.0,
    features: ArrayLike | None = None,
    kernel: Kernel = "gaussian",
    bandwidth: float | Literal["auto"] = "auto",
    draws: int = 1,
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    probabilities: bool = False,
) -> LocalisedPredictor:
    """Calibrate a predictor whose thresholds are local: from calibration rows near each new row.

    For a row exchangeable with the calibration rows, its set contains its label with probability at
    least 1 - alpha, over the draw of all rows and of the row's random shift, for any kernel and any
    bandwidth that was not chosen on the calibration rows. A prediction costs O(n d) a row, and the predictor
    holds all calibration rows' features.

    Parameters
    ----------
    logits, labels
        As in `tightset.calibrate`.
    alpha
        Miscoverage, strictly between 0 and 1.
    score, reweight, temperature
        As in `tightset.label_scores`, without reweighting by default.
    features
        Where rows are, shape (n, d), by Euclidean distance; scale the columns so that distances mean
        something. By default the square roots of the softmax probabilities: distances are then at most
        1.42 (Hellinger's, times the square root of 2).
    kernel
        ``"gaussian"``, or ``"box"``: the same weight for all rows within the bandwidth of the drawn point,
        which in more than a few dimensions are none.
    bandwidth
        Standard deviation of the Gaussian, or radius of the box. A small one is more local, and gives more
        rows an infinite threshold. ``"auto"`` spends a quarter of the rows, 1000 at most, to find one
        that leaves nine rows of ten with ten effective calibration rows for each row in ``1 / alpha``.
    draws
        Random shifts of a row, 1 for the guarantee above. More make sets depend less on the seed; the
        mean of p-values that they stand for is proven at 1 - 2 alpha only, and near 1 - alpha in practice.
    seed
        Seed of the shifts, of the randomised scores and of the slice for the bandwidth. A row's shift
        is a function of the seed, its features and its id.
    row_ids, probabilities
        As in `tightset.calibrate`.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> where = rng.uniform(size=4000)
    >>> labels = rng.integers(5, size=4000)
    >>> logits = 6 * np.eye(5)[labels] + rng.normal(size=(4000, 5)) * (1 + 6 * (where > 0.7))[:, np.newaxis]
    >>> predictor = ts.localised.calibrate(
    ...     logits[:2000], labels[:2000], alpha=0.1, features=where[:2000, np.newaxis], bandwidth=0.05
    ... )
    >>> sets = predictor.predict_set(logits[2000:], where[2000:, np.newaxis])
    >>> hard = where[2000:] > 0.75
    >>> [round(float(sets.covers(labels[2000:])[part].mean()), 2) for part in (hard, ~hard)]
    [0.89, 0.9]
    """
    array = as_logits(logits)
    if not len(array):
        message = "logits must have at least one row to calibrate on, got 0"
        raise ValueError(message)
    truth, ids = as_labels(labels, len(array)), as_row_ids(row_ids, len(array))
    level, key, is_probabilities = as_alpha(alpha), as_seed(seed), as_flag(probabilities, "probabilities")
    scoring = Scoring(score, reweight, temperature)  # type: ignore[arg-type]
    if kernel not in get_args(Kernel):
        message = f"kernel must be 'gaussian' or 'box', got {kernel!r}"
        raise ValueError(message)
    if not is_probabilities:
        warn_if_probabilities(array, stacklevel=2)
    where = (
        _embedding(array, probabilities=is_probabilities)
        if features is None
        else as_features(features, len(array))
    )
    times = as_integer(draws, "draws", 1, 2**20)
    kept = np.arange(len(array))
    if isinstance(bandwidth, str):
        if bandwidth != "auto":
            message = f"bandwidth must be a number or 'auto', got {bandwidth!r}"
            raise ValueError(message)
        order = _core.permutation(key, len(array))
        n_slice = min(len(array) // 4, _MOST_SLICE)
        kept = np.sort(order[n_slice:])
        width = auto_bandwidth(where[order[:n_slice]], kernel, level, len(kept), key)
    else:
        width = as_number(bandwidth, "bandwidth")
        if not 0.0 < width < np.inf:
            message = f"bandwidth must be positive and finite, got {width}"
            raise ValueError(message)
    scores = _core.label_scores(
        array,
        truth[kept],
        [scoring.core],
        ranked=True,
        seed=key,
        row_ids=None if ids is None else ids[kept],
        rows=kept,
        probabilities=is_probabilities,
    )[0]
    if conformal_rank(len(kept), level) > len(kept):
        message = f"{len(kept)} rows are too few for alpha={level}: most sets will hold all labels"
        warnings.warn(message, SmallCalibrationWarning, stacklevel=2)
    # Distances do not change with the centre; the rounding of the products does.
    centre = where[kept].mean(axis=0)
    order = np.argsort(scores, kind="stable")
    near = (where[kept][order] - centre) / width
    for one in (near, centre, scores := scores[order]):
        one.setflags(write=False)
    return LocalisedPredictor(
        alpha=level,
        scoring=scoring,
        kernel=kernel,
        bandwidth=width,
        draws=times,
        n_labels=array.shape[1],
        n_calibration=len(kept),
        seed=key,
        probabilities=is_probabilities,
        uses_features=features is not None,
        uses_row_ids=ids is not None,
        calibration_scores=scores,
        calibration_features=near,
        _centre=centre,
    )


def _embedding(logits: NDArray[Any], *, probabilities: bool) -> NDArray[np.float64]:
    softmax = _core.softmax(logits, gamma=0.0, power=0.0, temperature=1.0, probabilities=probabilities)
    return np.sqrt(softmax.astype(np.float64, copy=False))

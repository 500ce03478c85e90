"""From logits, labels and features to a localised predictor."""

from __future__ import annotations

import warnings
from typing import Literal, get_args

import numpy as np

from tightset import _core
from tightset._inputs import (
    ArrayLike,
    as_alpha,
    as_calibration_logits,
    as_features,
    as_flag,
    as_integer,
    as_labels,
    as_positive,
    as_row_ids,
    as_seed,
    check_choice,
    warn_if_probabilities,
)
from tightset.localised.bandwidth import auto_bandwidth
from tightset.localised.predictor import Kernel, LocalisedPredictor, embedding
from tightset.quantile import conformal_rank
from tightset.scores import ReweightLike, ScoreLike, Scoring
from tightset.warning_kinds import SmallCalibrationWarning

_MOST_SLICE = 1000
"""Rows that a bandwidth is chosen on, at most: more would not change it by much."""


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
    array = as_calibration_logits(logits)
    truth, ids = as_labels(labels, len(array)), as_row_ids(row_ids, len(array))
    level, key, is_probabilities = as_alpha(alpha), as_seed(seed), as_flag(probabilities, "probabilities")
    scoring = Scoring(score, reweight, temperature)  # type: ignore[arg-type]
    check_choice(kernel, "kernel", get_args(Kernel))
    if not is_probabilities:
        warn_if_probabilities(array, stacklevel=2)
    where = (
        embedding(array, probabilities=is_probabilities)
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
        width = as_positive(bandwidth, "bandwidth")
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

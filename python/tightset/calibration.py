"""From logits and labels to a predictor."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import (
    ArrayLike,
    as_alphas,
    as_flag,
    as_integer,
    as_labels,
    as_logits,
    as_row_ids,
    as_seed,
    as_thread_count,
    warn_if_probabilities,
)
from tightset.predictor import Candidate, Predictor
from tightset.recipes import Recipe, as_recipe
from tightset.selection import Choice, Data, SmallCalibrationWarning, choose

Level = float | None
Levels = Sequence[float] | NDArray[np.float64]


@overload
def calibrate(
    logits: ArrayLike,
    labels: ArrayLike,
    alpha: Level = None,
    recipe: str | Recipe = "er-aps",
    *,
    confidence_level: Level = None,
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    n_threads: int | None = None,
    probabilities: bool = False,
    max_memory: int = 2**30,
) -> Predictor: ...
@overload
def calibrate(
    logits: ArrayLike,
    labels: ArrayLike,
    alpha: Levels,
    recipe: str | Recipe = "er-aps",
    *,
    confidence_level: None = None,
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    n_threads: int | None = None,
    probabilities: bool = False,
    max_memory: int = 2**30,
) -> tuple[Predictor, ...]: ...
@overload
def calibrate(
    logits: ArrayLike,
    labels: ArrayLike,
    alpha: None = None,
    recipe: str | Recipe = "er-aps",
    *,
    confidence_level: Levels,
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    n_threads: int | None = None,
    probabilities: bool = False,
    max_memory: int = 2**30,
) -> tuple[Predictor, ...]: ...
def calibrate(
    logits: ArrayLike,
    labels: ArrayLike,
    alpha: Level | Levels = None,
    recipe: str | Recipe = "er-aps",
    *,
    confidence_level: Level | Levels = None,
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    n_threads: int | None = None,
    probabilities: bool = False,
    max_memory: int = 2**30,
) -> Predictor | tuple[Predictor, ...]:
    """Calibrate a predictor of label sets on logits and true labels.

    For a new row exchangeable with these, the predicted set contains its label with probability at
    least 1 - alpha over the draw of all of them: exactly for recipes with one candidate or
    ``"held-out"`` selection, approximately for ``"paper"`` and ``"released"``.

    Parameters
    ----------
    logits
        Array of shape (n, K): NumPy of any real dtype and layout, lists, CPU tensors, data frames.
        ``-inf`` marks a label that cannot occur. Not data that the classifier was trained on.
    labels
        Integers of shape (n,), from 0 to K - 1.
    alpha
        Miscoverage, strictly between 0 and 1; 0.1 by default. A sequence gives a tuple of
        predictors that share the readings of the data.
    recipe
        A `Recipe` or the name of one: ``"er-aps"`` (default: entropy-reweighted and plain APS with
        the temperature selected), ``"er-raps"``, ``"er-saps"``, ``"er-thr"``, ``"er-rank"``,
        ``"paper"`` and ``"released"`` (Luo & Colombo 2024 as published and as released), or a
        single plain score: ``"thr"``, ``"aps"``, ``"raps"``, ``"saps"``, ``"rank"``. The ``er-*``
        recipes select on a quarter of the rows and calibrate on the rest.
    confidence_level
        ``1 - alpha``, instead of alpha.
    seed
        Seed of the randomised scores and of the splits. Which rows select depends on it, so with few
        rows the chosen candidate, and the sizes of sets, do too; the guarantee holds for each seed.
    row_ids
        Integers mixed into the randomisation, for data with many identical rows; prediction then
        needs them too.
    n_threads
        Threads to use at most; all that the machine allows by default.
    probabilities
        Whether `logits` holds probabilities instead, here and in prediction.
    max_memory
        Bytes for the scores of candidates during selection; more candidates than fit take more
        readings. The scores of the chosen ones, 8 bytes a row, come on top.

    Returns
    -------
    A frozen `Predictor`, or a tuple of them.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(1)
    >>> labels = rng.integers(4, size=2000)
    >>> logits = 3 * rng.normal(size=(2000, 4)) + 6 * np.eye(4)[labels]
    >>> predictor = ts.calibrate(logits[:1000], labels[:1000], alpha=0.1)
    >>> sets = predictor.predict_set(logits[1000:])
    >>> 0.85 < sets.coverage(labels[1000:]) < 0.95
    True
    """
    rows = as_logits(logits)
    if not len(rows):
        message = "logits must have at least one row to calibrate on, got 0"
        raise ValueError(message)
    data = Data(
        logits=rows,
        labels=as_labels(labels, len(rows)),
        row_ids=as_row_ids(row_ids, len(rows)),
        seed=as_seed(seed),
        probabilities=as_flag(probabilities, "probabilities"),
        n_threads=as_thread_count(n_threads),
        max_memory=as_integer(max_memory, "max_memory", 1),
    )
    if not data.probabilities:
        warn_if_probabilities(rows, stacklevel=2)
    alphas, is_sequence = as_alphas(alpha, confidence_level)
    chosen_recipe = as_recipe(recipe)
    choices = choose(chosen_recipe, data, alphas)
    predictors = _predictors(chosen_recipe, data, alphas, choices)
    return predictors if is_sequence else predictors[0]


def _predictors(
    recipe: Recipe, data: Data, alphas: Sequence[float], choices: Sequence[Choice]
) -> tuple[Predictor, ...]:
    # Levels that chose the same candidate share its scores; all are computed in one reading.
    distinct = list(dict.fromkeys(choice.scoring for choice in choices))
    table = data.label_scores(distinct, choices[0].rows)
    table.sort(axis=1)
    table.setflags(write=False)
    n = table.shape[1]
    predictors = []
    for alpha, choice in zip(alphas, choices, strict=True):
        scores = table[distinct.index(choice.scoring)]
        rank = _core.conformal_rank(n, alpha)
        if rank > n:
            spent = len(data.labels) - n
            after = f" after {spent} were spent on selection" if spent else ""
            message = (
                f"{n} rows{after} are too few for alpha={alpha}, which needs rank {rank}: the threshold is "
                "infinite and every set holds all labels"
            )
            warnings.warn(message, SmallCalibrationWarning, stacklevel=3)
        threshold = float(scores[rank - 1]) if rank <= n else float("inf")
        if rank <= n and threshold == float("inf"):
            impossible = int(np.isinf(scores).sum())
            message = (
                f"{impossible} of {n} true labels are marked impossible (-inf): at alpha={alpha} the "
                "threshold is infinite and every set holds all labels"
            )
            warnings.warn(message, SmallCalibrationWarning, stacklevel=3)
        predictors.append(
            Predictor(
                alpha=alpha,
                recipe=recipe,
                n_labels=data.logits.shape[1],
                n_calibration=n,
                rank=rank,
                candidates=(Candidate(choice.scoring, threshold),),
                seed=data.seed,
                probabilities=data.probabilities,
                uses_row_ids=data.row_ids is not None,
                selection_curve=choice.curve,
                calibration_scores=scores,
            )
        )
    return tuple(predictors)

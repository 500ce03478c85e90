"""From logits and labels to a predictor."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
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
from tightset.calibration_rows import CalibrationRows
from tightset.objectives import OBJECTIVES, Objective, entropy_strata
from tightset.predictor import Candidate, Predictor
from tightset.recipes import Recipe, as_recipe
from tightset.selection import Choice, choose
from tightset.warning_kinds import SmallCalibrationWarning

Level = float | None
Levels = Sequence[float] | NDArray[np.float64]


@overload
def calibrate(
    logits: ArrayLike,
    labels: ArrayLike | None = None,
    alpha: Level = None,
    recipe: str | Recipe = "er-aps",
    *,
    confidence_level: Level = None,
    objective: Objective = "size",
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
    objective: Objective = "size",
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    n_threads: int | None = None,
    probabilities: bool = False,
    max_memory: int = 2**30,
) -> tuple[Predictor, ...]: ...
@overload
def calibrate(
    logits: ArrayLike,
    labels: ArrayLike | None = None,
    alpha: None = None,
    recipe: str | Recipe = "er-aps",
    *,
    confidence_level: Levels,
    objective: Objective = "size",
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    n_threads: int | None = None,
    probabilities: bool = False,
    max_memory: int = 2**30,
) -> tuple[Predictor, ...]: ...
@overload
def calibrate(
    logits: ArrayLike,
    labels: None = None,
    *,
    alpha: Levels,
    recipe: str | Recipe = "er-aps",
    objective: Objective = "size",
    seed: int = 0,
    n_threads: int | None = None,
    probabilities: bool = False,
    max_memory: int = 2**30,
) -> tuple[Predictor, ...]: ...
def calibrate(
    logits: ArrayLike,
    labels: ArrayLike | None = None,
    alpha: Level | Levels = None,
    recipe: str | Recipe = "er-aps",
    *,
    confidence_level: Level | Levels = None,
    objective: Objective = "size",
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    n_threads: int | None = None,
    probabilities: bool = False,
    max_memory: int = 2**30,
) -> Predictor | tuple[Predictor, ...]:
    """Calibrate a predictor of label sets on logits and true labels.

    For a new row exchangeable with these, the predicted set contains its label with probability at
    least 1 - alpha over the draw of all of them: exactly for recipes with one candidate, ``"modsel"`` or
    ``"held-out"`` selection, approximately for ``"paper"`` and ``"released"``.

    Parameters
    ----------
    logits
        Array of shape (n, K): NumPy of any real dtype and layout, lists, CPU tensors, data frames.
        ``-inf`` marks a label that cannot occur. Not data that the classifier was trained on.
        Or, without labels, a source of (logits, labels) blocks or the path of a file: what
        `calibrate_stream` takes, which also has checkpoints.
    labels
        Integers of shape (n,), from 0 to K - 1.
    alpha
        Miscoverage, strictly between 0 and 1; 0.1 by default. A sequence gives a tuple of
        predictors that share the readings of the data.
    recipe
        A `Recipe` or the name of one: ``"er-aps"`` (default: entropy-reweighted and plain APS with
        the temperature selected), ``"er-raps"``, ``"er-saps"``, ``"er-thr"``, ``"er-rank"``,
        ``"tightest"`` (all scores, reweightings and temperatures together), ``"paper"`` and
        ``"released"`` (Luo & Colombo 2024 as published and as released), or a single plain score:
        ``"thr"``, ``"aps"``, ``"raps"``, ``"saps"``, ``"rank"``, ``"mixed"``.
    confidence_level
        ``1 - alpha``, instead of alpha.
    objective
        What is selected for: ``"size"``, the smallest mean size; ``"singletons"``, the most sets of one
        label; ``"adaptive"``, the smallest mean size among candidates that do not under-cover the rows
        of some range of entropy. The last two select on a quarter of the rows and calibrate on the rest
        (``"held-out"``), as named recipes then do.
    seed
        Seed of the randomised scores and of the splits; the guarantee holds for each seed.
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
    if labels is None:
        if row_ids is not None:
            message = "row_ids must be part of the blocks where logits are a source of them"
            raise TypeError(message)
        if hasattr(logits, "__array__") or hasattr(logits, "__dlpack__"):
            message = "labels must be given with an array of logits"
            raise TypeError(message)
        from tightset.streaming import calibrate_stream

        return calibrate_stream(
            logits,
            alpha,  # type: ignore[arg-type]
            recipe,
            confidence_level=confidence_level,  # type: ignore[arg-type]
            objective=objective,
            seed=seed,
            n_threads=n_threads,
            probabilities=probabilities,
            max_memory=max_memory,
        )
    array = as_logits(logits)
    if not len(array):
        message = "logits must have at least one row to calibrate on, got 0"
        raise ValueError(message)
    rows = CalibrationRows(
        logits=array,
        labels=as_labels(labels, len(array)),
        row_ids=as_row_ids(row_ids, len(array)),
        seed=as_seed(seed),
        probabilities=as_flag(probabilities, "probabilities"),
        n_threads=as_thread_count(n_threads),
        max_memory=as_integer(max_memory, "max_memory", 1),
    )
    if not rows.probabilities:
        warn_if_probabilities(array, stacklevel=2)
    alphas, is_sequence = as_alphas(alpha, confidence_level)
    used = recipe_for(recipe, objective)
    choices = choose(used, rows, alphas, objective)
    predictors = _predictors(used, rows, alphas, choices)
    return predictors if is_sequence else predictors[0]


def recipe_for(recipe: str | Recipe, objective: Objective) -> Recipe:
    """Return the recipe, with a selection that can look for the objective."""
    if objective not in OBJECTIVES:
        names = ", ".join(repr(name) for name in OBJECTIVES)
        message = f"objective must be one of {names}, got {objective!r}"
        raise ValueError(message)
    found = as_recipe(recipe)
    if objective == "size" or found.selection == "held-out":
        return found
    if isinstance(recipe, str) and found.selection == "modsel":
        return found.with_selection("held-out")
    message = (
        f"objective {objective!r} needs a recipe with several candidates and selection='held-out', "
        f"got {recipe!r}"
    )
    raise ValueError(message)


def _predictors(
    recipe: Recipe, rows: CalibrationRows, alphas: Sequence[float], choices: Sequence[Choice]
) -> tuple[Predictor, ...]:
    # Levels that chose the same candidates share their scores; all are computed in one reading.
    distinct = list(dict.fromkeys(scoring for choice in choices for scoring in choice.scorings))
    calibrating = choices[0].rows
    table = rows.label_scores(distinct, calibrating)
    strata = _strata(rows, calibrating) if any(choice.curve for choice in choices) else None
    predictors = []
    sorted_table = np.sort(table, axis=1)
    place = {scoring: i for i, scoring in enumerate(distinct)}
    n = table.shape[1]
    for alpha, choice in zip(alphas, choices, strict=True):
        used = [place[scoring] for scoring in choice.scorings]
        scores = sorted_table[used]
        scores.setflags(write=False)
        rank = _core.conformal_rank(n, alpha)
        thresholds = scores[:, rank - 1].tolist() if rank <= n else [float("inf")]
        impossible = int(np.isposinf(scores[0]).sum())
        warn_if_unbounded(
            alpha, rank, n, thresholds[0], impossible=impossible, spent=len(rows) - n, stacklevel=4
        )
        curve = choice.curve
        if curve is not None:
            winner = place[curve.candidates[curve.chosen]]
            chosen = table[winner] <= sorted_table[winner, min(rank, n) - 1]
            by_entropy = None if strata is None else tuple(float(chosen[part].mean()) for part in strata)
            curve = replace(curve, coverage_by_entropy=by_entropy, level=1 - alpha)
        predictors.append(
            Predictor(
                alpha=alpha,
                recipe=recipe,
                n_labels=rows.n_labels,
                n_calibration=n,
                rank=rank,
                candidates=candidates_in_use(choice, thresholds),
                seed=rows.seed,
                probabilities=rows.probabilities,
                uses_row_ids=rows.row_ids is not None,
                selection_curve=curve,
                calibration_scores=scores,
            )
        )
    return tuple(predictors)


def candidates_in_use(choice: Choice, thresholds: Sequence[float]) -> tuple[Candidate, ...]:
    """Return the choice with its thresholds, as a predictor holds it."""
    if not choice.brackets:
        return (Candidate(choice.scorings[0], thresholds[0]),)
    return tuple(
        Candidate(scoring, threshold, bracket.lo, bracket.pairs_at_lo, bracket.between, bracket.weight)
        for scoring, threshold, bracket in zip(choice.scorings, thresholds, choice.brackets, strict=True)
    )


def _strata(rows: CalibrationRows, calibrating: NDArray[np.int64] | None) -> list[NDArray[np.int64]] | None:
    entropies = rows.entropies()
    strata = entropy_strata(entropies if calibrating is None else entropies[calibrating])
    return strata if len(strata) > 1 else None


def warn_if_unbounded(
    alpha: float,
    rank: int,
    n: int,
    threshold: float,
    *,
    spent: int,
    stacklevel: int,
    impossible: int | None = None,
) -> None:
    """Warn when every set holds all labels, and say why."""
    if rank > n:
        after = f" after {spent} were spent on selection" if spent else ""
        message = (
            f"{n} rows{after} are too few for alpha={alpha}, which needs rank {rank}: the threshold is "
            "infinite and every set holds all labels"
        )
    elif threshold == float("inf"):
        many = "too many" if impossible is None else impossible
        message = (
            f"{many} of {n} true labels are marked impossible (-inf): at alpha={alpha} the "
            "threshold is infinite and every set holds all labels"
        )
    else:
        return
    warnings.warn(message, SmallCalibrationWarning, stacklevel=stacklevel)

"""From logits and labels to a predictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import (
    ArrayLike,
    as_alpha,
    as_alphas,
    as_calibration_logits,
    as_flag,
    as_groups,
    as_integer,
    as_labels,
    as_row_ids,
    as_seed,
    as_thread_count,
    check_choice,
    warn_if_probabilities,
)
from tightset.calibration_rows import CalibrationRows
from tightset.cells import OF_LABELS, SCARCE, Kind, Scarce
from tightset.conditional import Groups, Plan, by_groups, by_labels
from tightset.objectives import OBJECTIVES, Objective
from tightset.pac import GUARANTEES, Guarantee, rank_for
from tightset.predictor import Predictor
from tightset.recipes import Recipe, as_recipe
from tightset.selection import choose
from tightset.thresholds import calibrated, warn_if_unbounded

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
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    condition: ArrayLike | None = None,
    scarce: Scarce = "all",
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
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    condition: ArrayLike | None = None,
    scarce: Scarce = "all",
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
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    condition: ArrayLike | None = None,
    scarce: Scarce = "all",
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
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    condition: ArrayLike | None = None,
    scarce: Scarce = "all",
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
    guarantee
        ``"marginal"``: coverage is at least 1 - alpha on average over calibrations. ``"pac"``: for all but
        a share `delta` of calibrations, the coverage of the predictor in hand is at least 1 - alpha;
        thresholds are higher, and hold together for all candidates of a recipe and all cells of a
        condition, among which delta is divided. ``"modsel"`` recipes then take the candidate of the
        smallest sets on all rows.
    delta
        Share of calibrations that may fall short, for ``guarantee="pac"``.
    condition
        None: coverage holds on average over rows. ``"label"``: for the rows of each label. ``"cluster"``: for
        labels that score alike, clustered on a quarter of the rows, where labels are many and rows few.
        ``"rc3p"``: for each label, where labels beyond a rank, found on a quarter of the rows, are left out.
        An array with a group for each row, integers or strings: for the rows of each group, which
        prediction then needs too. See ``docs/conditional.md``.
    scarce
        What a label or group with too few rows for a threshold of its own gets: ``"all"``, an infinite one,
        so that every set holds the label (of such a group, all labels); ``"pooled"``, that of all rows,
        which gives up its own coverage. A warning names them.
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
    check_choice(guarantee, "guarantee", GUARANTEES)
    check_choice(scarce, "scarce", SCARCE)
    share = as_alpha(delta, "delta") if guarantee == "pac" else None
    if labels is None:
        if condition is not None or share is not None:
            name, given = ("condition", condition) if share is None else ("guarantee", guarantee)
            message = f"{name} needs arrays of logits and labels, got {name}={given!r} with a source"
            raise TypeError(message)
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
    array = as_calibration_logits(logits)
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
    if condition is None:
        predictors = marginal_predictors(used, rows, alphas, objective, share)
    else:
        kind, groups = as_condition(condition, len(array))
        used = conditional_recipe(recipe, used, kind)
        plan = Plan(used, rows, alphas, objective, scarce, share)
        predictors = _conditional(plan, kind, groups)
    return predictors if is_sequence else predictors[0]


def as_condition(condition: ArrayLike, n_rows: int) -> tuple[Kind, Groups | None]:
    """Return what coverage is conditional on; anything but a name is one group for each row."""
    if isinstance(condition, str):
        check_choice(condition, "condition", OF_LABELS, "an array with the group of each row")
        return condition, None  # type: ignore[return-value]
    return "groups", as_groups(condition, n_rows, "condition")


def recipe_for(recipe: str | Recipe, objective: Objective) -> Recipe:
    """Return the recipe, with a selection that can look for the objective."""
    check_choice(objective, "objective", OBJECTIVES)
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


def conditional_recipe(recipe: str | Recipe, found: Recipe, kind: Kind) -> Recipe:
    """Return the recipe, with a selection that a condition on labels can use."""
    if kind == "groups" or found.selection in (None, "held-out"):
        return found
    if found.selection == "modsel" and (kind == "label" or isinstance(recipe, str)):
        # Clusters and rank limits are read off a held-out part, which can select as well.
        return found if kind == "label" else found.with_selection("held-out")
    allowed = "None, 'modsel' or 'held-out'" if kind == "label" else "None or 'held-out'"
    message = f"condition={kind!r} needs a recipe with selection {allowed}, got {found.selection!r}"
    raise ValueError(message)


def marginal_predictors(
    recipe: Recipe,
    rows: CalibrationRows,
    alphas: Sequence[float],
    objective: Objective,
    delta: float | None = None,
) -> tuple[Predictor, ...]:
    """Return a predictor for each level, calibrated on all rows alike."""
    choices = choose(recipe, rows, alphas, objective, delta=delta, stacklevel=4)
    predictors = []
    for alpha, choice, (cell, curve) in zip(
        alphas, choices, calibrated(rows, alphas, choices, delta=delta), strict=True
    ):
        assert cell.calibration_scores is not None, "a calibration has its scores"
        warn_if_unbounded(
            alpha,
            cell.rank,
            cell.n_calibration,
            cell.candidates[0].threshold,
            impossible=int(np.isposinf(cell.calibration_scores[0]).sum()),
            spent=len(rows) - cell.n_calibration,
            delta=delta,
            stacklevel=4,
        )
        predictors.append(
            replace(
                _empty(recipe, rows, alpha, delta),
                n_calibration=cell.n_calibration,
                rank=cell.rank,
                candidates=cell.candidates,
                shares=1 if delta is None else choice.union,
                selection_curve=curve,
                calibration_scores=cell.calibration_scores,
            )
        )
    return tuple(predictors)


def _conditional(plan: Plan, kind: Kind, groups: Groups | None) -> tuple[Predictor, ...]:
    found = by_labels(plan, kind, stacklevel=4) if groups is None else by_groups(plan, groups, stacklevel=4)
    return tuple(
        replace(
            _empty(plan.recipe, plan.rows, alpha, plan.delta),
            n_calibration=outcome.n_calibration,
            rank=rank_for(outcome.n_calibration, alpha, plan.delta, outcome.shares),
            condition=outcome.condition,
            shares=outcome.shares,
            selection_curve=outcome.curve,
        )
        for alpha, outcome in zip(plan.alphas, found, strict=True)
    )


def _empty(recipe: Recipe, rows: CalibrationRows, alpha: float, delta: float | None) -> Predictor:
    """Return what all predictors of a calibration share."""
    return Predictor(
        alpha=alpha,
        recipe=recipe,
        n_labels=rows.n_labels,
        n_calibration=0,
        rank=0,
        candidates=(),
        seed=rows.seed,
        probabilities=rows.probabilities,
        uses_row_ids=rows.row_ids is not None,
        guarantee="marginal" if delta is None else "pac",
        delta=delta,
    )

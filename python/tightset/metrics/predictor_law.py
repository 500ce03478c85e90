"""Which law the coverage of a given predictor follows, over draws of its calibration rows."""

from __future__ import annotations

from typing import Any

from tightset.beta import MOST_TRIALS
from tightset.metrics.marginal import Band, rank_band


def why_no_law(predictor: Any) -> str | None:
    """Return why a predictor's coverage has no known law over calibrations, or None if it has one.

    One threshold, the k-th of n scores that nothing was selected on, has Beta(k, n + 1 - k). With
    ``"modsel"`` the mean is that of the law, but the candidate in use may change with the rows, and coverage
    with it, so the spread may be wider: in trials with er-aps from about that of the law to nearly twice it.
    """
    # Transforms are fitted on other rows, so the law is that of what follows them.
    predictor = getattr(predictor, "predictor", predictor)
    if not hasattr(predictor, "rank"):
        return f"the law of a {type(predictor).__name__} is not known"
    condition = getattr(predictor, "condition", None)
    if condition is not None:
        return f"condition={condition.kind!r} has a threshold for each cell, which have no law together"
    recipe = getattr(predictor, "recipe", predictor)
    selection = getattr(recipe, "selection", None)
    if selection == "modsel":
        return (
            "candidates were selected on the calibration rows (modsel): "
            "the mean over calibrations is exact, the spread may be wider than that of one score"
        )
    if selection not in (None, "held-out"):
        return f"candidates were selected on the calibration rows ({selection}): coverage is approximate"
    return None


def law_band(predictor: Any, n_test: int | None, level: float) -> Band | None:
    """Return the band of a predictor's coverage, as `coverage_band` at its own rank; None without a law.

    Of very many test rows it is that of the true coverage, from which theirs no longer differs.
    """
    if why_no_law(predictor) is not None:
        return None
    if n_test is not None and n_test > MOST_TRIALS:
        n_test = None
    predictor = getattr(predictor, "predictor", predictor)
    return rank_band(predictor.n_calibration, predictor.rank, n_test, level)

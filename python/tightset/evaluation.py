"""What a comparison of methods on one data set yields: plain data, for tables, plots, reports and JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset.metrics import Band, Stratum
from tightset.scores import Scoring
from tightset.selection_curve import SelectionCurve

__all__ = ["Cell", "CurveLine", "Detail", "Evaluation", "curve_lines"]


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One recipe or other method at one level, over random splits of the rows.

    Attributes
    ----------
    recipe, level
        The name of the recipe or method; the coverage asked for, 1 - alpha.
    guarantee
        What coverage is promised for, as in `tightset.methods.Method`.
    n_calibration, n_test
        Rows that set the threshold in each split, and rows that test it.
    coverage, mean_size, median_size, singleton_rate, empty_rate
        On the test rows of each split, shape (n_splits,).
    worst_stratum, worst_stratum_coverage
        Of four ranges of the entropy, the one with the lowest coverage, over the test rows of all splits.
    worst_class, worst_class_coverage
        The label whose rows have the lowest coverage, over the test rows of all splits.
    calibration_seconds, prediction_seconds
        What it took in each split, shape (n_splits,): to calibrate, a level's share where levels are
        calibrated together, and to predict the sets of the test rows.
    split_band
        Where the coverage of nine splits of ten lies; None if it is approximate or its law is not known.
    mean_band
        Where the mean coverage over the splits lies, but for the tiny chance `Evaluation.band_level`
        leaves; None as above.
    """

    recipe: str
    level: float
    guarantee: str
    n_calibration: int
    n_test: int
    coverage: NDArray[np.float64]
    mean_size: NDArray[np.float64]
    median_size: NDArray[np.float64]
    singleton_rate: NDArray[np.float64]
    empty_rate: NDArray[np.float64]
    worst_stratum: str
    worst_stratum_coverage: float
    worst_class: int
    worst_class_coverage: float
    calibration_seconds: NDArray[np.float64]
    prediction_seconds: NDArray[np.float64]
    split_band: Band | None
    mean_band: Band | None

    @property
    def in_band(self) -> bool | None:
        """Whether the mean coverage lies in its band; None without one."""
        if self.mean_band is None:
            return None
        # Bounds and mean are counts over the same number of rows; a millionth of a row is rounding.
        slack = 1e-9
        return bool(self.mean_band.lower - slack <= self.coverage.mean() <= self.mean_band.upper + slack)

    @property
    def seconds(self) -> float:
        """What calibration and prediction took together, mean over the splits."""
        return float((self.calibration_seconds + self.prediction_seconds).mean())

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        return {
            "recipe": self.recipe,
            "level": self.level,
            "guarantee": self.guarantee,
            "n_calibration": self.n_calibration,
            "n_test": self.n_test,
            "coverage": self.coverage.tolist(),
            "mean_size": self.mean_size.tolist(),
            "median_size": self.median_size.tolist(),
            "singleton_rate": self.singleton_rate.tolist(),
            "empty_rate": self.empty_rate.tolist(),
            "worst_stratum": self.worst_stratum,
            "worst_stratum_coverage": self.worst_stratum_coverage,
            "worst_class": self.worst_class,
            "worst_class_coverage": self.worst_class_coverage,
            "calibration_seconds": self.calibration_seconds.tolist(),
            "prediction_seconds": self.prediction_seconds.tolist(),
            "split_band": None if self.split_band is None else list(self.split_band),
            "mean_band": None if self.mean_band is None else list(self.mean_band),
            "in_band": self.in_band,
        }


@dataclass(frozen=True, slots=True, eq=False)
class CurveLine:
    """Mean size against temperature, for one score and reweighting, as the selection saw it.

    Attributes
    ----------
    name
        The score and the reweighting, as text.
    temperatures, sizes
        Shape (m,), by rising temperature; the limits 0 and infinity come first and last, where the
        recipe has them.
    chosen
        Which of them was selected; None if that is on another line.
    """

    name: str
    temperatures: NDArray[np.float64]
    sizes: NDArray[np.float64]
    chosen: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values; the temperature infinity becomes the text "inf"."""
        return {
            "name": self.name,
            "temperatures": [t if np.isfinite(t) else "inf" for t in self.temperatures.tolist()],
            "sizes": self.sizes.tolist(),
            "chosen": self.chosen,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Detail:
    """One recipe at the main level, on the first split.

    Attributes
    ----------
    recipe
        Its name.
    candidate
        What is in use after calibration, as text.
    size_histogram
        How many sets have 0, 1, ... K labels, shape (K + 1,).
    by_entropy
        Coverage and size by rising entropy of the rows.
    by_scenario
        The four kinds of row: top label right or wrong, entropy low or high.
    curve
        What the selection saw; empty for recipes with one candidate.
    """

    recipe: str
    candidate: str
    size_histogram: NDArray[np.int64]
    by_entropy: tuple[Stratum, ...]
    by_scenario: tuple[Stratum, ...]
    curve: tuple[CurveLine, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        return {
            "recipe": self.recipe,
            "candidate": self.candidate,
            "size_histogram": self.size_histogram.tolist(),
            "by_entropy": [asdict(stratum) for stratum in self.by_entropy],
            "by_scenario": [asdict(stratum) for stratum in self.by_scenario],
            "curve": [line.to_dict() for line in self.curve],
        }


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Everything that one comparison of recipes on one data set yields.

    Attributes
    ----------
    dataset
        Its name, or that of the user's file.
    n, n_labels
        Rows and labels (K).
    n_calibration, n_test, n_splits, seed
        How many rows of a split calibrate and test, how many splits there are, and their seed.
    accuracy
        Share of rows whose top label is the true one.
    levels
        Coverages asked for, rising.
    recipes
        Names of the recipes and other methods, in the order of tables.
    cells
        One for each recipe and level, in this order.
    band_level
        Probability of the bands `Cell.mean_band`.
    main_level
        The level that `details` and `recommended` are about; one of `levels`.
    details
        One for each recipe.
    recommended, sentence
        The recipe to use and why, in one sentence.
    snippet
        Python code that uses it.
    notes
        What else there is to know: methods that were given fewer rows, and warnings of their calibration.
    """

    dataset: str
    n: int
    n_labels: int
    n_calibration: int
    n_test: int
    n_splits: int
    seed: int
    accuracy: float
    levels: tuple[float, ...]
    recipes: tuple[str, ...]
    cells: tuple[Cell, ...] = field(repr=False)
    band_level: float
    main_level: float
    details: tuple[Detail, ...] = field(repr=False)
    recommended: str
    sentence: str
    snippet: str = field(repr=False)
    notes: tuple[str, ...] = ()

    def cell(self, recipe: str, level: float) -> Cell:
        """Return the cell of a recipe at a level."""
        return self.cells[self.recipes.index(recipe) * len(self.levels) + self.levels.index(level)]

    def detail(self, recipe: str) -> Detail:
        """Return the details of a recipe at the main level."""
        return self.details[self.recipes.index(recipe)]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        return {
            "dataset": self.dataset,
            "n": self.n,
            "n_labels": self.n_labels,
            "n_calibration": self.n_calibration,
            "n_test": self.n_test,
            "n_splits": self.n_splits,
            "seed": self.seed,
            "accuracy": self.accuracy,
            "levels": list(self.levels),
            "recipes": list(self.recipes),
            "cells": [cell.to_dict() for cell in self.cells],
            "band_level": self.band_level,
            "main_level": self.main_level,
            "details": [detail.to_dict() for detail in self.details],
            "recommended": self.recommended,
            "sentence": self.sentence,
            "snippet": self.snippet,
            "notes": list(self.notes),
        }


def spread(values: NDArray[np.float64]) -> float:
    """Return the standard deviation over splits, of the sample; 0 of one split."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def curve_lines(curve: SelectionCurve) -> tuple[CurveLine, ...]:
    """Return a selection curve as one line for each score and reweighting, by rising temperature."""
    groups: dict[str, list[int]] = {}
    for i, candidate in enumerate(curve.candidates):
        groups.setdefault(_line_name(candidate), []).append(i)
    lines = []
    for name, members in groups.items():
        rising = sorted(members, key=lambda i: curve.candidates[i].temperature)
        lines.append(
            CurveLine(
                name=name,
                temperatures=np.array([curve.candidates[i].temperature for i in rising]),
                sizes=curve.sizes[rising],
                chosen=rising.index(curve.chosen) if curve.chosen in rising else None,
            )
        )
    return tuple(lines)


def _line_name(candidate: Scoring) -> str:
    parameters = ", ".join(f"{key} {value:g}" for key, value in candidate.score.parameters().items())
    score = candidate.score.name + (f" ({parameters})" if parameters else "")
    reweight = candidate.reweight
    if reweight is None:
        return f"{score}, plain"
    power = "" if reweight.power == 1.0 else f", power {reweight.power:g}"
    return f"{score}, entropy gamma {reweight.gamma:g}{power}"

"""The tables of a report, from an evaluation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tightset.evaluation import Cell, Evaluation, spread
from tightset.metrics import Stratum
from tightset.report.markup import Number, Row, table


def sizes(found: Evaluation) -> str:
    """Return mean sizes of every recipe at every level; the smallest exact one of a level stands out."""
    best = {level: min(_exact_sizes(found, level), default=None) for level in found.levels}

    def number(cell: Cell) -> Number:
        mean = float(cell.mean_size.mean())
        is_best = cell.mean_band is not None and mean == best[cell.level]
        kind, hint = ("best", "smallest") if is_best else ("", "")
        return Number(f"{mean:.3f}", _spread(cell.mean_size), kind, hint)

    return _by_level("Labels in a set: mean over splits ± standard deviation", found, number)


def coverages(found: Evaluation) -> str:
    """Return mean coverage of every recipe at every level; what is outside its exact band stands out."""

    def number(cell: Cell) -> Number:
        outside = cell.in_band is False
        return Number(
            f"{cell.coverage.mean():.4f}",
            _spread(cell.coverage, 4),
            "outside" if outside else "",
            "outside its band" if outside else "in its band" if cell.in_band else "",
        )

    return _by_level("Coverage: mean over splits ± standard deviation", found, number)


def details(found: Evaluation) -> str:
    """Return every recipe at the main level."""
    rows: list[Row] = []
    for recipe in found.recipes:
        cell = found.cell(recipe, found.main_level)
        rows.append(
            (
                recipe,
                [
                    Number(f"{cell.mean_size.mean():.3f}"),
                    Number(f"{cell.coverage.mean():.4f}"),
                    _guarantee(cell),
                    Number(f"{cell.worst_stratum_coverage:.3f}", f"entropy {cell.worst_stratum}"),
                    Number(f"{cell.worst_class_coverage:.3f}", f"label {cell.worst_class}"),
                    Number(_seconds(cell.seconds)),
                    Number(f"{100 * cell.singleton_rate.mean():.1f} %"),
                    Number(f"{100 * cell.empty_rate.mean():.1f} %"),
                    Number(f"{cell.n_calibration:,}"),
                    found.detail(recipe).candidate,
                ],
            )
        )
    columns = [
        "method",
        "mean size",
        "coverage",
        "guarantee",
        "worst stratum",
        "worst label",
        "time",
        "one label",
        "empty",
        "calibrating rows",
        "in use after calibration (first split)",
    ]
    return table(f"Methods at level {found.main_level:g}", columns, rows, strong=found.recommended)


_GUARANTEES = {"marginal": "exact", "pac": "exact, PAC", "label": "by label", "cluster": "by cluster"}


def _guarantee(cell: Cell) -> str:
    if cell.guarantee == "approximate":
        return "approximate"
    where = {True: "in band", False: "outside its band", None: "no band known"}[cell.in_band]
    return f"{_GUARANTEES[cell.guarantee]}, {where}"


def _seconds(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms" if seconds < 1.0 else f"{seconds:.1f} s"


def strata(found: Evaluation) -> str:
    """Return coverage and size by entropy and by scenario, at the main level."""
    return "".join(
        _strata(f"{title} at level {found.main_level:g}: coverage, and labels in a set", found, part)
        for title, part in (
            ("Rows by rising entropy", {d.recipe: d.by_entropy for d in found.details}),
            ("Four scenarios (top label, entropy)", {d.recipe: d.by_scenario for d in found.details}),
        )
    )


def _strata(caption: str, found: Evaluation, part: dict[str, tuple[Stratum, ...]]) -> str:
    kinds = part[found.recommended]
    columns = ["method", *(f"{kind.name} ({kind.rows:,} row{'s' * (kind.rows != 1)})" for kind in kinds)]
    rows: list[Row] = [
        (
            recipe,
            [
                Number("no rows")
                if stratum.coverage is None or stratum.mean_size is None
                else Number(f"{stratum.coverage:.3f}", f"size {stratum.mean_size:.2f}")
                for stratum in found_strata
            ],
        )
        for recipe, found_strata in part.items()
    ]
    return table(caption, columns, rows, strong=found.recommended)


def _by_level(caption: str, found: Evaluation, number: Callable[[Cell], Number]) -> str:
    rows: list[Row] = [
        (recipe, [number(found.cell(recipe, level)) for level in found.levels]) for recipe in found.recipes
    ]
    digits = max(len(f"{level:g}".partition(".")[2]) for level in found.levels)
    columns = ["method", *(f"{level:.{digits}f}" for level in found.levels)]
    return table(caption, columns, rows, strong=found.recommended)


def _exact_sizes(found: Evaluation, level: float) -> list[float]:
    cells = (found.cell(recipe, level) for recipe in found.recipes)
    return [float(cell.mean_size.mean()) for cell in cells if cell.mean_band is not None]


def _spread(values: NDArray[np.float64], digits: int = 3) -> str:
    return f"± {spread(values):.{digits}f}"

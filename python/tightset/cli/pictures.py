"""The plots and reports of `tightset reproduce`, where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tightset.cli.standard_streams import written
from tightset.effects import Saturation, SelectionEffect
from tightset.evaluation import Evaluation
from tightset.extras import missing
from tightset.progress import Progress

_SIZE = (7.0, 4.5)


def draw(
    folder: Path, found: Sequence[Evaluation], tied: Saturation, selected: SelectionEffect
) -> tuple[list[Path], str]:
    """Draw everything; return the files, and what to say if nothing could be drawn."""
    try:
        plot = import_module("tightset.plot")
        report = import_module("tightset.report")
        figures = import_module("matplotlib.figure")
    except ImportError:
        return [], missing("No plots and reports: they need", "matplotlib", "plot")

    work: list[tuple[Path, Callable[[Any], Any]]] = []
    for one in found:
        means = {recipe: _of(one, recipe, "coverage") for recipe in one.recipes}
        sizes = {recipe: _of(one, recipe, "mean_size") for recipe in one.recipes}
        work.append((folder / f"{one.dataset}-size.svg", _size_by_coverage(plot, means, sizes)))
        work.append((folder / f"{one.dataset}-scenarios.svg", _scenarios(plot, one)))
    work.append(
        (
            folder / "saturation.svg",
            lambda ax: plot.saturation(tied.levels, tied.textbook, tied.ranked, ax=ax),
        )
    )
    work.append(
        (
            folder / "selection.svg",
            lambda ax: plot.selection_effect(selected.levels, selected.coverage, ax=ax),
        )
    )
    files = []
    with Progress(len(work) + len(found), "drawing") as progress:
        for path, paint in work:
            figure = figures.Figure(figsize=_SIZE, layout="constrained")
            paint(figure.add_subplot())
            with written(path) as file:
                figure.savefig(file, format="svg")
            files.append(path)
            progress.advance(1)
        for one in found:
            path = folder / f"{one.dataset}.html"
            report.write_report(path, one)
            files.append(path)
            progress.advance(1)
    return files, ""


def _of(found: Evaluation, recipe: str, field: str) -> list[list[float]]:
    return [getattr(found.cell(recipe, level), field).tolist() for level in found.levels]


def _size_by_coverage(plot: Any, coverage: Any, size: Any) -> Callable[[Any], Any]:
    return lambda ax: plot.size_by_coverage(coverage, size, ax=ax)


def _scenarios(plot: Any, found: Evaluation) -> Callable[[Any], Any]:
    rows = {detail.recipe: detail.by_scenario for detail in found.details}
    return lambda ax: plot.scenarios(rows, ax=ax)

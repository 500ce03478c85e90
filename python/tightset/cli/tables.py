"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tightset.evaluation import Cell, Evaluation


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join([first, *rest]).rstrip())
    return "\n".join(lines)


def title(found: Evaluation) -> str:
    """Return what a comparison was about, in one line."""
    return (
        f"{found.dataset}: {found.n} rows, {found.n_labels} labels, accuracy {found.accuracy:.4f}, "
        f"{found.n_splits} splits, {found.n_calibration} rows calibrate, {found.n_test} test"
    )


def coverage_and_size(found: Evaluation, levels: Sequence[float]) -> str:
    """Return mean coverage and mean size of each recipe at these levels, with a verdict on coverage."""
    rows = [["recipe", *(f"{level:g}" for level in levels), "in band"]]
    for recipe in found.recipes:
        cells = [found.cell(recipe, level) for level in levels]
        rows.append([recipe, *(_cell(cell) for cell in cells), verdict(found, recipe)])
    return aligned(rows)


def _cell(cell: Cell) -> str:
    mark = {True: "+", False: "!", None: "~"}[cell.in_band]
    return f"{cell.coverage.mean():.3f}{mark} {cell.mean_size.mean():6.3f}"


def verdict(found: Evaluation, recipe: str) -> str:
    """Return in how many of all levels the mean coverage lies in its band."""
    cells = [found.cell(recipe, level) for level in found.levels]
    if cells[0].in_band is None:
        return "approx."
    return f"{sum(bool(cell.in_band) for cell in cells)} of {len(cells)}"


LEGEND = (
    "Each cell: mean coverage over the splits, mean set size. + coverage lies in its band, ! it does not,\n"
    "~ the recipe's coverage is approximate: there is no band."
)

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
    rows = [["method", *(f"{level:g}" for level in levels), "in band"]]
    for recipe in found.recipes:
        cells = [found.cell(recipe, level) for level in levels]
        rows.append([recipe, *(_cell(cell) for cell in cells), verdict(found, recipe)])
    return aligned(rows)


def mark(cell: Cell) -> str:
    """Return a sign for what coverage is held to; `LEGEND` explains them."""
    return {True: "+", False: "!", None: "~" if cell.guarantee == "approximate" else "*"}[cell.in_band]


def _cell(cell: Cell) -> str:
    return f"{cell.coverage.mean():.3f}{mark(cell)} {cell.mean_size.mean():6.3f}"


def verdict(found: Evaluation, recipe: str) -> str:
    """Return in how many of all levels the mean coverage lies in its band."""
    cells = [found.cell(recipe, level) for level in found.levels]
    if cells[0].in_band is None:
        return "approx." if cells[0].guarantee == "approximate" else "no band"
    return f"{sum(bool(cell.in_band) for cell in cells)} of {len(cells)}"


def fairness_and_time(found: Evaluation) -> str:
    """Return, at the main level, coverage where it is lowest, what is promised, and what it took."""
    rows = [["method", "size", "coverage", "worst by entropy", "worst label", "promised for", "ms"]]
    for recipe in found.recipes:
        cell = found.cell(recipe, found.main_level)
        rows.append(
            [
                recipe,
                f"{cell.mean_size.mean():.3f}",
                f"{cell.coverage.mean():.3f}",
                f"{cell.worst_stratum_coverage:.3f}",
                f"{cell.worst_class_coverage:.3f}",
                PROMISES[cell.guarantee],
                f"{1e3 * cell.seconds:.1f}",
            ]
        )
    return (
        f"At level {found.main_level:g}, over the test rows of all splits: coverage of the worst of four "
        f"ranges of entropy\nand of the worst label; milliseconds to calibrate and predict, a split.\n\n"
        f"{aligned(rows)}"
    )


PROMISES = {
    "marginal": "the average",
    "approximate": "not exactly",
    "pac": "9 of 10 draws",
    "label": "each label",
    "cluster": "each cluster",
}
"""What coverage of at least the level is promised for, by `Cell.guarantee`."""

LEGEND = (
    "Each cell: mean coverage over the splits, mean set size. + coverage lies in its band, ! it does not,\n"
    "~ the recipe's coverage is approximate: there is no band, * it is exact, but its law is not known."
)

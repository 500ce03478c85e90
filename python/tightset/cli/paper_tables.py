"""What `tightset reproduce` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from tightset.cli import tables
from tightset.cli.paper_numbers import PAPER, Printed
from tightset.effects import Saturation, SelectionEffect
from tightset.evaluation import Cell, Evaluation

SHOWN = (0.90, 0.95, 0.99)
"""Levels of the first table; the others are in the second and in the files."""

TITLE = "Mean coverage and mean set size"


def table_one(found: Sequence[Evaluation]) -> str:
    """Return coverage and size of each data set and recipe, beside what the paper prints."""
    head = ["", *(text for level in SHOWN for text in (f"{level:.2f}", "size", "paper"))]
    rows = [head]
    for one in found:
        rows.append([one.dataset, *[""] * (len(head) - 1)])
        for recipe in one.recipes:
            cells = [one.cell(recipe, level) for level in SHOWN]
            rows.append([f"  {recipe}", *(text for cell in cells for text in _texts(one, cell))])
    n_splits = found[0].n_splits
    title = f"{TITLE} over {n_splits} random splits, 80 % of the rows calibrate"
    notes = (
        "+ coverage lies in its band, ! it does not, ~ the recipe's coverage is approximate: no band. The\n"
        "law of fixed scores is exact; the band of er-* and tightest, which select, is proven and wider.\n"
        "`paper` is Algorithm 1; the column of that name has figures of the paper's Table 1 at hand."
    )
    return f"{title}\n\n{tables.aligned(rows)}\n\n{notes}"


def _texts(found: Evaluation, cell: Cell) -> tuple[str, str, str]:
    printed = PAPER.get((found.dataset, cell.recipe, cell.level), Printed(None, None))
    coverage = "" if printed.coverage is None else f"{printed.coverage:.3f} "
    size = "" if printed.size is None else f"{printed.size:.3f}"
    return (
        f"{cell.coverage.mean():.3f}{tables.mark(cell)}",
        f"{cell.mean_size.mean():.3f}",
        coverage + size,
    )


def bands(found: Evaluation) -> str:
    """Return mean coverage at every level with a verdict for each cell."""
    rows = [["", *(f"{level:.2f}" for level in found.levels), "in band"]]
    for recipe in found.recipes:
        cells = [found.cell(recipe, level) for level in found.levels]
        shown = [f"{cell.coverage.mean():.4f}{tables.mark(cell)}" for cell in cells]
        rows.append([f"  {recipe}", *shown, tables.verdict(found, recipe)])
    exact = [cell for cell in found.cells if cell.in_band is not None]
    inside = sum(bool(cell.in_band) for cell in exact)
    level = f"{100 * found.band_level:.5f} %"
    return (
        f"{tables.title(found)}\n\n{tables.aligned(rows)}\n\n"
        f"{inside} of {len(exact)} cells with an exact guarantee lie in their band, which has level {level}"
    )


def scenarios(found: Sequence[Evaluation]) -> str:
    """Return mean size and coverage by whether the top label is right and entropy low."""
    names = [stratum.name for stratum in found[0].details[0].by_scenario]
    rows = [["", *names]]
    for one in found:
        kinds = one.details[0].by_scenario
        rows.append([one.dataset, *(f"{stratum.rows} rows" for stratum in kinds)])
        for detail in one.details:
            cells = []
            for stratum in detail.by_scenario:
                empty = stratum.coverage is None or stratum.mean_size is None
                cells.append("-" if empty else f"{stratum.coverage:.3f} {stratum.mean_size:6.3f}")
            rows.append([f"  {detail.recipe}", *cells])
    level = found[0].main_level
    return (
        f"Coverage and mean size at {level:.2f} in four scenarios, first split: top label right or wrong,\n"
        f"entropy at most the median (low) or above\n\n{tables.aligned(rows)}"
    )


def differences(found: Sequence[Evaluation], tied: Saturation, selected: SelectionEffect) -> str:
    """Return where and why our figures differ from the paper's, in a paragraph."""
    text = f"""
        Where our figures differ from the paper's, and why. The networks are others: the scripts in
        `experiments` trained ours, so sizes compare by order, not by value. At levels below the accuracy of
        a network the smallest sets are single labels or empty, and their size is about level / accuracy. In
        the paper, coverage of entropy reweighting on AG News at 0.99 is 0.977, far below what ten exact
        splits could show. A likely reason is saturation: rows that a network is nearly certain of make its
        wrong labels tie at score 1.0, and sets depend on how ties are counted. At T = 1 and level
        {tied.levels[-1]:g} the textbook form gives {tied.textbook[-1]:.2f} labels a set here, the ranked
        form {tied.ranked[-1]:.2f} (saturation.svg). Selecting by size on the rows that calibrate costs
        coverage: with {selected.n_calibration} rows and {selected.n_candidates} candidates,
        {_loss(selected, "naive")} for the smallest sets outright and {_loss(selected, "paper")} for
        Algorithm 1, against exact selection by modsel on the same splits (selection.svg); er-* and tightest
        use modsel. The paper leaves THR and RANK out: {_left_out(found)}
    """
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False)


def _loss(selected: SelectionEffect, name: str) -> str:
    """Return how much less is covered than with modsel, with twice the standard error over the splits."""
    less = (selected.coverage["modsel"] - selected.coverage[name]).mean(axis=0)
    return f"{less.mean():.4f} (+- {2 * less.std(ddof=1) / np.sqrt(len(less)):.4f})"


def _left_out(found: Sequence[Evaluation]) -> str:
    """Count the cells in which the plain scores that the paper left out have the smaller sets."""
    smaller = cells = 0
    for one in found:
        if "paper" not in one.recipes or not {"thr", "rank"} & set(one.recipes):
            return "compare them with `paper` above."
        for level in one.levels:
            others = [one.cell(r, level).mean_size.mean() for r in ("thr", "rank") if r in one.recipes]
            smaller += min(others) < one.cell("paper", level).mean_size.mean()
            cells += 1
    return f"one of them has smaller sets than `paper` in {smaller} of {cells} cells."

"""Are selected sets as small as the best fixed recipe? Paired over random half splits of real logits.

    python experiments/sizes.py a.npz b.npz --alphas 0.01 0.05 0.1 --json sizes.json

Each file holds `logits` (n, K) and `labels` (n,). Every split shuffles the rows, calibrates all recipes on
one half and measures them on the other. Two bars for each file and alpha:

- `tightest` against the smallest of the fixed recipes, among those whose mean coverage is not below
  1 - alpha by more than two standard deviations of their coverage over the splits;
- `er-aps` against the smaller of `aps` and `ts-aps`, plain APS whose temperature alone is selected.

The rival is the one of smallest mean size. A bar holds if the mean over splits of log(size / size of the
rival), less two standard errors, is at most log 1.01.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import tightset as ts
from tightset.progress import Progress
from tightset.recipes import Recipe, as_recipe

FIXED = ("thr", "aps", "raps", "saps", "rank", "paper", "released")
BARS = (("tightest", FIXED), ("er-aps", ("aps", "ts-aps")))
RECIPES = {
    **{name: as_recipe(name) for name in (*FIXED, "tightest", "er-aps")},
    "ts-aps": Recipe("aps", None, "auto", "modsel"),
}
MARGIN = math.log(1.01)


@dataclass(frozen=True)
class Measured:
    """Coverage and mean set size of a recipe in each split."""

    coverage: NDArray[np.float64]
    size: NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """One bar in one cell; `passed` is None when it cannot be judged."""

    recipe: str
    rival: str | None
    log_ratio: float | None
    standard_error: float | None
    passed: bool | None
    reason: str


def measure(
    name: str,
    logits: NDArray[np.floating],
    labels: NDArray[np.integer],
    alphas: Sequence[float],
    splits: int,
) -> dict[float, dict[str, Measured]]:
    """Return what each recipe gives at each alpha; all of them see the same splits."""
    shape = (len(alphas), splits)
    coverage = {recipe: np.empty(shape) for recipe in RECIPES}
    size = {recipe: np.empty(shape) for recipe in RECIPES}
    half = len(labels) // 2
    with Progress(splits * len(RECIPES), name) as progress:
        for split, recipe in product(range(splits), RECIPES):
            order = np.random.default_rng(split).permutation(len(labels))
            known, unknown = order[:half], order[half:]
            predictors = ts.calibrate(logits[known], labels[known], alphas, RECIPES[recipe], seed=split)
            for i, predictor in enumerate(predictors):
                sets = predictor.predict_set(logits[unknown])
                coverage[recipe][i, split] = sets.coverage(labels[unknown])
                size[recipe][i, split] = sets.sizes.mean()
            progress.advance(1)
    return {
        alpha: {recipe: Measured(coverage[recipe][i], size[recipe][i]) for recipe in RECIPES}
        for i, alpha in enumerate(alphas)
    }


def is_allowed(measured: Measured, alpha: float) -> bool:
    """Whether coverage is not below 1 - alpha by more than two standard deviations."""
    return bool(measured.coverage.mean() >= 1 - alpha - 2 * measured.coverage.std(ddof=1))


def judge(recipe: str, rivals: Sequence[str], cell: dict[str, Measured], alpha: float) -> Verdict:
    """Compare a recipe with the smallest of its rivals in one cell."""
    # The rule on coverage is for the fixed recipes; the rivals of er-aps cover by construction.
    allowed = [name for name in rivals if rivals is not FIXED or is_allowed(cell[name], alpha)]
    if not allowed:
        return Verdict(recipe, None, None, None, None, "no rival covers")
    rival = min(allowed, key=lambda name: cell[name].size.mean())
    own, other = cell[recipe], cell[rival]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(own.size / other.size)
    mean, error = float(ratios.mean()), float(ratios.std(ddof=1) / math.sqrt(len(ratios)))
    if not math.isfinite(mean):
        return Verdict(recipe, rival, None, None, None, "all sets of a split are empty")
    passed = mean - 2 * error <= MARGIN
    return Verdict(recipe, rival, mean, error, passed, reason(own, other, mean, error))


def reason(own: Measured, other: Measured, mean: float, error: float) -> str:
    """Say how the sizes compare and whether coverage accounts for it."""
    size = f"{100 * math.expm1(mean):+.2f} % (s.e. {100 * error:.2f})"
    gap = own.coverage - other.coverage
    gap_error = gap.std(ddof=1) / math.sqrt(len(gap))
    if abs(gap.mean()) <= 2 * gap_error:
        return f"{size} at the same coverage"
    return f"{size}, coverage {own.coverage.mean():.4f} against {other.coverage.mean():.4f}"


def print_cell(name: str, alpha: float, cell: dict[str, Measured], verdicts: Sequence[Verdict]) -> None:
    """Print the recipes and the bars of one cell."""
    print(f"\n{name}, alpha {alpha:g}")
    print(f"  {'recipe':10}{'coverage':>10}{'s.d.':>9}{'size':>10}")
    for recipe, measured in cell.items():
        note = "" if is_allowed(measured, alpha) else "  covers too little"
        deviation = measured.coverage.std(ddof=1)
        row = f"  {recipe:10}{measured.coverage.mean():10.4f}{deviation:9.4f}{measured.size.mean():10.4f}"
        print(row + note)
    for verdict in verdicts:
        word = {True: "pass", False: "FAIL", None: "skip"}[verdict.passed]
        rival = f" against {verdict.rival}" if verdict.rival else ""
        print(f"  {word}: {verdict.recipe}{rival}: {verdict.reason}")


def as_document(
    name: str, shape: tuple[int, int], alpha: float, cell: dict[str, Measured], verdicts: Sequence[Verdict]
) -> dict[str, object]:
    """Return a cell as plain values for JSON."""
    recipes = {
        recipe: {
            "coverage": float(measured.coverage.mean()),
            "coverage_sd": float(measured.coverage.std(ddof=1)),
            "size": float(measured.size.mean()),
            "size_sd": float(measured.size.std(ddof=1)),
            "allowed": is_allowed(measured, alpha),
        }
        for recipe, measured in cell.items()
    }
    splits = len(next(iter(cell.values())).size)
    head = {"file": name, "rows": shape[0], "labels": shape[1], "splits": splits, "alpha": alpha}
    return {**head, "recipes": recipes, "bars": [asdict(verdict) for verdict in verdicts]}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, help=".npz files with logits and labels")
    parser.add_argument("--alphas", nargs="+", type=float, default=[0.01, 0.05, 0.1])
    parser.add_argument(
        "--splits", type=int, help="by default 20, or 100 if a half has fewer than 5,000 rows"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write all cells to this file")
    options = parser.parse_args(arguments)
    if options.splits is not None and options.splits < 2:
        parser.error(f"--splits must be at least 2, got {options.splits}")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every file, print a table of cells, and list the bars that fail."""
    options = parse(arguments)
    documents, failures, judged = [], [], 0
    for path in options.files:
        with np.load(path) as file:
            logits, labels = file["logits"], file["labels"]
        enough = 20 if len(labels) // 2 >= 5000 else 100
        splits = options.splits or enough
        if splits < enough:
            print(f"{path.stem}: {splits} splits are a trial, the bars ask for {enough}", file=sys.stderr)
        cells = measure(path.stem, logits, labels, options.alphas, splits)
        for alpha, cell in cells.items():
            verdicts = [judge(recipe, rivals, cell, alpha) for recipe, rivals in BARS]
            print_cell(path.stem, alpha, cell, verdicts)
            documents.append(as_document(path.stem, logits.shape, alpha, cell, verdicts))
            judged += sum(verdict.passed is not None for verdict in verdicts)
            failures += [(path.stem, alpha, v) for v in verdicts if v.passed is False]
    print(f"\n{judged - len(failures)} of {judged} bars hold")
    for name, alpha, verdict in failures:
        print(f"  FAIL {name}, alpha {alpha:g}: {verdict.recipe} against {verdict.rival}: {verdict.reason}")
    if options.json:
        options.json.write_text(json.dumps(documents, indent=1) + "\n")


if __name__ == "__main__":
    main()

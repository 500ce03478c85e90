"""`tightset compare`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tightset import comparison
from tightset.advice import CAUTION
from tightset.cli import options, tables
from tightset.cli.array_files import Data, read_data
from tightset.cli.comparison_csv import csv_text
from tightset.cli.input_files import check_one_is_standard
from tightset.cli.optional import optional_package
from tightset.cli.standard_streams import STANDARD, written
from tightset.methods import ALL, RECIPES, available
from tightset.progress import Progress
from tightset.whole_files import check_folder

_DEFAULT_RECIPES = ",".join(RECIPES)


def compare(
    logits: options.Logits,
    labels: options.Labels = None,
    *,
    recipes: Annotated[
        str, typer.Option(help="Names of recipes or methods, such as aps/label, with commas.")
    ] = _DEFAULT_RECIPES,
    all_methods: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Compare every method: by label or cluster, PAC, divided, averaged, transformed, localised.",
            show_default=False,
        ),
    ] = False,
    levels: Annotated[str, typer.Option(help="Coverages: 0.9,0.95 or first:last:step.")] = "0.9,0.95,0.99",
    splits: Annotated[int, typer.Option(help="Random splits of the rows.")] = 10,
    test_share: Annotated[float, typer.Option(help="Share of the rows that test.")] = 0.2,
    report: Annotated[
        str | None, typer.Option(help="Write an HTML report, one file.", show_default=False)
    ] = None,
    csv: Annotated[
        str | None, typer.Option(help="Write all figures as CSV, or - .", show_default=False)
    ] = None,
    probabilities: options.Probabilities = False,
    max_rows: Annotated[int, typer.Option(help="Rows to use at most, drawn at random.", min=10)] = 200_000,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Compare recipes and other methods on your own logits and recommend one.

    \b
    tightset compare logits.npy labels.npy
    tightset compare logits.npy labels.npy --all --splits 3 --levels 0.9
    tightset compare held-out.npz --report report.html
    tightset compare held-out.parquet --recipes thr,thr/label,thr/pac --levels 0.90:0.99:0.01 --json
    """
    check_one_is_standard({"LOGITS": logits, "LABELS": labels})
    if report == STANDARD:
        message = "--report must be a file, got -"
        raise ValueError(message)
    if json and csv == STANDARD:
        message = "--json and --csv - cannot both go to standard output"
        raise ValueError(message)
    for path in (report, csv):
        if path is not None and path != STANDARD:
            check_folder(Path(path))
    names, asked = options.parse_recipes(recipes), options.parse_levels(levels)
    left_out: tuple[str, ...] = ()
    if all_methods:
        more, left_out = available(ALL)
        names = list(dict.fromkeys([*names, *more]))
    writer = None if report is None else optional_package("tightset.report", "reports", "plot")
    data = _sample(read_data(logits, labels), max_rows, seed)
    with Progress(len(names) * splits, "comparing") as progress:
        found = comparison.compare(
            data.logits,
            data.labels,
            name="standard input" if logits == STANDARD else Path(logits).name,
            recipes=names,
            levels=asked,
            n_splits=splits,
            test_share=test_share,
            seed=seed,
            probabilities=probabilities,
            advance=progress.advance,
        )
    if left_out:
        note = f"left out, for want of scikit-learn: {', '.join(left_out)}"
        found = replace(found, notes=(note, *found.notes))
    if csv is not None:
        with written(csv) as file:
            file.write(csv_text([found]).encode())
    if writer is not None:
        writer.write_report(report, found)
    if json:
        options.print_json(found.to_dict())
    elif csv != STANDARD:
        parts = [
            tables.title(found),
            tables.coverage_and_size(found, found.levels if len(found.levels) <= 4 else _few(found.levels)),
            tables.LEGEND,
            tables.fairness_and_time(found),
            *(["\n".join(found.notes)] if found.notes else []),
            found.sentence,
            CAUTION,
        ]
        parts += [f"report: {report}"] if report else []
        sys.stdout.write("\n\n".join(parts) + "\n")


def _sample(data: Data, most: int, seed: int) -> Data:
    """Return so many rows at most: every split takes a copy of them, and more would not tell more."""
    n = len(data.logits)
    if n <= most or len(data.labels) != n:
        return data
    rows = np.sort(np.random.default_rng([seed, n]).choice(n, most, replace=False))
    return Data(data.logits[rows], data.labels[rows])


def _few(levels: tuple[float, ...]) -> tuple[float, ...]:
    """Return the first, the middle and the last level, which fit a terminal."""
    return levels[0], levels[len(levels) // 2], levels[-1]

"""`tightset reproduce`."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tightset import datasets
from tightset.cli import options, paper_tables, pictures
from tightset.cli.comparison_csv import csv_text
from tightset.cli.standard_streams import written
from tightset.comparison import LEVELS, compare
from tightset.effects import Saturation, SelectionEffect, saturation, selection_effect
from tightset.evaluation import Evaluation
from tightset.methods import RECIPES
from tightset.progress import Progress

_EFFECT_DATASET = "fashion-mnist"
_SELECTION_LEVELS = (0.90, 0.92, 0.94, 0.96)  # at 0.99 a quarter of 199 rows is too small to select on
# Splits of few rows are cheap, and there the effect is small beside the spread.
_SELECTION_SPLITS = 25


def reproduce(
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for tables, plots and reports; made if missing.")
    ] = Path("tightset-results"),
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset",
            "-d",
            help="A data set, or several; all by default.",
            autocompletion=lambda: list(datasets.names()),
            show_default=False,
        ),
    ] = None,
    recipes: Annotated[str, typer.Option(help="Names of recipes, with commas.")] = ",".join(RECIPES),
    splits: Annotated[int, typer.Option(help="Random splits of the rows.", min=1)] = 10,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Whether to draw and to report.")] = True,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Repeat the experiment of Luo & Colombo (2024) on logits that come with the package.

    Levels 0.90 to 0.99, random splits of 80 % calibration and 20 % test rows, mean coverage and size.

    \b
    tightset reproduce
    tightset reproduce --dataset carer --splits 3 --output /tmp/carer
    tightset reproduce --no-plots --json > results.json
    """
    names = list(dict.fromkeys(dataset or datasets.names()))
    wrong = next((name for name in names if name not in datasets.names()), None)
    if wrong is not None:
        message = f"--dataset must be one of {', '.join(datasets.names())}, got {wrong!r}"
        raise ValueError(message)
    used = options.parse_recipes(recipes)
    output.mkdir(parents=True, exist_ok=True)
    found = _compare_all(names, used, splits, seed)
    tied, selected = _effects(names, _SELECTION_SPLITS * splits, seed)
    document = {
        "evaluations": [one.to_dict() for one in found],
        "saturation": tied.to_dict(),
        "selection_effect": selected.to_dict(),
    }
    files = [
        _write(output / "table.csv", csv_text(found)),
        _write(output / "results.json", _dumped(document)),
    ]
    skipped = ""
    if plots:
        drawn, skipped = pictures.draw(output, found, tied, selected)
        files += drawn
    if json:
        options.print_json({**document, "files": [str(file) for file in files]})
        return
    parts = [*(paper_tables.bands(one) for one in found), paper_tables.scenarios(found)]
    parts += [paper_tables.differences(found, tied, selected), paper_tables.table_one(found)]
    parts += [skipped] if skipped else []
    parts.append("\n".join(f"{file}" for file in files))
    sys.stdout.write("\n\n".join(parts) + "\n")


def _compare_all(names: list[str], recipes: list[str], splits: int, seed: int) -> list[Evaluation]:
    n_cells = len(names) * len(recipes) * len(LEVELS)
    found = []
    with Progress(len(names) * len(recipes) * splits, "splitting") as progress:
        for name in names:
            data = datasets.load(name)
            found.append(
                compare(
                    data.logits,
                    data.labels,
                    name=name,
                    recipes=recipes,
                    levels=LEVELS,
                    n_splits=splits,
                    seed=seed,
                    n_cells=n_cells,
                    advance=progress.advance,
                )
            )
    return found


def _effects(names: list[str], n_splits: int, seed: int) -> tuple[Saturation, SelectionEffect]:
    """Measure the two effects on one data set: the same one, if it is among those asked for."""
    data = datasets.load(_EFFECT_DATASET if _EFFECT_DATASET in names else names[0])
    tied = saturation(data.logits, data.labels, LEVELS)
    with Progress(n_splits, "selecting") as progress:
        selected = selection_effect(
            data.logits,
            data.labels,
            _SELECTION_LEVELS,
            n_splits=n_splits,
            seed=seed,
            advance=progress.advance,
        )
    return tied, selected


def _dumped(document: dict[str, Any]) -> str:
    return json_module.dumps(document, indent=1, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> Path:
    with written(path) as file:
        file.write(text.encode())
    return path

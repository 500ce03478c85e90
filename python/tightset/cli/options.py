"""Arguments and options that several commands share."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from tightset.cli.optional import MissingPackageError
from tightset.extras import missing
from tightset.methods import available, method_names, names_in_words
from tightset.recipes import recipe_names

Logits = Annotated[
    str,
    typer.Argument(
        metavar="LOGITS",
        help="Rows of logits: .npy, .npz, .csv, .parquet, .safetensors, FILE:NAME, or - for standard input.",
    ),
]
Labels = Annotated[
    str | None,
    typer.Argument(
        metavar="LABELS",
        help="True labels, from 0. Left out, they are the array or column `labels` of LOGITS.",
        show_default=False,
    ),
]
Predictor = Annotated[
    str, typer.Argument(metavar="PREDICTOR", help="A file that `tightset calibrate` wrote, or -.")
]
Probabilities = Annotated[
    bool, typer.Option("--probabilities", help="LOGITS holds probabilities instead.", show_default=False)
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups",
        metavar="FILE",
        help="The group of each row, where the predictor was calibrated with groups.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the splits and of the randomised scores.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)]
Threads = Annotated[
    int | None, typer.Option(help="Threads to use at most; all by default.", show_default=False)
]


def complete_recipe(incomplete: str) -> list[str]:
    """Return the names of recipes that start so."""
    return [name for name in recipe_names if name.startswith(incomplete)]


def print_json(value: Any) -> None:
    """Print a document."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def parse_levels(levels: str) -> list[float]:
    """Return the numbers of ``0.9,0.95`` or of ``0.90:0.99:0.01``, both ends included."""
    parts = levels.split(":") if ":" in levels else levels.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if ":" not in levels and numbers:
        return numbers
    if len(numbers) == 3 and numbers[2] > 0 and numbers[1] >= numbers[0]:
        first, last, step = numbers
        return [round(first + i * step, 10) for i in range(round((last - first) / step) + 1)]
    message = f"--levels must be numbers as in 0.9,0.95 or 0.90:0.99:0.01, got {levels!r}"
    raise ValueError(message)


def parse_recipes(recipes: str) -> list[str]:
    """Return the names of ``thr,aps/label``."""
    names = [name.strip() for name in recipes.split(",") if name.strip()]
    known = method_names()
    wrong = next((name for name in names if name not in known), None)
    if wrong is not None or not names:
        message = f"--recipes must be {names_in_words()}, got {wrong or recipes!r}"
        raise ValueError(message)
    _, without = available(names)
    if without:
        raise MissingPackageError(missing(f"{', '.join(without)} need", "scikit-learn", "sklearn"))
    return names

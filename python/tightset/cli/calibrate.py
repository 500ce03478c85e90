"""`tightset calibrate`."""

from __future__ import annotations

import sys
from typing import Annotated, Any, cast

import typer

import tightset
from tightset.cli import options, predictor_files
from tightset.cli.array_files import read_data
from tightset.cli.standard_streams import STANDARD
from tightset.comparison import candidate_text
from tightset.objectives import OBJECTIVES, Objective
from tightset.predictor import Predictor


def calibrate(
    logits: options.Logits,
    labels: options.Labels = None,
    *,
    output: Annotated[str, typer.Option("--output", "-o", help="The predictor's file, or -.")],
    alpha: Annotated[float, typer.Option("--alpha", "-a", help="Share of rows that may be missed.")] = 0.1,
    recipe: Annotated[
        str,
        typer.Option("--recipe", "-r", help="How sets are formed.", autocompletion=options.complete_recipe),
    ] = "er-aps",
    objective: Annotated[
        str,
        typer.Option(
            help="What is selected for: size, singletons, adaptive.", autocompletion=lambda: OBJECTIVES
        ),
    ] = "size",
    score_table: Annotated[
        bool, typer.Option("--score-table", help="Keep the scores, which p-values need.", show_default=False)
    ] = False,
    probabilities: options.Probabilities = False,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Calibrate a predictor on held-out logits and labels.

    \b
    tightset calibrate logits.npy labels.npy -o predictor.json
    tightset calibrate held-out.npz -o predictor.json --alpha 0.05 --recipe thr
    tightset calibrate held-out.csv -o - | tightset predict - new.npy -o sets.jsonl
    """
    predictor_files.check_destination(output)
    data = read_data(logits, labels)
    predictor = tightset.calibrate(
        data.logits,
        data.labels,
        alpha,
        recipe,
        objective=cast(Objective, objective),
        seed=seed,
        n_threads=threads,
        probabilities=probabilities,
    )
    predictor_files.write_predictor(predictor, output, score_table=score_table)
    if output == STANDARD:
        return
    if json:
        options.print_json({"output": output, **described(predictor)})
    else:
        text = f"{output}: alpha {alpha:g}, {predictor.n_calibration} rows, {predictor.n_labels} labels"
        sys.stdout.write(f"{text}, {candidate_text(predictor)}\n")


def described(predictor: Predictor) -> dict[str, Any]:
    """Return what there is to know about a predictor, JSON-ready."""
    return {
        "alpha": predictor.alpha,
        "n_labels": predictor.n_labels,
        "n_calibration": predictor.n_calibration,
        "rank": predictor.rank,
        "selection": predictor.recipe.selection,
        "n_candidates": len(predictor.recipe.candidates),
        "in_use": [
            {
                "scoring": str(c.scoring),
                "threshold": c.threshold if abs(c.threshold) < float("inf") else str(c.threshold),
            }
            for c in predictor.candidates
        ],
        "seed": predictor.seed,
        "probabilities": predictor.probabilities,
        "uses_row_ids": predictor.uses_row_ids,
        "has_scores": predictor.calibration_scores is not None,
    }

"""`tightset calibrate`."""

from __future__ import annotations

import sys
from typing import Annotated, Any, cast

import typer

import tightset
from tightset.cells import OF_LABELS, Candidate, Condition, Scarce
from tightset.cli import options, predictor_files
from tightset.cli.array_files import read_data, read_groups
from tightset.cli.input_files import check_one_is_standard
from tightset.cli.standard_streams import STANDARD
from tightset.comparison import candidate_text
from tightset.objectives import OBJECTIVES, Objective
from tightset.pac import Guarantee
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
    condition: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="What coverage holds within: label, cluster, rc3p, or a file with the group of each row.",
            show_default=False,
        ),
    ] = None,
    scarce: Annotated[
        str, typer.Option(help="What labels or groups with too few rows get: all, pooled.")
    ] = "all",
    guarantee: Annotated[
        str, typer.Option(help="marginal; or pac: coverage holds for all but a share delta of calibrations.")
    ] = "marginal",
    delta: Annotated[float, typer.Option(help="Share of calibrations that may fall short, with pac.")] = 0.1,
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
    tightset calibrate held-out.npz -o predictor.json --condition label --scarce pooled
    tightset calibrate held-out.npz -o predictor.json --guarantee pac --delta 0.05
    """
    check_one_is_standard({"LOGITS": logits, "LABELS": labels, "--condition": condition})
    predictor_files.check_destination(output)
    data = read_data(logits, labels)
    predictor = tightset.calibrate(
        data.logits,
        data.labels,
        alpha,
        recipe,
        objective=cast(Objective, objective),
        condition=condition if condition in (None, *OF_LABELS) else read_groups(condition),
        scarce=cast(Scarce, scarce),
        guarantee=cast(Guarantee, guarantee),
        delta=delta,
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
        "guarantee": predictor.guarantee,
        "delta": predictor.delta,
        "in_use": _in_use(predictor.candidates),
        "condition": None if predictor.condition is None else _described_condition(predictor.condition),
        "seed": predictor.seed,
        "probabilities": predictor.probabilities,
        "uses_row_ids": predictor.uses_row_ids,
        "has_scores": predictor.has_scores,
    }


def _in_use(candidates: tuple[Candidate, ...]) -> list[dict[str, Any]]:
    return [
        {
            "scoring": str(c.scoring),
            "threshold": c.threshold if abs(c.threshold) < float("inf") else str(c.threshold),
        }
        for c in candidates
    ]


def _described_condition(condition: Condition) -> dict[str, Any]:
    return {
        "kind": condition.kind,
        "scarce": condition.scarce,
        "groups": list(condition.groups),
        "cell_of": list(condition.cell_of),
        "cells": [
            {"n_calibration": cell.n_calibration, "rank": cell.rank, "in_use": _in_use(cell.candidates)}
            for cell in condition.cells
        ],
    }

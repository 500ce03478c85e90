"""`tightset predict`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from tightset.cli import options
from tightset.cli.array_files import read_groups, read_logits
from tightset.cli.input_files import check_one_is_standard
from tightset.cli.predictor_files import read_predictor
from tightset.cli.set_files import check_destination, write_sets
from tightset.cli.standard_streams import STANDARD
from tightset.predictor import Predictor
from tightset.progress import Progress
from tightset.sets import PredictionSets, joined

# Entries of a block, between which progress is shown.
_BLOCK = 2**24


def predict(
    predictor: options.Predictor,
    logits: options.Logits,
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where sets go: .npz, .parquet, .jsonl; - prints .jsonl.")
    ] = STANDARD,
    allow_empty: Annotated[
        bool,
        typer.Option("--allow-empty/--no-empty", help="Whether a set may be empty, or has the top label."),
    ] = True,
    groups: options.Groups = None,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Predict the set of labels of each row.

    \b
    tightset predict predictor.json new.npy -o sets.parquet
    tightset predict predictor.json new.npy | head -3
    tightset predict predictor.json - < new.csv > sets.jsonl
    """
    check_one_is_standard({"PREDICTOR": predictor, "LOGITS": logits, "--groups": groups})
    check_destination(output)
    rows = read_logits(logits)
    sets = predict_in_blocks(
        read_predictor(predictor),
        rows,
        groups=read_groups(groups),
        allow_empty=allow_empty,
        threads=threads,
    )
    write_sets(sets, output)
    if output == STANDARD:
        return
    mean = float(sets.sizes.mean()) if len(sets) else None
    empty = float((sets.sizes == 0).mean()) if len(sets) else None
    if json:
        options.print_json({"output": output, "rows": len(sets), "mean_size": mean, "empty_rate": empty})
    else:
        about = "" if mean is None else f", mean size {mean:.3f}, {empty:.1%} empty"
        sys.stdout.write(f"{output}: {len(sets)} sets{about}\n")


def predict_in_blocks(
    predictor: Predictor,
    logits: NDArray[Any],
    *,
    groups: NDArray[Any] | None = None,
    allow_empty: bool = True,
    threads: int | None = None,
) -> PredictionSets:
    """Predict block by block; a row's set does not depend on the others, so the sets are the same."""
    step = max(1, _BLOCK // max(1, logits.shape[-1])) if logits.ndim == 2 else 1
    if logits.ndim != 2 or len(logits) <= step:
        return predictor.predict_set(logits, groups=groups, allow_empty=allow_empty, n_threads=threads)
    if groups is not None and groups.shape != logits.shape[:1]:
        message = f"--groups must hold one for each of the {len(logits)} rows, got shape {groups.shape}"
        raise ValueError(message)
    parts = []
    with Progress(len(logits), "predicting") as progress:
        for start in range(0, len(logits), step):
            here = slice(start, start + step)
            part = predictor.predict_set(
                logits[here],
                groups=None if groups is None else groups[here],
                allow_empty=allow_empty,
                n_threads=threads,
            )
            parts.append(part)
            progress.advance(len(part))
    return joined(parts, predictor.n_labels)

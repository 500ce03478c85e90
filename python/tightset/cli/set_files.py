"""Prediction sets to files: .npz, .parquet and .jsonl."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tightset.cli.optional import optional_package
from tightset.cli.standard_streams import STANDARD, written
from tightset.sets import PredictionSets
from tightset.whole_files import check_folder

SUFFIXES = (".npz", ".parquet", ".jsonl")


def check_destination(path: str) -> None:
    """Refuse a destination that could not be written, before sets are predicted."""
    if path == STANDARD:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        message = f"--output must end in one of {', '.join(SUFFIXES)} or be -, got {path!r}"
        raise ValueError(message)
    if Path(path).suffix.lower() == ".parquet":
        optional_package("pyarrow.parquet", ".parquet files", "files")
    check_folder(Path(path))


def write_sets(sets: PredictionSets, path: str) -> None:
    """Write the sets, whole or not at all; ``-`` is .jsonl on standard output."""
    suffix = ".jsonl" if path == STANDARD else Path(path).suffix.lower()
    with written(path) as file:
        if suffix == ".npz":
            np.savez_compressed(
                file, indptr=sets.indptr, indices=sets.indices, n_labels=np.int64(sets.n_labels)
            )
        elif suffix == ".parquet":
            arrow = optional_package("pyarrow", ".parquet files", "files")
            parquet = optional_package("pyarrow.parquet", ".parquet files", "files")
            labels = arrow.LargeListArray.from_arrays(sets.indptr, sets.indices)
            table = arrow.table({"row": np.arange(len(sets)), "size": sets.sizes, "labels": labels})
            parquet.write_table(table, file)
        else:
            for row, labels in enumerate(sets):
                line = json.dumps({"row": row, "labels": labels.tolist()}, separators=(",", ":"))
                file.write(line.encode() + b"\n")

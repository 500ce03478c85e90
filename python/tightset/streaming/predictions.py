"""Prediction sets of rows that are read block by block, as a Parquet file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from tightset.predictor import Predictor
from tightset.progress import RowProgress
from tightset.sets import PredictionSets
from tightset.streaming.sources import blocks_of
from tightset.whole_files import written


def predict_to(
    predictor: Predictor,
    path: str | os.PathLike[str],
    source: Any,
    *,
    allow_empty: bool,
    n_threads: int | None,
) -> int:
    """Write the sets beside their destination, then move them there in one step."""
    import pyarrow
    import pyarrow.parquet

    fields = [("labels", pyarrow.list_(pyarrow.int32()))]
    if predictor.uses_row_ids:
        fields.append(("row_id", pyarrow.uint64()))
    schema = pyarrow.schema(fields)
    read = blocks_of(source, with_labels=False)
    blocks: Iterable[Any] = source if read is None else read()
    total = 0
    with (
        written(path) as file,
        pyarrow.parquet.ParquetWriter(file, schema) as writer,
        RowProgress(None, "tightset: sets") as progress,
    ):
        for block in blocks:
            logits, ids = _parts(block)
            sets = predictor.predict_set(logits, allow_empty=allow_empty, row_ids=ids, n_threads=n_threads)
            columns = [_lists(sets, pyarrow)]
            if ids is not None:
                columns.append(pyarrow.array(np.asarray(ids).astype(np.uint64)))
            if len(sets):
                writer.write_table(pyarrow.table(columns, schema=schema))
            total += len(sets)
            progress.advance(len(sets))
    return total


def _parts(block: Any) -> tuple[Any, Any]:
    if isinstance(block, tuple):
        return block[0], block[2] if len(block) == 3 else None
    return block, None


def _lists(sets: PredictionSets, pyarrow: Any) -> Any:
    # Parquet's lists have offsets of 32 bits within a piece; large blocks are cut into several.
    most = 2**31 - 1
    pieces: list[Any] = []
    start, n = 0, len(sets)
    while start < n or not pieces:
        end = int(np.searchsorted(sets.indptr, sets.indptr[start] + most, side="right")) - 1
        end = max(min(end, n), min(start + 1, n))
        offsets = (sets.indptr[start : end + 1] - sets.indptr[start]).astype(np.int32)
        labels = sets.indices[sets.indptr[start] : sets.indptr[end]]
        pieces.append(pyarrow.ListArray.from_arrays(offsets, labels))
        start = end
    return pyarrow.chunked_array(pieces, type=pyarrow.list_(pyarrow.int32()))

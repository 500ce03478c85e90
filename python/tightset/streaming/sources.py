"""Where blocks of rows come from: iterables, files, arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tightset._foreign_arrays import from_arrow_lists
from tightset._inputs import ArrayLike

Block: TypeAlias = tuple[ArrayLike, ...]
Source: TypeAlias = Iterable[Block] | Callable[[], Iterable[Block]] | str | os.PathLike[str]
"""Blocks (logits, labels) or (logits, labels, row_ids), a function that returns them, or a file."""

# Bytes of logits that are read from a file at a time.
_BYTES_A_BLOCK = 2**25


def blocks_of(source: Source, *, with_labels: bool = True) -> Callable[[], Iterator[Block]] | None:
    """Return a function that begins a reading of the source; None if it can be read only once.

    Parameters
    ----------
    source
        Blocks, a function that returns them, a Parquet file or folder, or a zarr group.
    with_labels
        Whether a file must have labels.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.exists():
            message = f"source must be a file or folder that exists, got {str(path)!r}"
            raise FileNotFoundError(message)
        read = _zarr_blocks if _is_zarr(path) else _parquet_blocks
        return lambda: read(path, with_labels=with_labels)
    if callable(source):
        return lambda: iter(source())
    if not isinstance(source, Iterable):
        message = (
            "source must be an iterable of (logits, labels) blocks, a function that returns one, or the path "
            f"of a Parquet file or zarr group, got {type(source).__name__}"
        )
        raise TypeError(message)
    return None if iter(source) is source else lambda: iter(source)


def parts_of(block: object, number: int) -> tuple[ArrayLike, ArrayLike, ArrayLike | None]:
    """Return logits, labels and ids of a block."""
    if not isinstance(block, (tuple, list)) or len(block) not in (2, 3):
        what = f"{len(block)} parts" if isinstance(block, (tuple, list)) else type(block).__name__
        message = f"block {number} must be (logits, labels) or (logits, labels, row_ids), got {what}"
        raise TypeError(message)
    return block[0], block[1], block[2] if len(block) == 3 else None


def _is_zarr(path: Path) -> bool:
    return path.suffix == ".zarr" or (path / ".zgroup").exists() or (path / "zarr.json").exists()


def _parquet_blocks(path: Path, *, with_labels: bool) -> Iterator[Block]:
    """Read columns ``logits`` (lists) or ``logit_0``, ``logit_1`` and so on, ``label`` and ``row_id``."""
    import pyarrow.dataset

    data = pyarrow.dataset.dataset(path, format="parquet")
    names = data.schema.names
    single = "logits" in names
    columns = ["logits"] if single else [f"logit_{k}" for k in range(len(names)) if f"logit_{k}" in names]
    if not columns or (with_labels and "label" not in names):
        message = (
            f"{path} must have columns logits (lists) or logit_0, logit_1, ... and label, got "
            f"{', '.join(names[:8])}"
        )
        raise ValueError(message)
    extra = [name for name in ("label", "row_id") if name in names and (with_labels or name != "label")]
    # Lists do not say how long they are; the first row does.
    n_labels = len(columns) if not single else _list_length(data)
    rows = max(1, _BYTES_A_BLOCK // (8 * max(1, n_labels)))
    # Little is read ahead, since what is read ahead is memory.
    batches = data.to_batches(
        columns=columns + extra, batch_size=rows, batch_readahead=1, fragment_readahead=1, use_threads=True
    )
    for batch in batches:
        if not batch.num_rows:
            continue
        for name in columns + extra:
            if batch.column(name).null_count:
                message = f"{path} must not have nulls, found some in column {name}"
                raise ValueError(message)
        logits = (
            from_arrow_lists(batch.column("logits"), f"logits in {path}")
            if single
            else np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns])
        )
        label = batch.column("label").to_numpy(zero_copy_only=False) if "label" in extra else None
        ids = (batch.column("row_id").to_numpy(zero_copy_only=False),) if "row_id" in extra else ()
        yield (logits, label, *ids)


def _list_length(data: Any) -> int:
    first = data.head(1, columns=["logits"])
    return len(first.column("logits")[0]) if first.num_rows else 1


def _zarr_blocks(path: Path, *, with_labels: bool) -> Iterator[Block]:
    """Read arrays ``logits``, ``labels`` and ``row_ids`` of a group, some chunks at a time."""
    import zarr

    group: Any = zarr.open_group(str(path), mode="r")
    for name in ("logits", *(("labels",) if with_labels else ())):
        if name not in group:
            message = f"{path} must have the array {name!r}"
            raise ValueError(message)
    logits = group["logits"]
    labels = group["labels"] if with_labels else None
    ids = group.get("row_ids")
    if labels is not None and labels.shape != logits.shape[:1]:
        message = f"{path} must have one label for each of {logits.shape[0]} rows, got shape {labels.shape}"
        raise ValueError(message)
    each = logits.chunks[0]
    bytes_a_row = max(1, logits.dtype.itemsize * logits.shape[1])
    rows = max(each, _BYTES_A_BLOCK // bytes_a_row // each * each)
    for start in range(0, logits.shape[0], rows):
        part = slice(start, start + rows)
        extra = () if ids is None else (ids[part],)
        yield (logits[part], None if labels is None else labels[part], *extra)

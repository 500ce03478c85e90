"""Prediction sets as frames, Arrow columns and tensors of other libraries, imported on use."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import ArrayLike

if TYPE_CHECKING:
    from tightset.sets import PredictionSets


def as_label_names(names: ArrayLike, n_labels: int) -> NDArray[Any]:
    """Return one name a label, each different from the others."""
    array = np.asarray(names)
    if array.shape != (n_labels,):
        message = f"label_names must have one name for each of the {n_labels} labels, got shape {array.shape}"
        raise ValueError(message)
    if len(set(array.tolist())) != n_labels:
        message = f"label_names must differ from each other, got {array.tolist()[:10]}"
        raise ValueError(message)
    return array


def to_pandas(sets: PredictionSets, *, wide: bool, index: Any) -> Any:
    """Return a pandas DataFrame: a list a row, or a boolean column a label."""
    import pandas as pd

    if wide:
        return pd.DataFrame(sets.mask, columns=_columns(sets), index=index)
    labels = _named(sets)
    cuts = sets.indptr.tolist()
    values = labels.tolist()
    lists = [values[start:end] for start, end in pairwise(cuts)]
    return pd.DataFrame(
        {"labels": pd.Series(lists, dtype=object, index=index), "size": sets.sizes}, index=index
    )


def to_polars(sets: PredictionSets, *, wide: bool) -> Any:
    """Return a polars DataFrame: a list a row, or a boolean column a label."""
    import polars as pl

    if wide:
        return pl.DataFrame(
            {str(name): sets.mask[:, label] for label, name in enumerate(_columns(sets))},
            schema={str(name): pl.Boolean for name in _columns(sets)},
        )
    flat = pl.DataFrame({"row": np.repeat(np.arange(len(sets)), sets.sizes), "labels": _named(sets)})
    lists = flat.group_by("row", maintain_order=True).agg("labels")
    # Rows with an empty set have no group.
    rows = pl.DataFrame({"row": np.arange(len(sets)), "size": sets.sizes})
    joined = rows.join(lists, on="row", how="left", maintain_order="left")
    return joined.select(pl.col("labels").fill_null(pl.lit([], dtype=lists.schema["labels"])), "size")


def to_arrow(sets: PredictionSets) -> Any:
    """Return a pyarrow LargeListArray, which has the layout of the sets: labels are not copied."""
    import pyarrow as pa

    values = pa.array(sets.indices)
    if sets.label_names is not None:
        values = pa.DictionaryArray.from_arrays(values, pa.array(sets.label_names.tolist()))
    return pa.LargeListArray.from_arrays(pa.array(sets.indptr), values)


def to_torch(sets: PredictionSets) -> Any:
    """Return a boolean torch tensor of shape (n, K)."""
    import torch

    return torch.from_numpy(sets.mask)


def _named(sets: PredictionSets) -> NDArray[Any]:
    return sets.indices if sets.label_names is None else sets.label_names[sets.indices]


def _columns(sets: PredictionSets) -> list[Any]:
    names: list[Any] = list(range(sets.n_labels)) if sets.label_names is None else sets.label_names.tolist()
    return names

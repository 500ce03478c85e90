"""Sets as frames, Arrow columns and tensors; frames and named arrays as logits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from scipy import sparse

import tightset as ts

NAMES = ["cat", "dog", "eel"]


@pytest.fixture
def sets():
    return ts.PredictionSets(np.array([0, 2, 2, 5]), np.array([1, 0, 2, 1, 0], np.int32), n_labels=3)


EMPTY = ts.PredictionSets(np.array([0]), np.array([], np.int32), n_labels=3)


def test_pandas(sets):
    tall = sets.to_pandas(NAMES, index=["x", "y", "z"])
    assert tall["labels"].tolist() == [["dog", "cat"], [], ["eel", "dog", "cat"]]
    assert tall["size"].tolist() == [2, 0, 3]
    assert tall.index.tolist() == ["x", "y", "z"]
    assert sets.to_pandas()["labels"].tolist() == [[1, 0], [], [2, 1, 0]]
    wide = sets.to_pandas(NAMES, wide=True)
    assert wide.columns.tolist() == NAMES
    np.testing.assert_array_equal(wide.to_numpy(), sets.mask)
    assert sets.to_pandas(wide=True).columns.tolist() == [0, 1, 2]
    assert EMPTY.to_pandas().shape == (0, 2)


def test_polars(sets):
    tall = sets.to_polars(NAMES)
    assert tall["labels"].to_list() == [["dog", "cat"], [], ["eel", "dog", "cat"]]
    assert tall["size"].to_list() == [2, 0, 3]
    assert sets.to_polars()["labels"].to_list() == [[1, 0], [], [2, 1, 0]]
    wide = sets.to_polars(NAMES, wide=True)
    assert wide.columns == NAMES
    np.testing.assert_array_equal(wide.to_numpy(), sets.mask)
    assert EMPTY.to_polars().shape == (0, 2)
    assert EMPTY.to_polars(wide=True).columns == ["0", "1", "2"]


def test_arrow(sets):
    plain = sets.to_arrow()
    assert plain.to_pylist() == [[1, 0], [], [2, 1, 0]]
    values = plain.values.buffers()[1]
    assert values.address == sets.indices.ctypes.data
    assert sets.to_arrow(NAMES).to_pylist() == [["dog", "cat"], [], ["eel", "dog", "cat"]]
    assert pa.types.is_dictionary(sets.to_arrow(NAMES).type.value_type)
    assert len(EMPTY.to_arrow(NAMES)) == 0


def test_names_are_kept_by_parts(sets):
    named = sets.with_names(NAMES)
    assert named == sets
    assert named[[0, 2]].to_pandas()["labels"].tolist() == [["dog", "cat"], ["eel", "dog", "cat"]]
    assert named.with_names(None) is named


@pytest.mark.parametrize("names", [["a", "b"], [["a", "b", "c"]], "abc"])
def test_names_of_the_wrong_shape(sets, names):
    with pytest.raises(
        ValueError, match="label_names must have one name for each of the 3 labels, got shape"
    ):
        sets.to_pandas(names)


def test_names_that_are_alike(sets):
    with pytest.raises(ValueError, match=r"label_names must differ from each other, got .*'a', 'b', 'a'"):
        sets.to_polars(["a", "b", "a"])


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return rng.normal(size=(50, 4)), rng.integers(4, size=50)


def scores_of(logits, labels):
    return ts.label_scores(logits, labels, "aps").tobytes()


def test_frames_as_logits(batch):
    expected = scores_of(*batch)
    logits, labels = batch
    assert scores_of(pd.DataFrame(logits), pd.Series(labels)) == expected
    assert scores_of(pl.DataFrame(logits), pl.Series(labels)) == expected


def test_arrow_as_logits(batch):
    logits, labels = batch
    table = pa.table({f"c{k}": logits[:, k] for k in range(4)})
    assert scores_of(table, pa.array(labels)) == scores_of(*batch)
    assert scores_of(table, pa.chunked_array([labels[:20], labels[20:]])) == scores_of(*batch)
    assert scores_of(pa.record_batch(table.to_batches()[0]), labels) == scores_of(*batch)


def test_arrow_lists_as_logits(batch):
    logits, labels = batch
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(logits.ravel()), 4)
    lists = pa.array(list(logits))
    for column in (fixed, lists, lists.cast(pa.large_list(pa.float64())), fixed[5:], lists[5:]):
        part = slice(len(labels) - len(column), None)
        assert scores_of(column, labels[part]) == scores_of(logits[part], labels[part])
    chunks = pa.table({"logits": pa.chunked_array([lists[:20], lists[20:]])})["logits"]
    assert scores_of(chunks, labels) == scores_of(*batch)
    assert ts.entropy(lists[:0].cast(pa.list_(pa.float32(), 4))).shape == (0,)
    with pytest.raises(
        ValueError, match=r"logits must have lists of one length without nulls, got lengths \[1, 2\]"
    ):
        ts.entropy(pa.array([[1.0], [1.0, 2.0]]))
    with pytest.raises(ValueError, match="logits must have lists of one length without nulls"):
        ts.entropy(pa.array([[1.0, None], [1.0, 2.0]]))
    with pytest.raises(ValueError, match="logits must not have nulls, found 1"):
        ts.entropy(pa.array([[1.0, 2.0], None]))
    with pytest.raises(TypeError, match="logits must be real numbers"):
        ts.entropy(pa.array([["a"], ["b"]]))


def test_frames_that_are_not_read_yet_are_refused(batch):
    with pytest.raises(
        TypeError, match=r"logits must be read before it is passed, got a LazyFrame: call collect"
    ):
        ts.entropy(pl.DataFrame(batch[0]).lazy())


def test_xarray_as_logits(batch):
    logits, labels = batch
    array = xr.DataArray(logits, dims=("row", "label"))
    assert scores_of(array, xr.DataArray(labels, dims="row")) == scores_of(*batch)


def test_sparse_is_refused(batch):
    for kind in (sparse.csr_matrix, sparse.coo_array):
        with pytest.raises(TypeError, match=f"logits must be dense, got a sparse {kind.__name__}"):
            ts.entropy(kind(batch[0]))

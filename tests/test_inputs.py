"""Arrays of other libraries give what the NumPy array gives."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pandas as pd
import polars as pl
import pytest

import tightset as ts
from conftest import synthetic


@pytest.fixture
def batch(rng):
    return synthetic(rng, 150, 6)


def scores(logits, labels):
    return ts.label_scores(logits, labels, "aps").tobytes()


def test_lists(batch):
    logits, labels = batch
    assert scores(logits.tolist(), labels.tolist()) == scores(logits, labels)
    assert scores([tuple(row) for row in logits], tuple(labels)) == scores(logits, labels)


def test_pandas(batch):
    logits, labels = batch
    frame = pd.DataFrame(logits, columns=list("abcdef"))
    assert scores(frame, pd.Series(labels)) == scores(logits, labels)
    with pytest.raises(ValueError, match="found nan at row 3, column 1"):
        ts.entropy(frame.mask(frame == frame.iloc[3, 1]))
    with pytest.raises(TypeError, match="labels must be integers"):
        ts.ranks(frame, pd.Series([None] * 150))


def test_polars(batch):
    logits, labels = batch
    frame = pl.DataFrame(logits, schema=list("abcdef"))
    assert scores(frame, pl.Series(labels)) == scores(logits, labels)
    with pytest.raises(ValueError, match="found nan at row 0, column 0"):
        ts.entropy(frame.with_columns(a=pl.lit(None, dtype=pl.Float64)))


def test_dlpack_only(batch):
    logits, labels = batch

    class Exporter:
        def __dlpack__(self, **options):
            return logits.__dlpack__(**options)

        def __dlpack_device__(self):
            return logits.__dlpack_device__()

    assert scores(Exporter(), labels) == scores(logits, labels)


def test_array_protocol(batch):
    logits, labels = batch

    class Wrapper:
        def __array__(self, dtype=None, copy=None):
            return logits

    assert scores(Wrapper(), labels) == scores(logits, labels)


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
def test_bfloat16(batch, layout):
    logits, labels = batch
    narrow = layout(logits.astype(ml_dtypes.bfloat16))
    assert scores(narrow, labels) == scores(narrow.astype(np.float32), labels)
    assert ts.softmax(narrow).dtype == np.float32


def test_longdouble(batch):
    logits, labels = batch
    assert scores(logits.astype(np.longdouble), labels) == scores(logits, labels)


def test_masked_array_without_masked_entries(batch):
    logits, labels = batch
    assert scores(np.ma.array(logits), labels) == scores(logits, labels)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint64, ">i4"])
def test_label_dtypes(batch, dtype):
    logits, labels = batch
    assert scores(logits, labels.astype(dtype)) == scores(logits, labels)
    assert scores(logits, np.repeat(labels, 2).astype(dtype)[::2]) == scores(logits, labels)


def test_uniforms_of_any_kind(batch):
    logits, labels = batch
    u = np.linspace(0, 1, 150)
    expected = ts.label_scores(logits, labels, u=u)
    assert (ts.label_scores(logits, labels, u=u.tolist()) == expected).all()
    assert (ts.label_scores(logits, labels, u=np.repeat(u, 2)[::2]) == expected).all()
    assert (ts.label_scores(logits, labels, u=1) == ts.label_scores(logits, labels, u=np.ones(150))).all()


def test_negative_row_ids_are_distinct(batch):
    logits, labels = batch
    one = ts.label_scores(logits, labels, row_ids=np.arange(150), ranked=True)
    other = ts.label_scores(logits, labels, row_ids=-np.arange(150), ranked=True)
    assert one[0] == other[0]
    assert (one[1:] != other[1:]).all()


def test_a_row_has_one_u_whatever_its_type(batch):
    logits, labels = batch
    narrow = logits.astype(np.float32)
    u = [
        ts.label_scores(z, z.argmax(axis=1), "aps", reweight=None, temperature=np.inf)
        for z in (narrow, narrow.astype(float))
    ]
    np.testing.assert_array_equal(*u)
    whole = np.round(logits).astype(np.int16)
    one, other = (ts.label_scores(z, labels, "aps", ranked=True) for z in (whole, whole.astype(np.float32)))
    np.testing.assert_allclose(one, other, rtol=1e-4)


def test_nullable_pandas(batch):
    logits, labels = batch
    frame = pd.DataFrame(logits).astype("Float64")
    assert scores(frame, pd.Series(labels, dtype="Int64")) == scores(logits, labels)
    frame.iloc[2, 1] = pd.NA
    with pytest.raises(TypeError, match="logits must be real numbers, got dtype object: found <NA> at row 2"):
        ts.entropy(frame)


@pytest.mark.parametrize("library", [pd, pl])
def test_a_column_of_text_is_named(library):
    frame = library.DataFrame({"cat": [1.0, 2.0], "dog": ["x", "y"]})
    with pytest.raises(TypeError, match=r"logits must be real .* found 'x' at row 0, column 'dog'"):
        ts.entropy(frame)


def test_misaligned_labels_and_uniforms(batch):
    logits, labels = batch

    def misaligned(array):
        raw = np.zeros(array.nbytes + 1, np.uint8)
        raw[1:] = np.frombuffer(array.tobytes(), np.uint8)
        return raw[1:].view(array.dtype)

    u = np.linspace(0, 1, 150)
    expected = ts.label_scores(logits, labels, u=u, row_ids=labels)
    found = ts.label_scores(logits, misaligned(labels), u=misaligned(u), row_ids=misaligned(labels))
    assert found.tobytes() == expected.tobytes()


def test_numpy_scalars_as_arguments(batch):
    logits, labels = batch
    recipe = ts.Recipe(ts.RAPS(np.float32(0.125), np.int64(2)), None, np.float64(2.0))
    predictor = ts.calibrate(logits, labels, np.array(0.25), recipe, seed=np.uint64(3), n_threads=np.int32(1))
    assert predictor == ts.calibrate(logits, labels, 0.25, ts.Recipe(ts.RAPS(0.125, 2), None, 2.0), seed=3)

"""Files as sources of rows, and prediction sets as files."""

from __future__ import annotations

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic
from tightset.streaming import sources

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def problem(dtype=np.float32):
    rng = np.random.default_rng(0)
    logits, labels = synthetic(rng, 1500, 5, strength=2.0, dtype=dtype)
    return logits, labels, rng.permutation(10**6)[:1500]


def lists(logits, *, fixed):
    values = pyarrow.array(logits.reshape(-1))
    if fixed:
        return pyarrow.FixedSizeListArray.from_arrays(values, logits.shape[1])
    return pyarrow.ListArray.from_arrays(np.arange(len(logits) + 1, dtype=np.int32) * logits.shape[1], values)


def table(logits, labels, ids, form):
    if form == "columns":
        columns = {f"logit_{k}": logits[:, k] for k in range(logits.shape[1])}
    else:
        columns = {"logits": lists(logits, fixed=form == "fixed")}
    columns["label"] = labels
    if ids is not None:
        columns["row_id"] = ids
    return pyarrow.table(columns)


@pytest.mark.parametrize("form", ["columns", "lists", "fixed"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_ids", [False, True])
def test_parquet(tmp_path, monkeypatch, form, dtype, with_ids):
    monkeypatch.setattr(sources, "_BYTES_A_BLOCK", 8 * 5 * 400)
    logits, labels, ids = problem(dtype)
    ids = ids if with_ids else None
    parquet.write_table(table(logits, labels, ids, form), tmp_path / "rows.parquet", row_group_size=350)
    found = ts.calibrate(tmp_path / "rows.parquet", alpha=0.1)
    assert found == ts.calibrate(logits, labels, 0.1, row_ids=ids)
    assert found == ts.calibrate_stream(str(tmp_path / "rows.parquet"), 0.1, max_memory=2**14)


def test_a_folder_of_parquet_files(tmp_path):
    logits, labels, _ = problem()
    for i, part in enumerate(np.array_split(np.arange(len(labels)), 4)):
        parquet.write_table(table(logits[part], labels[part], None, "lists"), tmp_path / f"{i}.parquet")
    assert ts.calibrate(tmp_path, alpha=0.1, recipe="aps") == ts.calibrate(logits, labels, 0.1, "aps")


def test_a_file_without_rows_among_others(tmp_path):
    logits, labels, _ = problem()
    whole = table(logits, labels, None, "columns")
    for name, part in (("a", whole.slice(0, 0)), ("b", whole), ("c", whole.slice(0, 0))):
        parquet.write_table(part, tmp_path / f"{name}.parquet")
    assert ts.calibrate(tmp_path, alpha=0.1, recipe="aps") == ts.calibrate(logits, labels, 0.1, "aps")


def test_bad_parquet(tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"x": [1.0], "label": [0]}), path)
    with pytest.raises(ValueError, match=r"must have columns logits .* got x, label"):
        ts.calibrate(path, recipe="aps")
    parquet.write_table(pyarrow.table({"logits": [[1.0, 2.0], [1.0]], "label": [0, 1]}), path)
    with pytest.raises(
        ValueError, match=r"logits in .* must have lists of one length without nulls, got lengths \[1, 2\]"
    ):
        ts.calibrate(path, recipe="aps")
    parquet.write_table(pyarrow.table({"logits": [[1.0, 2.0], [1.0, 3.0]], "label": [0, None]}), path)
    with pytest.raises(ValueError, match="must not have nulls, found some in column label"):
        ts.calibrate(path, recipe="aps")


@pytest.mark.parametrize("with_ids", [False, True])
def test_zarr(tmp_path, monkeypatch, with_ids):
    zarr = pytest.importorskip("zarr")
    monkeypatch.setattr(sources, "_BYTES_A_BLOCK", 4 * 5 * 500)
    logits, labels, ids = problem()
    group = zarr.open_group(str(tmp_path / "rows.zarr"), mode="w")
    arrays = {"logits": logits, "labels": labels} | ({"row_ids": ids} if with_ids else {})
    for name, data in arrays.items():
        chunks = (128, *data.shape[1:])
        made = group.create_array(name, shape=data.shape, chunks=chunks, dtype=data.dtype)
        made[:] = data
    expected = ts.calibrate(logits, labels, 0.1, row_ids=ids if with_ids else None)
    assert ts.calibrate(tmp_path / "rows.zarr", alpha=0.1) == expected
    del group["labels"]
    group.create_array("labels", data=labels[1:])
    shape = rf"one label for each of {len(labels)} rows, got shape \({len(labels) - 1},\)"
    with pytest.raises(ValueError, match=shape):
        ts.calibrate(tmp_path / "rows.zarr")
    del group["labels"]
    with pytest.raises(ValueError, match="must have the array 'labels'"):
        ts.calibrate(tmp_path / "rows.zarr")


@pytest.mark.parametrize("with_ids", [False, True])
def test_sets_are_written_to_parquet(tmp_path, with_ids):
    logits, labels, ids = problem()
    ids = ids if with_ids else None
    predictor = ts.calibrate(logits, labels, 0.1, row_ids=ids)
    parts = [slice(0, 700), slice(700, 700), slice(700, 1500)]
    blocks = [(logits[p], labels[p]) if ids is None else (logits[p], labels[p], ids[p]) for p in parts]
    expected = [row.tolist() for row in predictor.predict_set(logits, row_ids=ids)]
    path = tmp_path / "sets.parquet"
    assert predictor.predict_to(path, iter(blocks)) == 1500
    found = parquet.read_table(path)
    assert found.column("labels").to_pylist() == expected
    if with_ids:
        assert found.column("row_id").to_pylist() == ids.tolist()
    else:
        assert found.column_names == ["labels"]
        assert predictor.predict_to(path, [logits[p] for p in parts]) == 1500
        assert parquet.read_table(path).column("labels").to_pylist() == expected
    rows = tmp_path / "rows.parquet"
    parquet.write_table(table(logits, labels, ids, "lists").drop_columns(["label"]), rows)
    assert predictor.predict_to(path, rows) == 1500
    assert parquet.read_table(path).column("labels").to_pylist() == expected


def test_a_failed_prediction_leaves_no_file(tmp_path):
    logits, labels, _ = problem()
    predictor = ts.calibrate(logits, labels, 0.1, "aps")
    with pytest.raises(ValueError, match="nan at row 0"):
        predictor.predict_to(tmp_path / "sets.parquet", [logits, logits * np.nan])
    assert not list(tmp_path.iterdir())

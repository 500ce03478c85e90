"""Saved predictors: equal after a round trip, refused when anything is wrong, written whole."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import os
import pickle
import sys
import warnings
from pathlib import Path

import cloudpickle
import joblib
import jsonschema
import numpy as np
import pytest

import tightset as ts
from conftest import synthetic
from tightset.document.canonical import digest
from tightset.recipes import recipe_names

HERE = Path(__file__).parent
FIXTURES = sorted(HERE.joinpath("fixtures", "v1").glob("*.json"))
PREDICTIONS = json.loads((HERE / "vectors" / "predictions.json").read_text())
REFUSED = json.loads((HERE / "vectors" / "refused.json").read_text())
SCHEMA = json.loads((HERE.parent / "schema" / "predictor-v1.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.fixture
def batch(rng):
    return synthetic(rng, 400, 7)


def floats(rows, dtype):
    return np.array([np.frombuffer(bytes.fromhex(row), dtype) for row in rows]).astype(dtype[1:])


@pytest.mark.parametrize("recipe", recipe_names)
@pytest.mark.parametrize("alpha", [0.1, 0.001])
@pytest.mark.filterwarnings("ignore::tightset.SmallCalibrationWarning")
def test_round_trip(batch, tmp_path, recipe, alpha):
    logits, labels = batch
    predictor = ts.calibrate(logits, labels, alpha, recipe, seed=2**64 - 1)
    path = tmp_path / "predictor.json"
    predictor.save(path, score_table=True)
    VALIDATOR.validate(json.loads(path.read_text()))
    loaded = ts.load(path)
    assert loaded == predictor
    assert loaded.to_json(score_table=True) == path.read_text()
    for one, other in zip(loaded.candidates, predictor.candidates, strict=True):
        assert np.float64(one.threshold).tobytes() == np.float64(other.threshold).tobytes()
    assert loaded.predict_set(logits) == predictor.predict_set(logits)
    np.testing.assert_array_equal(loaded.predict_p(logits), predictor.predict_p(logits))


def through_joblib(predictor):
    file = io.BytesIO()
    joblib.dump(predictor, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda p: pickle.loads(pickle.dumps(p)),
        lambda p: pickle.loads(pickle.dumps(p, protocol=2)),
        lambda p: pickle.loads(cloudpickle.dumps(p)),
        through_joblib,
        lambda p: ts.Predictor.from_json(p.to_json(score_table=True)),
    ],
)
@pytest.mark.parametrize("recipe", ["er-aps", "raps"])
def test_copies(batch, copied, recipe):
    logits, labels = batch
    predictor = ts.calibrate(logits, labels, 0.1, recipe).with_label_names("abcdefg"[i] for i in range(7))
    other = copied(predictor)
    assert other == predictor
    assert other.label_names == tuple("abcdefg")
    assert other.predict_set(logits) == predictor.predict_set(logits)
    np.testing.assert_array_equal(other.predict_p(logits), predictor.predict_p(logits))


@pytest.mark.parametrize("by", ["label", "groups"])
@pytest.mark.filterwarnings("ignore::tightset.SmallCalibrationWarning")
def test_conditions_can_be_pickled(batch, by):
    logits, labels = batch
    settings = {"condition": "label"} if by == "label" else {"condition": labels % 2}
    predictor = ts.calibrate(logits, labels, 0.1, "er-aps", **settings)
    found = pickle.loads(pickle.dumps(predictor.condition))
    assert found == predictor.condition
    groups = None if by == "label" else labels % 2
    other = dataclasses.replace(predictor, condition=found)
    assert other.predict_set(logits, groups=groups) == predictor.predict_set(logits, groups=groups)
    np.testing.assert_array_equal(
        other.predict_p(logits, groups=groups), predictor.predict_p(logits, groups=groups)
    )


def test_pickles_hold_the_document_and_nothing_else(batch):
    predictor = ts.calibrate(*batch, 0.1, "raps")
    function, (text,) = predictor.__reduce__()
    assert function.__qualname__ == "loads"
    assert text == predictor.to_json(score_table=True)
    bare = ts.Predictor.from_json(predictor.to_json())
    assert pickle.loads(pickle.dumps(bare)).calibration_scores is None
    with pytest.raises(ValueError, match="not a valid predictor"):
        function(text.replace('"seed": 0', '"seed": 1'))


def test_round_trip_of_custom_recipes(batch, tmp_path):
    logits, labels = batch
    ids = np.arange(len(logits))
    recipe = ts.Recipe(
        [ts.RAPS(0.01, 3), ts.SAPS(0.05)], [None, ts.Entropy(0.3, 0.5)], [0.7, 2.0], "held-out"
    )
    predictor = ts.calibrate(logits, labels, 0.2, recipe, row_ids=ids)
    predictor.save(tmp_path / "p.json")
    loaded = ts.load(tmp_path / "p.json")
    assert loaded == predictor
    assert loaded.recipe.candidates == recipe.candidates
    assert loaded.predict_set(logits, row_ids=ids) == predictor.predict_set(logits, row_ids=ids)
    with pytest.raises(ValueError, match="saved without score_table=True"):
        loaded.predict_p(logits, row_ids=ids)
    with pytest.raises(
        ValueError, match="score_table=True needs the calibration scores, which this predictor is without"
    ):
        loaded.save(tmp_path / "q.json", score_table=True)


def test_joined_recipes_round_trip(batch):
    recipe = ts.Recipe("thr", None, [1, 2], "modsel") | ts.Recipe("aps", "entropy", "auto", "modsel")
    predictor = ts.calibrate(*batch, 0.1, recipe)
    loaded = ts.Predictor.from_json(predictor.to_json())
    assert loaded == predictor
    assert loaded.recipe == recipe


def test_probabilities_round_trip(batch, tmp_path):
    logits, labels = batch
    p = ts.softmax(logits)
    predictor = ts.calibrate(p, labels, 0.1, "thr", probabilities=True)
    predictor.save(tmp_path / "p.json")
    assert ts.load(tmp_path / "p.json").predict_set(p) == predictor.predict_set(p)


@pytest.mark.parametrize("case", PREDICTIONS, ids=lambda case: case["name"])
def test_vectors(case):
    """What the tests of the Rust crate read as well."""
    predictor = ts.Predictor.from_json(case["document"])
    rows = floats(case["rows"], ">f4" if case["dtype"] == "float32" else ">f8")
    assert rows.dtype == case["dtype"]
    ids = None if case["row_ids"] is None else np.array(case["row_ids"], np.uint64)
    given = {"row_ids": ids, "groups": case["groups"]}
    assert [s.tolist() for s in predictor.predict_set(rows, **given)] == case["sets"]
    not_empty = predictor.predict_set(rows, **given, allow_empty=False)
    assert [s.tolist() for s in not_empty] == case["sets_not_empty"]
    if case["p_values"] is not None:
        expected = floats(case["p_values"], ">f8")
        np.testing.assert_array_equal(predictor.predict_p(rows, **given), expected)


def test_vectors_have_every_recipe_and_kind():
    names = {case["name"].split(",")[0] for case in PREDICTIONS}
    assert set(recipe_names) <= names
    documents = [json.loads(case["document"]) for case in PREDICTIONS]
    assert any(len(document["candidates"]) > 5 for document in documents)
    assert any(document["candidates"][0]["threshold"]["value"] == "inf" for document in documents)
    assert any([] in case["sets"] for case in PREDICTIONS)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_files_of_this_format_are_read(path):
    document = json.loads(path.read_text())
    VALIDATOR.validate(document)
    predictor = ts.load(path)
    # Another version writes its own number, and with it another hash.
    again = json.loads(predictor.to_json(score_table=predictor.calibration_scores is not None))
    for one in (document, again):
        del one["tightset"], one["sha256"]
    assert again == document


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["name"][:60])
def test_bad_documents_are_refused(case, tmp_path):
    path = tmp_path / "p.json"
    path.write_bytes(case["text"].encode())
    with pytest.raises(ValueError, match=r"p\.json is not a valid predictor: ") as caught:
        ts.load(path)
    assert case["message"] in str(caught.value)


def test_the_schema_refuses_what_it_can_see():
    document = json.loads(FIXTURES[0].read_text())
    for field in document:
        without = {name: value for name, value in document.items() if name != field}
        assert not VALIDATOR.is_valid(without) or field in ("label_names", "calibration_scores")
    refused = 0
    for case in REFUSED:
        try:
            document = json.loads(case["text"])
        except (ValueError, RecursionError):
            continue
        refused += not VALIDATOR.is_valid(document)
    assert refused > 40


def test_the_hash_is_of_the_canonical_form():
    document = {"b": [{"bits": "0", "value": 1.5}], "a": "é\n", "sha256": "x"}
    assert digest(document) == digest({"a": "é\n", "b": [{"bits": "0", "value": 2.5}]})
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_any_layout_of_the_text_is_read(batch):
    predictor = ts.calibrate(*batch, 0.1, "raps").with_label_names(["é", *"bcdefg"])
    document = json.loads(predictor.to_json())
    backwards = dict(reversed(document.items()))
    for text in (json.dumps(backwards), json.dumps(document, indent="\t"), predictor.to_json().strip()):
        assert ts.Predictor.from_json(text) == predictor


def test_broken_files_are_refused(batch, tmp_path):
    path = tmp_path / "p.json"
    ts.calibrate(*batch, 0.1, "raps").save(path)
    text = path.read_text()
    for broken in (text[:100].encode(), b"\xff", text.encode("utf-16"), b"\x80\x04\x95"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="is not a valid predictor"):
            ts.load(path)
    with pytest.raises(FileNotFoundError):
        ts.load(tmp_path / "none.json")


def test_large_files_are_refused(tmp_path):
    size = FIXTURES[0].stat().st_size
    assert ts.load(FIXTURES[0], max_bytes=size).n_labels == 4
    with pytest.raises(ValueError, match=f"too large for a predictor: more than max_bytes={size - 1}"):
        ts.load(FIXTURES[0], max_bytes=size - 1)
    with pytest.raises(ValueError, match="max_bytes must be at least 1, got 0"):
        ts.load(FIXTURES[0], max_bytes=0)
    many = "[" + "0," * (2**20 + 1) + "0]"
    with pytest.raises(ValueError, match="more than 1048576 values"):
        ts.Predictor.from_json(many)
    with pytest.raises(ValueError, match="more than 262144 lists and objects"):
        ts.Predictor.from_json("[" + "[]," * 2**18 + "0]")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs an endless file")
def test_endless_files_are_refused():
    with pytest.raises(ValueError, match="too large for a predictor"):
        ts.load("/dev/zero")


def test_label_names(batch):
    predictor = ts.calibrate(*batch, 0.1, "aps")
    assert predictor.label_names is None
    assert "label_names" not in json.loads(predictor.to_json())
    named = predictor.with_label_names(np.array(list("abcdefg")))
    assert named != predictor
    assert ts.Predictor.from_json(named.to_json()).label_names == tuple("abcdefg")
    for names, error, message in [
        (["a"], ValueError, "one name for each of the 7 labels, got 1"),
        ("abcdefg", TypeError, "names must be strings, one for each label"),
        ([1] * 7, TypeError, "names must be strings, one for each label"),
        (["\ud800"] * 7, ValueError, "names must be text that UTF-8 can hold"),
    ]:
        with pytest.raises(error, match=message):
            predictor.with_label_names(names)


def test_files_follow_the_umask(batch, tmp_path):
    before = os.umask(0o027)
    try:
        ts.calibrate(*batch, 0.1, "aps").save(tmp_path / "p.json")
    finally:
        os.umask(before)
    assert (tmp_path / "p.json").stat().st_mode & 0o777 == 0o640


def test_calibration_scores_cannot_be_changed(batch, tmp_path):
    predictor = ts.calibrate(*batch, 0.1, "aps")
    predictor.save(tmp_path / "p.json", score_table=True)
    for one in (predictor, ts.load(tmp_path / "p.json")):
        with pytest.raises(ValueError, match="read-only"):
            one.calibration_scores[0, 0] = 0.0


def test_saving_is_all_or_nothing(batch, tmp_path, monkeypatch):
    path = tmp_path / "p.json"
    first, second = ts.calibrate(*batch, [0.1, 0.2], "aps")
    first.save(path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        second.save(path)
    assert ts.load(path) == first
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]


def test_loading_runs_no_code(batch, tmp_path, monkeypatch):
    """A pickle in place of a document is text that is no JSON, whatever it would do."""

    class Trap:
        def __reduce__(self):
            return sys.exit, (1,)

    path = tmp_path / "p.json"
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match="is not a valid predictor"):
        ts.load(path)


def test_vectors_are_those_that_the_script_writes(tmp_path, monkeypatch):
    """Documents apart from their version, so that a release need not touch them."""
    sys.path.insert(0, str(HERE / "vectors"))
    try:
        import make
    finally:
        sys.path.pop(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.SmallCalibrationWarning)
        again = make.predictions()
    assert len(again) == len(PREDICTIONS)
    for one, other in zip(again, PREDICTIONS, strict=True):
        document, known = json.loads(one.pop("document")), json.loads(other["document"])
        for read in (document, known):
            del read["tightset"], read["sha256"]
        assert document == known
        assert one == {name: value for name, value in other.items() if name != "document"}

"""Predictors: frozen, equal after a round trip, one row like many."""

from __future__ import annotations

import copy
import json
import os
import pickle
from dataclasses import FrozenInstanceError, asdict

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic
from tightset.recipes import recipe_names

INF = float("inf")


@pytest.fixture
def batch(rng):
    return synthetic(rng, 400, 7)


def test_frozen(batch):
    predictor = ts.calibrate(*batch, 0.1, "aps")
    with pytest.raises(FrozenInstanceError):
        predictor.alpha = 0.2


def test_one_row(batch):
    logits, labels = batch
    predictor = ts.calibrate(logits, labels, 0.1)
    batched = predictor.predict_set(logits)
    for i in range(50):
        sets = predictor.predict_set(logits[i])
        assert len(sets) == 1
        np.testing.assert_array_equal(sets[0], batched[i])
    np.testing.assert_array_equal(predictor.predict_p(logits[3])[0], predictor.predict_p(logits)[3])
    with pytest.raises(ValueError, match=r"candidates are in use: see \.candidates"):
        predictor.scores(logits)
    with pytest.raises(ValueError, match="smoothed must be False with"):
        predictor.predict_p(logits, smoothed=True)
    predictor = ts.calibrate(logits, labels, 0.1, "aps")
    np.testing.assert_array_equal(predictor.scores(logits[3])[0], predictor.scores(logits)[3])


@pytest.mark.parametrize("recipe", recipe_names)
@pytest.mark.parametrize("alpha", [0.1, 0.001])
@pytest.mark.filterwarnings("ignore::tightset.SmallCalibrationWarning")
def test_round_trip(batch, tmp_path, recipe, alpha):
    logits, labels = batch
    predictor = ts.calibrate(logits, labels, alpha, recipe, seed=2**64 - 1)
    path = tmp_path / "predictor.json"
    predictor.save(path, score_table=True)
    loaded = ts.load(path)
    assert loaded == predictor
    for one, other in zip(loaded.candidates, predictor.candidates, strict=True):
        assert np.float64(one.threshold).tobytes() == np.float64(other.threshold).tobytes()
    assert loaded.predict_set(logits) == predictor.predict_set(logits)
    np.testing.assert_array_equal(loaded.predict_p(logits), predictor.predict_p(logits))
    for other in (copy.copy(predictor), copy.deepcopy(predictor), pickle.loads(pickle.dumps(predictor))):
        assert other == predictor
        assert other.predict_set(logits) == predictor.predict_set(logits)


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
    with pytest.raises(ValueError, match="save with score_table=True"):
        loaded.predict_p(logits, row_ids=ids)
    with pytest.raises(ValueError, match="loaded without"):
        loaded.save(tmp_path / "q.json", score_table=True)


def test_probabilities_round_trip(batch, tmp_path):
    logits, labels = batch
    p = ts.softmax(logits)
    predictor = ts.calibrate(p, labels, 0.1, "thr", probabilities=True)
    predictor.save(tmp_path / "p.json")
    assert ts.load(tmp_path / "p.json").predict_set(p) == predictor.predict_set(p)


CHANGES = [
    ("format", "other", "its format is not"),
    ("format_version", 2, "format_version is 2"),
    ("generator", "other", "generator is 'other'"),
    ("alpha", 1.5, "alpha must be strictly between 0 and 1"),
    ("alpha", "0.1", "alpha must be a number"),
    ("rank", 1, "rank 1 does not belong"),
    ("n_calibration", -4, "n_calibration must be at least 1, got -4"),
    ("n_labels", 2.5, "n_labels must be an integer, got 2.5"),
    ("seed", -1, "seed must be at least 0, got -1"),
    ("probabilities", 1, "probabilities must be True or False, got 1"),
    ("candidates", [], "0 candidates do not belong to selection=None"),
    ("candidates", [1], "not a valid predictor"),
    ("calibration_scores", "!!", "calibration_scores cannot be read"),
    ("calibration_scores", "AAAA", "calibration_scores must hold 400 numbers"),
    ("recipe", None, "not a valid predictor"),
    ("tightset", 3, "tightset must be the version that wrote it"),
]


def candidate(**changes):
    """A change of the only candidate in a document."""
    return lambda document: document["candidates"][0].update(changes)


def number(value):
    return {"exact": float(value).hex(), "value": value}


CONTRADICTIONS = [
    (candidate(score="aps"), "score must be an object, got 'aps'"),
    (candidate(reweight=1), "reweight must be an object, got 1"),
    (candidate(temperature={"exact": "0x1p+0", "value": 2.0}), "0x1p+0 is not 2.0"),
    (candidate(threshold=number(-5.0)), "threshold -5.0 does not belong to rank 361 of 400 rows"),
    (candidate(threshold={"exact": "inf", "value": None}), "threshold inf does not belong"),
    (candidate(threshold={"exact": "nan", "value": None}), "threshold nan does not belong"),
    (lambda document: document.update(rank=401, alpha=0.0001), "does not belong to rank 401 of 400 rows"),
]


@pytest.mark.parametrize(("field", "value", "message"), CHANGES)
def test_changed_files_are_refused(batch, tmp_path, field, value, message):
    path = tmp_path / "p.json"
    ts.calibrate(*batch, 0.1, "raps").save(path, score_table=True)
    document = json.loads(path.read_text())
    assert document[field] != value
    document[field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="is not a valid predictor") as caught:
        ts.load(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(("change", "message"), CONTRADICTIONS)
def test_contradictions_are_refused(batch, tmp_path, change, message):
    path = tmp_path / "p.json"
    ts.calibrate(*batch, 0.1, "raps").save(path, score_table=True)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="is not a valid predictor") as caught:
        ts.load(path)
    assert message in str(caught.value)


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
    assert asdict(predictor)["alpha"] == 0.1


def test_broken_files_are_refused(batch, tmp_path):
    path = tmp_path / "p.json"
    ts.calibrate(*batch, 0.1, "raps").save(path)
    text = path.read_text()
    document = json.loads(text)
    for field in document:
        path.write_text(json.dumps({k: v for k, v in document.items() if k != field}))
        with pytest.raises(ValueError, match="is not a valid predictor"):
            ts.load(path)
    for broken in (text[:100], "", "[]", "null", text.replace('"seed"', '"alpha": 0.1, "seed"'), "\udcff"):
        path.write_text(broken, errors="surrogateescape")
        with pytest.raises(ValueError, match="is not a valid predictor"):
            ts.load(path)
    with pytest.raises(FileNotFoundError):
        ts.load(tmp_path / "none.json")


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


def test_sets(batch):
    logits, labels = batch
    sets = ts.calibrate(logits, labels, 0.1, "aps").predict_set(logits)
    assert len(sets) == 400
    assert sets.indptr.dtype == np.int64
    assert sets.indices.dtype == np.int32
    assert sets.mask.dtype == np.bool_
    np.testing.assert_array_equal(sets.sizes, sets.mask.sum(axis=1))
    for i, row in enumerate(sets):
        assert set(row) == set(np.flatnonzero(sets.mask[i]))
    np.testing.assert_array_equal(sets[-1], sets[399])
    part = sets[10:20]
    assert len(part) == 10
    np.testing.assert_array_equal(part.mask, sets.mask[10:20])
    assert len(sets[5:5]) == len(sets[7:3]) == 0
    for rows in (slice(None, None, -3), sets.sizes == 1, np.array([7, 3, 3]), [-1, 0]):
        np.testing.assert_array_equal(sets[rows].mask, sets.mask[rows])
    np.testing.assert_array_equal(sets.covers(labels), sets.mask[np.arange(400), labels])
    assert sets.coverage(labels) == sets.covers(labels).mean()
    assert sets != part
    assert sets != 3
    assert repr(sets).startswith("PredictionSets(400 rows, 7 labels, mean size ")


def test_descriptions(batch):
    predictor = ts.calibrate(*batch, 0.1, ts.Recipe(ts.RAPS(0.2, 1), ts.Entropy(0.1, 0.5), 2.0))
    assert str(predictor.scoring) == "raps(penalty=0.2, k_reg=1), gamma=0.1, power=0.5, T=2"
    assert "alpha=0.1" in repr(predictor)


def test_certain_labels_are_not_counted_as_impossible():
    logits = np.tile([0.0, -np.inf], (100, 1))
    labels = np.repeat([0, 1], [80, 20])
    with pytest.warns(ts.SmallCalibrationWarning, match="20 of 100 true labels are marked impossible"):
        ts.calibrate(logits, labels, 0.1, "thr")

"""Predictors: frozen, one row like many."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic


@pytest.fixture
def batch(rng):
    return synthetic(rng, 400, 7)


def test_frozen(batch):
    predictor = ts.calibrate(*batch, 0.1, "aps")
    with pytest.raises(FrozenInstanceError):
        predictor.alpha = 0.2
    assert asdict(predictor)["alpha"] == 0.1


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
    assert repr(predictor) == (
        f"Predictor(alpha=0.1, {predictor.scoring}, threshold {predictor.threshold:.6g}, 7 labels, "
        "400 calibration rows, marginal)"
    )


def test_a_description_does_not_list_candidates_and_cells(batch):
    several = ts.calibrate(*batch, 0.1, "er-aps")
    assert len(several.candidates) > 1
    assert f", {len(several.candidates)} of 118 candidates in use, 7 labels" in repr(several)
    assert len(repr(ts.calibrate(*batch, 0.1, "tightest"))) < 160
    by_label = ts.calibrate(*batch, 0.3, "thr", condition="label")
    assert (
        repr(by_label) == "Predictor(alpha=0.3, 7 cells by label, 7 labels, 400 calibration rows, marginal)"
    )


def test_certain_labels_are_not_counted_as_impossible():
    logits = np.tile([0.0, -np.inf], (100, 1))
    labels = np.repeat([0, 1], [80, 20])
    with pytest.warns(ts.SmallCalibrationWarning, match="20 of 100 true labels are marked impossible"):
        ts.calibrate(logits, labels, 0.1, "thr")

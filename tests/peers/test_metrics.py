"""Metrics beside those of TorchCP and covmetrics.

Run by `make test-peers`; docs/differences.md lists what differs.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import tightset as ts
from tightset.metrics import slabs

# Deprecations inside the peers are theirs.
with warnings.catch_warnings(action="ignore"):
    from covmetrics.ERT import evaluate_with_predictions
    from covmetrics.losses import (
        L1_miscoverage,
        L1_miscoverage_over,
        L1_miscoverage_under,
        brier_score,
        logloss,
    )
    from torchcp.classification.utils import metrics as theirs

ALPHA = 0.1


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    labels = rng.integers(12, size=1500)
    logits = rng.normal(size=(1500, 12)) + 2 * np.eye(12)[labels]
    predictor = ts.calibrate(logits[:500], labels[:500], ALPHA, "aps")
    return predictor, predictor.predict_set(logits[500:]), logits[500:], labels[500:]


def test_p_value_criteria(case):
    predictor, _, logits, labels = case
    found = ts.metrics.p_value_criteria(predictor.predict_p(logits), labels, ALPHA)
    calibration = torch.from_numpy(np.array(predictor.calibration_scores[0]))
    test, truth = torch.from_numpy(predictor.scores(logits)), torch.from_numpy(labels)
    for name, more in {
        "S": (),
        "N": (ALPHA,),
        "U": (),
        "F": (),
        "M": (ALPHA,),
        "E": (ALPHA,),
        "OU": (truth,),
        "OF": (truth,),
        "OM": (truth, ALPHA),
        "OE": (truth, ALPHA),
    }.items():
        expected = float(getattr(theirs, f"pvalue_criterion_{name}")(calibration, test, *more))
        assert getattr(found, name.lower()) == pytest.approx(expected, rel=1e-6), name


def test_coverage_by_rank(case):
    _, sets, logits, labels = case
    found = ts.metrics.coverage_by_rank(sets, labels, logits, ALPHA, min_rows=1)
    mask = torch.from_numpy(sets.mask)
    worst, strata = theirs.DiffViolation(torch.from_numpy(logits), mask, torch.from_numpy(labels), ALPHA)
    assert found.violation == pytest.approx(worst, abs=1e-6)
    rows = [found["cnt"] for found in strata.values() if found["cnt"]]
    assert [stratum.rows for stratum in found.strata] == rows


def test_excess_risk(case):
    """covmetrics' losses of the same predictions give the same numbers."""
    _, sets, logits, labels = case
    found = ts.metrics.excess_risk(sets, labels, logits, ALPHA, classifier=LogisticRegression())
    covered, guess = sets.covers(labels).astype(float), found.conditional_coverage
    for ours, loss in (
        (found.l1, L1_miscoverage),
        (found.under, L1_miscoverage_under),
        (found.over, L1_miscoverage_over),
        (found.l2, brier_score),
        (found.kl, logloss),
    ):
        expected = evaluate_with_predictions(guess, covered, ALPHA, loss=loss)
        assert ours == pytest.approx(expected, rel=1e-9), loss.__name__


def test_worst_slab(case):
    """TorchCP's search, called in the order that it is defined in, asks for one row more than the share."""
    _, sets, logits, labels = case
    covered, delta = sets.covers(labels)[:300], 0.1
    worst, direction, low, high = theirs.calWSC(
        logits[:300], labels[:300], covered.astype(float), delta=delta, M=20, verbose=False
    )
    rng = np.random.default_rng(2020)
    directions = rng.normal(size=(12, 20))
    directions = (directions / np.linalg.norm(directions, axis=0)).T
    one_more = (math.ceil(delta * 300) + 1) / 300 - 1e-9
    count, rows, which, lower, upper = slabs._worst(logits[:300], covered, directions, one_more)
    assert count / rows == worst
    assert np.array_equal(directions[which], direction)
    assert (lower, upper) == pytest.approx((low, high))

"""States of monitors, and what monitors refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightset as ts
from monitor_cases import calibrated, labelled, rows

KINDS = [ts.monitor.CoverageMonitor, ts.monitor.AdaptiveAlpha]


@pytest.mark.parametrize("kind", KINDS)
def test_predictors_without_scores_are_refused(kind, rng):
    bare = ts.Predictor.from_json(calibrated(rng.normal(size=50)).to_json())
    with pytest.raises(ValueError, match=f"{kind.__name__} needs a predictor with its calibration scores"):
        kind(bare)
    by_label = ts.calibrate(*labelled(rng, 400), 0.1, "thr", condition="label")
    with pytest.raises(ValueError, match=f"{kind.__name__} needs a predictor without a condition.*'label'"):
        kind(by_label)
    with pytest.raises(TypeError, match=r"predictor must be a tightset\.Predictor, got dict"):
        kind({})


@pytest.mark.parametrize("kind", KINDS)
def test_states_of_another_predictor_are_refused(kind, rng):
    scores = rng.normal(size=50)
    predictor = calibrated(scores)
    state = kind(predictor).state()
    # The same threshold, another score table.
    scores[scores.argmin()] -= 1
    with pytest.raises(ValueError, match="state belongs to another predictor"):
        kind.from_state(calibrated(scores), state)
    same = ts.Predictor.from_json(predictor.with_label_names(["a", "b"]).to_json(score_table=True))
    assert kind.from_state(same, state).state() == state


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (
            0,
            {"format": "tightset-adaptive-alpha"},
            "state must be a dict of format 'tightset-coverage-monitor'",
        ),
        (0, {"format_version": 2}, "state must have format_version 1, got 2"),
        (0, {"extra": 1}, "state must have the fields"),
        (0, {"covered": 5}, "covered must be between 0 and 4, got 5"),
        (0, {"n": -1}, "n must be at least 0, got -1"),
        (0, {"wealth": [[1.0]]}, "wealth must have shape"),
        (0, {"wealth": [[1.0, 1.0, 1.0, math.nan]]}, "wealth must be between 0"),
        (0, {"ranked_covered": [9]}, "ranked_covered must be between 0 and 4"),
        (0, {"tie_places": [1.5]}, "tie_places must be between 0 and 1"),
        (0, {"alarmed_at": 7}, "alarmed_at must be between 1 and 4"),
        (0, {"level": 2.0}, "level must be strictly between 0 and 1, got 2.0"),
        (1, {"alpha": 3.0}, "alpha must be between -0.005 and 1.005, got 3.0"),
        (1, {"rate": 0.0}, "rate must be positive and at most 1, got 0.0"),
        (1, {"rate": math.nan}, "rate must be positive and at most 1, got nan"),
    ],
)
def test_damaged_states_are_refused(kind, change, message, rng):
    predictor = calibrated(rng.normal(size=50))
    state = KINDS[kind](predictor).update(rows([0.0] * 4), [0] * 4).state()
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        KINDS[kind].from_state(predictor, state | change)


@pytest.mark.parametrize("kind", KINDS)
def test_refused_rows_change_nothing(kind, rng):
    monitor = kind(calibrated(rng.normal(size=50))).update(rows(rng.normal(size=9)), [0] * 9)
    state = monitor.state()
    for logits, labels, message in [
        ([[0.0, 1.0], [0.0, math.nan]], [0, 0], "found nan at row 1"),
        ([[0.0, 1.0], [0.0, 1.0]], [0, 2], "found 2 at row 1"),
        ([[0.0, 1.0]], [0, 1], "one value for each of the 1 rows"),
        ([[0.0, 1.0]], 0, "one value for each of the 1 rows"),
        ([[0.0, 1.0, 2.0]], [0], "2 labels as in calibration, got 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            monitor.update(logits, labels)
    assert monitor.state() == state


def test_row_ids_are_passed_on(rng):
    logits, labels = labelled(rng, 400)
    ids = np.arange(400)
    predictor = ts.calibrate(logits[:200], labels[:200], 0.1, "aps", row_ids=ids[:200])
    for kind in KINDS:
        with pytest.raises(ValueError, match="row_ids must be given exactly when calibration had them"):
            kind(predictor).update(logits[200:], labels[200:])
        assert kind(predictor).update(logits[200:], labels[200:], row_ids=ids[200:]).n == 200

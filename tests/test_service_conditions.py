"""Predictors whose coverage holds within labels, or for all but a share of calibrations, in a service."""

from __future__ import annotations

import numpy as np
import pytest

import tightset as ts
from load_client import serving
from service_cases import ask, data, save
from tightset.service import Settings, create_app
from tightset.service.models import load_model


@pytest.mark.parametrize("kind", ["label", "cluster", "rc3p"])
def test_thresholds_of_labels(tmp_path, kind):
    predictor = save(tmp_path / "model.json", 5, recipe="thr", condition=kind)
    logits, labels = data(5, 60, seed=1)
    with serving(tmp_path / "model.json") as service:
        assert any("no coverage alarm: it takes one threshold" in line for line in service.log)
        answer = ask(service, "/v1/predict", {"rows": logits.tolist()}).json
        assert answer["sets"] == [row.tolist() for row in predictor.predict_set(logits)]
        (model,) = ask(service, "/v1/models").json["models"]
        assert (model["condition"], model["trivial"], model["candidates"]) == (kind, False, [])
        told = {"request_id": answer["request_id"], "labels": labels.tolist()}
        said = ask(service, "/v1/feedback", told).json
        assert (said["coverage"], said["alarm"]) == (predictor.predict_set(logits).coverage(labels), None)
        watch = ask(service, "/v1/state").json["models"][0]["watch"]
        assert watch["band"] is None
        assert watch["history"] == [[60, said["coverage"], None, None]] * 2
        assert "tightset_coverage_band" not in ask(service, "/metrics").content.decode()


def test_labels_with_too_few_rows_for_a_threshold_are_trivial(tmp_path):
    with pytest.warns(ts.SmallCalibrationWarning):
        save(tmp_path / "model.json", 5, n=20, recipe="thr", condition="label")
    assert load_model("model", str(tmp_path / "model.json"), max_labels=5).is_trivial


def test_groups_are_refused(tmp_path):
    save(tmp_path / "model.json", 3, recipe="thr", condition=np.arange(2000) % 2)
    with pytest.raises(ValueError, match=r"model\.json was calibrated by groups, which requests"):
        create_app(Settings(models={"model": str(tmp_path / "model.json")}))


def test_alpha_that_adapts_needs_one_threshold(tmp_path):
    save(tmp_path / "model.json", 3, recipe="thr", condition="label")
    with pytest.raises(
        ValueError,
        match=r"adapt needs the calibration scores of model model: .*condition='label'",
    ):
        create_app(Settings(models={"model": str(tmp_path / "model.json")}, adapt=True))


@pytest.mark.parametrize("score_table", [True, False])
def test_the_band_of_a_higher_rank(tmp_path, score_table):
    predictor = save(tmp_path / "model.json", 3, n=500, score_table=score_table, guarantee="pac")
    assert predictor.rank > ts.conformal_rank(500, 0.1)
    # A level whose rank this is has the same law.
    alpha = 1 - (predictor.rank - 0.5) / 501
    assert ts.conformal_rank(500, alpha) == predictor.rank
    logits, labels = data(3, 400, seed=1)
    with serving(tmp_path / "model.json", "--alarm-level", 0.1) as service:
        answer = ask(service, "/v1/predict", {"rows": logits.tolist()}).json
        ask(service, "/v1/feedback", {"request_id": answer["request_id"], "labels": labels.tolist()})
        watch = ask(service, "/v1/state").json["models"][0]["watch"]
    assert watch["band"] == list(ts.metrics.coverage_band(500, alpha, 400, level=0.9))


@pytest.mark.parametrize("score_table", [True, False])
def test_a_selection_on_the_calibration_rows_has_no_band(tmp_path, score_table):
    save(tmp_path / "model.json", 3, n=500, recipe="er-aps", score_table=score_table)
    logits, labels = data(3, 400, seed=1)
    with serving(tmp_path / "model.json", "--alarm-level", 0.05) as service:
        answer = ask(service, "/v1/predict", {"rows": logits.tolist()}).json
        ask(service, "/v1/feedback", {"request_id": answer["request_id"], "labels": labels.tolist()})
        watch = ask(service, "/v1/state").json["models"][0]["watch"]
        assert "tightset_coverage_band" not in ask(service, "/metrics").content.decode()
    assert watch["band"] is None
    assert "(modsel)" in watch["why_no_band"]
    # The alarm needs no band: it watches each candidate by its own scores.
    assert (watch["alarm"], watch["alarm_at"]) == ((False, 20.0) if score_table else (None, None))


def test_levels_that_change_have_no_band(tmp_path):
    save(tmp_path / "model.json", 3, n=500, recipe="thr", score_table=True)
    logits, labels = data(3, 400, seed=1)
    with serving(tmp_path / "model.json", "--adapt") as service:
        answer = ask(service, "/v1/predict", {"rows": logits.tolist()}).json
        ask(service, "/v1/feedback", {"request_id": answer["request_id"], "labels": labels.tolist()})
        watch = ask(service, "/v1/state").json["models"][0]["watch"]
    assert watch["band"] is None
    assert watch["why_no_band"].startswith("alpha adapts")

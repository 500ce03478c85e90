"""What `/metrics` says: text that Prometheus reads, and numbers that are true."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from load_client import serving
from service_cases import BINARY, ask, data, save
from tightset.service.gate import endpoint_of
from tightset.service.measures import ENDPOINTS, Measures, quantile
from tightset.service.refusals import STATUS


def parsed(text):
    """Return {name: {labels: value}}, refusing what is not the text format."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            values = found.setdefault(sample.name, {})
            key = tuple(sorted(sample.labels.items()))
            assert key not in values, "a series stands once"
            values[key] = sample.value
    return found


def test_service_counts_what_it_does(tmp_path):
    path = tmp_path / "five.json"
    model = save(path, 5)
    logits, labels = data(5, 300, seed=1)
    logits[0] = 0.0  # a set with many labels
    sets = model.predict_set(logits.astype(np.float32))
    with serving(path) as service:
        headers = {**BINARY, "Tightset-Shape": "300,5", "X-Request-Id": "m1"}
        assert ask(service, "/v1/predict", logits.astype("<f4").tobytes(), headers=headers).status == 200
        assert ask(service, "/v1/feedback", {"request_id": "m1", "labels": labels.tolist()}).status == 200
        wrong = np.full((7, 5), np.nan, np.float32)
        headers = {**BINARY, "Tightset-Shape": "7,5"}
        assert ask(service, "/v1/predict", wrong.tobytes(), headers=headers).status == 422
        assert ask(service, "/v1/predict", {"rows": [[1]]}).status == 422
        answer = ask(service, "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found = parsed(answer.content.decode())
    one = (("model", "five"),)
    assert found["tightset_rows_total"][one] == 300
    assert found["tightset_set_size_sum"][one] == sets.sizes.sum()
    assert found["tightset_set_size_count"][one] == 300
    for size in (0, 1, 2, 5):
        at_most = found["tightset_set_size_bucket"][(("le", f"{size}"), *one)]
        assert at_most == (sets.sizes <= size).sum()
    kinds = {
        "empty": sets.sizes == 0,
        "singleton": sets.sizes == 1,
        "full": sets.sizes == 5,
        "several": (sets.sizes > 1) & (sets.sizes < 5),
    }
    for kind, rows in kinds.items():
        assert found["tightset_sets_total"][(("kind", kind), *one)] == rows.sum()
    assert found["tightset_refused_rows_total"] == {
        (("reason", "not_finite"),): 7,
        (("reason", "wrong_labels"),): 1,
    }
    assert found["tightset_refused_requests_total"][(("reason", "not_finite"),)] == 1
    assert found["tightset_requests_total"][(("endpoint", "predict"), ("status", "200"))] == 1
    assert found["tightset_requests_total"][(("endpoint", "predict"), ("status", "422"))] == 2
    assert found["tightset_request_seconds_count"][(("endpoint", "predict"),)] == 3
    covered = int(sets.covers(labels).sum())
    assert found["tightset_feedback_labels_total"][(("covered", "true"), *one)] == covered
    assert found["tightset_coverage"][one] == covered / 300
    assert found["tightset_coverage_alarm"][one] == 0
    assert found["tightset_alpha"][one] == 0.1
    band = found["tightset_coverage_band"]
    assert band[(("end", "lower"), *one)] < 0.9 < band[(("end", "upper"), *one)]
    (info,) = found["tightset_model_info"]
    assert dict(info)["n_labels"] == "5"


def test_workers_write_rows_of_their_own():
    measures = Measures(["a"], workers=3)
    for worker in range(3):
        measures.become(worker)
        measures.sets("a", np.array([0, 1, 4, 10**6]), n_labels=4)
        measures.request("predict", 200, 0.001)
        measures.request("predict", 418, 1e9)
    assert measures.total("rows", "a") == 12
    assert measures.total("sets", "a", "full") == 3
    assert measures.total("requests", "predict", "other") == 3
    ends, counts, total = measures.histogram("request_seconds", "predict")
    assert counts.sum() == 6
    assert counts[-1] == 3, "beyond the last bucket"
    assert total == pytest.approx(3e9 + 0.003)
    assert list(ends) == sorted(set(ends))
    parsed(measures.text([("x", "An infinite gauge.", {}, np.inf), ("y", "None.", {}, np.nan)]))


def test_quantiles_are_upper_ends_of_buckets():
    ends = (1.0, 2.0, 3.0)
    assert quantile(ends, np.zeros(4), 0.5) is None
    assert quantile(ends, np.array([1, 0, 0, 0]), 0.99) == 1.0
    assert quantile(ends, np.array([50, 49, 1, 0]), 0.5) == 1.0
    assert quantile(ends, np.array([50, 49, 1, 0]), 0.99) == 2.0
    assert quantile(ends, np.array([50, 49, 1, 0]), 0.995) == 3.0
    assert quantile(ends, np.array([0, 0, 0, 5]), 0.5) == 3.0


def test_documented_names_are_those_that_there_are(tmp_path):
    page = (Path(__file__).parent.parent / "docs" / "service.md").read_text()
    documented = set(re.findall(r"`(tightset_[a-z_]+)[`{]", page))
    measures = Measures(["a"])
    there = {
        re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"# TYPE (\S+)", measures.text())
    }
    with serving(_saved(tmp_path)) as service:
        asked = ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).json["request_id"]
        ask(service, "/v1/feedback", {"request_id": asked, "labels": [1]})
        there |= set(re.findall(r"# TYPE (\S+)", ask(service, "/metrics").content.decode()))
    assert documented == there


def test_documented_codes_are_those_that_there_are():
    page = (Path(__file__).parent.parent / "docs" / "service.md").read_text()
    table = page.partition("## What is refused")[2].partition("The library takes")[0]
    documented = {
        code: int(status)
        for status, cell in re.findall(r"^\| (\d{3}) \| (.*) \|$", table, re.MULTILINE)
        for code in re.findall(r"`([a-z_]+)`", cell)
    }
    assert documented == STATUS


def _saved(folder):
    save(folder / "m.json", 3)
    return folder / "m.json"


def test_every_path_is_counted_somewhere():
    paths = {
        "/v1/predict": "predict",
        "/v2/models/a/infer": "infer",
        "/v2/models/a/versions/1/infer": "infer",
        "/v2/models/a": "models",
        "/web/live.js": "page",
        "/../etc/passwd": "other",
    }
    assert {path: endpoint_of(path) for path in paths} == paths
    assert set(paths.values()) <= set(ENDPOINTS)

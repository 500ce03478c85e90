"""Load for seconds; `make test-load` does it for ten minutes, with figures."""

from __future__ import annotations

import numpy as np
import pytest

import load
from load_client import Service, serving


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {k: load.predictor(folder, k, n=1000) for k in (100, 300)}


def mixed(models):
    small, rows = models[100]
    large, logits = models[300]
    batch = load.batch_request(logits[:200])
    batch = batch.replace(b"/v1/predict ", f"/v1/predict?model={large.stem} ".encode())
    return (small, large), [load.row_request(rows[0])] * 4 + [batch] * 2


@pytest.mark.parametrize("reconnect", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_under_load_answers_what_it_accepted(models, workers, reconnect):
    paths, requests = mixed(models)
    service = Service(*paths, "--workers", workers, "--threads", 1)
    try:
        found = load.terminated(service, requests, 1.0, reconnect=reconnect)
    finally:
        service.stop()
    assert found["answered"] > 20
    assert found["answered_after_sigterm"] > 0
    assert found["dropped"] == []
    assert found["exit_code"] == 0


def test_a_constant_rate_brings_no_error_and_no_growth(models):
    path, logits = models[300]
    with serving(path, "--remember", 4) as service:
        load.closed_loop(service.port, [load.batch_request(logits[:200])] * 2, 1.0, 200)
        found = load.soak(service, logits[:200], 20.0, 4.0)
        assert found["requests"] == 80
        assert found["errors"] == []
        assert found["resident_last"] < 1.05 * found["resident_first"] + 2**22


def test_latency_is_measured_beside_the_no_op(models):
    path, rows = models[100]
    with serving(path) as service:
        found = load.latencies(service.port, load.row_request(rows[0]), 50)
    assert {name: len(values) for name, values in found.items()} == {"no-op": 50, "row": 50}
    assert np.all(found["row"] > 0)

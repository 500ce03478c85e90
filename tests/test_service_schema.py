"""Requests made from the service's own OpenAPI document, good and bad: no 500, nothing undocumented."""

from __future__ import annotations

import logging
import re

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import CHECKS, load_all_checks

from load_client import serving
from service_cases import ask, save

load_all_checks()
# A model has a number of labels that a schema for several cannot say exactly, and ids of requests that exist.
LEFT_OUT = ("positive_data_acceptance", "use_after_free", "ensure_resource_availability")
USED = [check for check in CHECKS.get_all() if check.__name__ not in LEFT_OUT]
# What schemathesis expects by itself, and 413, which docs/service.md has for two reasons alone: `run` holds
# the service to them.
REFUSED = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
CONFIG = {"checks": {"negative_data_rejection": {"expected-statuses": REFUSED}}}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save(folder / "three.json", 3)
    save(folder / "four.json", 4, recipe="er-aps", names=list("abcd"))
    with serving(folder / "three.json", folder / "four.json", "--max-rows", 20) as found:
        yield found
        assert not any("failed" in line for line in found.log), found.log


def run(service, examples):
    schema = schemathesis.openapi.from_url(
        f"http://127.0.0.1:{service.port}/openapi.json", config=schemathesis.Config.from_dict(CONFIG)
    )
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    asked = 0
    for operation in schema.get_all_operations():
        found = operation.ok()
        strategy = hypothesis.strategies.one_of(
            found.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode
        )

        @hypothesis.settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=strategy)
        def one(case):
            nonlocal asked
            asked += 1
            answer = case.call_and_validate(checks=USED)
            if answer.status_code == 413:
                found = answer.json()
                code = found["code"] if "code" in found else found["error"]["code"]  # of /v2 and of /v1
                assert code in ("too_many_rows", "body_too_large")

        one()
    return asked


def test_requests_from_the_document(service):
    assert run(service, 15) > 100
    # Whatever came, it goes on answering.
    assert ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).status == 200
    metrics = ask(service, "/metrics").content.decode()
    assert not re.search(r'status="5\d\d"', metrics)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_requests_from_the_document(service):
    assert run(service, 300) > 1000
    assert not re.search(r'status="5\d\d"', ask(service, "/metrics").content.decode())

"""Start, reload, workers, token and end of a service."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from command_line import refusal
from load_client import Connection, Service, request_bytes, serving
from service_cases import ask, data, save
from tightset.cli.serve import parse_models, serve
from tightset.service.app import app_of
from tightset.service.room import Room, log
from tightset.service.settings import Settings


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "model.json"
    save(found, 3)
    return found


def version(service):
    return ask(service, "/v1/models").json["models"][0]["version"]


def test_reload_takes_a_new_file_without_losing_a_request(path):
    with serving(path) as service:
        answers, end = [], threading.Event()

        def load():
            connection = Connection(service.port)
            body = b'{"rows": [[1, 2, 3]]}'
            request = request_bytes("POST", "/v1/predict", body, Content_Type="application/json")
            while not end.is_set():
                answers.append(connection.ask(request)[0])
            connection.close()

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        seen = {version(service)}
        for alpha in (0.2, 0.3, 0.4):
            save(path, 3, alpha=alpha)
            lines = len(service.log)
            service.process.send_signal(signal.SIGHUP)
            service.wait_for("reload: model model, version .*, changed", since=lines)
            seen.add(version(service))
            assert ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).json["alpha"] == alpha
        end.set()
        for thread in threads:
            thread.join()
        assert len(seen) == 4
        assert len(answers) > 30
        assert set(answers) == {200}


def test_a_bad_file_leaves_the_old_model_and_says_so(path):
    with serving(path) as service:
        before = version(service)
        for content in (b"junk", path.read_bytes().replace(b'"n_labels": 3', b'"n_labels": 4')):
            path.write_bytes(content)
            lines = len(service.log)
            service.process.send_signal(signal.SIGHUP)
            said = service.wait_for("reload: model model stays as it was: (.*)", since=lines).group(1)
            assert str(path) in said
            (model,) = ask(service, "/v1/models").json["models"]
            assert model["version"] == before
            assert model["reload_error"] == said
            assert ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).status == 200
        metrics = ask(service, "/metrics").content.decode()
        assert 'tightset_reloads_total{outcome="failed"} 2' in metrics
        assert 'tightset_model_stale{model="model"} 1' in metrics
        save(path, 3)
        lines = len(service.log)
        service.process.send_signal(signal.SIGHUP)
        service.wait_for("version .*, same", since=lines)
        assert ask(service, "/v1/models").json["models"][0]["reload_error"] is None


def test_labels_of_a_replaced_model_are_refused(path):
    with serving(path) as service:
        name = ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).json["request_id"]
        save(path, 3, alpha=0.3)
        service.process.send_signal(signal.SIGHUP)
        service.wait_for("changed")
        assert ask(service, "/v1/feedback", {"request_id": name, "labels": [2]}).code == "model_replaced"


def test_workers_share_port_counters_and_signals(path):
    with serving(path, "--workers", 2) as service:
        children = _workers(service, 2)
        for _ in range(40):
            assert ask(service, "/v1/predict", {"rows": [[1, 2, 3], [0, 0, 0]]}).status == 200
        # Whoever is asked knows what all have done.
        for _ in range(6):
            assert 'tightset_rows_total{model="model"} 80' in ask(service, "/metrics").content.decode()
        assert ask(service, "/v1/feedback", {"request_id": "x", "labels": [1]}).code == "feedback_off"
        save(path, 3, alpha=0.3)
        service.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 30
        while sum("changed" in line for line in service.log) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        alphas = {ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).json["alpha"] for _ in range(20)}
        assert alphas == {0.3}
        # One that dies is replaced, and what it counted stays.
        os.kill(children[0], signal.SIGKILL)
        service.wait_for("another takes its place")
        _workers(service, 2)
        for _ in range(10):
            assert ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).status == 200
        assert 'tightset_rows_total{model="model"} 110' in ask(service, "/metrics").content.decode()
        assert service.stop() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in children)


def _workers(service, count):
    pid, deadline = service.process.pid, time.monotonic() + 30
    while time.monotonic() < deadline:
        found = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        if len(found) == count:
            return found
        time.sleep(0.05)
    pytest.fail(f"there are {len(found)} workers")


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.05])
def test_workers_may_be_ended_as_they_begin(path, seconds):
    service = Service(path, "--workers", 3)
    time.sleep(seconds)
    assert service.stop() == 0
    assert not any("failed" in line or "Traceback" in line for line in service.log), service.log


# What `tightset serve` runs, with a signal at the very moment that the port is announced.
_ENDED_AT_ONCE = """
import os, signal, sys
from tightset.cli import main
from tightset.service.room import log

said, sent = log.info, getattr(signal, sys.argv.pop())

def say(text, *values):
    said(text, *values)
    if text.startswith("listening"):
        os.kill(os.getpid(), sent)

log.info = say
main()
"""


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("sent", ["SIGTERM", "SIGINT"])
def test_a_signal_as_the_port_is_announced(path, sent, workers):
    ended = subprocess.run(
        [sys.executable, "-c", _ENDED_AT_ONCE, "serve", "--port", "0", "--workers", str(workers), path, sent],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    assert "listening" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("way", ["file", "variable"])
def test_token(path, tmp_path, way):
    if way == "file":
        (tmp_path / "token").write_text("open sesame\n")
        service = Service(path, "--token-file", tmp_path / "token")
    else:
        service = Service(path, env={"TIGHTSET_TOKEN": "open sesame"})
    try:
        row = {"rows": [[1, 2, 3]]}
        for brought in (
            None,
            "Bearer",
            "Bearer open",
            "Basic open sesame",
            "Bearer open sesame!",
            "open sesame",
        ):
            headers = {} if brought is None else {"Authorization": brought}
            for path_, body in (("/v1/predict", row), ("/metrics", None), ("/v1/state", None), ("/v2", None)):
                answer = ask(service, path_, body, headers=headers)
                assert (answer.status, answer.code) == (401, "unauthorised")
                assert answer.headers["WWW-Authenticate"] == "Bearer"
        for brought in ("Bearer open sesame", "bearer open sesame"):
            assert ask(service, "/v1/predict", row, headers={"Authorization": brought}).status == 200
        for open_path in (
            "/v2/health/live",
            "/v2/health/ready",
            "/",
            "/docs",
            "/openapi.json",
            "/web/live.js",
        ):
            assert ask(service, open_path).status == 200
        assert ask(service, "/openapi.json").json["security"] == [{"token": []}]
        assert not any("sesame" in line for line in service.log)
    finally:
        service.stop()


def test_sigterm_says_not_ready_then_ends(path):
    service = Service(path, "--drain", "1.5")
    connection = Connection(service.port)
    ready = request_bytes("GET", "/v2/health/ready")
    assert connection.ask(ready)[0] == 200
    service.process.send_signal(signal.SIGTERM)
    service.wait_for("shutting down")
    status, head, _ = connection.ask(ready)
    assert status == 503
    assert "connection: close" in head
    row = ask(service, "/v1/predict", {"rows": [[1, 2, 3]]})
    assert (row.status, row.headers["Connection"]) == (200, "close")
    connection.close()
    assert service.stop() == 0
    assert "ended" in service.log[-2]


def test_sigterm_before_the_body_has_come_still_answers(path):
    service = Service(path)
    logits = np.zeros((1000, 3), np.float32)
    request = request_bytes(
        "POST",
        "/v1/predict",
        logits.tobytes(),
        Content_Type="application/octet-stream",
        Tightset_Shape="1000,3",
    )
    connection = Connection(service.port)
    connection._socket.sendall(request[:5000])
    time.sleep(0.1)
    service.process.send_signal(signal.SIGTERM)
    service.wait_for("shutting down")
    time.sleep(1.0)
    connection._socket.sendall(request[5000:])
    status, _, body = connection.answer()
    connection.close()
    assert status == 200
    assert b'"sets"' in body
    assert service.stop() == 0


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (["missing.json"], {}, "missing.json does not exist"),
        (["{path}", "model={path}"], {}, "models must have different names, got model"),
        (["a b={path}"], {}, "models must have names of letters"),
        (["{junk}"], {}, "not a valid predictor"),
        (["{path}"], {"workers": 2, "adapt": True}, "adapt needs one worker, got workers=2"),
        (["{path}"], {"workers": 2, "feedback": True}, "feedback needs one worker, got workers=2"),
        (["{plain}"], {"adapt": True}, "adapt needs the calibration scores"),
        (["{path}"], {"max_labels": 2}, "has 3 labels, more than the limit of 2"),
        (["{path}"], {"token_file": "{empty}"}, "the token must not be empty"),
        (["{path}"], {"host": "192.0.2.1"}, "cannot listen on 192.0.2.1:0"),
        (["{path}"], {"max_rows": 0}, "rows must be at least 1, got 0"),
    ],
)
def test_what_is_refused_at_start(path, tmp_path, models, options, message):
    junk, plain, empty = tmp_path / "junk.json", tmp_path / "plain.json", tmp_path / "empty"
    junk.write_text("junk")
    empty.write_text("\n")
    save(plain, 3, score_table=False)
    names = {"path": path, "junk": junk, "plain": plain, "empty": empty}
    options = {key: v.format(**names) if isinstance(v, str) else v for key, v in options.items()}
    with pytest.raises((ValueError, OSError), match=message):
        serve([text.format(**names) for text in models], port=0, **options)


def test_a_port_that_is_taken(path):
    with serving(path) as service:
        assert f"cannot listen on 127.0.0.1:{service.port}" in refusal("serve", path, "--port", service.port)


def test_names_come_from_files_or_are_given(path):
    assert parse_models([str(path), f"other={path}"]) == {"model": str(path), "other": str(path)}
    folder = path.with_name("a=b")
    folder.mkdir()
    inner = folder / "m.json"
    inner.write_bytes(path.read_bytes())
    assert parse_models([str(inner)]) == {"m": str(inner)}


def test_large_requests_do_not_hold_up_small_ones(path):
    """Health answers come while a large batch is computed."""
    large = path.with_name("large.json")
    save(large, 100, n=500)
    rows = data(100, 20_000, seed=1)[0].astype(np.float32)
    with serving(large, "--threads", 1) as service:
        request = request_bytes(
            "POST",
            "/v1/predict",
            rows.tobytes(),
            Content_Type="application/octet-stream",
            Accept="application/octet-stream",
            Tightset_Shape="20000,100",
        )
        done = threading.Event()
        answers = []

        def ask_large():
            connection = Connection(service.port)
            answers.extend(connection.ask(request)[0] for _ in range(3))
            connection.close()
            done.set()

        thread = threading.Thread(target=ask_large)
        thread.start()
        small = 0
        while not done.is_set():
            assert ask(service, "/v2/health/live").status == 200
            small += 1
        thread.join()
        assert answers == [200, 200, 200]
        assert small >= 3


def test_clients_that_leave_are_no_faults(path):
    with serving(path) as service:
        request = request_bytes("POST", "/v1/predict", bytes(10**6), Content_Type="application/octet-stream")
        for _ in range(5):
            connection = Connection(service.port)
            connection._socket.sendall(request[:300_000])
            time.sleep(0.05)
            connection.close()
        assert ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).status == 200
        metrics = ask(service, "/metrics").content.decode()
        assert 'endpoint="predict",status="200"} 1' in metrics
        assert 'status="5' not in metrics
        assert "tightset_held_bytes 0" in metrics
        assert not any("ERROR" in line or "Traceback" in line for line in service.log)


@pytest.mark.parametrize("where", ["/v1/predict", "/v2/models/model/infer"])
def test_faults_have_a_code_and_a_trace(path, where, monkeypatch, caplog):
    room = Room(Settings(models={"model": str(path)}))
    app = app_of(room)

    def fail(*_, **__):
        raise RuntimeError("a fault on purpose")

    monkeypatch.setattr(room, "predict", fail)
    monkeypatch.setattr(log, "propagate", True)
    row = {"name": "logits", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}
    document = {"rows": [[1, 2, 3]]} if where.startswith("/v1") else {"inputs": [row]}
    sent = []

    async def receive():
        return {"type": "http.request", "body": json.dumps(document).encode(), "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": where,
        "raw_path": where.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 500
    error = json.loads(sent[1]["body"])
    assert (error["error"]["code"] if where.startswith("/v1") else error["code"]) == "internal"
    assert "purpose" not in str(error)
    assert "a fault on purpose" in caplog.text
    assert room.measures.total("refused_requests", "internal") == 1
    assert room.measures.total("requests", "predict" if where.startswith("/v1") else "infer", "500") == 1

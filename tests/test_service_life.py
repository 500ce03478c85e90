"""Start, reload, workers, token and end of a service."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from command_line import refusal
from load_client import Connection, Service, request_bytes, serving
from service_cases import ask, called, data, save
from tightset.cli import app
from tightset.cli.serve import parse_models, serve
from tightset.predictor import Predictor
from tightset.service.app import app_of
from tightset.service.gate import Gate
from tightset.service.room import Room, log
from tightset.service.server import _stop_handshakes
from tightset.service.settings import Limits, Settings


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


def test_a_file_that_cannot_adapt_leaves_the_model_that_does(path):
    with serving(path, "--adapt") as service:
        before = version(service)
        save(path, 3, score_table=False)
        service.process.send_signal(signal.SIGHUP)
        said = service.wait_for("reload: model model stays as it was: (.*)").group(1)
        assert "adapt needs the calibration scores of model model" in said
        (model,) = ask(service, "/v1/state").json["models"]
        assert (model["version"], model["reload_error"]) == (before, said)
        assert model["watch"]["adapts"] is True
        assert ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).status == 200


def test_a_model_whose_sets_are_not_those_of_its_scores_is_not_served(path, monkeypatch):
    ten = path.with_name("ten.json")
    save(ten, 10)
    settings = Settings(models={"model": str(ten)})
    assert Room(settings).models.default.name == "model"
    honest = Predictor.predict_set

    def wrong(predictor, logits, **options):
        """Give the sets of rows that know all."""
        return honest(predictor, 1000 * logits, **options)

    monkeypatch.setattr(Predictor, "predict_set", wrong)
    with pytest.raises(ValueError, match=r"ten\.json does not predict as defined: 1 labels where \d conform"):
        Room(settings)


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
    assert service.stop() == 0, service.log
    assert not any("failed" in line or "Traceback" in line for line in service.log), service.log


def test_a_worker_that_is_ended_alone_leaves_the_port_to_others(path):
    with serving(path, "--workers", 2, "--drain", 0) as service:
        children = _workers(service, 2)
        deadline = time.monotonic() + 30
        while not any("reload: model" in line for line in service.log) and time.monotonic() < deadline:
            os.kill(children[0], signal.SIGHUP)  # ignored until it serves
            time.sleep(0.05)
        os.kill(children[0], signal.SIGTERM)
        ended = service.wait_for(r"worker \d \(process (\d+)\) ended with (\S+): another takes its place")
        assert ended.groups() == (str(children[0]), "0")
        for _ in range(10):
            assert ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).status == 200
        assert set(_workers(service, 2)) - set(children)
        # A second signal at the end does no harm.
        lines = len(service.log)
        service.process.send_signal(signal.SIGTERM)
        service.wait_for("shutting down", since=lines)
        service.process.send_signal(signal.SIGINT)
        assert service.stop() == 0
        assert not any("failed" in line or "Traceback" in line for line in service.log), service.log


# What `tightset serve --workers 2` runs, where the first start of each worker goes wrong: by a fault in one,
# by a signal in the other.
_WORKERS_FAIL_AT_FIRST = """
import mmap, os, signal
from tightset.cli import main
from tightset.service.measures import Measures

become, begun = Measures.become, mmap.mmap(-1, 2)

def fail(measures, worker):
    become(measures, worker)
    first, begun[worker] = not begun[worker], 1
    if first and worker == 0:
        raise RuntimeError("a fault on purpose")
    if first:
        os.kill(os.getpid(), signal.SIGTERM)

Measures.become = fail
main()
"""


def test_workers_that_fail_as_they_begin_are_replaced(path):
    with serving(path, "--workers", 2, program=("-c", _WORKERS_FAIL_AT_FIRST)) as service:
        for worker, code in ((0, 1), (1, 0)):
            service.wait_for(rf"worker {worker} \(process \d+\) ended with {code}: another takes its place")
        assert ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).status == 200
        assert sum("a fault on purpose" in line for line in service.log) == 1
        assert sum("worker 0 failed" in line for line in service.log) == 1
        assert not any("worker 1 failed" in line for line in service.log)


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


def test_an_exit_that_arrives_as_another_error_is_a_quiet_end(path):
    """A signal within a class body, as in what FastAPI builds, becomes a RuntimeError."""
    program = """
import os, signal
from tightset.cli import main
from tightset.service import server

class Signalled:
    def __set_name__(self, owner, name):
        os.kill(os.getppid(), signal.SIGTERM)
        while True:
            signal.pause()

def app_of(room):
    class Body:
        signalled = Signalled()

server.app_of = app_of
main()
"""
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--workers", "2", path]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "failed" not in ended.stderr


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


def test_a_connection_that_has_not_asked_yet_is_waited_for(path):
    service = Service(path, "--drain", "0")
    connection = Connection(service.port)
    assert ask(service, "/v2/health/live").status == 200  # so that the one before is accepted
    service.process.send_signal(signal.SIGTERM)
    service.wait_for("shutting down")
    time.sleep(0.6)
    request = request_bytes("POST", "/v1/predict", b'{"rows": [[1, 2, 3]]}', Content_Type="application/json")
    status, head, _ = connection.ask(request)
    connection.close()
    assert status == 200
    assert "connection: close" in head
    assert service.stop() == 0


def test_a_kernel_that_cannot_stop_handshakes_is_told_of(monkeypatch, caplog):
    monkeypatch.setattr(log, "propagate", True)
    closed = socket.socket()
    closed.close()
    _stop_handshakes(closed)
    assert "connections made at the very end may be reset: [Errno 9]" in caplog.text


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


def test_the_code_of_a_service_that_ended_badly_is_that_of_the_command(path, monkeypatch):
    monkeypatch.setattr("tightset.service.serve", lambda settings: settings.port)
    with warnings.catch_warnings():
        assert [app.run(["serve", str(path), "--port", port]) for port in ("0", "3")] == [0, 3]


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
        for _ in range(5):
            connection = Connection(service.port)
            connection._socket.sendall(request[: request.index(b"\r\n\r\n") + 4])
            time.sleep(0.05)
            connection.close()
        infer = request_bytes("POST", "/v2/models/model/infer", bytes(10**6), Content_Type="application/json")
        connection = Connection(service.port)
        connection._socket.sendall(infer[:300_000])
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
    answer = called(app, where, {"rows": [[1, 2, 3]]} if where.startswith("/v1") else {"inputs": [row]})
    assert (answer.status, answer.code) == (500, "internal")
    assert b"purpose" not in answer.content
    assert "a fault on purpose" in caplog.text
    assert room.measures.total("refused_requests", "internal") == 1
    assert room.measures.total("requests", "predict" if where.startswith("/v1") else "infer", "500") == 1


def test_a_fault_before_any_answer_has_one(path, monkeypatch, caplog):
    async def broken(scope, receive, send):
        raise RuntimeError("a fault on purpose")

    monkeypatch.setattr(log, "propagate", True)
    room = Room(Settings(models={"model": str(path)}))
    answer = called(Gate(broken, room, {}), "/v1/predict", {})
    assert (answer.status, answer.code) == (500, "internal")
    assert b"purpose" not in answer.content
    assert "a fault on purpose" in caplog.text
    assert room.measures.total("requests", "predict", "500") == 1


def test_one_request_too_many_is_told_when_to_come_again(path):
    limits = Limits(waiting=100)
    app = app_of(Room(Settings(models={"model": str(path)}, limits=limits)))
    rows = {"rows": [[1, 2, 3]]}
    assert called(app, "/v1/predict", rows, [(b"content-length", b"100")]).status == 200
    refused = called(app, "/v1/predict", rows, [(b"content-length", b"101")])
    assert (refused.status, refused.code) == (503, "overloaded")
    assert refused.headers["retry-after"] == "1"

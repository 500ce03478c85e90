"""The services of docs/embedding.md run as they stand; what it says of arrays and interpreters holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import types
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic

PAGE = (Path(__file__).parent.parent / "docs" / "embedding.md").read_text()
SERVICES = dict(re.findall(r"```python (\w+)\.py\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def folder(tmp_path, rng):
    """A folder with the services and a predictor; the predictor and rows for it."""
    logits, labels = synthetic(rng, 500, 4, dtype=np.float32)
    predictor = ts.calibrate(logits, labels, 0.1, "aps").with_label_names(["a", "b", "c", "d"])
    predictor.save(tmp_path / "predictor.json")
    for name, code in SERVICES.items():
        (tmp_path / f"{name}.py").write_text(code)
    return tmp_path, predictor, logits[:20]


@contextlib.contextmanager
def served(folder, *command):
    """Start a server on a free port; a function that posts JSON to it and returns status and answer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", *(part.format(port=port) for part in command)],
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def post(path, body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, "the server ended"
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.1)
        yield post
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)


def test_the_page_has_every_service():
    assert set(SERVICES) == {"fastapi_service", "gunicorn_service", "ray_service", "triton_model"}


def test_fastapi(folder):
    pytest.importorskip("uvicorn")
    path, predictor, rows = folder
    expected = [["abcd"[label] for label in labels] for labels in predictor.predict_set(rows)]
    with served(path, "uvicorn", "fastapi_service:app", "--port", "{port}") as post:
        assert post("/predict", {"rows": rows.tolist()}) == (200, {"sets": expected})
        for bad in ([[0.0] * 3], [[0.0] * 4, [0.0]], [["x"] * 4], [], [[0.0] * 4] * 1025, [["nan"] * 4]):
            assert post("/predict", {"rows": bad})[0] == 422
        status, answer = post("/predict", {"rows": [[0.0, 0.0, 0.0, 1e300]]})
        assert status == 422
        assert "logits must not contain NaN or +inf" in answer["detail"]


@pytest.mark.parametrize("options", [(), ("--preload",)])
def test_gunicorn(folder, options):
    pytest.importorskip("gunicorn")
    path, predictor, rows = folder
    expected = [labels.tolist() for labels in predictor.predict_set(rows)]
    command = ["gunicorn", "--workers", "2", *options, "--bind", "127.0.0.1:{port}"]
    with served(path, *command, "gunicorn_service:application") as post:
        for _ in range(4):
            assert post("/", {"rows": rows.tolist()}) == (200, {"sets": expected})
        for bad in ({"rows": [[0.0]]}, {"rows": [[0.0], [0.0, 1.0]]}, {"lines": 1}, [], {"rows": ["x"]}):
            assert post("/", bad)[0] == 422


def run(path, name, monkeypatch, **stand_ins):
    """Run one of the page's files in its folder, with modules that stand in for servers."""
    for module, stand_in in stand_ins.items():
        monkeypatch.setitem(sys.modules, module, stand_in)
    monkeypatch.chdir(path)
    names = {}
    exec(compile(SERVICES[name], f"{name}.py", "exec"), names)
    return names


def test_ray_serve(folder, monkeypatch):
    """With a stand-in whose deployment is the class itself, and whose binding makes one."""
    path, predictor, rows = folder

    def deployment(**options):
        assert options == {"num_replicas": 2, "ray_actor_options": {"num_cpus": 1}}

        def decorated(kind):
            kind.bind = classmethod(lambda cls, *arguments: cls(*arguments))
            return kind

        return decorated

    class Request:
        async def json(self):
            return {"rows": rows.tolist()}

    serve = types.SimpleNamespace(deployment=deployment)
    names = run(path, "ray_service", monkeypatch, ray=types.SimpleNamespace(serve=serve))
    answer = asyncio.run(names["app"](Request()))
    assert answer == [labels.tolist() for labels in predictor.predict_set(rows)]


def test_triton(folder, monkeypatch):
    """With a stand-in for the module that Triton gives to models."""
    path, predictor, rows = folder

    class Tensor:
        def __init__(self, name, array):
            self.name, self.array = name, array

        def as_numpy(self):
            return self.array

    def response(output_tensors=(), error=None):
        return types.SimpleNamespace(tensors=output_tensors, error=error)

    backend = types.SimpleNamespace(
        Tensor=Tensor,
        InferenceResponse=response,
        TritonError=str,
        get_input_tensor_by_name=lambda request, name: request[name],
    )
    names = run(path, "triton_model", monkeypatch, triton_python_backend_utils=backend)
    version = path / "1"
    version.mkdir()
    (path / "predictor.json").rename(version / "predictor.json")
    model = names["TritonPythonModel"]()
    model.initialize({"model_repository": str(path), "model_version": "1"})
    good, bad = model.execute([{"logits": Tensor("logits", rows)}, {"logits": Tensor("logits", rows[:, :3])}])
    assert good.error is None
    np.testing.assert_array_equal(good.tensors[0].array, predictor.predict_set(rows).mask)
    assert "logits must have 4 labels" in bad.error


def test_arrays_that_change_during_a_call(rng):
    """Rows that nobody writes to come out right; the others come out somehow, or are refused."""
    logits, labels = synthetic(rng, 40_000, 50, dtype=np.float32)
    predictor = ts.calibrate(logits, labels, 0.1, "aps")
    expected = predictor.predict_set(logits).mask
    finished = threading.Event()
    n_writes = 0
    refusals = []

    def write():
        nonlocal n_writes
        values = np.array([0.0, 1e30, -np.inf, np.nan, np.inf, -5.0], np.float32)
        while not finished.is_set():
            logits[::2] = values[n_writes % len(values)]
            logits[::2, 0] = 0.0
            n_writes += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            try:
                mask = predictor.predict_set(logits, n_threads=2).mask
            except ValueError as error:
                refusals.append(str(error))
            else:
                np.testing.assert_array_equal(mask[1::2], expected[1::2])
    finally:
        finished.set()
        writer.join()
    assert n_writes > 0
    assert all(refusal.startswith("logits must ") for refusal in refusals)


SECOND_INTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import tightset

second = interpreters.create()
code = "\\n".join([
    "import warnings",
    "warnings.simplefilter('ignore')",
    "try:",
    "    import tightset",
    "    tightset.entropy([[0.0, 0.0]])",
    "except ImportError: pass",
    "else: raise RuntimeError('worked')",
])
print(interpreters.run_string(second, code))
print(tightset.entropy([[0.0, 0.0]]))
"""


def test_a_second_interpreter_is_refused():
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    done = subprocess.run([sys.executable, "-c", SECOND_INTERPRETER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "None\n[0.69314718]\n"

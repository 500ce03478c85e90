"""A predictor behind gunicorn with --preload: made before the fork, used after it, in every worker."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

pytest.importorskip("gunicorn")

APPLICATION = """
import hashlib, os
import numpy as np
import tightset as ts

rng = np.random.default_rng(0)
logits, labels = rng.normal(size=(20_000, 20)).astype(np.float32), rng.integers(20, size=20_000)
# A batch far above the size of small calls: the pool exists before gunicorn forks.
predictor = ts.calibrate(logits, labels, 0.1, "aps", n_threads=2)

def digest():
    return hashlib.sha256(predictor.predict_set(logits, n_threads=2).indices.tobytes()).hexdigest()

parent = digest()

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {parent} {digest()}".encode()]
"""


def test_preloaded_predictor_works_in_every_worker(tmp_path):
    (tmp_path / "service.py").write_text(APPLICATION)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--timeout", "20"]
    server = subprocess.Popen(
        [*command, "--bind", f"127.0.0.1:{port}", "service:application"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        answers, deadline = [], time.monotonic() + 60
        while len({a[0] for a in answers}) < 2 and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
                    answers.append(answer.read().decode().split())
            except OSError:
                time.sleep(0.2)
        workers = {a[0] for a in answers}
        assert len(workers) == 2, "both workers answered"
        assert len({digest for a in answers for digest in a[1:]}) == 1
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)

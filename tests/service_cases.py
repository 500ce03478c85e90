"""Models to serve, and a client that asks once."""

from __future__ import annotations

import asyncio
import http.client
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

import tightset as ts

JSON = {"Content-Type": "application/json"}
BINARY = {"Content-Type": "application/octet-stream"}


@dataclass
class Answer:
    status: int
    headers: Any
    content: bytes

    @property
    def json(self):
        return json.loads(self.content)

    @property
    def code(self):
        """The code of a refusal, in either form."""
        error = self.json["error"]
        return error["code"] if isinstance(error, dict) else self.json["code"]


def ask(service, path, body=None, method=None, headers=None):
    """Send a request: of an object as JSON, of bytes as they are, or without a body."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    headers = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        headers = {**JSON, **headers}
    connection.request(method or ("GET" if body is None else "POST"), path, body, headers)
    answer = connection.getresponse()
    found = Answer(answer.status, answer.headers, answer.read())
    connection.close()
    return found


def called(app, path, body, headers=()):
    """Call an application as a server does, with one body of JSON; return its answer."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), *headers],
    }
    asyncio.run(app(scope, receive, send))
    start, content = sent
    return Answer(start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, content["body"])


def data(k, n, seed=0, noise=2.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    return noise * rng.normal(size=(n, k)) + 5 * np.eye(k)[labels], labels


def save(
    path, k=3, n=2000, recipe="aps", *, score_table=True, names=None, alpha=0.1, row_ids=False, **settings
):
    """Calibrate a predictor and save it; return it as it was read back."""
    logits, labels = data(k, n, seed=k)
    if row_ids:
        settings["row_ids"] = np.arange(n)
    found = ts.calibrate(logits, labels, alpha, recipe, **settings)
    if names is not None:
        found = found.with_label_names(names)
    found.save(path, score_table=score_table)
    return ts.load(path)

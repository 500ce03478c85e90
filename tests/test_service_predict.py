"""`/v1/predict` over HTTP: the library's sets to the bit, or a refusal with a code."""

from __future__ import annotations

import asyncio
import json
import socket

import numpy as np
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

import tightset as ts
from load_client import serving
from service_cases import BINARY, JSON, ask, data, save
from tightset.service.app import _refusal_of
from tightset.service.bodies import BodyReader
from tightset.service.refusals import Refusal
from tightset.service.settings import Limits

MIB = 2**20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def models(folder):
    return {
        "three": save(folder / "three.json", 3, names=["cat", "dog", "owl"]),
        "ten": save(folder / "ten.json", 10, recipe="er-aps"),
        "ids": save(folder / "ids.json", 4, row_ids=True),
    }


@pytest.fixture(scope="module")
def service(folder, models):
    paths = [folder / "three.json", *(f"{name}={folder / name}.json" for name in ("ten", "ids"))]
    limits = ("--max-rows", 50, "--max-body", 1, "--max-json", 1)
    with serving(*paths, *limits) as found:
        yield found


def lists(sets):
    return [row.tolist() for row in sets]


@pytest.mark.parametrize("name", ["three", "ten"])
def test_json_gives_the_sets_of_the_library(service, models, name):
    logits, _ = data(models[name].n_labels, 40, seed=9)
    answer = ask(service, "/v1/predict", {"rows": logits.tolist(), "model": name})
    assert answer.status == 200
    assert answer.json["sets"] == lists(models[name].predict_set(logits))
    assert answer.json["model"] == name
    assert answer.json["alpha"] == 0.1
    assert answer.headers["X-Request-Id"] == answer.json["request_id"]


@pytest.mark.parametrize("n", [1, 40])
def test_bytes_give_the_sets_of_the_library(service, models, n):
    logits = data(10, n, seed=4)[0].astype(np.float32)
    expected = models["ten"].predict_set(logits)
    headers = {**BINARY, "Tightset-Shape": f"{n}, 10"}
    answer = ask(service, "/v1/predict?model=ten", logits.tobytes(), headers=headers)
    assert answer.json["sets"] == lists(expected)
    packed = ask(
        service,
        "/v1/predict?model=ten",
        logits.tobytes(),
        headers={**headers, "Accept": BINARY["Content-Type"]},
    )
    numbers = np.frombuffer(packed.content, "<i4")
    assert packed.headers["Tightset-Rows"] == str(n)
    assert numbers[:n].tolist() == expected.sizes.tolist()
    assert numbers[n:].tolist() == expected.indices.tolist()
    # The same numbers as JSON give the same bits, when they are rounded to float32 as the bytes are.
    rounded = {"rows": logits.tolist(), "model": "ten", "dtype": "float32"}
    assert ask(service, "/v1/predict", rounded).json["sets"] == lists(expected)


def test_one_row_may_come_alone_and_labels_with_names(service, models):
    answer = ask(service, "/v1/predict", {"rows": [2.0, 1.9, -3.0], "names": True}).json
    (expected,) = lists(models["three"].predict_set([2.0, 1.9, -3.0]))
    assert answer["sets"] == [expected]
    assert answer["names"] == [[("cat", "dog", "owl")[label] for label in expected]]


def test_empty_sets_are_filled_on_request(service, models):
    logits, _ = data(3, 50, seed=3)
    rows = logits[models["three"].predict_set(logits).sizes == 0]
    assert len(rows) >= 1, "some rows have an empty set"
    empty = ask(service, "/v1/predict", {"rows": rows.tolist()}).json["sets"]
    filled = ask(service, "/v1/predict", {"rows": rows.tolist(), "allow_empty": False}).json["sets"]
    assert empty == [[] for _ in rows]
    assert filled == [[int(row.argmax())] for row in rows]
    packed = ask(
        service,
        "/v1/predict?allow_empty=false",
        rows[:1].astype(np.float32).tobytes(),
        headers={**BINARY, "Tightset-Shape": "1,3"},
    )
    assert packed.json["sets"] == filled[:1]


def test_row_ids_go_where_they_are_needed(service, models):
    rows = [[1.0, 0.9, 0.8, 0.7]] * 6
    answer = ask(service, "/v1/predict", {"rows": rows, "model": "ids", "row_ids": list(range(6))})
    assert answer.json["sets"] == lists(models["ids"].predict_set(rows, row_ids=np.arange(6)))
    assert ask(service, "/v1/predict", {"rows": rows, "model": "ids"}).code == "invalid_request"
    assert ask(service, "/v1/predict", {"rows": [[1, 2, 3]], "row_ids": [1]}).code == "invalid_request"


@pytest.mark.parametrize(
    ("body", "status", "code", "where"),
    [
        (b"{", 400, "invalid_json", {}),
        (b'{"rows": [[1, NaN, 2]]}', 400, "invalid_json", {}),
        (b'{"rows": [[1, Infinity, 2]]}', 400, "invalid_json", {}),
        (b'{"rows": [[1, 1e999, 2]]}', 400, "invalid_json", {}),
        (b"[]", 422, "invalid_request", {}),
        (b"{}", 422, "invalid_rows", {}),
        ({"rows": []}, 422, "invalid_rows", {}),
        ({"rows": [[]]}, 422, "wrong_labels", {"row": 0}),
        ({"rows": [[1, 2, 3], 4]}, 422, "invalid_rows", {"row": 1}),
        ({"rows": [[1, 2, 3], [1, 2]]}, 422, "wrong_labels", {"row": 1}),
        ({"rows": [[1, 2, "3"]]}, 422, "invalid_rows", {"row": 0, "label": 2}),
        ({"rows": [[1, True, 3]]}, 422, "invalid_rows", {"row": 0, "label": 1}),
        ({"rows": [[1, None, 3]]}, 422, "invalid_rows", {"row": 0, "label": 1}),
        ({"rows": [[1, [2], 3]]}, 422, "invalid_rows", {"row": 0, "label": 1}),
        ({"rows": "123"}, 422, "invalid_rows", {}),
        ({"rows": [[0, 0, 0], [1, 1e300, 3]], "dtype": "float32"}, 422, "not_finite", {"row": 1, "label": 1}),
        ({"rows": [[1, 2, 3]], "dtype": "float16"}, 422, "invalid_request", {}),
        ({"rows": [[1, 2, 3]], "dtype": []}, 422, "invalid_request", {}),
        ({"rows": [[1, 2, 3]], "allow_empty": 1}, 422, "invalid_request", {}),
        ({"rows": [[1, 2, 3]], "alow_empty": True}, 422, "invalid_request", {}),
        ({"rows": [[1, 2, 3]], "model": "four"}, 404, "model_unknown", {}),
        ({"rows": [[1, 2, 3]], "model": 4}, 422, "invalid_request", {}),
        ({"rows": [[0] * 10], "model": "ten", "names": True}, 422, "invalid_request", {}),
        ({"rows": [[1, 2, 3, 4]], "model": "ids", "row_ids": [-1]}, 422, "invalid_request", {"row": 0}),
        ({"rows": [[1, 2, 3, 4]], "model": "ids", "row_ids": [1, 2]}, 422, "invalid_request", {}),
        ({"rows": [[1, 2, 3]] * 51}, 413, "too_many_rows", {}),
        (b'{"rows": ' + b" " * MIB + b"[[1, 2, 3]]}", 413, "body_too_large", {}),
    ],
)
def test_json_that_is_refused(service, body, status, code, where):
    answer = ask(service, "/v1/predict", body, headers=JSON)
    assert (answer.status, answer.code) == (status, code)
    error = answer.json["error"]
    assert error["message"]
    assert {key: error[key] for key in ("row", "label") if key in error} == where


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bytes_that_are_not_finite_are_refused(service, value):
    rows = np.zeros((4, 3), np.float32)
    rows[2, 1] = value
    answer = ask(service, "/v1/predict", rows.tobytes(), headers={**BINARY, "Tightset-Shape": "4,3"})
    assert (answer.status, answer.code) == (422, "not_finite")
    assert answer.json["error"]["row"] == 2
    assert answer.json["error"]["label"] == 1


def test_finite_rows_whose_sum_is_not_are_served(service, models):
    rows = np.full((2, 3), 3e38, np.float32)
    answer = ask(service, "/v1/predict", rows.tobytes(), headers={**BINARY, "Tightset-Shape": "2,3"})
    assert answer.json["sets"] == lists(models["three"].predict_set(rows))


@pytest.mark.parametrize(
    ("path", "body", "shape", "status", "code"),
    [
        ("", bytes(12), None, 422, "shape_mismatch"),
        ("", bytes(12), "3", 422, "shape_mismatch"),
        ("", bytes(12), "-1,3", 422, "shape_mismatch"),
        ("", bytes(12), "1_0,3", 422, "shape_mismatch"),
        ("", bytes(12), "1,3,1", 422, "shape_mismatch"),
        ("", bytes(12), "99999999999999999999,3", 422, "shape_mismatch"),
        ("", bytes(12), "2,3", 422, "shape_mismatch"),
        ("", bytes(13), "1,3", 422, "shape_mismatch"),
        ("", b"", "0,3", 422, "invalid_rows"),
        ("", bytes(8), "1,2", 422, "wrong_labels"),
        ("", bytes(12 * 51), "51,3", 413, "too_many_rows"),
        ("", bytes(MIB + 4), "1,3", 413, "body_too_large"),
        ("?model=ids", bytes(16), "1,4", 422, "invalid_request"),
        ("?model=none", bytes(12), "1,3", 404, "model_unknown"),
        ("?allow_empty=yes", bytes(12), "1,3", 422, "invalid_request"),
        ("?rows=3", bytes(12), "1,3", 422, "invalid_request"),
    ],
)
def test_bytes_that_are_refused(service, path, body, shape, status, code):
    headers = BINARY if shape is None else {**BINARY, "Tightset-Shape": shape}
    answer = ask(service, f"/v1/predict{path}", body, headers=headers)
    assert (answer.status, answer.code) == (status, code)


def test_media_types_and_ids_that_are_refused(service):
    row = json.dumps({"rows": [[1, 2, 3]]}).encode()
    for headers in ({}, {"Content-Type": "text/plain"}, {**JSON, "Content-Encoding": "gzip"}):
        assert ask(service, "/v1/predict", row, headers=headers).code == "media_type"
    for name in ("", "a b", "x" * 129):
        assert (
            ask(service, "/v1/predict", row, headers={**JSON, "X-Request-Id": name}).code == "invalid_request"
        )
    assert ask(service, "/v1/predict?model=ten", row, headers=JSON).code == "invalid_request"
    assert (ask(service, "/v1/predict").status, ask(service, "/nothing").status) == (405, 404)


def test_chunked_bodies_have_the_same_limit(service):
    def send(size):
        with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
            head = (
                "POST /v1/predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                "Content-Type: application/octet-stream\r\nTightset-Shape: 1,3\r\nConnection: close\r\n\r\n"
            )
            connection.sendall(head.encode())
            part = b"%x\r\n" % size + bytes(size) + b"\r\n"
            connection.sendall(part + b"0\r\n\r\n")
            answer = b""
            while got := connection.recv(65536):
                answer += got
        return answer

    assert send(12).startswith(b"HTTP/1.1 200")
    refused = send(2 * MIB)
    assert refused.startswith(b"HTTP/1.1 413")
    assert b"body_too_large" in refused


def test_who_asks_before_sending_is_told_that_it_is_too_much(service):
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
        head = (
            f"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: {2 * MIB}\r\nExpect: 100-continue\r\n"
            "Content-Type: application/json\r\nConnection: close\r\n\r\n"
        )
        connection.sendall(head.encode())
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_large_body_that_does_not_come_is_too_large():
    async def never():
        await asyncio.sleep(60)

    async def read():
        scope = {"type": "http", "method": "POST", "headers": [(b"content-length", b"101")]}
        reader = BodyReader(Limits(body_seconds=0.05, json_body=100))
        return await reader.read(Request(scope, never), "application/json")

    with pytest.raises(Refusal, match="at most 100 bytes, got 101") as caught:
        asyncio.run(read())
    assert caught.value.code == "body_too_large"


def test_a_body_that_does_not_come_is_given_up():
    async def never():
        await asyncio.sleep(60)

    async def read(reader, length):
        scope = {"type": "http", "method": "POST", "headers": [(b"content-length", str(length).encode())]}
        return await reader.read(Request(scope, never), "application/json")

    slow = BodyReader(Limits(body_seconds=0.05))
    with pytest.raises(Refusal, match=r"within 0\.05 s") as caught:
        asyncio.run(read(slow, 10))
    assert caught.value.code == "body_timeout"
    assert slow.held == 0
    full = BodyReader(Limits(waiting=100, json_body=1000))
    with pytest.raises(Refusal) as caught:
        asyncio.run(read(full, 101))
    assert caught.value.code == "overloaded"
    assert full.held == 0


def test_probabilities_outside_their_range_are_refused_by_the_library(tmp_path):
    path = tmp_path / "p.json"
    logits, labels = data(3, 500)
    ts.calibrate(ts.softmax(logits), labels, recipe="thr", probabilities=True).save(path)
    with serving(path) as service:
        assert ask(service, "/v1/predict", {"rows": [[0.2, 0.3, 0.5]]}).status == 200
        refused = ask(service, "/v1/predict", {"rows": [[0.2, -0.3, 0.5]]})
        assert (refused.status, refused.code) == (422, "invalid_rows")


def test_infinite_thresholds_are_null(tmp_path):
    path = tmp_path / "few.json"
    with pytest.warns(UserWarning, match="rows"):
        save(path, 3, n=5, alpha=0.05)
    with serving(path) as service:
        (model,) = ask(service, "/v1/models").json["models"]
        assert model["candidates"][0]["threshold"] is None
        assert model["trivial"] is True
        assert ask(service, "/v1/predict", {"rows": [[1, 2, 3]]}).json["sets"] == [[2, 1, 0]]
        assert ask(service, "/v1/state").json["models"][0]["trivial"] is True


def test_what_the_framework_refuses_keeps_its_reason():
    """Not all that it refuses is a path that is not there."""
    request = Request({"type": "http", "method": "GET", "path": "/v1/models", "headers": []})
    found = _refusal_of(HTTPException(400, "a header is no header"), request)
    assert (found.code, str(found)) == ("invalid_request", "a header is no header")

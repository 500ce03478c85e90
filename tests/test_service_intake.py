"""Large bodies that go from the socket into their array: every byte, in its place, whatever comes after."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
import time

import numpy as np
import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request

from load_client import Connection as Client
from load_client import request_bytes
from service_cases import BINARY
from tightset.service.bodies import BodyReader
from tightset.service.intake import Connection
from tightset.service.refusals import Refusal
from tightset.service.settings import Limits

TYPE = {"Content_Type": BINARY["Content-Type"]}


class Echo:
    """Answers with the digest of a body, and tells whether it came by the short way."""

    def __init__(self):
        self.reader = BodyReader(Limits(body_seconds=0.5))
        self.gone = 0
        self.long = b""

    async def __call__(self, scope, receive, send):
        request = Request(scope, receive)
        status, body = 200, b""
        try:
            body = await self.reader.read(request, BINARY["Content-Type"])
            content = f"{type(body).__name__} {len(body)} {hashlib.sha256(body).hexdigest()}".encode()
        except ClientDisconnect:
            self.gone += 1
            return
        except Refusal as refusal:
            status, content = refusal.status, refusal.code.encode()
        parts = (
            [content]
            if body != b"long"
            else [self.long[i : i + 10**6] for i in range(0, len(self.long), 10**6)]
        )
        headers = [(b"content-length", str(sum(map(len, parts))).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": part is not parts[-1]})


class Running:
    def __init__(self, loop, http=Connection):
        self.app = Echo()
        config = uvicorn.Config(self.app, http=http, loop=loop, lifespan="off", log_config=None, ws="none")
        self.server = uvicorn.Server(config)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self.server.run, args=([self._listener],))
        self._thread.start()

    def stop(self):
        self.server.should_exit = True
        self._thread.join(30)
        self._listener.close()


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def running(request):
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    found = Running(request.param)
    yield found
    found.stop()


def content_of(size, seed=0):
    return np.random.default_rng(seed).bytes(size)


def told(kind, body):
    return f"{kind} {len(body)} {hashlib.sha256(body).hexdigest()}".encode()


@pytest.mark.parametrize("size", [0, 1, 65_537, 300_001, 4_096_000])
@pytest.mark.parametrize("seed", range(3))
def test_bodies_arrive_whole_on_one_connection(running, size, seed):
    """In pieces of any size, with a small request after each large one."""
    rng = np.random.default_rng(seed)
    client = Client(running.port)
    small = content_of(10, seed)
    for turn in range(3):
        body = content_of(size, turn)
        request = request_bytes("POST", "/", body, **TYPE)
        at = 0
        while at < len(request):
            step = int(rng.integers(1, 1 + len(request) // (turn + 1)))
            client._socket.sendall(request[at : at + step])
            at += step
            time.sleep(0.001 * (turn == 1))
        _, _, answer = client.answer()
        assert answer in (told("memoryview", body), told("bytes", body))
        assert size < 4_000_000 or answer.startswith(b"memoryview")
        assert client.ask(request_bytes("POST", "/", small, **TYPE))[2] == told("bytes", small)
    client.close()
    assert running.app.reader.held == 0


def test_requests_that_follow_without_waiting_are_answered_in_turn(running):
    """The head of the next one stands in the socket right behind the body of the last."""
    bodies = [content_of(size, seed) for seed, size in enumerate((10**6, 3, 700_000, 2_000_000, 0, 400_000))]
    requests = b"".join(request_bytes("POST", "/", body, **TYPE) for body in bodies)
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as connection:
        sender = threading.Thread(target=connection.sendall, args=(requests,))
        sender.start()
        answers = b""
        while answers.count(b"HTTP/1.1 200") < len(bodies) or not answers.endswith(
            told("", bodies[-1])[-64:]
        ):
            got = connection.recv(65536)
            assert got, answers
            answers += got
        sender.join()
    places = [answers.index(told("", body)) for body in bodies]
    assert places == sorted(places)


def test_who_asks_before_sending_is_told_to_send(running):
    body = content_of(10**6)
    head, _, _ = request_bytes("POST", "/", body, Expect="100-continue", **TYPE).partition(b"\r\n\r\n")
    client = Client(running.port)
    client._socket.sendall(head + b"\r\n\r\n")
    assert client._socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client._socket.sendall(body)
    assert client.answer()[2] == told("memoryview", body)
    client.close()


@pytest.mark.parametrize("sent", [0, 1000, 200_000])
def test_a_body_that_stalls_is_refused_and_the_rest_of_it_is_no_request(running, sent):
    """The connection goes on: what comes late passes by, and the next request is answered."""
    request = request_bytes("POST", "/", b"GET / HTTP/1.1\r\n\r\n" * 50_000, **TYPE)
    head = request.index(b"\r\n\r\n") + 4
    client = Client(running.port)
    client._socket.sendall(request[: head + sent // 2])
    time.sleep(0.1)
    client._socket.sendall(request[head + sent // 2 : head + sent])
    assert client.answer()[::2] == (408, b"body_timeout")
    client._socket.sendall(request[head + sent : -1])
    time.sleep(0.05)
    body = content_of(500_000)
    client._socket.sendall(request[-1:])
    assert client.ask(request_bytes("POST", "/", body, **TYPE))[2] == told("memoryview", body)
    client.close()
    assert running.app.reader.held == 0


def test_a_client_that_still_sends_sees_why_it_was_refused(running):
    """A body is late although it never stalls."""
    request = request_bytes("POST", "/", bytes(10**6), **TYPE)
    client = Client(running.port)

    def send_slowly():
        for start in range(0, len(request), 50_000):
            client._socket.sendall(request[start : start + 50_000])
            time.sleep(0.05)

    slow = threading.Thread(target=send_slowly)
    slow.start()
    assert client.answer()[::2] == (408, b"body_timeout")
    slow.join()
    assert client.ask(request_bytes("POST", "/", b"x", **TYPE))[2] == told("bytes", b"x")
    client.close()


def test_a_client_that_leaves_is_noticed(running):
    before = running.app.gone
    request = request_bytes("POST", "/", bytes(10**6), **TYPE)
    for sent in (100_000, 300_000, 900_000):
        client = Client(running.port)
        client._socket.sendall(request[:sent])
        time.sleep(0.05)
        client.close()
    deadline = time.monotonic() + 10
    while running.app.gone < before + 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert running.app.gone == before + 3
    assert running.app.reader.held == 0
    assert len(running.server.server_state.connections) == 0


def test_a_client_that_leaves_between_two_parts_is_noticed():
    class Gone:
        disconnected, more_body, body = True, True, b""

    connection = object.__new__(Connection)
    connection.cycle = Gone
    assert asyncio.run(connection._receive_into(Gone, memoryview(bytearray(3)))) is False


def test_answers_wait_for_clients_that_read_slowly(running):
    """More than the socket holds: writing is paused and goes on."""
    before = running.app.long
    running.app.long = b"x" * 30_000_000
    client = Client(running.port)
    client._socket.sendall(request_bytes("POST", "/", b"long", **TYPE))
    time.sleep(0.2)
    got = 0
    while got < len(running.app.long):
        part = client._socket.recv(2**20)
        assert part
        got += len(part)
    client.close()
    running.app.long = before


def test_another_server_gives_bodies_in_parts():
    running = Running("asyncio", http="h11")
    try:
        client = Client(running.port)
        client._socket.sendall(request_bytes("POST", "/", bytes(10**6), **TYPE)[:300_000])
        time.sleep(0.1)
        client.close()
        deadline = time.monotonic() + 10
        while not running.app.gone and time.monotonic() < deadline:
            time.sleep(0.01)
        assert running.app.gone == 1
        body, client = content_of(10**6), Client(running.port)
        assert client.ask(request_bytes("POST", "/", body, **TYPE))[2] == told("bytes", body)
        client.close()
    finally:
        running.stop()

"""What every request passes: the token, the clock, the counters, and the word that a shutdown has begun."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tightset.service.auth import OPEN_PATHS, Token
from tightset.service.refusals import Refusal
from tightset.service.room import Room, log

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
Endpoint = Callable[[Request], Awaitable[Response]]

_ENDPOINTS = {
    "/v1/predict": "predict",
    "/v1/feedback": "feedback",
    "/v1/models": "models",
    "/v1/state": "page",
    "/": "page",
    "/docs": "page",
    "/openapi.json": "page",
    "/metrics": "metrics",
    "/v2": "models",
    "/v2/health/live": "health",
    "/v2/health/ready": "health",
}


def endpoint_of(path: str) -> str:
    """Return the name that a path is counted under."""
    found = _ENDPOINTS.get(path)
    if found is not None:
        return found
    if path.startswith("/v2/models/"):
        return "infer" if path.endswith("/infer") else "models"
    return "page" if path.startswith("/web/") else "other"


class Gate:
    """An ASGI application around another.

    What is posted to the paths in `direct` goes to their functions at once, past the ten layers of the
    framework, which do nothing for them.
    """

    def __init__(self, inner: Application, room: Room, direct: Mapping[str, Endpoint]) -> None:
        self._inner = inner
        self._room = room
        self._direct = direct
        self._token = None if room.settings.token is None else Token(room.settings.token)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let a request through."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        room = self._room
        start = time.perf_counter()
        path: str = scope["path"]
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if room.is_draining:
                    # Clients that keep connections must leave them, before they are closed.
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        try:
            is_open = path in OPEN_PATHS or path.startswith("/web/")
            if self._token is not None and not is_open and not self._token.is_brought(scope["headers"]):
                message = "the request needs the header Authorization: Bearer with the token"
                await refuse(room, Refusal("unauthorised", message), path, send_and_note)
                return
            endpoint = self._direct.get(path) if scope["method"] == "POST" else None
            if endpoint is None:
                await self._inner(scope, receive, send_and_note)
                return
            response = await endpoint(Request(scope, receive))
            await response(scope, receive, send_and_note)
        except Refusal as refusal:
            await refuse(room, refusal, path, send_and_note)
        except ClientDisconnect:
            pass
        except Exception:
            log.exception("%s failed", path)
            if not status:
                await refuse(room, Refusal("internal", "something went wrong here"), path, send_and_note)
        finally:
            if status:
                room.measures.request(endpoint_of(path), status, time.perf_counter() - start)


async def refuse(room: Room, refusal: Refusal, path: str, send: Send) -> None:
    """Count a refusal and send it."""
    room.measures.add("refused_requests", refusal.code)
    if refusal.rows:
        room.measures.add("refused_rows", refusal.code, count=refusal.rows)
    room.refusals.add(refusal, path)
    content = orjson.dumps(refusal.body(flat=path.startswith("/v2")))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
    ]
    if refusal.code == "unauthorised":
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.code == "overloaded":
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})

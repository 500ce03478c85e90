"""The application: routes behind the gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from tightset._core import VERSION
from tightset.service import page, v1, v2
from tightset.service.gate import Gate, refuse
from tightset.service.gauges import gauges
from tightset.service.refusals import Refusal
from tightset.service.room import Room
from tightset.service.settings import Settings

_ABOUT = """Sets of labels that contain the truth with a probability of 1 - alpha, from a classifier's logits.

Refusals have a machine-readable `code`; 4xx name what is wrong with the request, row and label.
"""


def create_app(settings: Settings) -> Gate:
    """Return an ASGI application that serves the models of `settings` in this process.

    For other servers than that of `tightset serve`, with one worker; it does not listen to SIGHUP there.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import tightset as ts
    >>> from tightset.service import Settings, create_app
    >>> rng = np.random.default_rng(0)
    >>> predictor = ts.calibrate(rng.normal(size=(50, 3)), rng.integers(3, size=50), recipe="aps")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     predictor.save(f"{folder}/digits.json")
    ...     app = create_app(Settings(models={"digits": f"{folder}/digits.json"}))
    """
    return app_of(Room(settings))


def app_of(room: Room) -> Gate:
    """Return the application of a room that is ready, or will be when its worker has forked."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        room.open()
        beat = asyncio.create_task(room.beat())
        try:
            yield
        finally:
            beat.cancel()
            room.close()

    app = FastAPI(
        title="tightset",
        version=VERSION,
        description=_ABOUT,
        lifespan=lifespan,
        # Their pages load scripts from the network; ours, in page.py, does not.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    own = v1.routes(room)
    app.include_router(own)
    app.include_router(v2.routes(room))
    app.include_router(page.routes())

    @app.get(
        "/metrics",
        summary="Counters for Prometheus",
        tags=["operation"],
        responses={200: {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        """Tell all counters, histograms and gauges in the text format of Prometheus."""
        return Response(room.measures.text(gauges(room)), media_type="text/plain; version=0.0.4")

    # Not by FastAPI's handlers, whose answers are not in the form of the Open Inference Protocol.
    async def refused(request: Request, error: Exception) -> Response:
        return _Refused(room, _refusal_of(error, request))

    async def gone(_: Request, __: Exception) -> Response:
        return _Nothing()

    for kind in (Refusal, HTTPException, Exception):
        app.add_exception_handler(kind, refused)
    app.add_exception_handler(ClientDisconnect, gone)
    if room.settings.token is not None:
        _declare_token(app)
    posted = [each for each in own.routes if isinstance(each, APIRoute) and each.methods == {"POST"}]
    return Gate(app, room, {each.path: each.endpoint for each in posted})


class _Refused(Response):
    def __init__(self, room: Room, refusal: Refusal) -> None:
        super().__init__()
        self._room = room
        self._refusal = refusal

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await refuse(self._room, self._refusal, scope["path"], send)


class _Nothing(Response):
    """The answer to a client that has gone."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


def _refusal_of(error: Exception, request: Request) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if not isinstance(error, HTTPException):
        # The gate, to which it goes on, logs the trace.
        return Refusal("internal", "something went wrong here")
    if error.status_code == 405:
        return Refusal("method_not_allowed", f"{request.method} is not for this path")
    if error.status_code == 404:
        return Refusal("not_found", f"there is nothing at {request.url.path[:80]}")
    return Refusal("invalid_request", str(error.detail))


def _declare_token(app: FastAPI) -> None:
    document = app.openapi()
    document["components"] = {
        **document.get("components", {}),
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    document["security"] = [{"token": []}]

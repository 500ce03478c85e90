"""What comes from a socket: heads for the parser of HTTP, large bodies straight into their array.

uvicorn hands a body over in parts, and by then each byte has been copied four times; of a thousand rows that
took three times as long as their sets. Here the rest of a body, once its request is admitted, goes from the
socket to where it stays, past the parser, which is begun anew for the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# In the scope of a request, where another server has no such name: what receives the rest of its body.
EXTENSION = "tightset.receive_into"

ReceiveInto = Callable[[memoryview], Awaitable[bool]]

# Read at a time for the parser. Of a large body no more than this goes the long way.
_HEAD = 2**16


class Connection(HttpToolsProtocol):
    """uvicorn's connection, which can also receive into memory that the application gives."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to listen."""
        super().connection_made(transport)
        self._intake = _Intake(self)
        transport.set_protocol(self._intake)

    def on_headers_complete(self) -> None:
        """Begin a request."""
        super().on_headers_complete()
        cycle = self.cycle

        async def receive_into(rest: memoryview) -> bool:
            return await self._receive_into(cycle, rest)

        cycle.scope["extensions"] = {EXTENSION: receive_into}  # type: ignore[dict-item]

    def on_body(self, body: bytes) -> None:
        """Take a part, and no other before it is asked for."""
        super().on_body(body)
        if not self.cycle.response_complete:
            self.flow.pause_reading()

    async def _receive_into(self, cycle: Any, rest: memoryview) -> bool:
        """Fill `rest` with what is left of the body; return False if the connection ended before.

        To be called between two parts: nothing of the body may wait in uvicorn's own buffer.
        """
        assert cycle is self.cycle, "the parser is at another request"
        assert cycle.more_body, "there is nothing left"
        assert not cycle.body, "a part would be overtaken"
        if cycle.disconnected:
            return False
        self.flow.resume_reading()
        return await self._intake.fill(rest)

    def body_came(self) -> None:
        """Begin anew after a body that the parser has not seen."""
        self.cycle.more_body = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it


class _Intake(asyncio.BufferedProtocol):
    """What the transport talks to: it alone says where the next bytes are written."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._head = memoryview(bytearray(_HEAD))
        # Of a body that is being received: where it goes, how much is missing, and who waits for it.
        self._into = self._head
        self._left = 0
        self._came: asyncio.Future[bool] | None = None

    async def fill(self, rest: memoryview) -> bool:
        """Return when `rest` is full, or with False when the connection has ended."""
        self._into, self._left = rest, len(rest)
        self._came = self._connection.loop.create_future()
        try:
            return await self._came
        finally:
            # What is left of a body that nobody waits for any more passes by.
            self._came, self._into = None, self._head

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to write."""
        return self._into[: self._left] if self._left else self._head

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was written."""
        if not self._left:
            self._connection.data_received(bytes(self._head[:nbytes]))
            return
        self._left -= nbytes
        if self._came is not None:
            self._into = self._into[nbytes:]
        if not self._left:
            self._connection.body_came()
            self._wake(came=True)

    def eof_received(self) -> None:
        """Leave it to the connection."""
        self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the application know."""
        self._connection.connection_lost(exc)
        self._wake(came=False)

    def pause_writing(self) -> None:
        """Leave it to the connection."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Leave it to the connection."""
        self._connection.resume_writing()

    def _wake(self, *, came: bool) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(came)

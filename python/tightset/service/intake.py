"""Large bodies, received where they stay.

uvicorn hands a body over in parts of 64 KiB, and by then each byte has been copied four times; of a thousand
rows that took three times as long as their sets. Here the rest of a body, once its request is admitted, goes
from the socket into its array, past the parser of HTTP, which is begun anew for the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# In the scope of a request, for which another server has no such name: what receives the rest of its body.
EXTENSION = "tightset.receive_into"

ReceiveInto = Callable[[memoryview], Awaitable[bool]]


class Connection(HttpToolsProtocol):
    """uvicorn's connection, which also receives into memory that the application gives."""

    def on_headers_complete(self) -> None:
        """Begin a request."""
        super().on_headers_complete()
        cycle = self.cycle

        async def receive_into(rest: memoryview) -> bool:
            return await self._receive_into(cycle, rest)

        cycle.scope["extensions"] = {EXTENSION: receive_into}  # type: ignore[dict-item]

    async def _receive_into(self, cycle: Any, rest: memoryview) -> bool:
        """Fill `rest` with what is left of the body; return False if the connection ended before.

        To be called between two parts: nothing of the body may wait in uvicorn's own buffer.
        """
        assert cycle is self.cycle, "the parser is at another request"
        assert cycle.more_body, "there is nothing left"
        assert not cycle.body, "a part would be overtaken"
        if cycle.disconnected:
            return False
        intake = _Intake(self, rest)
        self._hand_over(intake)
        try:
            return await intake.came
        finally:
            intake.let_go()

    def body_came(self) -> None:
        """Listen again, to what comes after a body that the parser has not seen."""
        self.cycle.more_body = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        self._hand_over(self)

    def _hand_over(self, protocol: asyncio.BaseProtocol) -> None:
        self.transport.set_protocol(protocol)
        self.flow.resume_reading()


class _Intake(asyncio.BufferedProtocol):
    """What listens to a connection while a body is received."""

    def __init__(self, connection: Connection, rest: memoryview) -> None:
        self._connection = connection
        self._into = rest
        self._left = len(rest)
        self.came: asyncio.Future[bool] = connection.loop.create_future()

    def let_go(self) -> None:
        """Write no more: of a body that nobody waits for, the rest passes by."""
        self._into = memoryview(bytearray(min(self._left, 2**16)))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._into[: self._left]

    def buffer_updated(self, nbytes: int) -> None:
        self._left -= nbytes
        if not self.came.done():
            self._into = self._into[nbytes:]
        if not self._left:
            self._connection.body_came()
            if not self.came.done():
                self.came.set_result(True)

    def eof_received(self) -> None:
        self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)
        if not self.came.done():
            self.came.set_result(False)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

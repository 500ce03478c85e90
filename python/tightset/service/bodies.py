"""Bodies of requests, read within their limits."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import numpy as np
import orjson
from starlette.requests import ClientDisconnect, Request

from tightset.service.intake import EXTENSION, ReceiveInto
from tightset.service.refusals import Refusal
from tightset.service.settings import Limits

JSON = "application/json"
BINARY = "application/octet-stream"


class BodyReader:
    """Reads bodies, of which all together hold no more than ``limits.waiting`` bytes."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held = 0

    def media_type(self, request: Request, *known: str) -> str:
        """Return which of the known media types the body has, or refuse it."""
        found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if found not in known:
            message = f"Content-Type must be {' or '.join(known)}, got {found[:80]!r}"
            raise Refusal("media_type", message)
        encoding = request.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            message = f"Content-Encoding must be absent, got {encoding[:80]!r}"
            raise Refusal("media_type", message)
        return found

    async def read(self, request: Request, media_type: str) -> bytes | memoryview:
        """Return the whole body; too large, too slow or one too many is refused.

        What a request announces is checked before anything is read, what arrives as it arrives.
        """
        most = self._limits.json_body if media_type == JSON else self._limits.body
        announced = request.headers.get("content-length")
        # uvicorn has refused lengths that are no numbers.
        expected = int(announced) if announced is not None else 0
        if expected > most:
            await self._discard(request, expected, most)
            raise _too_large(expected, most)
        self._hold(expected)
        held = expected
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                first = await request.receive()
                if first["type"] == "http.disconnect":
                    raise ClientDisconnect
                body: bytes = first.get("body", b"")
                if not first.get("more_body", False):
                    return body
                into: ReceiveInto | None = request.scope.get("extensions", {}).get(EXTENSION)
                if into is not None and expected:
                    return await _filled(expected, body, into)
                # Joined at the end: to grow an array copies it again and again.
                parts, size = [body], len(body)
                while True:
                    part = await request.receive()
                    if part["type"] == "http.disconnect":
                        raise ClientDisconnect
                    content = part.get("body", b"")
                    parts.append(content)
                    size += len(content)
                    if size > most:
                        parts.clear()
                        await self._discard(request, size, most)
                        raise _too_large(size, most)
                    if size > held:
                        self._hold(size - held)
                        held = size
                    if not part.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            message = f"the body must arrive within {self._limits.body_seconds:g} s"
            raise Refusal("body_timeout", message) from None
        finally:
            self.held -= held

    async def _discard(self, request: Request, size: int, most: int) -> None:
        """Let the rest of a body pass by, if it is not without end.

        A client that is still sending when its connection is closed may never see why.
        """
        if "expect" in request.headers:
            return  # the client waits to be told
        left, rest = 4 * most - size, True
        # One that stalls is told, late, that its body is too large.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.body_seconds):
                while rest and left > 0:
                    part = await request.receive()
                    rest = part.get("more_body", False)
                    left -= len(part.get("body", b""))

    def _hold(self, count: int) -> None:
        if self.held + count > self._limits.waiting:
            message = f"{self.held} bytes of requests are being read already: try again later"
            raise Refusal("overloaded", message)
        self.held += count


async def _filled(size: int, first: bytes, receive_into: ReceiveInto) -> memoryview:
    """Return a body of this size that began so."""
    # Uninitialised, unlike a bytearray. From 4 MiB on NumPy asks for large pages, of 2 MiB.
    room = size if size < 2**21 else -(-size // 2**21) * 2**21
    whole = np.empty(room, np.uint8).data[:size]
    whole[: len(first)] = first
    if not await receive_into(whole[len(first) :]):
        raise ClientDisconnect
    return whole


def parse_object(body: bytes | memoryview) -> dict[str, Any]:
    """Return the JSON object of a body. NaN, Infinity and numbers beyond float64 are no JSON."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = f"the body must be JSON (RFC 8259, so without NaN and Infinity): {error}"
        raise Refusal("invalid_json", message) from None
    if not isinstance(found, dict):
        message = f"the body must be a JSON object, got {type(found).__name__}"
        raise Refusal("invalid_request", message)
    return found


def known_fields(given: dict[str, Any], known: frozenset[str], what: str = "the body") -> None:
    """Refuse fields that would be ignored, as a misspelt one would."""
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        message = f"{what} may have {', '.join(sorted(known))}, got {unknown[:80]!r}"
        raise Refusal("invalid_request", message)


def _too_large(count: int, most: int) -> Refusal:
    return Refusal("body_too_large", f"the body must have at most {most} bytes, got {count}")

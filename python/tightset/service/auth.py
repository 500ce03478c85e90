"""The bearer token."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

# Probes and files that hold nothing of anyone's: the pages ask for the token and send it themselves.
OPEN_PATHS = frozenset({"/", "/docs", "/openapi.json", "/v2/health/live", "/v2/health/ready"})


class Token:
    """A secret that is compared in the same time whatever is brought."""

    def __init__(self, token: str) -> None:
        # Digests are equally long, so that not even the length shows.
        self._digest = hashlib.sha256(token.encode()).digest()

    def is_brought(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether the headers hold ``Authorization: Bearer`` with the token."""
        brought = next((value for name, value in headers if name == b"authorization"), b"")
        scheme, _, credential = brought.partition(b" ")
        is_equal = hmac.compare_digest(hashlib.sha256(credential.strip()).digest(), self._digest)
        return is_equal and scheme.lower() == b"bearer"

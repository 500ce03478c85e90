"""What is refused, by a code that programs can read."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

STATUS = {
    "invalid_json": 400,
    "unauthorised": 401,
    "not_found": 404,
    "model_unknown": 404,
    "request_unknown": 404,
    "method_not_allowed": 405,
    "body_timeout": 408,
    "request_id_in_use": 409,
    "label_given": 409,
    "feedback_off": 409,
    "model_replaced": 409,
    "body_too_large": 413,
    "too_many_rows": 413,
    "media_type": 415,
    "invalid_request": 422,
    "invalid_rows": 422,
    "invalid_labels": 422,
    "wrong_labels": 422,
    "not_finite": 422,
    "shape_mismatch": 422,
    "internal": 500,
    "overloaded": 503,
}
"""Every code and its HTTP status."""


class Refusal(Exception):  # noqa: N818 - most are no error of ours
    """A request that is answered with a code instead of sets.

    Attributes
    ----------
    code
        One of `STATUS`.
    rows
        Rows that went without a set.
    where
        Row and label at fault, when there is one.
    """

    def __init__(self, code: str, message: str, *, rows: int = 0, **where: int) -> None:
        super().__init__(message)
        self.code = code
        self.rows = rows
        self.where = where

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return STATUS[self.code]

    def body(self, *, flat: bool) -> dict[str, Any]:
        """Return what the answer holds; `flat` is the form of the Open Inference Protocol."""
        if flat:
            return {"error": str(self), "code": self.code, **self.where}
        return {"error": {"code": self.code, "message": str(self), **self.where}}


class RefusalLog:
    """The last refusals of this worker, for the page."""

    def __init__(self, keep: int = 20) -> None:
        self._last: deque[dict[str, Any]] = deque(maxlen=keep)

    def add(self, refusal: Refusal, path: str) -> None:
        """Note a refusal; what it says is cut, since it quotes what clients send."""
        self._last.appendleft(
            {
                "at": time.time(),
                "path": path[:80],
                "status": refusal.status,
                "code": refusal.code,
                "message": str(refusal)[:200],
            }
        )

    def latest(self) -> list[dict[str, Any]]:
        """Return them, the newest first."""
        return list(self._last)

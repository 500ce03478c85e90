"""A progress bar for long work, on a terminal only."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

_WIDTH = 30
_PATIENCE = 1.0
_REDRAWN = 0.1


class _Line(ABC):
    """A line on standard error, if that is a terminal.

    Nothing is drawn in the first second, and the line is cleared at the end.
    """

    def __init__(self) -> None:
        self._done, self._started, self._drawn = 0, time.monotonic(), 0.0
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._write("")

    def advance(self, done: int) -> None:
        """Count steps or rows as done."""
        self._done += done
        now = time.monotonic()
        if self.is_shown and now - self._started >= _PATIENCE and now - self._drawn >= _REDRAWN:
            self._write(self._text(now - self._started))
            self._drawn = now

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    @abstractmethod
    def _text(self, elapsed: float) -> str: ...


def _bar(share: float) -> str:
    return f"[{'#' * round(_WIDTH * share):<{_WIDTH}}] {share:4.0%}"


class Progress(_Line):
    """Shows how many of some steps are done, and how long the others will take."""

    def __init__(self, total: int, what: str) -> None:
        super().__init__()
        self._total, self._what = max(1, total), what

    def _text(self, elapsed: float) -> str:
        share = min(1.0, self._done / self._total)
        left = elapsed / share - elapsed if share else float("inf")
        return f"{self._what} {_bar(share)}, {left:.0f} s left"


class RowProgress(_Line):
    """Shows how many rows a pass has read, how fast, and how long it will take if their number is known."""

    def __init__(self, total: int | None, what: str) -> None:
        super().__init__()
        self._total, self._what = total, what

    def _text(self, elapsed: float) -> str:
        rate = self._done / elapsed
        if not self._total:
            return f"{self._what} {self._done:,} rows, {rate:,.0f} rows/s"
        left = (self._total - self._done) / rate if self._done else float("inf")
        bar = _bar(min(1.0, self._done / self._total))
        return f"{self._what} {bar}, {rate:,.0f} rows/s, {max(0.0, left):.0f} s left"

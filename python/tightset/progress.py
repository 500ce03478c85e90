"""A progress bar for long work, on a terminal only."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

_WIDTH = 30
_PATIENCE = 1.0
_REDRAWN = 0.1


class Progress:
    """Shows how much of some work is done, on standard error if that is a terminal.

    Nothing is drawn in the first second, and the line is cleared at the end.
    """

    def __init__(self, total: int, what: str) -> None:
        self._total, self._what = max(1, total), what
        self._done, self._started = 0, time.monotonic()
        self._is_drawn = False
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def advance(self, steps: int) -> None:
        """Count steps as done."""
        self._done += steps
        elapsed = time.monotonic() - self._started
        if not self.is_shown or elapsed < _PATIENCE:
            return
        share = min(1.0, self._done / self._total)
        bar = "#" * round(_WIDTH * share)
        left = elapsed / share - elapsed
        sys.stderr.write(f"\r\x1b[K{self._what} [{bar:<{_WIDTH}}] {share:4.0%}, {left:.0f} s left")
        sys.stderr.flush()
        self._is_drawn = True


class RowProgress:
    """Shows how many rows a pass has read, how fast, and how long it will take, as `Progress` does."""

    def __init__(self, total: int | None, what: str) -> None:
        self._total, self._what = total, what
        self._rows, self._started, self._drawn = 0, time.monotonic(), 0.0
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def advance(self, rows: int) -> None:
        """Count rows as read."""
        self._rows += rows
        now = time.monotonic()
        if self.is_shown and now - self._started >= _PATIENCE and now - self._drawn >= _REDRAWN:
            sys.stderr.write(f"\r\x1b[K{self._line(now - self._started)}")
            sys.stderr.flush()
            self._drawn = now

    def _line(self, elapsed: float) -> str:
        rate = self._rows / elapsed
        if not self._total:
            return f"{self._what} {self._rows:,} rows, {rate:,.0f} rows/s"
        share = min(1.0, self._rows / self._total)
        bar = "#" * round(_WIDTH * share)
        left = (self._total - self._rows) / rate if self._rows else float("inf")
        return f"{self._what} [{bar:<{_WIDTH}}] {share:4.0%}, {rate:,.0f} rows/s, {max(0.0, left):.0f} s left"

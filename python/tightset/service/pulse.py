"""The last minutes of the service, for the page."""

from __future__ import annotations

import time
from collections import deque
from itertools import pairwise
from typing import Any

import numpy as np

from tightset.service.measures import Measures, quantile

SECONDS = 2.0
"""Between two samples."""

_SAMPLES = 151
_TIMED = ("predict", "infer")


class Pulse:
    """Samples of the counters of all workers, whose differences are rates."""

    def __init__(self, measures: Measures, models: list[str]) -> None:
        self._measures = measures
        self._models = models
        self._samples: deque[tuple[float, float, Any]] = deque(maxlen=_SAMPLES)
        self.sample()

    def sample(self) -> None:
        """Read the counters."""
        rows = sum(self._measures.total("rows", name) for name in self._models)
        counts = sum(self._measures.histogram("request_seconds", name)[1] for name in _TIMED)
        self._samples.append((time.time(), rows, counts))

    def series(self) -> list[dict[str, Any]]:
        """Return rates and latencies between each two samples, the oldest first."""
        ends = self._measures.histogram("request_seconds", _TIMED[0])[0]
        found = []
        for (before, rows_before, counts_before), (now, rows, counts) in pairwise(self._samples):
            seconds = max(now - before, 1e-9)
            between = counts - counts_before
            found.append(
                {
                    "at": now,
                    "requests_per_second": float(np.sum(between)) / seconds,
                    "rows_per_second": (rows - rows_before) / seconds,
                    "p50": quantile(ends, between, 0.5),
                    "p99": quantile(ends, between, 0.99),
                }
            )
        return found

"""Counters and histograms in memory that all workers share, in the text that Prometheus reads.

Each worker writes a row of its own and whoever is asked adds them up. prometheus-client was considered: it
takes one observation at a time, where a batch brings a thousand set sizes, and with several workers it
keeps a file for each process.
"""

from __future__ import annotations

import math
import mmap
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset.service.refusals import STATUS

ENDPOINTS = ("predict", "infer", "feedback", "models", "health", "metrics", "page", "other")

KINDS = ("empty", "singleton", "several", "full")
"""What sets are counted by."""

# Of latency, in seconds: five a decade from 20 microseconds.
LATENCIES = tuple(float(f"{10 ** (e / 5 - 4.7):.3g}") for e in range(28))
_SIZES = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000)

_STATUSES = ("200", *sorted({str(status) for status in STATUS.values()}), "other")


@dataclass(frozen=True, slots=True)
class _Family:
    name: str
    help: str
    labels: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    buckets: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        # A histogram has its buckets, the one above them all and the sum.
        return len(self.buckets) + 2 if self.buckets else 1

    @property
    def children(self) -> list[tuple[str, ...]]:
        return list(product(*self.values))


class Measures:
    """What the service counts.

    Parameters
    ----------
    models
        Names of the models.
    workers
        Processes that write; call `become` in each after the fork.
    """

    def __init__(self, models: Sequence[str], workers: int = 1) -> None:
        names = tuple(models)
        self._families = (
            _Family("requests", "Requests answered.", ("endpoint", "status"), (ENDPOINTS, _STATUSES)),
            _Family(
                "request_seconds",
                "From the head of a request to the end of its answer.",
                ("endpoint",),
                (ENDPOINTS,),
                LATENCIES,
            ),
            _Family("rows", "Rows that got a set.", ("model",), (names,)),
            _Family("set_size", "Labels in a set.", ("model",), (names,), _SIZES),
            _Family(
                "sets",
                "Sets by kind; one label is a singleton also where it is the only one there is.",
                ("model", "kind"),
                (names, KINDS),
            ),
            _Family("refused_requests", "Requests refused.", ("reason",), (tuple(STATUS),)),
            _Family("refused_rows", "Rows of refused requests.", ("reason",), (tuple(STATUS),)),
            _Family(
                "feedback_labels",
                "Labels that came, by whether the set sent had them.",
                ("model", "covered"),
                (names, ("true", "false")),
            ),
            _Family("reloads", "Files read again.", ("outcome",), (("changed", "same", "failed"),)),
        )
        self._start: dict[tuple[str, tuple[str, ...]], int] = {}
        size = 0
        for family in self._families:
            for child in family.children:
                self._start[family.name, child] = size
                size += family.width
        self._memory = mmap.mmap(-1, 8 * size * workers)
        self._all = np.frombuffer(self._memory, np.float64).reshape(workers, size)
        self._mine = self._all[0]
        self._sizes = np.array(_SIZES)

    def become(self, worker: int) -> None:
        """Write as this worker from now on."""
        self._mine = self._all[worker]

    def add(self, family: str, *child: str, count: float = 1.0) -> None:
        """Count."""
        self._mine[self._start[family, child]] += count

    def request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        text = str(status)
        self.add("requests", endpoint, text if text in _STATUSES else "other")
        start = self._start["request_seconds", (endpoint,)]
        self._mine[start + bisect_left(LATENCIES, seconds)] += 1
        self._mine[start + len(LATENCIES) + 1] += seconds

    def sets(self, model: str, sizes: NDArray[np.int64], n_labels: int) -> None:
        """Count sets."""
        n = len(sizes)
        start = self._start["set_size", (model,)]
        width = len(_SIZES) + 1
        counts = np.bincount(np.searchsorted(self._sizes, sizes), minlength=width)
        self._mine[start : start + width] += counts
        self._mine[start + width] += sizes.sum()
        self.add("rows", model, count=n)
        # The first two buckets hold sizes 0 and 1 and nothing else.
        empty, one = int(counts[0]), int(counts[1])
        full = int(np.count_nonzero(sizes == n_labels)) if n_labels > 1 else 0
        kinds = {"empty": empty, "singleton": one, "full": full, "several": n - empty - one - full}
        for kind, count in kinds.items():
            self.add("sets", model, kind, count=count)

    def total(self, family: str, *child: str) -> float:
        """Return a counter over all workers."""
        return float(self._all[:, self._start[family, child]].sum())

    def histogram(self, family: str, *child: str) -> tuple[tuple[float, ...], NDArray[np.float64], float]:
        """Return upper ends of the buckets, counts with one more for what lies above, and the sum."""
        found = next(f for f in self._families if f.name == family)
        start = self._start[family, child]
        block = self._all[:, start : start + found.width].sum(axis=0)
        return found.buckets, block[:-1], float(block[-1])

    def text(self, gauges: Iterable[tuple[str, str, dict[str, str], float]] = ()) -> str:
        """Return everything in the text format of Prometheus, with gauges (name, help, labels, value)."""
        lines: list[str] = []
        for family in self._families:
            kind = "histogram" if family.buckets else "counter"
            name = f"tightset_{family.name}" + ("" if family.buckets else "_total")
            lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {kind}"]
            for child in family.children:
                labels = dict(zip(family.labels, child, strict=True))
                if not family.buckets:
                    value = self.total(family.name, *child)
                    # Of statuses and reasons, those that have occurred.
                    if value or family.name not in ("requests", "refused_requests", "refused_rows"):
                        lines.append(f"{name}{_braces(labels)} {_number(value)}")
                    continue
                ends, counts, total = self.histogram(family.name, *child)
                running = np.cumsum(counts)
                for end, count in zip((*(f"{e:g}" for e in ends), "+Inf"), running.tolist(), strict=True):
                    lines.append(f"{name}_bucket{_braces({**labels, 'le': end})} {_number(count)}")
                lines.append(f"{name}_sum{_braces(labels)} {_number(total)}")
                lines.append(f"{name}_count{_braces(labels)} {_number(float(running[-1]))}")
        described: set[str] = set()
        for gauge, about, labels, value in gauges:
            if gauge not in described:
                described.add(gauge)
                lines += [f"# HELP {gauge} {about}", f"# TYPE {gauge} gauge"]
            lines.append(f"{gauge}{_braces(labels)} {_number(value)}")
        return "\n".join(lines) + "\n"


def quantile(ends: Sequence[float], counts: NDArray[Any], share: float) -> float | None:
    """Return the upper end of the bucket in which the share is reached, or None without observations."""
    total = counts.sum()
    if not total:
        return None
    place = int(np.searchsorted(np.cumsum(counts), share * total))
    return ends[min(place, len(ends) - 1)]


def _braces(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)

"""Rows that wait for their labels, in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset.service.models import Model
from tightset.service.refusals import Refusal
from tightset.service.settings import Limits
from tightset.sets import PredictionSets

# What an entry takes beside its arrays, roughly.
_OVERHEAD = 600


@dataclass(slots=True, eq=False)
class Sent:
    """Rows of a request and the sets that were sent."""

    model: Model
    logits: NDArray[Any]
    row_ids: NDArray[np.uint64] | None
    sets: PredictionSets
    at: float
    waits: NDArray[np.bool_]

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        ids = 0 if self.row_ids is None else self.row_ids.nbytes
        return self.logits.nbytes + ids + self.sets.indptr.nbytes + self.sets.indices.nbytes + _OVERHEAD


class Memory:
    """The last requests by id; the oldest go first, by age or for room."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = limits.remembered
        self._seconds = limits.remembered_seconds
        self._clock = clock
        self._sent: OrderedDict[str, Sent] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._sent)

    def __contains__(self, request_id: str) -> bool:
        self._forget_old()
        return request_id in self._sent

    def keep(
        self,
        request_id: str,
        model: Model,
        logits: NDArray[Any],
        row_ids: NDArray[np.uint64] | None,
        sets: PredictionSets,
    ) -> None:
        """Remember a request, unless it alone is larger than the memory."""
        sent = Sent(model, logits, row_ids, sets, self._clock(), np.ones(len(logits), np.bool_))
        if sent.nbytes > self._most:
            return
        self._sent[request_id] = sent
        self.nbytes += sent.nbytes
        self._forget_old()
        while self.nbytes > self._most:
            self._drop(next(iter(self._sent)))

    def find(self, request_id: str) -> Sent:
        """Return the request of this id."""
        self._forget_old()
        sent = self._sent.get(request_id)
        if sent is None:
            message = (
                f"request_id must be of a request in the last {self._seconds:g} s of which a row still waits "
                f"for its label, got {request_id[:80]!r}"
            )
            raise Refusal("request_unknown", message)
        return sent

    def done(self, request_id: str) -> None:
        """Forget a request if none of its rows waits any more."""
        sent = self._sent.get(request_id)  # it may have gone for room meanwhile
        if sent is not None and not sent.waits.any():
            self._drop(request_id)

    def _forget_old(self) -> None:
        oldest = self._clock() - self._seconds
        while self._sent:
            request_id, sent = next(iter(self._sent.items()))
            if sent.at >= oldest:
                return
            self._drop(request_id)

    def _drop(self, request_id: str) -> None:
        self.nbytes -= self._sent.pop(request_id).nbytes


def labels_of(given: Any, sent: Sent) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the rows for which labels have come, and the labels; null stands for one that has not."""
    n, k = len(sent.logits), sent.model.predictor.n_labels
    if not isinstance(given, list) or len(given) != n:
        got = f"{len(given)}" if isinstance(given, list) else "none"
        message = f"labels must be a list with a label or null for each of the {n} rows, got {got}"
        raise Refusal("invalid_labels", message, rows=n)
    for i, label in enumerate(given):
        if label is not None and (type(label) is not int or not 0 <= label < k):
            message = f"labels must be integers from 0 to {k - 1} or null, got {label!r:.80} at row {i}"
            raise Refusal("invalid_labels", message, rows=n, row=i)
    rows = np.array([i for i, label in enumerate(given) if label is not None], np.intp)
    if not len(rows):
        message = "labels must hold at least one label, got nulls alone"
        raise Refusal("invalid_labels", message, rows=n)
    given_twice = rows[~sent.waits[rows]]
    if len(given_twice):
        message = f"labels of a row must come once: row {given_twice[0]} has one already"
        raise Refusal("label_given", message, rows=n, row=int(given_twice[0]))
    return rows, np.array([given[i] for i in rows], np.int64)

"""The state of a running service, in one place: models, counters, remembered rows, watches."""

from __future__ import annotations

import asyncio
import logging
import math
import mmap
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tightset.service.bodies import BodyReader
from tightset.service.feedback import Memory, Sent, labels_of
from tightset.service.measures import Measures
from tightset.service.models import Model, Models
from tightset.service.pulse import SECONDS, Pulse
from tightset.service.refusals import Refusal, RefusalLog
from tightset.service.rows import not_finite
from tightset.service.schemas import REQUEST_ID
from tightset.service.settings import Settings
from tightset.service.state_file import restore_state, save_state
from tightset.service.watch import Watch
from tightset.sets import PredictionSets
from tightset.threads import get_num_threads, set_num_threads

log = logging.getLogger("tightset.service")

_T = TypeVar("_T")

# Bodies up to these sizes are answered where they arrive, which others wait for, about a millisecond: to pass
# them to a thread and back would take longer, or nearly. JSON takes longer to read. On a single core a thread
# and the loop take turns, a dozen for each request, in a seventh of its time.
_AT_ONCE_JSON, _AT_ONCE, _AT_ONCE_ON_ONE_CORE = 2**17, 2**20, 2**22

_REQUEST_ID = re.compile(REQUEST_ID)


class Room:
    """Everything that requests share.

    Raises ValueError or OSError, naming the file, for models and states that cannot be served.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.models = Models(settings.models, max_labels=settings.limits.labels)
        self.names = list(settings.models)
        self.measures = Measures(self.names, settings.workers)
        self.memory = Memory(settings.limits) if settings.takes_feedback else None
        self.watches = {m.name: Watch(m, settings) for m in self.models} if settings.takes_feedback else {}
        if settings.state is not None:
            for name in restore_state(settings.state, self.watches):
                log.warning("%s: model %s has changed since, its watch begins anew", settings.state, name)
        self.bodies = BodyReader(settings.limits)
        self.refusals = RefusalLog()
        self.started_at = time.time()
        self.is_draining = False
        self._ends = mmap.mmap(-1, 1)  # shared by all workers
        self._saved: object = None

    def open(self) -> None:
        """Make what a worker has for itself, after the fork."""
        set_num_threads(self.settings.threads)
        self._at_once = _AT_ONCE_ON_ONE_CORE if get_num_threads() == 1 else _AT_ONCE
        # Large requests go one after the other: each may use all threads of the core.
        self._pool = ThreadPoolExecutor(1, "tightset-rows")
        self._learning = asyncio.Lock()
        self._reloading = asyncio.Lock()
        self.pulse = Pulse(self.measures, self.names)

    def end_all(self) -> None:
        """Let all workers know that this is the end of the service, not of one of them."""
        self._ends[0] = 1

    def is_last(self) -> bool:
        """Return whether no other worker will go on."""
        return self.settings.workers == 1 or self._ends[0] == 1

    async def run(self, n_bytes: int, work: Callable[[], _T], *, is_json: bool = False) -> _T:
        """Return what `work` returns, out of the way of other requests if it is large."""
        if n_bytes <= (_AT_ONCE_JSON if is_json else self._at_once):
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def request_id(self, given: str | None) -> str:
        """Return the id that a client gave, if it can serve as one, or a new one."""
        if given is None:
            return os.urandom(12).hex()
        if not _REQUEST_ID.fullmatch(given):
            message = f"the request id must be up to 128 letters, digits and . _ : -, got {given[:80]!r}"
            raise Refusal("invalid_request", message)
        if self.memory is not None and given in self.memory:
            message = f"the request id must be new, got {given!r}, whose rows wait for their labels"
            raise Refusal("request_id_in_use", message)
        return given

    def predict(
        self, model: Model, logits: NDArray[Any], row_ids: NDArray[np.uint64] | None, *, allow_empty: bool
    ) -> tuple[PredictionSets, float]:
        """Return the sets and the alpha they were made at."""
        # This pass over the rows finds NaN and -inf; +inf the library finds as it reads.
        if not math.isfinite(logits.min()) and (refusal := not_finite(logits)):
            raise refusal
        watch = self.watches.get(model.name)
        try:
            if watch is not None and watch.adaptive is not None and watch.model is model:
                if not allow_empty:
                    message = "allow_empty must be true where alpha adapts"
                    raise Refusal("invalid_request", message, rows=len(logits))
                return watch.predict(logits, row_ids), watch.alpha
            sets = model.predictor.predict_set(logits, row_ids=row_ids, allow_empty=allow_empty)
        except (ValueError, TypeError) as error:
            raise not_finite(logits) or Refusal("invalid_rows", str(error), rows=len(logits)) from error
        return sets, model.predictor.alpha

    def sent(
        self,
        request_id: str,
        model: Model,
        logits: NDArray[Any],
        row_ids: NDArray[np.uint64] | None,
        sets: PredictionSets,
    ) -> None:
        """Count sets and remember their rows."""
        self.measures.sets(model.name, sets.sizes, model.predictor.n_labels)
        if self.memory is not None:
            self.memory.keep(request_id, model, logits, row_ids, sets)

    async def learn(self, sent: Sent, given: Any) -> tuple[int, int]:
        """Take in labels; return how many there were, and how many of the sets that were sent had them."""
        # One after the other, in the order in which they came: alpha depends on it.
        async with self._learning:
            watch = self.watches[sent.model.name]
            if watch.model is not sent.model:
                message = (
                    f"model {sent.model.name} has been replaced since: labels of the old one say nothing"
                )
                raise Refusal("model_replaced", message)
            rows, labels = labels_of(given, sent)
            covered = sent.sets[rows].covers(labels)
            logits = sent.logits[rows]
            row_ids = None if sent.row_ids is None else sent.row_ids[rows]
            await self.run(logits.nbytes, lambda: watch.learn(logits, labels, row_ids, covered))
            sent.waits[rows] = False
        hits = int(np.count_nonzero(covered))
        self.measures.add("feedback_labels", sent.model.name, "true", count=hits)
        self.measures.add("feedback_labels", sent.model.name, "false", count=len(rows) - hits)
        return len(rows), hits

    async def reload(self) -> None:
        """Read all files again; what cannot be served leaves the old model where it is."""
        async with self._reloading:  # or an older reading could come in last
            await self._reload()

    async def _reload(self) -> None:
        loop = asyncio.get_running_loop()
        changed, failures = await loop.run_in_executor(None, self.models.read_again)
        if self.settings.takes_feedback:
            for name, model in list(changed.items()):
                try:
                    self.watches[name] = Watch(model, self.settings)
                except ValueError as error:
                    del changed[name]
                    failures[name] = str(error)
        self.models.exchange(changed, failures)
        for name in self.names:
            if name in failures:
                log.error("reload: model %s stays as it was: %s", name, failures[name])
                self.measures.add("reloads", "failed")
            else:
                word = "changed" if name in changed else "same"
                log.info("reload: model %s, version %s, %s", name, self.models.find(name).version, word)
                self.measures.add("reloads", word)

    def save(self) -> None:
        """Write the state file if labels have come since the last time."""
        if self.settings.state is None:
            return
        now = [(watch.model.version, watch.labelled) for watch in self.watches.values()]
        if now == self._saved:
            return
        try:
            save_state(self.settings.state, self.watches)
        except OSError as error:
            log.error("the state could not be saved: %s", error)  # noqa: TRY400 - a full disk needs no trace
            return
        self._saved = now

    async def beat(self) -> None:
        """Sample the counters and save the state, again and again."""
        saved_at = time.monotonic()
        while True:
            await asyncio.sleep(SECONDS)
            self.pulse.sample()
            if time.monotonic() - saved_at >= self.settings.state_seconds:
                saved_at = time.monotonic()
                self.save()

    def close(self) -> None:
        """Save and end the thread."""
        self.save()
        self._pool.shutdown()

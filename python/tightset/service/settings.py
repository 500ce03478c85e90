"""What a service is told at its start, and the limits it keeps."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tightset._inputs import as_alpha, as_integer, as_positive, as_thread_count

MIB = 2**20

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request, and all of them together, may take.

    Attributes
    ----------
    body, json_body
        Bytes of a binary and of a JSON request. JSON has its own limit, because three bytes of it can
        become a hundred in memory.
    waiting
        Bytes of all bodies that are held at one time; beyond it requests are refused with 503.
    rows
        Rows of one request.
    labels
        Labels of a model; a file with more is not loaded.
    body_seconds
        How long a body may take to arrive.
    remembered, remembered_seconds
        Bytes of rows that wait for their labels, and for how long.
    """

    body: int = 64 * MIB
    json_body: int = 8 * MIB
    waiting: int = 256 * MIB
    rows: int = 65536
    labels: int = 131072
    body_seconds: float = 30.0
    remembered: int = 64 * MIB
    remembered_seconds: float = 3600.0

    def __post_init__(self) -> None:
        for name in ("body", "json_body", "waiting", "rows", "labels", "remembered"):
            as_integer(getattr(self, name), name, 1)
        for name in ("body_seconds", "remembered_seconds"):
            as_positive(getattr(self, name), name)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that `serve` needs to know.

    Attributes
    ----------
    models
        File of each model by its name; the first is the default of ``/v1/predict``.
    host, port
        Where to listen; port 0 takes a free one.
    workers
        Processes that share the port.
    threads
        Threads that a worker predicts with at most, or None for what the machine allows.
    token
        Bearer token that requests must bring, or None.
    feedback
        Whether rows are kept until their labels come; None for yes with one worker.
    adapt
        Whether alpha follows the labels (`AdaptiveAlpha`) with step `rate`.
    alarm_level
        Probability with which the coverage alarm may ever be false.
    state
        File that keeps the watch on coverage over restarts, or None.
    state_seconds
        Time between savings of it.
    drain
        Seconds between SIGTERM and the closing of the port, in which ``/v2/health/ready`` says 503.
    """

    models: Mapping[str, str]
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    threads: int | None = None
    token: str | None = field(default=None, repr=False)
    feedback: bool | None = None
    adapt: bool = False
    rate: float = 0.005
    alarm_level: float = 0.01
    state: str | os.PathLike[str] | None = None
    state_seconds: float = 30.0
    drain: float = 0.5
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.models:
            message = "models must name at least one file, got none"
            raise ValueError(message)
        for name in self.models:
            if not _NAME.fullmatch(name):
                message = f"models must have names of letters, digits and . _ -, at most 64, got {name!r}"
                raise ValueError(message)
        as_integer(self.port, "port", 0, 65535)
        as_integer(self.workers, "workers", 1, 256)
        as_thread_count(self.threads)
        as_alpha(self.alarm_level, "alarm_level")
        as_positive(self.rate, "rate")
        as_positive(self.state_seconds, "state_seconds")
        if self.drain != 0:
            as_positive(self.drain, "drain")
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token):
            message = "token must be printable ASCII characters, at least one"
            raise ValueError(message)
        if self.workers > 1:
            # Labels must meet the rows they belong to, and one process must own what is learnt from them.
            asked = [name for name in ("feedback", "adapt", "state") if getattr(self, name)]
            if asked:
                message = f"{asked[0]} needs one worker, got workers={self.workers}"
                raise ValueError(message)
        if self.adapt and self.feedback is False:
            message = "adapt needs feedback, which is off"
            raise ValueError(message)

    @property
    def takes_feedback(self) -> bool:
        """Whether rows wait for their labels."""
        return self.workers == 1 if self.feedback is None else self.feedback

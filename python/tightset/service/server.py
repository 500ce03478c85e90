"""Listening: sockets, workers and signals."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn

from tightset.service.app import app_of
from tightset.service.intake import Connection
from tightset.service.room import Room, log
from tightset.service.settings import MIB, Settings

# After the port is closed: for all connections, and at most, for those that have not asked anything yet.
_LINGER, _LINGER_FIRST = 0.2, 3.0

_KEEP_ALIVE = 75

_SO_ATTACH_FILTER = 26

# Of glibc's malloc, with the bytes from which on it gives memory back, and takes it from the system for one
# array alone, which it may do from 32 MiB on at most.
_MALLOPT = ((-1, 128 * MIB), (-3, 32 * MIB))

_SIGNALS = {signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])}


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code.

    SIGHUP reads the models' files again. Raises ValueError or OSError when a file cannot be served or the
    address cannot be had, before anything listens.
    """
    _log_to_stderr()
    _keep_memory()
    _end_quietly()  # whoever sees the port may end it, before there is anything to shut down
    if hasattr(signal, "SIGHUP"):  # pragma: no branch - Windows has none
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to read again
    room = Room(settings)
    listener = _listen(settings)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    for model in room.models:
        p = model.predictor
        log.info("model %s, version %s: alpha %g, %d labels", model.name, model.version, p.alpha, p.n_labels)
    if settings.takes_feedback:
        for name, watch in room.watches.items():
            if watch.off is not None:
                log.warning("model %s: no coverage alarm: %s", name, watch.off)
    log.info(
        "listening on http://%s:%d with %d worker%s", shown, port, settings.workers, _s(settings.workers)
    )
    if settings.workers == 1:
        return _work(room, listener)
    return _Crew(room, listener).run()


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        message = f"cannot listen on {settings.host}:{settings.port}: {error.strerror}"
        raise OSError(message) from error
    listener.listen(2048)
    listener.settimeout(0)
    return listener


def _work(room: Room, listener: socket.socket) -> int:
    config = uvicorn.Config(
        app_of(room),
        log_config=None,
        log_level="warning",
        access_log=False,
        http=Connection,
        lifespan="on",
        server_header=False,
        proxy_headers=False,  # nobody asks where a request came from
        timeout_keep_alive=_KEEP_ALIVE,
        backlog=2048,
        ws="none",
    )
    server = _Server(config, room)
    # A signal from here on is remembered, also before uvicorn listens and after: it ends by sending itself
    # the signal that it was ended by, to whoever listened before. An exit raised into the running loop
    # would come out of it as one thing or another.
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, server.handle_exit)
    server.run(sockets=[listener])
    log.info("ended")
    return 0 if server.started else 1


class _Server(uvicorn.Server):
    """uvicorn, with a reload on SIGHUP and a shutdown that leaves no accepted request unanswered."""

    def __init__(self, config: uvicorn.Config, room: Room) -> None:
        super().__init__(config)
        self._room = room
        self._reloads: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # A copy of the listening socket, from which to take what is queued when uvicorn closes its own.
        self._copies = [each.dup() for each in sockets or []]
        await super().startup(sockets)
        if hasattr(signal, "SIGHUP"):  # pragma: no branch - Windows has none
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)

    def _reload(self) -> None:
        task = asyncio.ensure_future(self._room.reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._room.is_draining = True
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info(
            "shutting down: %g s for others to notice, then what is open is finished",
            self._room.settings.drain,
        )
        await asyncio.sleep(self._room.settings.drain)
        if self._room.is_last():
            for copy in self._copies:
                _stop_handshakes(copy)
        for server in self.servers:
            server.close()
        await asyncio.sleep(0)
        for copy in self._copies:
            await self._take_queued(copy)
            copy.close()
        # uvicorn closes connections that are idle. One that was let in last may have a request under way.
        await asyncio.sleep(_LINGER)
        deadline = time.monotonic() + _LINGER_FIRST - _LINGER
        while time.monotonic() < deadline and any(
            getattr(each, "cycle", None) is None for each in self.server_state.connections
        ):
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    async def _take_queued(self, listener: socket.socket) -> None:
        """Accept connections that the kernel has completed: closing the socket would reset them."""
        loop = asyncio.get_running_loop()
        queued = []
        while True:
            try:
                queued.append(listener.accept()[0])
            except (BlockingIOError, InterruptedError):
                break
        listener.close()
        for connection in queued:
            connection.settimeout(0)
            await loop.connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> Any:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


def _stop_handshakes(listener: socket.socket) -> None:
    """Have the kernel ignore new connections to a socket, so that none is completed and then reset.

    A client tries again after a second, and is refused or goes to another server. Without this (it is for
    Linux) a connection that is completed between the last accept and the close is lost.
    """
    if not sys.platform.startswith("linux"):  # pragma: no cover - other systems lack the option
        return
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF: return 0 bytes
    program = struct.pack("HL", 1, ctypes.addressof(drop_all))
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
    except OSError as error:
        log.warning("connections made at the very end may be reset: %s", error)


class _Crew:
    """Workers that were forked from here, share the socket, and are replaced when they die."""

    def __init__(self, room: Room, listener: socket.socket) -> None:
        if not hasattr(os, "fork"):  # pragma: no cover - Windows
            message = f"workers must be 1 on {sys.platform}, got {room.settings.workers}"
            raise ValueError(message)
        self._room = room
        self._listener = listener
        self._pids: dict[int, int] = {}
        self._ends = False

    def run(self) -> int:
        """Keep the workers going until told to end; return the exit code."""
        for sig in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sig, self._end)
        signal.signal(signal.SIGHUP, lambda *_: self._tell(signal.SIGHUP))
        for worker in range(self._room.settings.workers):
            self._fork(worker)
        worst = 0
        while self._pids:
            pid, status = os.wait()
            worker = self._pids.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            if self._ends:
                worst = max(worst, abs(code))
                continue
            log.error("worker %d (process %d) ended with %d: another takes its place", worker, pid, code)
            time.sleep(0.5)  # not a storm, if it dies of something that lasts
            self._fork(worker)
        return worst

    def _fork(self, worker: int) -> None:
        # Held back until each side has its own handlers: those of the parent, run by the child, would end
        # its siblings.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = 1 if self._ends else os.fork()
        if pid:
            if not self._ends:
                self._pids[pid] = worker
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            return
        told, code = _end_quietly(), 1
        try:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the server listens to it
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._room.measures.become(worker)
            code = _work(self._room, self._listener)
        except SystemExit as ended:  # by a signal, before there was anything to shut down
            code = int(ended.code or 0)
        except BaseException:
            # What a handler raises may arrive as something else: a class body makes a RuntimeError of it.
            if told:
                code = 0
            else:
                log.exception("worker %d failed", worker)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _end(self, *_: object) -> None:
        if not self._ends:
            self._ends = True
            self._room.end_all()
            self._listener.close()
        self._tell(signal.SIGTERM)

    def _tell(self, sig: int) -> None:
        for pid in list(self._pids):
            with suppress(ProcessLookupError):  # one that was waited for, at the moment when the signal came
                os.kill(pid, sig)


def _keep_memory() -> None:
    """Have free memory wait for the next body: new pages for each took a third of the time."""
    with suppress(OSError, AttributeError):  # where malloc is another
        for option, size in _MALLOPT:
            ctypes.CDLL(None).mallopt(option, size)


def _end_quietly() -> list[int]:
    """Have SIGTERM and SIGINT end the process with 0; return the list that says whether one came."""
    told: list[int] = []

    def end(sig: int, _: FrameType | None) -> None:
        told.append(sig)
        sys.exit(0)

    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, end)
    return told


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    for logger in (log, logging.getLogger("uvicorn")):
        logger.handlers = [handler]
        logger.propagate = False
    log.setLevel(logging.INFO)


def _s(count: int) -> str:
    return "" if count == 1 else "s"

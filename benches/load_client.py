"""A service in a process of its own, and connections that ask it as fast as Python can."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path


class Service:
    """`tightset serve` on a free port of the loopback, with the lines that it logs."""

    def __init__(self, *arguments, core=None, env=None, program=("-m", "tightset")):
        command = [sys.executable, *program, "serve", "--port", "0", *map(str, arguments)]
        self.process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )
        self.log = []
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = int(self.wait_for(r"listening on http://\S+:(\d+)").group(1))

    def _read(self):
        for line in self.process.stderr:
            with self._said:
                self.log.append(line.rstrip())
                self._said.notify_all()
        with self._said:
            self.log.append("the end")
            self._said.notify_all()

    def wait_for(self, pattern, since=0, seconds=60.0):
        """Return the match of the first line, after `since` of them, that has the pattern."""
        deadline = time.monotonic() + seconds
        with self._said:
            while True:
                for line in self.log[since:]:
                    if found := re.search(pattern, line):
                        return found
                left = deadline - time.monotonic()
                if left <= 0 or "the end" in self.log:
                    raise TimeoutError(f"no line with {pattern!r} in {self.log}")
                self._said.wait(left)

    def stop(self, seconds=30.0):
        """Send SIGTERM; return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self._reader.join(seconds)
            self.process.stderr.close()

    def resident(self):
        """Return the resident memory of the process in bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def serving(*arguments, **settings):
    """Give a service that ends with the block."""
    service = Service(*arguments, **settings)
    try:
        yield service
    finally:
        service.stop()


def request_bytes(method, path, body=b"", **headers):
    """Return a whole request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Connection:
    """One connection that is kept."""

    def __init__(self, port, timeout=30.0):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(1 << 18)

    def ask(self, request):
        """Return status, headers (one lower-case text) and body of the answer."""
        self._socket.sendall(request)
        return self.answer()

    def answer(self):
        """Read an answer."""
        view = memoryview(self._buffer)
        have, head = 0, -1
        while head < 0:
            got = self._socket.recv_into(view[have:])
            if not got:
                raise ConnectionResetError("closed before the answer")
            have += got
            head = self._buffer.find(b"\r\n\r\n", 0, have)
        text = bytes(view[:head]).decode("latin-1").lower()
        length = int(re.search(r"content-length: (\d+)", text).group(1))
        body = bytes(view[head + 4 : have])
        while len(body) < length:
            got = self._socket.recv(1 << 18)
            if not got:
                raise ConnectionResetError("closed within the answer")
            body += got
        return int(text[9:12]), text, body

    def close(self):
        self._socket.close()

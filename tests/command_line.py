"""The installed command, run as users run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = str(Path(sys.executable).parent / "tightset")


def run(*arguments, stdin=None, cwd=None, env=None):
    """Run the command; return the finished process, with bytes."""
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, env=env, check=False)


def output(*arguments, **settings):
    """Return what the command prints; it must succeed and say nothing else."""
    done = run(*arguments, **settings)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.decode()


def refusal(*arguments, **settings):
    """Return the one line that the command refuses its input with."""
    done = run(*arguments, **settings)
    message = done.stderr.decode()
    assert done.returncode == 2, message
    assert done.stdout == b""
    assert message.startswith("tightset: error: ")
    assert message.count("\n") == 1
    assert message.endswith("\n")
    return message.removeprefix("tightset: error: ").rstrip("\n")

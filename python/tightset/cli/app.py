"""The commands under one roof, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from tightset._core import VERSION
from tightset.cli.bench import bench
from tightset.cli.calibrate import calibrate
from tightset.cli.compare import compare
from tightset.cli.evaluate import evaluate
from tightset.cli.inspect import inspect
from tightset.cli.optional import MissingPackageError
from tightset.cli.predict import predict
from tightset.cli.reproduce import reproduce
from tightset.cli.serve import serve
from tightset.warning_kinds import ProbabilitiesWarning

_REFUSED = 2
_INTERRUPTED = 130

app = typer.Typer(
    name="tightset",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`tightset COMMAND --help` has examples. `tightset --install-completion` teaches your shell.",
)


def _show_version(*, asked: bool) -> None:
    if asked:
        typer.echo(f"tightset {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            is_eager=True,
            callback=lambda value: _show_version(asked=value),
            show_default=False,
        ),
    ] = False,
) -> None:
    """Tight, valid prediction sets from any classifier's logits.

    \b
    tightset reproduce                              the paper's experiment, on data that come along
    tightset compare logits.npy labels.npy          the same on yours, with a recommendation
    tightset calibrate logits.npy labels.npy -o predictor.json
    tightset predict predictor.json new.npy -o sets.parquet
    """


for _command in (reproduce, compare, calibrate, predict, evaluate, inspect, serve, bench):
    app.command()(_command)


def run(arguments: Sequence[str]) -> int:
    """Run a command; return the exit code. What is wrong with the input takes one line."""
    warnings.simplefilter("once")
    warnings.showwarning = _show_warning
    command = typer.main.get_command(app)
    if "_TIGHTSET_COMPLETE" in os.environ:
        command.main(args=list(arguments), prog_name="tightset")
    try:
        # Not by `main`, which has its own ways with interruptions and closed pipes.
        with command.make_context("tightset", list(arguments) or ["--help"]) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone, `head` for one; the interpreter must not complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, MissingPackageError) as error:
        return _fail(_message(error))
    except Exception as error:
        # A wrong command or option; its class has moved between versions of typer.
        if not hasattr(error, "format_message"):
            raise
        return _fail(error.format_message())
    return 0


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _fail(message: str, code: int = _REFUSED) -> int:
    sys.stderr.write(f"tightset: error: {_one_line(message)}\n")
    return code


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    text = str(message)
    if isinstance(message, ProbabilitiesWarning):
        text = text.replace("pass probabilities=True", "use --probabilities of calibrate or compare")
    sys.stderr.write(f"tightset: warning: {_one_line(text)}\n")


def _one_line(text: str) -> str:
    return " ".join(text.split())

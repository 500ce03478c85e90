"""`tightset serve`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tightset.cli import options
from tightset.cli.input_files import check_is_file
from tightset.cli.optional import optional_package

_TOKEN = "TIGHTSET_TOKEN"
_MIB = 2**20


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]PREDICTOR...",
            help="Files that `tightset calibrate` wrote. Without a name it is that of the file.",
            show_default=False,
        ),
    ],
    *,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port, or 0 for a free one.")] = 8000,
    workers: Annotated[int, typer.Option(help="Processes that share the port.")] = 1,
    threads: options.Threads = None,
    token_file: Annotated[
        str | None,
        typer.Option(help=f"File with the bearer token; or set {_TOKEN}.", show_default=False),
    ] = None,
    feedback: Annotated[
        bool | None,
        typer.Option(
            "--feedback/--no-feedback",
            help="Keep rows until their labels come. On with one worker, which it needs.",
            show_default=False,
        ),
    ] = None,
    adapt: Annotated[
        bool, typer.Option("--adapt", help="Let alpha follow the labels.", show_default=False)
    ] = False,
    rate: Annotated[float, typer.Option(help="Step of --adapt.")] = 0.005,
    alarm_level: Annotated[
        float, typer.Option(help="Probability that the coverage alarm is ever false.")
    ] = 0.01,
    state: Annotated[
        str | None,
        typer.Option(help="File that keeps the watch on coverage over restarts.", show_default=False),
    ] = None,
    max_body: Annotated[int, typer.Option(help="MiB of a binary request.")] = 64,
    max_json: Annotated[int, typer.Option(help="MiB of a JSON request.")] = 8,
    max_rows: Annotated[int, typer.Option(help="Rows of a request.")] = 65536,
    max_labels: Annotated[int, typer.Option(help="Labels of a model.")] = 131072,
    remember: Annotated[int, typer.Option(help="MiB of rows that wait for labels.")] = 64,
    remember_seconds: Annotated[float, typer.Option(help="How long they wait.")] = 3600.0,
    drain: Annotated[
        float, typer.Option(help="Seconds from SIGTERM to closing the port, not ready meanwhile.")
    ] = 0.5,
) -> None:
    """Serve prediction sets over HTTP, with a live page at / and metrics for Prometheus.

    SIGHUP reads the files again, SIGTERM finishes what is open and ends.

    \b
    tightset serve predictor.json
    tightset serve digits=predictor.json news=other.json --port 9000 --workers 2
    tightset serve predictor.json --state watch.json --adapt
    """
    service = optional_package("tightset.service", "services", "serve")
    limits = service.Limits(
        body=max_body * _MIB,
        json_body=max_json * _MIB,
        waiting=4 * max(max_body, max_json) * _MIB,
        rows=max_rows,
        labels=max_labels,
        remembered=remember * _MIB,
        remembered_seconds=remember_seconds,
    )
    settings = service.Settings(
        models=parse_models(models),
        host=host,
        port=port,
        workers=workers,
        threads=threads,
        token=_token(token_file),
        feedback=feedback,
        adapt=adapt,
        rate=rate,
        alarm_level=alarm_level,
        state=state,
        drain=drain,
        limits=limits,
    )
    code = service.serve(settings)
    if code:
        raise typer.Exit(code)


def parse_models(given: list[str]) -> dict[str, str]:
    """Return files by name of ``a.json name=b.json``."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, path = text.partition("=")
        # A = in a folder's name belongs to the path.
        if not equals or "/" in name:
            name, path = Path(text).stem, text
        if name in found:
            message = f"models must have different names, got {name} for {found[name]} and {path}"
            raise ValueError(message)
        check_is_file(path)
        found[name] = path
    return found


def _token(file: str | None) -> str | None:
    """Return the token: never an argument, which every user of the machine could read."""
    token = os.environ.get(_TOKEN) if file is None else Path(file).read_text(encoding="utf-8").strip()
    if token == "":
        message = f"the token must not be empty: {_TOKEN if file is None else file}"
        raise ValueError(message)
    return token

"""Packages that only some commands need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tightset.extras import missing


class MissingPackageError(Exception):
    """A package that was asked for by way of a file or an option is not installed."""


def optional_package(module: str, what: str, extra: str) -> Any:
    """Return the module, or say which package `what` needs and which extra brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        raise MissingPackageError(missing(f"{what} need", package, extra)) from None

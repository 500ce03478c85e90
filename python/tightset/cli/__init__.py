"""The command line `tightset`."""

from __future__ import annotations

import sys

from tightset.extras import missing

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        import typer  # noqa: F401
    except ModuleNotFoundError:
        sys.stderr.write(f"tightset: error: {missing('the command line needs', 'typer', 'cli')}\n")
        raise SystemExit(2) from None
    from tightset.cli.app import run

    raise SystemExit(run(sys.argv[1:]))

"""What to say where a package of an extra is not installed."""

from __future__ import annotations


def missing(what: str, package: str, extra: str) -> str:
    """Return how to get a package that ``what``, with its verb, does not find.

    >>> missing("plots need", "matplotlib", "plot")
    "plots need matplotlib, of the extra plot: pip install 'tightset[plot]', or '.[plot]' in a clone"
    """
    return (
        f"{what} {package}, of the extra {extra}: pip install 'tightset[{extra}]', or '.[{extra}]' in a clone"
    )

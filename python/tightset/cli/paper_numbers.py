"""Figures of Table 1 of Luo & Colombo (COPA 2024, PMLR 230), as far as they are at hand.

A cell without one is left blank in tables.
"""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    """Coverage and mean size as printed; None where the figure is not at hand."""

    coverage: float | None
    size: float | None


PAPER: dict[tuple[str, str, float], Printed] = {
    ("mnist", "paper", 0.90): Printed(None, 0.912),
    ("ag-news", "paper", 0.90): Printed(None, 1.011),
    ("ag-news", "paper", 0.99): Printed(0.977, 1.484),
    ("ag-news", "aps", 0.90): Printed(0.903, 1.163),
    ("ag-news", "raps", 0.90): Printed(0.906, 1.145),
    ("ag-news", "saps", 0.90): Printed(0.901, 1.179),
    ("carer", "paper", 0.90): Printed(None, 0.989),
    ("carer", "aps", 0.90): Printed(None, 1.034),
    ("carer", "raps", 0.90): Printed(None, 1.034),
    ("carer", "saps", 0.90): Printed(None, 1.105),
}
"""By data set, recipe and level."""

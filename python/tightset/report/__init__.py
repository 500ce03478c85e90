"""A comparison as one HTML file that needs nothing else: tables, plots and code to copy."""

import tightset.plot  # noqa: F401  it says what is missing without matplotlib
from tightset.report.page import write_report

__all__ = ["write_report"]

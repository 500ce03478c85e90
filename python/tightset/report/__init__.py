"""A comparison as one HTML file that needs nothing else: tables, plots and code to copy."""

from tightset.report.page import Exhibit, write_report

__all__ = ["Exhibit", "write_report"]

"""Tables in pages, between the markers that name the script which writes them."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def put(page: str, script: str, table: str) -> None:
    """Replace what a page of the documentation has from a script."""
    path = DOCS / f"{page}.md"
    start, end = f"<!-- figures: experiments/{script}.py writes this -->\n", "<!-- end of figures -->"
    before, found_start, rest = path.read_text().partition(start)
    _, found_end, after = rest.partition(end)
    if not found_start or not found_end:
        message = f"{path} lacks the markers {start!r} and {end!r}"
        raise ValueError(message)
    path.write_text(f"{before}{start}{table}\n{end}{after}")

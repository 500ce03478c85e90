"""Tables and other pieces of HTML, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Number:
    """A cell of a table.

    Attributes
    ----------
    text
        What it shows.
    beside
        What stands below it in small type.
    kind
        How it looks: "best", "outside", or "" for plain.
    hint
        What a kind means, for those who do not see it.
    """

    text: str
    beside: str = ""
    kind: str = ""
    hint: str = ""


Row: TypeAlias = tuple[str, Sequence[Number | str]]
"""The name of a row and its other cells."""


def table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    *,
    strong: str = "",
) -> str:
    """Return a table in a box that scrolls when it is wider than the page.

    Parameters
    ----------
    caption
        What it is about.
    columns
        Names of all columns.
    rows
        A name and the other cells of each row.
    strong
        The name of the row that is set off.
    """
    head = "".join(
        f'<th scope="col" class="{kind}">{escape(column)}</th>'
        for column, kind in zip(columns, _kinds(rows, len(columns)), strict=True)
    )
    lines = []
    for name, cells in rows:
        mark = ' class="strong"' if name == strong else ""
        body = "".join(_cell(cell) for cell in cells)
        lines.append(f'<tr{mark}><th scope="row">{escape(name)}</th>{body}</tr>')
    # A box that scrolls is reached by keyboard only if it can have the focus.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption><span>{escape(caption)}</span></caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _kinds(rows: Sequence[Row], n: int) -> list[str]:
    """Return which columns hold text, set to the left, and which numbers."""
    cells = rows[0][1] if rows else [""] * (n - 1)
    return ["text", *("text" if isinstance(cell, str) else "number" for cell in cells)]


def _cell(cell: Number | str) -> str:
    if isinstance(cell, str):
        return f'<td class="text">{escape(cell)}</td>'
    mark = f' class="{cell.kind}"' if cell.kind else ""
    hint = f'<span class="unseen"> {escape(cell.hint)}</span>' if cell.hint else ""
    beside = f"<small> {escape(cell.beside)}</small>" if cell.beside else ""
    return f"<td{mark}>{escape(cell.text)}{hint}{beside}</td>"


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Return a list of names and values."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f'<dl class="facts">{items}</dl>'


def figure(svg: str, title: str, caption: str) -> str:
    """Return a drawing with what it shows above it and how to read it below it."""
    said = f"<strong>{escape(title)}</strong> {escape(caption)}"
    return f"<figure><figcaption>{said}</figcaption>{svg}</figure>"

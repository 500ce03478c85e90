"""Small tables as aligned text and as HTML."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

_NAME_WIDTH = 32
_NUMBER_WIDTH = 11


class Table(NamedTuple):
    """A title over the names of the lines, the other columns, the lines, and notes below."""

    title: str
    columns: list[str]
    lines: list[list[str]]
    notes: list[str]


def text(title: str, tables: list[Table]) -> str:
    """Return the tables as plain text of fewer than 100 columns."""
    blocks = [title]
    for table in tables:
        lines = [_line(table.title, table.columns)]
        lines += [_line("  " + name, numbers) for name, *numbers in table.lines]
        lines += ["  " + note for note in table.notes]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _line(name: str, numbers: list[str]) -> str:
    # A name may hold what would break the line.
    plain = "".join(c if c.isprintable() else "?" for c in name)
    shown = plain if len(plain) <= _NAME_WIDTH else plain[: _NAME_WIDTH - 3] + "..."
    return (f"{shown:<{_NAME_WIDTH}}" + "".join(f"{n:>{_NUMBER_WIDTH}}" for n in numbers)).rstrip()


def html(title: str, tables: list[Table]) -> str:
    """Return the tables as HTML, every text escaped."""
    parts = [f"<p>{escape(title)}</p>"]
    for table in tables:
        head = "".join(f"<th>{escape(column)}</th>" for column in [table.title, *table.columns])
        body = "".join(
            f"<tr><th>{escape(name)}</th>" + "".join(f"<td>{escape(n)}</td>" for n in numbers) + "</tr>"
            for name, *numbers in table.lines
        )
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        parts += [f"<p>{escape(note)}</p>" for note in table.notes]
    return "<div>" + "".join(parts) + "</div>"

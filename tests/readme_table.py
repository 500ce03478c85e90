"""The table of the README, from the command that the README names. Run by `make readme`."""

from __future__ import annotations

from pathlib import Path

from command_line import output
from tightset.cli.paper_tables import TITLE

README = Path(__file__).parent.parent / "README.md"
COMMAND = "tightset reproduce --recipes paper,aps,er-aps,thr --no-plots"
START, END = "<!-- sizes: make readme writes this -->\n```\n", "```\n<!-- end of sizes -->"


def printed(cwd):
    """Return the table that the command ends with, run in this folder."""
    blocks = output(*COMMAND.split()[1:], cwd=cwd).split("\n\n")
    title = next(i for i, block in enumerate(blocks) if block.startswith(TITLE))
    return f"{blocks[title + 1]}\n"


def shown():
    """Return the README before, inside and after the markers of the table."""
    before, start, rest = README.read_text(encoding="utf-8").partition(START)
    inside, end, after = rest.partition(END)
    assert start, f"README.md lacks {START!r}"
    assert end, f"README.md lacks {END!r}"
    return before, inside, after


if __name__ == "__main__":
    import tempfile

    first, _, last = shown()
    with tempfile.TemporaryDirectory() as folder:
        README.write_text(f"{first}{START}{printed(folder)}{END}{last}", encoding="utf-8")

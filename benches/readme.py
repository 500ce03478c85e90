"""Put the tables of the last run into the README, between its markers."""

from __future__ import annotations

from pathlib import Path

from report import beside_numpy
from results import LAST, load

README = Path(__file__).parent.parent / "README.md"
START, END = "<!-- speed: benches/readme.py writes this -->", "<!-- end of speed -->"


def main():
    text = README.read_text()
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        message = f"README.md lacks the markers {START} and {END}"
        raise SystemExit(message)
    README.write_text(f"{before}{START}\n{beside_numpy(load(LAST))}\n{END}{after}")


if __name__ == "__main__":
    main()

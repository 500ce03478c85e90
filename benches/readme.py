"""Put the table beside NumPy of the last run, and that of instruction sets, into the README."""

from __future__ import annotations

from pathlib import Path

from report import beside_numpy
from results import LAST, load

README = Path(__file__).parent.parent / "README.md"
LEVELS = Path(__file__).with_name("levels.md")
# What benches/results.md has and the README has no room for.
LEFT_OUT = (
    "scores of all labels",
    "label scores, D",
    "predict_set of one row, E, K = 10 ",
    "predict_set of one row, E, K = 128,000",
    "plain APS sets, A",
)
START, END = "<!-- speed: benches/readme.py writes this -->", "<!-- end of speed -->"


def main():
    text = README.read_text()
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        message = f"README.md lacks the markers {START} and {END}"
        raise SystemExit(message)
    # The first table; what is beside other libraries is in the results.
    lines = beside_numpy(load(LAST)).partition("\n\n")[0].splitlines()
    table = "\n".join(line for line in lines if not line.removeprefix("| ").startswith(LEFT_OUT))
    levels = f"\n{LEVELS.read_text()}" if LEVELS.exists() else ""
    README.write_text(f"{before}{START}\n{table}\n{levels}{END}{after}")


if __name__ == "__main__":
    main()

"""Compare two runs entry by entry: `make bench-compare`, or with OLD= and NEW=."""

from __future__ import annotations

import sys

from report import figure, table
from results import dated, load


def main(old=None, new=None):
    runs = dated()
    if not (old and new) and len(runs) < 2:
        message = (
            f"two runs are needed, {len(runs)} found: run make bench again, or name files with OLD= NEW="
        )
        raise SystemExit(message)
    old_path, new_path = old or runs[-2], new or runs[-1]
    before, after = load(old_path), load(new_path)
    rows = []
    for key, entry in after.entries.items():
        was = before.entries.get(key)
        if was is None:
            rows.append([*key, "", figure(entry, entry.best), "new"])
        elif was.best:
            rows.append(
                [*key, figure(was, was.best), figure(entry, entry.best), f"{entry.best / was.best:.2f}"]
            )
    rows += [
        [*key, figure(was, was.best), "", "gone"]
        for key, was in before.entries.items()
        if key not in after.entries
    ]
    print(f"old: {old_path}\nnew: {new_path}\n")
    print(table(["work", "what", "old", "new", "new / old"], rows))


if __name__ == "__main__":
    main(*(argument or None for argument in sys.argv[1:3]))

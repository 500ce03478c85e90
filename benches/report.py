"""Merge the parts of a run, keep it, print its tables and write them to `results.md`."""

from __future__ import annotations

from pathlib import Path

from bars import BARS, MEMORY
from results import from_parts

TARGET = Path(__file__).parent / "results.md"
NUMPY = ("NumPy, in blocks", "NumPy, no sort", "NumPy, textbook", "only reading")
PEERS = ("TorchCP", "MAPIE", "puncc", "crepes")


def shown(seconds):
    """Return a time with the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def figure(entry, seconds):
    """Return a figure of an entry: a time, or megabytes."""
    return f"{seconds:.1f} MB" if entry.work == MEMORY else shown(seconds)


def table(head, rows):
    """Return a Markdown table with its columns aligned."""
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(text)


def side_by_side(results, columns):
    """Return a row for each work that tightset and a column share: its time, their multiples of it."""
    rows = []
    for work, entries in results.works().items():
        if "tightset" not in entries or not any(what in entries for what in columns):
            continue
        own = entries["tightset"].best
        cells = (f"{entries[what].best / own:.3g} x" if what in entries else "" for what in columns)
        rows.append([work, shown(own), *cells])
    used = [i for i in range(len(columns)) if any(row[2 + i] for row in rows)]
    head = ["work", "tightset", *(columns[i] for i in used)]
    return table(head, [[*row[:2], *(row[2 + i] for i in used)] for row in rows]) if rows else ""


def bars(results):
    """Return the table of bars: what was measured, the bound, and whether it is met."""
    rows = []
    for bar in BARS:
        value = bar.measured(results)
        if value is None:
            rows.append([bar.work, bar.figure, "not run", bar.bound, ""])
            continue
        met = {True: "yes", False: "**no**", None: ""}[bar.is_met(value)]
        rows.append([bar.work, bar.figure, f"{value:.3g} {bar.unit}", bar.bound, met])
    return table(["work", "figure", "measured", "bar", "met"], rows)


def everything(results):
    """Return all entries."""
    rows = []
    for work, entries in results.works().items():
        for what, e in entries.items():
            kept = [f"{e.share:.3g} of the rows, scaled"] if e.share != 1 else []
            kept += [f"{name.replace('_', ' ')} {value:.4g}" for name, value in e.kept.items()]
            rows.append([work, what, figure(e, e.best), figure(e, e.median), "; ".join(kept)])
    return table(["work", "what", "best", "median", "note"], rows)


def beside_numpy(results):
    """Return the tables that the README shows too."""
    parts = [side_by_side(results, NUMPY), side_by_side(results, PEERS)]
    return "\n\n".join(part for part in parts if part)


def main():
    results = from_parts()
    dates = ", ".join(f"{part} {date}" for part, date in results.taken.items())
    missed = sum(bar.is_met(v) is False for bar in BARS if (v := bar.measured(results)) is not None)
    text = "\n\n".join(
        [
            "# Results of `make bench`",
            f"{results.machine}; two threads, float32 unless said, best of several runs; taken: {dates}.\n"
            "On a machine busy with other things (a load above 0.5 before the run) they mean little.\n"
            "Calls are timed in several turns; of each the best is kept.\n"
            "Times of others are multiples of tightset's in the same process.",
            beside_numpy(results),
            f"## Bars\n\n{missed} missed.",
            bars(results),
            "## Every entry",
            everything(results),
        ]
    )
    kept = results.save()
    TARGET.write_text(text + "\n")
    print(text)
    print(f"\nwritten: {TARGET.name}, {kept.name}")


if __name__ == "__main__":
    main()

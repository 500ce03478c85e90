"""Which method wins what: every method of `tightset compare --all`, on the bundled logits and on files.

    python experiments/methods.py --json bundled.json               # the bundled sets of logits
    python experiments/methods.py a.npz b.npz --datasets --json more.json  # files alone
    python experiments/methods.py --read bundled.json more.json --write    # tables into docs/choosing.md

Files hold `logits` (n, K) and `labels` (n,), as for `tightset compare`, of whose `--all` this is many runs.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import tightset as ts
from marked_pages import put
from tightset.comparison import compare
from tightset.methods import ALL, available

ALIKE_SIZE, ALIKE_COVERAGE = math.log(1.005), 0.01
LARGEST = 2.0
"""Sets larger than those of `aps` by this factor win nothing: all labels cover everything."""

SLACK = 0.03
"""How far below the level the worst stratum may be covered and still count as even."""


def measured(files: Iterable[Path], names: Iterable[str], splits: int, level: float) -> list[dict[str, Any]]:
    """Return what `compare` finds on each set of rows."""
    data = [(name, (found := ts.datasets.load(name)).logits, found.labels) for name in names]
    for path in files:
        with np.load(path) as arrays:
            data.append((path.stem, arrays["logits"], arrays["labels"]))
    methods, left_out = available(ALL)
    if left_out:
        sys.stderr.write(f"left out, for want of scikit-learn: {', '.join(left_out)}\n")
    documents = []
    for name, logits, labels in data:
        start = time.perf_counter()
        found = compare(logits, labels, name=name, recipes=methods, levels=[level], n_splits=splits)
        documents.append(found.to_dict())
        sys.stderr.write(f"{name}: {time.perf_counter() - start:.0f} s\n")
    return documents


def figures(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what is compared of each method: sizes in each split, coverage where it is lowest."""
    return {
        cell["recipe"]: {
            "sizes": np.array(cell["mean_size"]),
            "size": float(np.mean(cell["mean_size"])),
            "stratum": cell["worst_stratum_coverage"],
            "label": cell["worst_class_coverage"],
            "guarantee": cell["guarantee"],
        }
        for cell in document["cells"]
    }


def smallest(found: dict[str, dict[str, Any]], names: Iterable[str]) -> str:
    """Return the first of the methods whose sets are not clearly larger than the smallest.

    Clearly is by more than half a percent and two standard errors, split by split.
    """
    kept = list(names)
    if not kept:
        return "none"
    least = min(kept, key=lambda name: found[name]["size"])

    def is_alike(name: str) -> bool:
        ratios = np.log(found[name]["sizes"] / found[least]["sizes"])
        error = ratios.std(ddof=1) / math.sqrt(len(ratios))
        return bool(ratios.mean() - 2 * error <= ALIKE_SIZE)

    alike = [name for name in kept if is_alike(name)]
    return _first(alike, f"{found[alike[0]]['size']:.3f}")


def highest(found: dict[str, dict[str, Any]], names: Iterable[str], what: str) -> str:
    """Return the smallest of the methods with the highest coverage of something, up to a hundredth."""
    kept = list(names)
    most = max(found[name][what] for name in kept)
    alike = [name for name in kept if found[name][what] >= most - ALIKE_COVERAGE]
    alike.sort(key=lambda name: found[name]["size"])
    best = found[alike[0]]
    return _first(alike, f"{best[what]:.3f}, size {best['size']:.3f}")


def _first(alike: list[str], figure: str) -> str:
    more = f", {len(alike) - 1} more alike" if len(alike) > 1 else ""
    return f"`{alike[0]}` ({figure}{more})"


def winners(documents: list[dict[str, Any]]) -> str:
    """Return who wins what on each set of rows."""
    lines = [
        "| data | smallest sets | smallest with even coverage | worst range of entropy covered most "
        "| worst label covered most |",
        "|---|---|---|---|---|",
    ]
    for document in documents:
        found, level = figures(document), document["main_level"]
        most = LARGEST * found["aps"]["size"]
        exact = [
            name
            for name in found
            if found[name]["guarantee"] != "approximate" and found[name]["size"] <= most
        ]
        even = [name for name in exact if found[name]["stratum"] >= level - SLACK]
        cells = [
            smallest(found, exact),
            smallest(found, even),
            highest(found, exact, "stratum"),
            highest(found, exact, "label"),
        ]
        lines.append(f"| {document['dataset']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def everything(documents: list[dict[str, Any]]) -> str:
    """Return size, coverage of the worst stratum and of the worst label, and time, of every method."""
    names = list(dict.fromkeys(name for document in documents for name in document["recipes"]))
    lines = [
        f"| method | {' | '.join(document['dataset'] for document in documents)} |",
        "|---" * (1 + len(documents)) + "|",
    ]
    parts = [figures(document) for document in documents]
    for name in names:
        cells = [
            f"{f['size']:.3f}, {f['stratum']:.2f}, {f['label']:.2f}" if (f := found.get(name)) else ""
            for found in parts
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def text(documents: list[dict[str, Any]]) -> str:
    """Return both tables with what they are about."""
    rows = "; ".join(
        f"{d['dataset']} {d['n']:,} rows, {d['n_labels']} labels, accuracy {d['accuracy']:.3f}"
        for d in documents
    )
    level, splits = documents[0]["main_level"], documents[0]["n_splits"]
    return (
        f"Level {level:g}, {splits} splits, four fifths of the rows calibrate. {rows}.\n\n"
        f"{winners(documents)}\n\n"
        "Every method: mean size, coverage of the worst range of entropy, coverage of the worst label.\n\n"
        f"{everything(documents)}"
    )


def main() -> None:
    """Measure or read, print, and write what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help=".npz files with logits and labels")
    parser.add_argument("--datasets", nargs="*", default=list(ts.datasets.names()), help="bundled sets")
    parser.add_argument("--splits", type=int, default=10, help="at least 2")
    parser.add_argument("--level", type=float, default=0.9)
    parser.add_argument("--json", type=Path, metavar="OUT", help="keep all figures in this file")
    parser.add_argument("--read", nargs="+", type=Path, metavar="IN", help="take figures from such files")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/choosing.md")
    options = parser.parse_args()
    if options.splits < 2:
        parser.error(f"--splits must be at least 2, got {options.splits}")
    if options.read:
        documents = [document for path in options.read for document in json.loads(path.read_text())]
    else:
        documents = measured(options.files, options.datasets, options.splits, options.level)
    if options.json:
        options.json.write_text(json.dumps(documents, indent=1) + "\n")
    tables = text(documents)
    print(tables)
    if options.write:
        put("choosing", "methods", tables)


if __name__ == "__main__":
    main()

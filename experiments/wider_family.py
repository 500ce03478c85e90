"""Set sizes of the wider family on the bundled logits: the tables of docs/wider-family.md.

    python experiments/wider_family.py             # prints the tables
    python experiments/wider_family.py --write     # and puts them into the page

Each of the splits shuffles a data set, calibrates every method on one half and measures it on the other. All
methods see the same halves; those that tune on a part of theirs calibrate on the rest of it. Cells are means
over splits: of the size of sets, of coverage, and of coverage in the quarter of the rows with the highest
entropy.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import tightset as ts
from marked_pages import put
from tightset.methods import as_method

ALPHAS = (0.1, 0.05, 0.01)

METHODS = {
    name: as_method(name)
    for name in (
        *("aps", "thr", "er-aps", "aps/entropy-1", "aps/entropy", "aps/energy-1", "aps/energy"),
        *("thr/entropy-1", "thr/energy", "averaged"),
        *("aps/temperature-nll", "aps/confts", "aps/vector-scaling", "aps/isotonic", "aps/spline"),
        *("aps/entropy-spline", "thr/temperature-nll", "thr/vector-scaling", "thr/isotonic", "thr/spline"),
        "thr/entropy-spline",
    )
}


def measured(name: str, splits: int) -> dict[tuple[str, float], np.ndarray]:
    """Return mean size, coverage and coverage of the hardest quarter of each method at each level."""
    data = ts.datasets.load(name)
    entropies = ts.entropy(data.logits)
    hard = entropies >= np.quantile(entropies, 0.75)
    sums: dict[tuple[str, float], np.ndarray] = {}
    half = len(data.labels) // 2
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(data.labels))
        old, new = order[:half], order[half:]
        for named, method in METHODS.items():
            predictors = method.calibrate(data.logits[old], data.labels[old], ALPHAS)
            for alpha, predictor in zip(ALPHAS, predictors, strict=True):
                sets = predictor.predict_set(data.logits[new])
                covers = sets.covers(data.labels[new])
                found = np.array([sets.sizes.mean(), covers.mean(), covers[hard[new]].mean()])
                sums[named, alpha] = sums.get((named, alpha), 0.0) + found / splits
    return sums


def table(name: str, found: dict[tuple[str, float], np.ndarray]) -> str:
    """Return the measurements of a data set as Markdown."""
    heads = " | ".join(f"size at {1 - alpha:g} | covered | of the hard" for alpha in ALPHAS)
    lines = [f"{name}:", "", f"| method | {heads} |", "|---" * (1 + 3 * len(ALPHAS)) + "|"]
    for method in METHODS:
        cells = (f"{s:.3f} | {c:.3f} | {h:.3f}" for s, c, h in (found[method, a] for a in ALPHAS))
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=5, help="random halves of each data set")
    parser.add_argument("--datasets", nargs="+", default=list(ts.datasets.names()))
    parser.add_argument("--write", action="store_true", help="put the tables into docs/wider-family.md")
    options = parser.parse_args()
    tables = []
    for name in options.datasets:
        start = time.perf_counter()
        tables.append(table(name, measured(name, options.splits)))
        print(tables[-1], "\n", flush=True)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    if options.write:
        put("wider-family", "wider_family", "\n\n".join(tables))


if __name__ == "__main__":
    main()

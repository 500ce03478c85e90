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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tightset as ts

PAGE = Path(__file__).parent.parent / "docs" / "wider-family.md"
START, END = "<!-- sizes: experiments/wider_family.py writes this -->", "<!-- end of sizes -->"
ALPHAS = (0.1, 0.05, 0.01)
TAUS = (0.5, 1.0, 4.0, 16.0, 64.0, 256.0)
GAMMAS = (0.1, 1.0, 10.0, 100.0)
TRANSFORMS = ("temperature-nll", "confts", "vector-scaling", "isotonic", "spline", "entropy-spline")

Method = Callable[[Any, Any, float], Any]


def _transformed(transform: str, score: str) -> Method:
    def method(logits: Any, labels: Any, alpha: float) -> Any:
        chosen: Any = transform
        if transform == "entropy-spline":
            chosen = ts.transforms.EntropySpline(alpha, score)  # type: ignore[arg-type]
        return ts.transforms.calibrate(logits, labels, alpha, score, transform=chosen)

    return method


def _recipe(name: str) -> Method:
    return lambda logits, labels, alpha: ts.calibrate(logits, labels, alpha, name)


def _divided(score: str, by: str, **options: Any) -> Method:
    return lambda logits, labels, alpha: ts.reweighted.calibrate(logits, labels, alpha, score, by, **options)


METHODS: dict[str, Method] = {
    "aps": _recipe("aps"),
    "thr": _recipe("thr"),
    "er-aps": _recipe("er-aps"),
    "aps / (1 + H)": _divided("aps", "entropy"),
    "aps / (gamma + H), gamma selected": _divided("aps", "entropy", gamma=GAMMAS),
    "aps, energy, tau = 1": _divided("aps", "energy"),
    "aps, energy, tau selected": _divided("aps", "energy", tau=TAUS),
    "thr / (1 + H)": _divided("thr", "entropy"),
    "thr, energy, tau selected": _divided("thr", "energy", tau=TAUS),
    "average of thr, aps, rank": lambda logits, labels, alpha: ts.averaged.calibrate(logits, labels, alpha),
    **{
        f"{transform}, then aps": _transformed(transform, "aps")
        for transform in (
            "temperature-nll",
            "confts",
            "vector-scaling",
            "isotonic",
            "spline",
            "entropy-spline",
        )
    },
    **{
        f"{transform}, then thr": _transformed(transform, "thr")
        for transform in ("temperature-nll", "vector-scaling", "isotonic", "spline", "entropy-spline")
    },
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
        for method, make in METHODS.items():
            for alpha in ALPHAS:
                sets = make(data.logits[old], data.labels[old], alpha).predict_set(data.logits[new])
                covers = sets.covers(data.labels[new])
                found = np.array([sets.sizes.mean(), covers.mean(), covers[hard[new]].mean()])
                sums[method, alpha] = sums.get((method, alpha), 0.0) + found / splits
    return sums


def table(name: str, found: dict[tuple[str, float], np.ndarray]) -> str:
    """Return the measurements of a data set as Markdown."""
    heads = " | ".join(f"size at {1 - alpha:g} | covered | of the hard" for alpha in ALPHAS)
    lines = [f"{name}:", "", f"| method | {heads} |", "|---" * (1 + 3 * len(ALPHAS)) + "|"]
    for method in METHODS:
        cells = (f"{s:.3f} | {c:.3f} | {h:.3f}" for s, c, h in (found[method, a] for a in ALPHAS))
        lines.append(f"| {method} | {' | '.join(cells)} |")
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
        text = PAGE.read_text()
        before, _, rest = text.partition(START)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{START}\n" + "\n\n".join(tables) + f"\n{END}{after}")


if __name__ == "__main__":
    main()

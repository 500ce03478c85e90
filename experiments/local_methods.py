"""Localised prediction on the bundled logits, and sets for the nodes of a graph: tables of two pages.

    python experiments/local_methods.py             # prints them
    python experiments/local_methods.py --write     # and puts them into docs/localised.md and docs/graphs.md
    python experiments/local_methods.py --time      # prints what a prediction takes, on a quiet machine

Localised: each split shuffles a data set, calibrates every method on one half and measures it on the other,
at alpha = 0.1. Where rows are is what `tightset.localised` takes by default, the square roots of the
probabilities.

Graph: the nodes are scikit-learn's 1797 digits, neighbours the five most similar left halves (and those that
they are such neighbours of), features the right halves; a logistic regression that saw 60 nodes gives logits.
Each split draws 200 of the other nodes to calibrate on and measures the rest.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import tightset as ts
from marked_pages import put

DOCS = Path(__file__).parent.parent / "docs"
ALPHA = 0.1
Method = Callable[[Any, Any], Any]

METHODS: dict[str, Method] = {
    "thr": lambda logits, labels: ts.calibrate(logits, labels, ALPHA, "thr"),
    "thr, localised": lambda logits, labels: ts.localised.calibrate(logits, labels, ALPHA, "thr"),
    "aps": lambda logits, labels: ts.calibrate(logits, labels, ALPHA, "aps"),
    "aps, localised": lambda logits, labels: ts.localised.calibrate(logits, labels, ALPHA, "aps"),
    "aps, localised, 10 draws": lambda logits, labels: ts.localised.calibrate(
        logits, labels, ALPHA, "aps", draws=10
    ),
}


def localised(splits: int) -> str:
    """Return the table of localised prediction."""
    lines = [
        "| data | method | coverage | size | hardest tenth | worst slab | ERT, L1 | all labels |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in ("fashion-mnist", "ag-news"):
        data = ts.datasets.load(name)
        found: dict[str, list[list[float]]] = {method: [] for method in METHODS}
        for split in range(splits):
            order = np.random.default_rng(split).permutation(len(data.labels))
            first, second = np.array_split(order, 2)
            for method, calibrate in METHODS.items():
                predictor = calibrate(data.logits[first], data.labels[first])
                found[method].append(_measured(predictor, data.logits[second], data.labels[second]))
            _say(f"{name}, split {split + 1} of {splits}")
        for method, figures in found.items():
            coverage, size, hard, slab, risk, full = np.mean(figures, axis=0)
            lines.append(
                f"| {name} | {method} | {coverage:.3f} | {size:.2f} | {hard:.3f} | {slab:.3f} | {risk:.3f} "
                f"| {100 * full:.1f} % |"
            )
    return "\n".join(lines)


def _measured(predictor: Any, logits: Any, labels: Any) -> list[float]:
    sets = predictor.predict_set(logits)
    where = np.sqrt(ts.softmax(logits))
    hardest = ts.metrics.coverage_by_entropy(sets, labels, logits)[-1]
    return [
        sets.coverage(labels),
        float(sets.sizes.mean()),
        float(hardest.coverage or 0.0),
        float(ts.metrics.worst_slab_coverage(sets, labels, where).coverage or 0.0),
        ts.metrics.excess_risk(sets, labels, where, ALPHA).l1,
        float((sets.sizes == sets.n_labels).mean()),
    ]


def graph(splits: int) -> str:
    """Return the table of sets for nodes."""
    images, labels = load_digits(return_X_y=True)
    squares = images.reshape(-1, 8, 8)
    left, right = (squares[:, :, part].reshape(-1, 32) for part in (slice(0, 4), slice(4, 8)))
    near = ts.graphs.similarity_graph(left, k=5)
    similar = ts.graphs.similarity_graph(right, k=20)
    edges = np.stack((near + near.T).nonzero())
    seen = np.random.default_rng(0).permutation(len(labels))[:60]
    logits = LogisticRegression(max_iter=2000).fit(images[seen], labels[seen]).decision_function(images)
    unseen = np.setdiff1d(np.arange(len(labels)), seen)
    lines = ["| score | method | coverage | size |", "|---|---|---|---|"]
    for score in ("aps", "thr"):
        methods: dict[str, Callable[..., Any]] = {
            "alone": lambda *given, **more: ts.graphs.daps(logits, edges, *given, diffusion=0.0, **more),
            "DAPS": lambda *given, **more: ts.graphs.daps(logits, edges, *given, **more),
            "SNAPS": lambda *given, **more: ts.graphs.snaps(logits, edges, similar, *given, **more),
        }
        for name, method in methods.items():
            coverage, size = [], []
            for split in range(splits):
                order = np.random.default_rng(split).permutation(unseen)
                known, rest = order[:200], order[200:]
                found = method(known, labels[known], ALPHA, score, nodes=rest)
                coverage.append(found.sets.coverage(labels[found.nodes]))
                size.append(found.sets.sizes.mean())
            lines.append(f"| {score} | {name} | {np.mean(coverage):.3f} | {np.mean(size):.2f} |")
            _say(f"{score}, {name}")
    return "\n".join(lines)


def times() -> str:
    """Return microseconds a row of predictions for 5,000 rows of Fashion-MNIST, best of five."""
    data = ts.datasets.load("fashion-mnist")
    lines = []
    for method, calibrate in METHODS.items():
        predictor, seconds = calibrate(data.logits[:5000], data.labels[:5000]), []
        for _ in range(5):
            start = time.perf_counter()
            predictor.predict_set(data.logits[5000:])
            seconds.append(time.perf_counter() - start)
        lines.append(
            f"{method}: {1e6 * min(seconds) / 5000:.1f} us a row, {predictor.n_calibration} calibrating"
        )
    return "\n".join(lines)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    """Print the tables, and write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--splits", type=int, default=10, help="ten times as many of the graph")
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    parser.add_argument("--time", action="store_true", help="time predictions instead")
    options = parser.parse_args()
    if options.time:
        print(times())
        return
    tables = {"graphs": graph(10 * options.splits), "localised": localised(options.splits)}
    for name, table in tables.items():
        print(f"{name}\n\n{table}\n")
        if options.write:
            put(name, "local_methods", table)


if __name__ == "__main__":
    main()

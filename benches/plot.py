"""Draw time against n and against K, both axes logarithmic: `make bench-plot`.

Times are kept in `.benchmarks/plot.json`; with `--redraw` they are read from there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

import numpy_forms
import tightset as ts
from results import FOLDER
from tightset import _core
from workloads import logits_and_labels

TARGET = Path(__file__).parent.parent / "docs" / "images" / "speed.svg"
KEPT = FOLDER / "plot.json"
N_OF = {"labels": 100, "sizes": [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]}
K_OF = {"rows": 10_000, "sizes": [10, 30, 100, 300, 1_000, 3_000, 10_000]}
# Elements that the textbook form is timed on at most; its time is proportional to the rows.
TEXTBOOK_ELEMENTS = 2_000_000
# Seconds that the calls on one size take together, at least.
SECONDS = 1.5

CALLS = {
    "NumPy, textbook": numpy_forms.textbook,
    "NumPy, best": numpy_forms.in_blocks,
    "tightset": lambda logits, labels: ts.label_scores(logits, labels, "aps"),
    "only reading the array": lambda logits, _: _core._row_maxima(logits),
}
STYLES = {
    "NumPy, textbook": {"color": "#999999", "marker": "s"},
    "NumPy, best": {"color": "#d55e00", "marker": "^"},
    "tightset": {"color": "#0072b2", "marker": "o", "linewidth": 2.5},
    "only reading the array": {"color": "#009e73", "marker": "v", "linestyle": "--"},
}


def times(n, k):
    """Return the best time of every call on n rows of k labels, the calls taken in turns."""
    logits, labels = logits_and_labels(n, k)
    rows = dict.fromkeys(CALLS, n) | {"NumPy, textbook": min(n, TEXTBOOK_ELEMENTS // k)}
    best, spent, turns = dict.fromkeys(CALLS, float("inf")), 0.0, 0
    while turns < 3 or spent < SECONDS:
        for name, call in CALLS.items():
            start = perf_counter()
            call(logits[: rows[name]], labels[: rows[name]])
            seconds = perf_counter() - start
            best[name] = min(best[name], seconds * n / rows[name])
            spent += seconds
        turns += 1
    return best


def measure():
    """Return the times of both panels."""
    ts.set_num_threads(2)
    return {
        "n": [times(n, N_OF["labels"]) for n in N_OF["sizes"]],
        "K": [times(K_OF["rows"], k) for k in K_OF["sizes"]],
    }


def draw(measured):
    """Write the figure."""
    plt.rcParams.update({"font.size": 11, "svg.hashsalt": "tightset", "font.family": "DejaVu Sans"})
    figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
    figure.patch.set_facecolor("white")
    titles = {
        "n": (N_OF["sizes"], "rows n", f"K = {N_OF['labels']} labels"),
        "K": (K_OF["sizes"], "labels K", f"n = {K_OF['rows']:,} rows"),
    }
    for panel, (axis, (sizes, label, title)) in zip(panels, titles.items(), strict=True):
        for name, style in STYLES.items():
            panel.plot(sizes, [1e3 * t[name] for t in measured[axis]], label=name, markersize=5, **style)
        panel.set(xscale="log", yscale="log", xlabel=label, title=title)
        panel.grid(visible=True, which="major", color="#dddddd", linewidth=0.7)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("time, ms")
    figure.suptitle("Entropy-reweighted APS score of the label, float32")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(TARGET, metadata={"Date": None})
    figure.savefig(KEPT.with_suffix(".png"), dpi=110)


def main():
    FOLDER.mkdir(exist_ok=True)
    if "--redraw" not in sys.argv:
        KEPT.write_text(json.dumps(measure()))
    draw(json.loads(KEPT.read_text()))
    print(f"written: {TARGET.relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()

"""Draw the README's figure, size against coverage on Fashion-MNIST: `make plot-sizes`."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

import tightset as ts
from tightset.comparison import compare
from tightset.progress import Progress

TARGET = Path(__file__).parent.parent / "docs" / "images" / "sizes.svg"
RECIPES = ("paper", "released", "er-aps", "aps", "raps", "saps", "thr", "rank", "tightest")
SPLITS = 10


def main():
    """Compare the recipes and write the figure."""
    data = ts.datasets.load("fashion-mnist")
    with Progress(len(RECIPES) * SPLITS, "comparing") as progress:
        found = compare(data.logits, data.labels, recipes=RECIPES, n_splits=SPLITS, advance=progress.advance)
    sizes = {r: [found.cell(r, level).mean_size for level in found.levels] for r in RECIPES}
    coverage = {r: [found.cell(r, level).coverage for level in found.levels] for r in RECIPES}
    with mpl.rc_context({"svg.hashsalt": "tightset"}):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained", facecolor="white")
        ax = ts.plot.size_by_coverage(coverage, sizes, ax=figure.add_subplot(), theme="light")
        ax.set_title(f"Fashion-MNIST, means over {SPLITS} splits", loc="left")
        TARGET.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(TARGET, metadata={"Date": None})
    print(f"written: {TARGET.relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()

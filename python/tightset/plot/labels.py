"""Names of what is drawn: at the ends of lines, apart from each other, or in a legend beside the axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tightset.plot.theme import SMALL, Theme


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Return places at least `gap` apart, in the same order, as near as can be to those given.

    Places that would be too near form a block around their middle; blocks that then meet become one.

    >>> [round(place, 3) for place in spread([0.5, 0.9, 0.5], 0.1)]
    [0.45, 0.9, 0.55]
    """
    order = np.argsort(places, kind="stable")
    blocks: list[list[float]] = []  # the middle of each block and how many places it has
    for i in order:
        blocks.append([places[i], 1.0])
        while len(blocks) > 1:
            (low, n), (high, m) = blocks[-2], blocks[-1]
            if high - low >= gap * (n + m) / 2:
                break
            blocks[-2:] = [[(low * n + high * m) / (n + m), n + m]]
    flat = [middle + gap * (j - (n - 1) / 2) for middle, n in blocks for j in range(int(n))]
    found = [0.0] * len(flat)
    for i, place in zip(order, flat, strict=True):
        found[i] = place
    return found


def label_ends(ax: Axes, lines: Sequence[Line2D], theme: Theme, emphasis: str | None = None) -> None:
    """Write the name of each line beside its right end, tied to it by a thin line in its colour.

    Limits of the axes must be final.
    """
    figure = ax.get_figure()
    assert figure is not None
    height = 72.0 * ax.bbox.height / figure.dpi
    gap = 1.25 * SMALL / height
    to_axes = ax.transScale + ax.transLimits  # data to shares of the axes
    ends = []
    for line in lines:
        points = np.column_stack([line.get_xdata(), line.get_ydata()]).astype(float)
        points = points[np.isfinite(points).all(axis=1)]
        ends.append(to_axes.transform(points[-1]) if len(points) else np.array([1.0, 0.0]))
    ends = [np.clip(end, 0.0, 1.0) for end in ends]
    places = spread([float(end[1]) for end in ends], gap)
    low, high = min(places, default=0.0), max(places, default=1.0)
    shift = max(0.0, -0.02 - low) if high < 1.02 else -max(0.0, high - 1.02)
    for line, end, place in zip(lines, ends, places, strict=True):
        name = str(line.get_label())
        ax.annotate(
            name,
            xy=(float(end[0]), float(end[1])),
            xycoords="axes fraction",
            xytext=(1.06, place + shift),
            textcoords="axes fraction",
            fontsize=SMALL,
            fontweight="bold" if name == emphasis else "normal",
            color=theme.ink,
            va="center",
            ha="left",
            annotation_clip=False,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.get_color(),
                "linewidth": 0.9,
                "shrinkA": 1.0,
                "shrinkB": 0.0,
                "relpos": (0.0, 0.5),
            },
        )


def legend_right(ax: Axes, theme: Theme) -> None:
    """Put a legend to the right of the axes."""
    _legend(ax, theme, loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.3, borderaxespad=0.2)


def legend_below(ax: Axes, theme: Theme) -> None:
    """Put a legend in two columns below the axes, for names too long to stand beside them."""
    _legend(
        ax,
        theme,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
        ncols=2,
        labelspacing=0.25,
        borderaxespad=0.0,
    )


def legend_inside(ax: Axes, theme: Theme) -> None:
    """Put a legend where the axes have most room."""
    _legend(ax, theme)


def _legend(ax: Axes, theme: Theme, **place: Any) -> None:
    legend = ax.legend(frameon=False, labelcolor=theme.ink, fontsize=SMALL, **place)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a name may have dollar signs

"""Lines over levels of coverage: coverage with its band, sizes, saturation and the effect of selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from tightset.plot.labels import label_ends
from tightset.plot.theme import SMALL, Theme, ThemeName, axes_for, styles_of


def coverage_by_level(
    levels: Sequence[float],
    coverage: Mapping[str, ArrayLike],
    *,
    band: Sequence[tuple[float, float]] | None = None,
    emphasis: str | None = None,
    ax: Axes | None = None,
    theme: ThemeName | None = None,
) -> Axes:
    """Draw how far coverage is from the level that was asked for, one line for each name.

    Parameters
    ----------
    levels
        Coverages asked for, 1 - alpha.
    coverage
        For each name, a coverage for each level, or a row of them (several splits), whose mean is drawn.
    band
        Lower and upper end for each level of what chance allows, such as `metrics.coverage_band` returns.
    emphasis
        The name whose line is wide.
    ax
        Axes to draw on; by default those of a new figure.
    theme
        ``"light"`` or ``"dark"``; by default what suits the background of the figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import tightset as ts
    >>> levels = [0.90, 0.95, 0.99]
    >>> band = [ts.metrics.coverage_band(1000, 1 - level, n_test=1000) for level in levels]
    >>> ax = ts.plot.coverage_by_level(levels, {"aps": [0.908, 0.951, 0.989]}, band=band)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('level asked for', 'coverage minus level')
    """
    ax, colours = axes_for(ax, theme)
    asked = _levels(levels)
    rows = {name: _of_levels(values, asked, f"coverage[{name!r}]") for name, values in coverage.items()}
    if band is not None:
        _draw_band(ax, asked, band, colours)
    _zero_line(ax, colours)
    styles = styles_of(list(rows), colours, emphasis)
    lines = [
        ax.plot(asked, values.mean(axis=1) - asked, label=name, **styles[name])[0]
        for name, values in rows.items()
    ]
    _finish_differences(ax, lines, colours, emphasis)
    return ax


def size_by_coverage(
    coverage: Mapping[str, ArrayLike],
    size: Mapping[str, ArrayLike],
    *,
    emphasis: str | None = None,
    ax: Axes | None = None,
    theme: ThemeName | None = None,
) -> Axes:
    """Draw mean set size against coverage, one line for each name: lower is better.

    Parameters
    ----------
    coverage, size
        For each name, a number for each level, or a row of them (several splits), whose mean is drawn.
        Give the levels asked for as coverage, or what was observed.
    emphasis, ax, theme
        As in `coverage_by_level`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import tightset as ts
    >>> coverage = {"aps": [0.90, 0.95, 0.99], "thr": [0.90, 0.95, 0.99]}
    >>> ax = ts.plot.size_by_coverage(coverage, {"aps": [1.2, 1.5, 2.6], "thr": [1.0, 1.1, 1.9]})
    >>> [line.get_label() for line in ax.get_lines()]
    ['aps', 'thr']
    """
    ax, colours = axes_for(ax, theme)
    if coverage.keys() != size.keys():
        message = f"size must have the names of coverage, {list(coverage)}, got {list(size)}"
        raise ValueError(message)
    styles = styles_of(list(size), colours, emphasis)
    lines = []
    for name, values in size.items():
        at = _of_levels(coverage[name], None, f"coverage[{name!r}]").mean(axis=1)
        means = _of_levels(values, at, f"size[{name!r}]").mean(axis=1)
        lines += ax.plot(at, means, label=name, **styles[name])
    ax.set(xlabel="coverage", ylabel="labels in a set, mean")
    ax.margins(x=0.02, y=0.06)
    ax.autoscale_view()
    label_ends(ax, lines, colours, emphasis)
    return ax


def saturation(
    levels: Sequence[float],
    textbook: ArrayLike,
    ranked: ArrayLike,
    *,
    ax: Axes | None = None,
    theme: ThemeName | None = None,
) -> Axes:
    """Draw what running out of floating-point numbers costs, and what the ranked scale saves.

    When a classifier is very sure, the textbook form of a score ties wrong labels at 1.0, and sets at
    high levels hold nearly all labels. The ranked scale keeps the labels apart.

    Parameters
    ----------
    levels
        Coverages asked for, 1 - alpha.
    textbook, ranked
        Mean set size for each level, or a row of them, whose mean is drawn: by textbook arithmetic, and
        by the scale that is used here.
    ax, theme
        As in `coverage_by_level`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import tightset as ts
    >>> ax = ts.plot.saturation([0.90, 0.95, 0.99], textbook=[1.4, 2.2, 9.9], ranked=[1.4, 2.0, 4.1])
    >>> [line.get_label() for line in ax.get_lines()]
    ['textbook', 'ranked scale']
    """
    ax, colours = axes_for(ax, theme)
    asked = _levels(levels)
    low = _of_levels(ranked, asked, "ranked").mean(axis=1)
    high = _of_levels(textbook, asked, "textbook").mean(axis=1)
    ax.fill_between(asked, low, high, color=colours.band, alpha=0.25, linewidth=0)
    styles = styles_of(["textbook", "ranked scale"], colours)
    styles["textbook"]["color"] = colours.series[1]
    styles["ranked scale"]["color"] = colours.series[0]
    lines = [
        *ax.plot(asked, high, label="textbook", **styles["textbook"]),
        *ax.plot(asked, low, label="ranked scale", **styles["ranked scale"]),
    ]
    ax.set(xlabel="level asked for", ylabel="labels in a set, mean")
    ax.set_ylim(bottom=0.0)
    ax.margins(x=0.02)
    ax.autoscale_view()
    label_ends(ax, lines, colours)
    return ax


def selection_effect(
    levels: Sequence[float],
    coverage: Mapping[str, ArrayLike],
    *,
    ax: Axes | None = None,
    theme: ThemeName | None = None,
) -> Axes:
    """Draw what a selection does to coverage: the distance from the level, with its uncertainty.

    Selecting on the rows that then calibrate loses coverage; ``"modsel"`` and ``"held-out"`` do not.

    Parameters
    ----------
    levels
        Coverages asked for, 1 - alpha.
    coverage
        For each way of selecting, a coverage for each level, or a row of them (several splits): then the
        mean is drawn with a bar of two standard errors either way.
    ax, theme
        As in `coverage_by_level`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import tightset as ts
    >>> ax = ts.plot.selection_effect(
    ...     [0.90, 0.95],
    ...     {"naive": [[0.893, 0.895], [0.944, 0.946]], "modsel": [[0.899, 0.902], [0.949, 0.952]]},
    ... )
    >>> ax.get_ylabel()
    'coverage minus level'
    """
    ax, colours = axes_for(ax, theme)
    asked = _levels(levels)
    _zero_line(ax, colours)
    styles = styles_of(list(coverage), colours)
    lines = []
    for i, (name, values) in enumerate(coverage.items()):
        rows = _of_levels(values, asked, f"coverage[{name!r}]")
        n = rows.shape[1]
        error = 2.0 * rows.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(asked))
        # Side by side, or the bars would hide each other.
        step = np.diff(asked).min() if len(asked) > 1 else 0.01
        at = asked + step * 0.12 * (i - (len(coverage) - 1) / 2)
        if n > 1:
            ax.vlines(
                at,
                rows.mean(axis=1) - asked - error,
                rows.mean(axis=1) - asked + error,
                color=styles[name]["color"],
                alpha=0.45,
                linewidth=2.2,
                capstyle="butt",
            )
        lines += ax.plot(at, rows.mean(axis=1) - asked, label=name, **styles[name])
    _finish_differences(ax, lines, colours, None)
    return ax


def _draw_band(
    ax: Axes, asked: NDArray[np.float64], band: Sequence[tuple[float, float]], theme: Theme
) -> None:
    ends = np.asarray(band, dtype=np.float64)
    if ends.shape != (len(asked), 2):
        message = f"band must have two ends for each of the {len(asked)} levels, got shape {ends.shape}"
        raise ValueError(message)
    ax.fill_between(
        asked,
        ends[:, 0] - asked,
        ends[:, 1] - asked,
        color=theme.band,
        alpha=0.3,
        linewidth=0,
        label="exact band",
    )
    ax.annotate(
        "exact band",
        xy=(asked[0], ends[0, 0] - asked[0]),
        xytext=(4, 9),
        textcoords="offset points",
        color=theme.muted,
        fontsize=SMALL,
        va="bottom",
    )


def _zero_line(ax: Axes, theme: Theme) -> None:
    ax.axhline(0.0, color=theme.muted, linewidth=1.0, zorder=1.5)


def _finish_differences(ax: Axes, lines: list[Line2D], theme: Theme, emphasis: str | None) -> None:
    ax.set(xlabel="level asked for", ylabel="coverage minus level")
    ax.yaxis.set_major_formatter(lambda value, _: f"{round(value, 6):+g}" if abs(value) > 1e-6 else "0")
    ax.margins(x=0.02, y=0.08)
    ax.autoscale_view()
    label_ends(ax, lines, theme, emphasis)


def _levels(levels: Sequence[float]) -> NDArray[np.float64]:
    asked = np.asarray(levels, dtype=np.float64)
    if asked.ndim != 1 or not len(asked) or not ((asked > 0.0) & (asked < 1.0)).all():
        message = f"levels must be numbers between 0 and 1, got {levels!r}"
        raise ValueError(message)
    return asked


def _of_levels(values: ArrayLike, asked: NDArray[np.float64] | None, name: str) -> NDArray[np.float64]:
    """Return one row for each level."""
    found = np.asarray(values, dtype=np.float64)
    if found.ndim == 1:
        found = found[:, np.newaxis]
    if found.ndim != 2 or not found.size or (asked is not None and len(found) != len(asked)):
        expected = "one number or one row for each level" + ("" if asked is None else f" ({len(asked)})")
        message = f"{name} must have {expected}, got shape {np.shape(values)}"
        raise ValueError(message)
    return found

"""What sets are like for kinds of rows: histogram of sizes, coverage by entropy, the four scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from tightset.metrics import Stratum
from tightset.plot.labels import label_ends, legend_inside, legend_right
from tightset.plot.theme import SMALL, ThemeName, axes_for, styles_of
from tightset.sets import PredictionSets


def size_histogram(
    sets: PredictionSets | ArrayLike | Mapping[str, PredictionSets | ArrayLike],
    *,
    ax: Axes | None = None,
    theme: ThemeName | None = None,
) -> Axes:
    """Draw the share of rows whose set has 0, 1, 2 ... labels.

    Parameters
    ----------
    sets
        Prediction sets, or how many of them have 0, 1, 2 ... labels; a mapping of names to such puts
        the bars side by side.
    ax, theme
        As in `coverage_by_level`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import tightset as ts
    >>> ax = ts.plot.size_histogram([0, 70, 20, 10])
    >>> [round(float(bar.get_height()), 2) for bar in ax.patches]
    [0.0, 0.7, 0.2, 0.1]
    """
    ax, colours = axes_for(ax, theme)
    named = {str(name): value for name, value in sets.items()} if isinstance(sets, Mapping) else {"": sets}
    counts = {name: _counts(value) for name, value in named.items()}
    if not counts:
        message = "sets must not be empty, got a mapping without names"
        raise ValueError(message)
    styles = styles_of(list(counts), colours)
    last = max(int(np.flatnonzero(found)[-1]) for found in counts.values())
    width = 0.86 / len(counts)
    for i, (name, found) in enumerate(counts.items()):
        share = np.zeros(last + 1)
        share[: len(found)] = found[: last + 1] / found.sum()
        at = np.arange(last + 1) + width * (i - (len(counts) - 1) / 2)
        bars = ax.bar(at, share, width, color=styles[name]["color"], linewidth=0, label=name)
        if len(counts) == 1 and last <= 10:
            ax.bar_label(
                bars, [_percent(value) for value in share], fontsize=SMALL, color=colours.muted, padding=2
            )
    ax.set(xlabel="labels in the set", ylabel="share of rows", xlim=(-0.6, last + 0.6))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    ax.margins(y=0.1)
    if len(counts) > 1:
        legend_inside(ax, colours)
    return ax


def coverage_by_entropy(
    strata: Sequence[Stratum] | Mapping[str, Sequence[Stratum]],
    level: float | None = None,
    *,
    emphasis: str | None = None,
    ax: Axes | None = None,
    theme: ThemeName | None = None,
) -> Axes:
    """Draw coverage from the rows of least entropy to those of most.

    Parameters
    ----------
    strata
        As `metrics.coverage_by_entropy` returns them, or a mapping of names to such.
    level
        The coverage asked for, drawn as a line.
    emphasis, ax, theme
        As in `coverage_by_level`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import tightset as ts
    >>> strata = [ts.metrics.Stratum("0-50 %", 500, 0.97, 1.0, 0.0),
    ...           ts.metrics.Stratum("50-100 %", 500, 0.84, 1.9, 0.0)]
    >>> ax = ts.plot.coverage_by_entropy(strata, level=0.9)
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['0-50 %', '50-100 %']
    """
    ax, colours = axes_for(ax, theme)
    named = _named(strata)
    names = [stratum.name for stratum in next(iter(named.values()))]
    styles = styles_of(list(named), colours, emphasis)
    lines = []
    if level is not None:
        flat: dict[str, Any] = {"color": colours.muted, "linewidth": 1.0, "zorder": 1.5}
        lines += ax.plot(range(len(names)), [level] * len(names), label=f"level {level:g}", **flat)
    for name, found in named.items():
        lines += ax.plot(range(len(found)), _values(found, "coverage"), label=name, **styles[name])
    ax.set_xticks(range(len(names)), names)
    ax.set(xlabel="rows by rising entropy", ylabel="coverage")
    ax.margins(x=0.05, y=0.08)
    ax.autoscale_view()
    # Of strata without a name, only the level has one.
    label_ends(ax, lines if list(named) != [""] else lines[:-1], colours, emphasis)
    return ax


def scenarios(
    strata: Sequence[Stratum] | Mapping[str, Sequence[Stratum]],
    value: Literal["mean_size", "coverage"] = "mean_size",
    *,
    ax: Axes | None = None,
    theme: ThemeName | None = None,
) -> Axes:
    """Draw set size or coverage in four scenarios: top label right or wrong, entropy low or high.

    Parameters
    ----------
    strata
        As `metrics.coverage_by_scenario` returns them, or a mapping of names to such, whose dots are
        drawn below each other.
    value
        What to draw. A scenario without rows has no dot.
    ax, theme
        As in `coverage_by_level`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import tightset as ts
    >>> kinds = ["right, low entropy", "right, high entropy", "wrong, low entropy", "wrong, high entropy"]
    >>> sizes = [1.0, 1.4, 1.1, 2.2]
    >>> strata = [ts.metrics.Stratum(kind, 100, 0.9, size, 0.0) for kind, size in zip(kinds, sizes)]
    >>> ax = ts.plot.scenarios({"aps": strata})
    >>> [float(x) for x in ax.get_lines()[0].get_xdata()]
    [1.0, 1.4, 1.1, 2.2]
    """
    if value not in ("mean_size", "coverage"):
        message = f"value must be 'mean_size' or 'coverage', got {value!r}"
        raise ValueError(message)
    ax, colours = axes_for(ax, theme)
    named = _named(strata)
    kinds = next(iter(named.values()))
    styles = styles_of(list(named), colours)
    for i, (name, found) in enumerate(named.items()):
        at = np.arange(len(found)) + 0.7 * ((i + 0.5) / len(named) - 0.5)
        style = {**styles[name], "linestyle": "none", "markersize": 4.8}
        ax.plot(_values(found, value), at, label=name, **style)
    for i in range(1, len(kinds)):
        ax.axhline(i - 0.5, color=colours.line, linewidth=0.8, zorder=0.5)
    names = [kind.name.replace(", ", "\n") + f"\n{kind.rows:,} row{'s' * (kind.rows != 1)}" for kind in kinds]
    ax.set_yticks(range(len(kinds)), names)
    ax.set_ylim(len(kinds) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.grid(visible=True, axis="x", color=colours.line, linewidth=0.8)
    ax.set_xlabel("labels in a set, mean" if value == "mean_size" else "coverage")
    ax.margins(x=0.06)
    if list(named) != [""]:
        legend_right(ax, colours)
    return ax


def _counts(sets: PredictionSets | ArrayLike) -> NDArray[np.float64]:
    found = np.bincount(sets.sizes) if isinstance(sets, PredictionSets) else np.asarray(sets)
    counts: NDArray[np.float64] = found.astype(np.float64)
    if counts.ndim != 1 or not (counts >= 0).all() or not np.isfinite(counts).all() or not counts.any():
        message = f"sets must be PredictionSets or counts of sets by size, with one row or more, got {sets!r}"
        raise ValueError(message)
    return counts


def _named(strata: Sequence[Stratum] | Mapping[str, Sequence[Stratum]]) -> dict[str, Sequence[Stratum]]:
    named = {str(n): s for n, s in strata.items()} if isinstance(strata, Mapping) else {"": strata}
    if not named or not all(named.values()):
        message = f"strata must not be empty, got {strata!r}"
        raise ValueError(message)
    return named


def _values(strata: Sequence[Stratum], value: str) -> list[float]:
    numbers = (getattr(stratum, value) for stratum in strata)
    return [float("nan") if number is None else float(number) for number in numbers]


def _percent(share: float) -> str:
    if share == 0.0:
        return ""
    return f"{100 * share:.0f}" if share >= 0.01 else "<1"

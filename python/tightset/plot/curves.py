"""What a selection saw: mean size of each candidate over temperatures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from tightset.evaluation import CurveLine, curve_lines
from tightset.plot.labels import legend_below
from tightset.plot.theme import ThemeName, axes_for, styles_of
from tightset.selection_curve import SelectionCurve

_MOST_NAMED = 6
# Sizes above this many times the smallest are out of view: they would press the rest flat.
_VIEW = 2.5


def selection_curve(
    curve: SelectionCurve | Sequence[CurveLine],
    *,
    ax: Axes | None = None,
    theme: ThemeName | None = None,
) -> Axes:
    """Draw the mean set size of every candidate over temperatures, and mark the chosen one.

    Each score and reweighting is a line. Where there are many, those with the smallest sets have a name,
    and the others stand back. The limits 0 and infinity are set apart at either end. The view ends at 2.5
    times the smallest size; ``ax.autoscale()`` shows everything.

    Parameters
    ----------
    curve
        ``predictor.selection_curve``, or the lines of an `Evaluation`.
    ax, theme
        As in `coverage_by_level`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(5, size=1000)
    >>> logits = 2 * rng.normal(size=(1000, 5)) + 4 * np.eye(5)[labels]
    >>> recipe = ts.Recipe("aps", ["entropy", None], [0.5, 1, 2, 4], "held-out")
    >>> predictor = ts.calibrate(logits, labels, alpha=0.05, recipe=recipe)
    >>> ax = ts.plot.selection_curve(predictor.selection_curve)
    >>> [line.get_label() for line in ax.get_lines()][1:]
    ['aps, plain', 'chosen']
    """
    ax, colours = axes_for(ax, theme)
    lines = curve_lines(curve) if isinstance(curve, SelectionCurve) else tuple(curve)
    if not lines:
        message = "curve must have at least one line, got none"
        raise ValueError(message)
    place = _places(lines)
    # Smallest first by what it reaches, and the chosen one always among those with a name.
    by_size = sorted(range(len(lines)), key=lambda i: (lines[i].chosen is None, float(lines[i].sizes.min())))
    named = sorted(by_size[:_MOST_NAMED])
    styles = styles_of([f"{i}" for i in named], colours)
    for i, line in enumerate(lines):
        at = np.array([place[t] for t in line.temperatures.tolist()])
        finite = (line.temperatures > 0.0) & np.isfinite(line.temperatures)
        if i in named:
            style = {**styles[f"{i}"], "markersize": 3.0, "linewidth": 1.5}
        else:
            style = {"color": colours.line, "marker": ".", "markersize": 2.0, "linewidth": 1.0, "zorder": 1.2}
        # A limit is no neighbour of the last temperature: it is a dot, not the end of the line.
        label = _short(line.name) if i in named else f"_{line.name}"
        if finite.any():
            ax.plot(at[finite], line.sizes[finite], label=label, **style)
        limits = {**style, "linestyle": "none", "markersize": 4.0}
        if not finite.all():
            ax.plot(at[~finite], line.sizes[~finite], label=f"_limits of {line.name}", **limits)
    for line in lines:
        if line.chosen is not None:
            ax.plot(
                place[float(line.temperatures[line.chosen])],
                line.sizes[line.chosen],
                label="chosen",
                marker="o",
                markersize=10,
                markerfacecolor="none",
                markeredgecolor=colours.ink,
                markeredgewidth=1.6,
                linestyle="none",
                zorder=4,
            )
    _temperature_axis(ax, place)
    ax.set_ylabel("labels in a set, mean")
    ax.margins(x=0.03, y=0.06)
    ax.autoscale_view()
    low, high = min(float(line.sizes.min()) for line in lines), ax.get_ylim()[1]
    ax.set_ylim(top=min(high, max(_VIEW * low, low + 0.5)))
    legend_below(ax, colours)
    return ax


def _places(lines: Sequence[CurveLine]) -> dict[float, float]:
    """Return where each temperature stands: its binary logarithm, the limits beyond the last of them."""
    every = np.unique(np.concatenate([line.temperatures for line in lines]))
    finite: NDArray[np.float64] = every[(every > 0.0) & np.isfinite(every)]
    logs = np.log2(finite) if len(finite) else np.zeros(1)
    apart = max(1.0, 0.08 * float(logs.max() - logs.min()))
    places = dict(zip(finite.tolist(), np.log2(finite).tolist(), strict=True))
    places[0.0] = float(logs.min()) - apart
    places[float("inf")] = float(logs.max()) + apart
    return {float(t): places[float(t)] for t in every}


def _short(name: str) -> str:
    return name.replace("entropy gamma ", "γ ").replace("power ", "p ")  # noqa: RUF001


def _temperature_axis(ax: Axes, place: dict[float, float]) -> None:
    limits = {place[t]: name for t, name in ((0.0, "0"), (float("inf"), "∞")) if t in place}
    finite = [at for t, at in place.items() if 0.0 < t < float("inf")]
    ticks = dict(limits)
    if finite:
        low, high = int(np.ceil(min(finite))), int(np.floor(max(finite)))
        step = max(1, -(-(high - low) // 5))
        for at in range(low + (-low) % step, high + 1, step):
            if all(abs(at - limit) > 0.6 * step for limit in limits):
                ticks[float(at)] = f"{2**at}" if at >= 0 else f"1/{2**-at}"
    ax.set_xticks(list(ticks), list(ticks.values()))
    ax.set_xlabel("temperature T")

"""The one style of all plots: colours for light and dark, lines of recipes, and what axes look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

ThemeName: TypeAlias = Literal["light", "dark"]

SIZE = (4.7, 3.5)
"""Inches of a figure, small enough for its text to be read when it is as wide as a phone."""

FONT_SIZE = 10.5
SMALL = 9.5


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a plot, as hexadecimal RGB, no two the same.

    Attributes
    ----------
    paper, ink, muted, line
        Background, text, text that stands back, grid and axis lines.
    band
        What coverage may do by chance; drawn half transparent.
    series
        Colours of lines and bars. They differ for the colour-blind too, and stand out from the paper.
    """

    paper: str
    ink: str
    muted: str
    line: str
    band: str
    series: tuple[str, ...]


LIGHT = Theme(
    paper="#ffffff",
    ink="#1b1f24",
    muted="#5b6570",
    line="#d9dee3",
    band="#9aa7b4",
    series=("#0d71b1", "#d6660e", "#0a9764", "#b03a8a", "#925910", "#3c2a7d", "#8294a2"),
)
DARK = Theme(
    paper="#14181d",
    ink="#eef1f4",
    muted="#a3adb8",
    line="#323a43",
    band="#6f7d8b",
    series=("#41bffc", "#fd7b34", "#43be83", "#de96cb", "#ebba2d", "#928bfe", "#8f8f98"),
)
THEMES: dict[ThemeName, Theme] = {"light": LIGHT, "dark": DARK}

# A score keeps its colour in every plot. Selected forms are drawn solid, plain ones dashed and hollow.
_COLOUR_OF_SCORE = {"aps": 0, "thr": 1, "saps": 2, "rank": 3, "raps": 4, "paper": 5, "released": 6}
_DASHED = (0, (3, 1.5))
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "p", "h", "d")
_MARKER_OF_SCORE = {
    "aps": "o",
    "thr": "s",
    "saps": "D",
    "rank": "^",
    "raps": "v",
    "paper": "P",
    "released": "X",
    "tightest": "h",
}


def theme_of(ax: Axes | None, theme: ThemeName | None) -> Theme:
    """Return the theme by name, else the one that suits the background.

    Without a name, plots on dark figures, as ``plt.style.use("dark_background")`` makes them, are dark.
    """
    if theme is not None:
        if theme not in THEMES:
            message = f"theme must be None, 'light' or 'dark', got {theme!r}"
            raise ValueError(message)
        return THEMES[theme]
    figure = None if ax is None else ax.get_figure()
    face: Any = mpl.rcParams["figure.facecolor"] if figure is None else figure.get_facecolor()
    red, green, blue = to_rgb(face)
    return DARK if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else LIGHT


def axes_for(ax: Axes | None, theme: ThemeName | None) -> tuple[Axes, Theme]:
    """Return axes in the style of the theme: those given, or new ones in a figure of their own."""
    colours = theme_of(ax, theme)
    if ax is None:
        import matplotlib.pyplot as plt  # here, or a report would choose a backend

        figure, ax = plt.subplots(figsize=SIZE, layout="constrained")
        figure.set_facecolor(colours.paper)
    _dress(ax, colours)
    return ax, colours


def _dress(ax: Axes, theme: Theme) -> None:
    ax.set_facecolor("none")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(theme.line)
    ax.tick_params(colors=theme.muted, length=0, pad=5.0, labelsize=SMALL)
    ax.grid(visible=True, axis="y", color=theme.line, linewidth=0.8)
    ax.set_axisbelow(True)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set(color=theme.muted, fontsize=FONT_SIZE)
    ax.title.set(color=theme.ink, fontsize=FONT_SIZE)


def styles_of(names: Sequence[str], theme: Theme, emphasis: str | None = None) -> dict[str, dict[str, Any]]:
    """Return colour, marker and line of each name.

    Recipes have theirs whatever else is drawn; other names take what comes next. With `emphasis`, that
    line is wide and the others are thin.
    """
    found, others = {}, 0
    style: dict[str, Any]
    for name in names:
        score = name.removeprefix("er-")
        colour = _COLOUR_OF_SCORE.get(score)
        if score == "tightest":
            style = {"color": theme.ink, "marker": _MARKER_OF_SCORE[score], "linestyle": "-"}
        elif colour is not None:
            style = {"color": theme.series[colour], "marker": _MARKER_OF_SCORE[score], "linestyle": "-"}
            if name == score and name not in ("paper", "released"):
                style |= {"linestyle": _DASHED, "markerfacecolor": theme.paper}
        else:
            style = {
                "color": theme.series[others % len(theme.series)],
                "marker": _MARKERS[others % len(_MARKERS)],
                "linestyle": "-" if others < len(theme.series) else _DASHED,
            }
            others += 1
        width = 1.6 if emphasis is None else 2.8 if name == emphasis else 1.1
        found[name] = {
            **style,
            "linewidth": width,
            "markersize": 2.5 + width,
            "markeredgewidth": 1.0,
            "zorder": 3.0 if name == emphasis else 2.0,
        }
    return found

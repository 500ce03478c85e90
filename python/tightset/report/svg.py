"""Figures as SVG inside a page, in the colours that the reader prefers."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from tightset.plot.theme import LIGHT, SIZE, Theme

# Text stays text: sharp at any size, in the fonts of the page.
_SETTINGS: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "tightset", "axes.unicode_minus": False}


def variables(theme: Theme) -> dict[str, str]:
    """Return the names that colours have in the page."""
    named = {name: getattr(theme, name) for name in ("paper", "ink", "muted", "line", "band")}
    return named | {f"series-{i}": colour for i, colour in enumerate(theme.series)}


_NAME_OF = {colour: name for name, colour in variables(LIGHT).items()}


def draw(plot: Callable[[Axes], object], name: str, alt: str) -> str:
    """Return what `plot` draws as an ``<svg>`` element.

    Its colours are variables of the page, so that one drawing serves light and dark.

    Parameters
    ----------
    plot
        Draws on the axes it is given.
    name
        Told apart from other figures of the page by this; it becomes part of ids.
    alt
        What those learn who cannot see it.
    """
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=SIZE, layout="constrained", facecolor=LIGHT.paper)
        FigureCanvasSVG(figure)
        plot(figure.add_subplot())
        figure.patch.set_visible(False)
        # Ticks change when the axes make room for a legend: the second layout knows the new ones.
        figure.draw_without_rendering()
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(text.getvalue(), name, alt)


def _inline(document: str, name: str, alt: str) -> str:
    """Return the drawing without what a file of its own needs."""
    body = document[document.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    opening, _, rest = body.partition(">")
    box = re.search(r'viewBox="[^"]*"', opening)
    assert box is not None, "matplotlib says how large its drawings are"
    rest = rest.replace("xlink:href", "href")
    rest = re.sub(r'\bid="', f'id="{name}-', rest)
    rest = re.sub(r'href="#', f'href="#{name}-', rest)
    rest = re.sub(r"url\(#", f"url(#{name}-", rest)
    rest = re.sub(r"(?<=: )#[0-9a-f]{6}\b", lambda colour: f"var(--{_NAME_OF[colour[0]]})", rest)
    rest = re.sub(r"font: ((?:bold|[0-9]+) )?([0-9.]+px) [^;\"]*", _font, rest)
    rest = re.sub(r" ?font-family: [^;\"]*;?", "", rest)
    return f'<svg {box[0]} role="img" aria-label="{escape(alt)}">{rest.rstrip()}'


def _font(found: re.Match[str]) -> str:
    weight = f"font-weight: {found[1].strip()}; " if found[1] else ""
    return f"{weight}font-size: {found[2]}"

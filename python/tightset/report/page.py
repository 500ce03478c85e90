"""The page: its parts in order, its style, and the file it becomes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from tightset._core import VERSION
from tightset.advice import CAUTION
from tightset.evaluation import Evaluation
from tightset.plot.theme import DARK, LIGHT, Theme
from tightset.report import tables
from tightset.report.figures import drawings, drawn
from tightset.report.markup import facts, figure
from tightset.report.svg import draw, variables
from tightset.whole_files import written


def write_report(
    path: str | os.PathLike[str],
    evaluation: Evaluation | Sequence[Evaluation],
    *,
    title: str | None = None,
) -> None:
    """Write one HTML file with the tables and plots of a comparison, readable without network.

    The file appears whole or not at all. It follows the reader's preference for light or dark.

    Parameters
    ----------
    path
        The file, replaced if it exists.
    evaluation
        What `tightset.comparison.compare` returned, or several of them.
    title
        Heading of the page; by default the names of the data sets.

    Examples
    --------
    >>> import tightset as ts
    >>> from tightset.comparison import compare
    >>> from tightset.report import write_report
    >>> data = ts.datasets.load("carer")
    >>> found = compare(data.logits, data.labels, name="carer", recipes=["thr", "aps"], n_splits=2)
    >>> write_report("report.html", found)
    """
    found = (evaluation,) if isinstance(evaluation, Evaluation) else tuple(evaluation)
    if not found:
        message = "evaluation must not be empty"
        raise ValueError(message)
    text = _page(found, title or ", ".join(one.dataset for one in found))
    with written(path) as file:
        file.write(text.encode())


def _page(found: Sequence[Evaluation], title: str) -> str:
    names = [f"part-{i}" for i in range(len(found))]
    parts = [_part(name, one, alone=len(found) == 1) for name, one in zip(names, found, strict=True)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}: prediction sets compared</title>\n"
        f"<style>\n{_style()}</style>\n</head>\n<body>\n"
        f'<header><p class="kind">Prediction sets compared</p><h1>{escape(title)}</h1>'
        f"{_contents(names, found)}</header>\n<main>\n"
        + "\n".join(parts)
        + f"\n</main>\n<footer><p>tightset {escape(VERSION)}</p></footer>\n</body>\n</html>\n"
    )


def _style() -> str:
    def declared(theme: Theme) -> str:
        return " ".join(f"--{name}: {colour};" for name, colour in variables(theme).items())

    return (
        f":root {{ {declared(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {declared(DARK)} }} }}\n"
        + (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    )


def _contents(names: Sequence[str], found: Sequence[Evaluation]) -> str:
    if len(found) == 1:
        return ""
    places = zip(names, found, strict=True)
    items = "".join(f'<li><a href="#{name}">{escape(one.dataset)}</a></li>' for name, one in places)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def _part(name: str, found: Evaluation, *, alone: bool) -> str:
    # With one data set its name is the heading of the page already.
    heading = "" if alone else f"<h2>{escape(found.dataset)}</h2>"
    shown = "".join(
        figure(draw(d.draw, f"{name}-{d.key}", d.alt), d.title, d.caption) for d in drawings(found)
    )
    level = 2 if alone else 3

    def titled(title: str, body: str) -> str:
        return f"<h{level}>{title}</h{level}>{body}"

    return (
        f'<section id="{name}" aria-label="{escape(found.dataset)}">{heading}'
        f'<p class="lead">{escape(found.sentence)}</p>{_facts(found)}'
        + titled(
            "Use it",
            f'<p>{escape(CAUTION)}</p><pre tabindex="0"><code>{escape(found.snippet)}</code></pre>',
        )
        + titled("Plots", f'{_left_out(found)}<div class="figures">{shown}</div>')
        + titled("Tables", tables.details(found) + tables.sizes(found) + tables.coverages(found))
        + _notes(found)
        + tables.strata(found)
        + "</section>"
    )


def _left_out(found: Evaluation) -> str:
    n, n_drawn = len(found.recipes), len(drawn(found).recipes)
    if n == n_drawn:
        return ""
    return f'<p class="note">Plots show {n_drawn} of the {n} methods; the tables have all.</p>'


def _facts(found: Evaluation) -> str:
    cell = found.cell(found.recommended, found.main_level)
    known = [one.in_band for one in found.cells if one.in_band is not None]
    pairs = [
        ("method", found.recommended),
        (f"mean size at {found.main_level:g}", f"{cell.mean_size.mean():.3f}"),
        ("coverage", f"{cell.coverage.mean():.4f}"),
        ("top label right", f"{100 * found.accuracy:.2f} %"),
        ("rows, labels", f"{found.n:,}, {found.n_labels:,}"),
        ("splits", f"{found.n_splits}"),
        ("calibration, test", f"{found.n_calibration:,}, {found.n_test:,}"),
    ]
    if known:
        pairs.append(("cells in their band", f"{sum(known)} of {len(known)}"))
    return facts(pairs)


def _notes(found: Evaluation) -> str:
    text = (
        '<p class="note">Bold: the smallest of the exact methods at a level. Recipes that select on the rows '
        "they calibrate with are approximate and have no band. Worst stratum and label: where coverage is "
        "lowest, over the test rows of all splits; strata are four ranges of entropy. Time: to calibrate and "
        "to predict the test rows, mean over the splits. "
        f"Bands hold with probability {found.band_level:.6f} each. Seed {found.seed}.</p>"
    )
    return text + "".join(f'<p class="note">{escape(note)}</p>' for note in found.notes)

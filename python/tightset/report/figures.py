"""The figures of a report, from an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from matplotlib.axes import Axes

from tightset import plot
from tightset.evaluation import Detail, Evaluation


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a figure shows, how to read it, what it says in words, and how it is drawn."""

    key: str
    title: str
    caption: str
    alt: str
    draw: Callable[[Axes], object]


MOST_DRAWN = 9
"""Lines of a figure that can still be told apart; all others are in the tables."""


def drawn(found: Evaluation) -> Evaluation:
    """Return the evaluation with no more methods than a figure can show: the first, and the recommended."""
    if len(found.recipes) <= MOST_DRAWN:
        return found
    others = [name for name in found.recipes if name != found.recommended][: MOST_DRAWN - 1]
    kept = tuple(name for name in found.recipes if name in (*others, found.recommended))
    return replace(
        found,
        recipes=kept,
        cells=tuple(found.cell(name, level) for name in kept for level in found.levels),
        details=tuple(found.detail(name) for name in kept),
    )


def drawings(evaluation: Evaluation) -> Iterator[Drawing]:
    """Return the figures in the order of the page."""
    found = drawn(evaluation)
    yield _sizes(found)
    yield _coverage(found)
    yield _histogram(found)
    yield _entropy(found)
    curve = _detail_with_curve(found)
    if curve is not None:
        yield _curve(curve, found)
    yield _scenarios(found)


def _means(found: Evaluation, what: str) -> dict[str, list[float]]:
    return {
        recipe: [float(getattr(found.cell(recipe, level), what).mean()) for level in found.levels]
        for recipe in found.recipes
    }


def _sizes(found: Evaluation) -> Drawing:
    sizes = _means(found, "mean_size")
    last = found.levels[-1]
    at_last = ", ".join(f"{recipe} {values[-1]:.2f}" for recipe, values in sizes.items())
    return Drawing(
        "sizes",
        "Size against coverage.",
        f"Means over {_splits(found)}, one point for each level; lower is better.",
        f"Mean set size against coverage, one line for each recipe. At level {last:g}: {at_last}.",
        lambda ax: plot.size_by_coverage(_means(found, "coverage"), sizes, emphasis=found.recommended, ax=ax),
    )


def _coverage(found: Evaluation) -> Drawing:
    coverage = _means(found, "coverage")
    cells = [found.cell(found.recommended, level) for level in found.levels]
    bands = [cell.mean_band for cell in cells if cell.mean_band is not None]
    whole = len(bands) == len(cells)
    caption = "How far mean coverage is from the level asked for."
    if whole:
        caption += (
            f" The mean of an exact recipe leaves the band (that of {found.recommended}) "
            f"with probability {1 - found.band_level:.2g}."
        )
    gaps = [abs(float(cell.coverage.mean()) - cell.level) for cell in found.cells]
    return Drawing(
        "coverage",
        "Coverage against level.",
        caption,
        "Coverage minus the level asked for, one line for each recipe. "
        f"The largest distance is {max(gaps):.4f}. {_in_band_text(found)}",
        lambda ax: plot.coverage_by_level(
            found.levels, coverage, band=bands if whole else None, emphasis=found.recommended, ax=ax
        ),
    )


def _histogram(found: Evaluation) -> Drawing:
    counts = found.detail(found.recommended).size_histogram
    shares = [(size, count / counts.sum()) for size, count in enumerate(counts.tolist()) if count]
    shown = ", ".join(f"{size}: {100 * share:.1f} %" for size, share in shares[:8])
    return Drawing(
        "histogram",
        "Set sizes.",
        f"Sets of {found.recommended} at level {found.main_level:g}, first split.",
        f"Share of rows by labels in the set. {shown}{' and so on' if len(shares) > 8 else ''}.",
        lambda ax: plot.size_histogram(counts, ax=ax),
    )


def _entropy(found: Evaluation) -> Drawing:
    strata = {detail.recipe: detail.by_entropy for detail in found.details}
    own = ", ".join(
        f"{stratum.name} {stratum.coverage:.3f}"
        for stratum in strata[found.recommended]
        if stratum.coverage is not None
    )
    return Drawing(
        "entropy",
        "Coverage by entropy.",
        f"From rows the classifier is sure of to rows it is not; level {found.main_level:g}, first split.",
        f"Coverage by entropy of the row, one line for each recipe. {found.recommended}: {own}.",
        lambda ax: plot.coverage_by_entropy(strata, found.main_level, emphasis=found.recommended, ax=ax),
    )


def _curve(detail: Detail, found: Evaluation) -> Drawing:
    return Drawing(
        "curve",
        "What the selection saw.",
        f"Mean size of every candidate of {detail.recipe} at level {found.main_level:g}, first split.",
        "Mean set size over temperatures, one line for each score and reweighting. "
        f"Chosen: {detail.candidate}.",
        lambda ax: plot.selection_curve(detail.curve, ax=ax),
    )


def _scenarios(found: Evaluation) -> Drawing:
    strata = {detail.recipe: detail.by_scenario for detail in found.details}
    own = "; ".join(
        f"{stratum.name} {stratum.mean_size:.2f}"
        for stratum in strata[found.recommended]
        if stratum.mean_size is not None
    )
    return Drawing(
        "scenarios",
        "Four scenarios.",
        "Top label right or wrong, entropy below or above its median: "
        f"mean size at level {found.main_level:g}, first split.",
        f"Mean set size in four scenarios, one dot for each recipe. {found.recommended}: {own}.",
        lambda ax: plot.scenarios(strata, ax=ax),
    )


def _detail_with_curve(found: Evaluation) -> Detail | None:
    """Return the details of the recipe to show a selection of: the recommended one, or the best there is."""

    def order(detail: Detail) -> tuple[bool, bool, float]:
        cell = found.cell(detail.recipe, found.main_level)
        return detail.recipe != found.recommended, cell.mean_band is None, float(cell.mean_size.mean())

    return min((detail for detail in found.details if detail.curve), key=order, default=None)


def _splits(found: Evaluation) -> str:
    return f"{found.n_splits} random split" + ("s" if found.n_splits != 1 else "")


def _in_band_text(found: Evaluation) -> str:
    known = [cell.in_band for cell in found.cells if cell.in_band is not None]
    return f"{sum(known)} of {len(known)} cells of exact recipes are in their band." if known else ""

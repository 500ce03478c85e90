"""Which of the compared methods to use, in a sentence and in code."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tightset.evaluation import Evaluation
from tightset.methods import as_method
from tightset.recipes import as_recipe

_ALIKE = 1.005
"""Sizes up to half a percent apart are taken for equal."""


CAUTION = "It was chosen on these rows: calibrate on others, or coverage is approximate."
"""What goes with every recommendation."""


def with_advice(found: Evaluation, *, probabilities: bool) -> Evaluation:
    """Return the evaluation with what to use, why, and how."""
    level = found.main_level
    sizes = {r: float(found.cell(r, level).mean_size.mean()) for r in found.recipes}
    best = _best(found, sizes)
    coverage = float(found.cell(best, level).coverage.mean())
    sentence = (
        f"Use {best}: at level {level:g} its sets hold {sizes[best]:.3f} labels on average with coverage "
        f"{coverage:.3f}{_beside(best, sizes)}{_hardest(found, best)}."
    )
    alpha = round(1.0 - level, 12)
    code = as_method(best).code(alpha, probabilities=probabilities)
    # Localised predictors hold rows and have no document.
    is_localised = as_method(best).way == "rlcp"
    keeping = "" if is_localised else 'predictor.save("predictor.json")\n'
    snippet = (
        "import numpy as np\n"
        "import tightset as ts\n\n"
        'logits, labels = np.load("logits.npy"), np.load("labels.npy")  # held out from training\n'
        f"predictor = {code}\n"
        f"{keeping}"
        'sets = predictor.predict_set(np.load("new_logits.npy"))\n'
        "print(sets.sizes.mean(), sets[0])\n"
    )
    return replace(found, recommended=best, sentence=sentence, snippet=snippet)


def _best(found: Evaluation, sizes: dict[str, float]) -> str:
    """Return the method with the smallest sets of those whose coverage is exact on average.

    Of recipes that are alike in size, the one with the fewest candidates: it needs no selection. Another
    method only if its sets are smaller than the recipe's by more than that and two standard errors, split
    by split: of many methods, one is always the smallest by chance.
    """
    level = found.main_level

    def is_exact(name: str) -> bool:
        cell = found.cell(name, level)
        return cell.guarantee == "marginal" and cell.mean_band is not None

    exact = [name for name in found.recipes if is_exact(name)] or list(found.recipes)
    recipes = [name for name in exact if as_method(name).way is None and name != "averaged"]
    if not recipes:
        return min(exact, key=lambda name: sizes[name])
    least = min(sizes[name] for name in recipes)
    alike = [name for name in recipes if sizes[name] <= least * _ALIKE]
    best = min(alike, key=lambda name: (len(as_recipe(name).candidates), sizes[name]))
    smaller = [name for name in exact if name not in recipes and _is_smaller(found, name, best)]
    return min(smaller, key=lambda name: sizes[name], default=best)


def _is_smaller(found: Evaluation, name: str, other: str) -> bool:
    sizes, rival = (found.cell(one, found.main_level).mean_size for one in (name, other))
    if len(sizes) < 2 or not (sizes > 0.0).all() or not (rival > 0.0).all():
        return False
    ratios = np.log(sizes / rival)
    error = float(ratios.std(ddof=1)) / math.sqrt(len(ratios))
    return float(ratios.mean()) + 2.0 * error < -math.log(_ALIKE)


def _beside(best: str, sizes: dict[str, float]) -> str:
    other = "aps" if "aps" in sizes and best != "aps" else None
    if other is None or sizes[other] <= 0.0:
        return ""
    change = 100.0 * (1.0 - sizes[best] / sizes[other])
    if abs(change) < 0.05:
        return ""
    return f", {abs(change):.1f} % {'fewer' if change > 0 else 'more'} labels than {other}"


def _hardest(found: Evaluation, best: str) -> str:
    """Say so if the rows of the highest entropy miss twice as often as was asked for."""
    hardest = found.detail(best).by_entropy[-1]
    level = found.main_level
    if hardest.coverage is None or hardest.coverage >= 1 - 2 * (1 - level):
        return ""
    return (
        f"; the tenth of the rows with the highest entropy is covered {hardest.coverage:.2f}, for which "
        'er-aps with objective="adaptive" does more'
    )

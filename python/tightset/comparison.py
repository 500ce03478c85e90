"""Compare recipes on one data set, over random splits of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import ArrayLike, as_integer, as_labels, as_logits, as_number, as_seed
from tightset.calibration import calibrate
from tightset.evaluation import Cell, Detail, Evaluation, curve_lines
from tightset.metrics import coverage_band, coverage_by_entropy, coverage_by_scenario, mean_coverage_band
from tightset.predictor import Predictor
from tightset.recipes import as_recipe
from tightset.scoring import label_scores, ranks

__all__ = ["compare"]

LEVELS = tuple(round(0.9 + 0.01 * i, 2) for i in range(10))
"""The levels of the paper: 0.90 to 0.99."""

RECIPES = ("paper", "released", "er-aps", "aps", "raps", "saps", "thr", "rank", "tightest")
"""The recipes that `compare` takes by default: the paper's, its baselines, and what it left out."""

_ALIKE = 1.005
_APPROXIMATE = ("paper", "released")


def compare(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    name: str = "data",
    recipes: Sequence[str] = RECIPES,
    levels: Sequence[float] = LEVELS,
    n_splits: int = 10,
    test_share: float = 0.2,
    seed: int = 0,
    probabilities: bool = False,
    n_cells: int | None = None,
    advance: Callable[[int], None] = lambda steps: None,
) -> Evaluation:
    """Return coverage and size of each recipe at each level, over random splits of the rows.

    In every split, `test_share` of the rows are set aside, each recipe is calibrated on the others, and its
    sets of the rows set aside are measured.

    Parameters
    ----------
    logits, labels, probabilities
        As in `calibrate`; 10 rows or more.
    name
        What the data are called in tables.
    recipes
        Names of recipes.
    levels
        Coverages to ask for, strictly between 0 and 1.
    n_splits, test_share, seed
        How the rows are split.
    n_cells
        The bands of mean coverage miss, all together, with probability 0.001; they are as many as recipes
        and levels. Give a larger number if there are other data sets whose bands are looked at too.
    advance
        Called after each recipe of each split with the number of steps done, 1.

    Examples
    --------
    >>> import tightset as ts
    >>> from tightset.comparison import compare
    >>> data = ts.datasets.load("fashion-mnist")
    >>> found = compare(data.logits, data.labels, recipes=["thr", "aps"], levels=[0.9], n_splits=3)
    >>> cell = found.cell("thr", 0.9)
    >>> cell.in_band, bool(cell.mean_size.mean() < found.cell("aps", 0.9).mean_size.mean())
    (True, True)
    >>> found.recommended
    'thr'
    """
    array = as_logits(logits)
    truth = as_labels(labels, len(array))
    names = tuple(dict.fromkeys(recipes))
    asked = tuple(sorted({as_number(level, "levels") for level in levels}))
    splits, start = as_integer(n_splits, "n_splits", 1), as_seed(seed)
    n_test = _test_rows(len(array), as_number(test_share, "test_share"))
    if not names or not asked:
        message = "recipes and levels must not be empty"
        raise ValueError(message)
    band_level = 1.0 - 0.001 / (n_cells or len(names) * len(asked))
    tallies = {recipe: _Tally(recipe, len(asked), splits) for recipe in names}
    alphas = [round(1.0 - level, 12) for level in asked]
    rng = np.random.default_rng(start)
    details: list[Detail] = []
    for split in range(splits):
        order = rng.permutation(len(array))
        test, rest = np.sort(order[:n_test]), np.sort(order[n_test:])
        test_logits, test_labels = array[test], truth[test]
        rest_logits, rest_labels = array[rest], truth[rest]
        for recipe in names:
            predictors = calibrate(
                rest_logits, rest_labels, alphas, recipe, seed=start + split, probabilities=probabilities
            )
            tallies[recipe].measure(split, predictors, test_logits, test_labels)
            if split == 0:
                details.append(_detail(recipe, predictors[0], test_logits, test_labels))
            advance(1)
    cells = tuple(
        tallies[recipe].cell(i, level, n_test, band_level)
        for recipe in names
        for i, level in enumerate(asked)
    )
    found = Evaluation(
        dataset=name,
        n=len(array),
        n_labels=array.shape[1],
        n_calibration=len(array) - n_test,
        n_test=n_test,
        n_splits=splits,
        seed=start,
        accuracy=float((ranks(array, truth, probabilities=probabilities) == 1).mean()),
        levels=asked,
        recipes=names,
        cells=cells,
        band_level=band_level,
        main_level=asked[0],
        details=tuple(details),
        recommended=names[0],
        sentence="",
        snippet="",
    )
    return _with_advice(found, probabilities=probabilities)


class _Tally:
    """What the sets of one recipe were like, at each level and in each split."""

    def __init__(self, recipe: str, n_levels: int, n_splits: int) -> None:
        self.recipe = recipe
        self.is_exact = as_recipe(recipe).selection not in _APPROXIMATE
        shape = (n_levels, n_splits)
        self.coverage, self.mean, self.median = np.empty(shape), np.empty(shape), np.empty(shape)
        self.singletons, self.empty, self.switched = np.empty(shape), np.empty(shape), np.zeros(shape)
        self.n_calibration, self.n_candidates = 0, 1

    def measure(
        self,
        split: int,
        predictors: Sequence[Predictor],
        logits: NDArray[np.floating],
        labels: NDArray[np.int64],
    ) -> None:
        for i, predictor in enumerate(predictors):
            sets = predictor.predict_set(logits)
            covered, sizes = sets.covers(labels), sets.sizes
            at = (i, split)
            self.coverage[at], self.mean[at], self.median[at] = covered.mean(), sizes.mean(), np.median(sizes)
            self.singletons[at], self.empty[at] = (sizes == 1).mean(), (sizes == 0).mean()
            if len(predictor.candidates) > 1:
                plain = _covered_by_chosen(predictor, logits, labels)
                self.switched[at] = (plain != covered).mean()
        recipe = predictors[0].recipe
        self.n_calibration = predictors[0].n_calibration
        self.n_candidates = len(recipe.candidates) if recipe.selection == "modsel" else 1

    def cell(self, i: int, level: float, n_test: int, band_level: float) -> Cell:
        split_band = mean_band = None
        if self.is_exact:
            alpha = round(1.0 - level, 12)
            split_band = coverage_band(self.n_calibration, alpha, n_test)
            band = mean_coverage_band(
                self.n_calibration, alpha, n_test, self.coverage.shape[1], band_level, self.n_candidates
            )
            # The band is about the coverage of the candidate with the smallest sets. Rows for which
            # another survivor decided differently are added as they were seen.
            switched = float(self.switched[i].mean())
            mean_band = type(band)(max(0.0, band.lower - switched), min(1.0, band.upper + switched))
        return Cell(
            recipe=self.recipe,
            level=level,
            n_calibration=self.n_calibration,
            coverage=self.coverage[i],
            mean_size=self.mean[i],
            median_size=self.median[i],
            singleton_rate=self.singletons[i],
            empty_rate=self.empty[i],
            split_band=split_band,
            mean_band=mean_band,
        )


def _covered_by_chosen(
    predictor: Predictor, logits: NDArray[np.floating], labels: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return whether the candidate that the selection saw smallest covers each row, by itself."""
    curve = predictor.selection_curve
    assert curve is not None, "several candidates come from a selection"
    scoring = curve.candidates[curve.chosen]
    scores = label_scores(
        logits,
        labels,
        scoring.score,
        reweight=scoring.reweight,
        temperature=scoring.temperature,
        seed=predictor.seed,
        ranked=True,
        probabilities=predictor.probabilities,
    )
    covered: NDArray[np.bool_] = scores <= curve.thresholds[curve.chosen]
    return covered


def _test_rows(n: int, share: float) -> int:
    if not 0.0 < share < 1.0:
        message = f"test_share must be strictly between 0 and 1, got {share}"
        raise ValueError(message)
    if n < 10:
        message = f"logits must have at least 10 rows to split, got {n}"
        raise ValueError(message)
    return min(max(round(share * n), 1), n - 1)


def _detail(
    recipe: str, predictor: Predictor, logits: NDArray[np.floating], labels: NDArray[np.int64]
) -> Detail:
    sets = predictor.predict_set(logits)
    given = {"probabilities": predictor.probabilities}
    return Detail(
        recipe=recipe,
        candidate=candidate_text(predictor),
        size_histogram=np.bincount(sets.sizes, minlength=predictor.n_labels + 1),
        by_entropy=coverage_by_entropy(sets, labels, logits, **given),
        by_scenario=coverage_by_scenario(sets, labels, logits, **given),
        curve=() if predictor.selection_curve is None else curve_lines(predictor.selection_curve),
    )


def candidate_text(predictor: Predictor) -> str:
    """Return what is in use after calibration, in words."""
    if len(predictor.candidates) == 1:
        return str(predictor.scoring)
    curve = predictor.selection_curve
    first = predictor.candidates[0].scoring if curve is None else curve.candidates[curve.chosen]
    return f"{first}, among {len(predictor.candidates)} that new rows may choose"


def _with_advice(found: Evaluation, *, probabilities: bool) -> Evaluation:
    from dataclasses import replace

    level = found.main_level
    sizes = {r: float(found.cell(r, level).mean_size.mean()) for r in found.recipes}
    exact = [r for r in found.recipes if found.cell(r, level).mean_band is not None] or list(found.recipes)
    least = min(sizes[r] for r in exact)
    # Of recipes that are alike in size, the one with the fewest candidates: it needs no selection.
    alike = [r for r in exact if sizes[r] <= least * _ALIKE]
    best = min(alike, key=lambda r: (len(as_recipe(r).candidates), sizes[r]))
    coverage = float(found.cell(best, level).coverage.mean())
    sentence = (
        f"Use {best}: at level {level:g} its sets hold {sizes[best]:.3f} labels on average with coverage "
        f"{coverage:.3f}{_beside(best, sizes)}{_hardest(found, best)}."
    )
    alpha = round(1.0 - level, 12)
    extra = ", probabilities=True" if probabilities else ""
    snippet = (
        "import numpy as np\n"
        "import tightset as ts\n\n"
        'logits, labels = np.load("logits.npy"), np.load("labels.npy")  # held out from training\n'
        f'predictor = ts.calibrate(logits, labels, alpha={alpha:g}, recipe="{best}"{extra})\n'
        'predictor.save("predictor.json")\n'
        'sets = predictor.predict_set(np.load("new_logits.npy"))\n'
        "print(sets.sizes.mean(), sets[0])\n"
    )
    return replace(found, recommended=best, sentence=sentence, snippet=snippet)


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

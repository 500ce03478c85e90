"""Compare recipes and other methods on one data set, over random splits of its rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import ArrayLike, as_alpha, as_integer, as_labels, as_logits, as_number, as_seed
from tightset.advice import with_advice
from tightset.evaluation import Detail, Evaluation, curve_lines
from tightset.family.rule_predictor import RulePredictor
from tightset.localised import LocalisedPredictor
from tightset.method_tally import Tally
from tightset.methods import RECIPES, Method, SetPredictor, as_method
from tightset.metrics import coverage_by_entropy, coverage_by_scenario
from tightset.predictor import Predictor
from tightset.scoring import ranks
from tightset.transforms.predictor import TransformedPredictor
from tightset.warning_kinds import SmallCalibrationWarning

__all__ = ["compare"]

Rows: TypeAlias = tuple[NDArray[np.floating], NDArray[np.int64]]

LEVELS = tuple(round(0.9 + 0.01 * i, 2) for i in range(10))
"""The levels of the paper: 0.90 to 0.99."""


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
    """Return coverage, size and time of each recipe or method at each level, over random splits of the rows.

    In every split, `test_share` of the rows are set aside, each recipe is calibrated on the others, and its
    sets of the rows set aside are measured. Methods that are slow (`tightset.methods.Method.is_slow`) get a
    random part of them if rows times labels are many; `Evaluation.notes` says so.

    Parameters
    ----------
    logits, labels, probabilities
        As in `calibrate`; 10 rows or more.
    name
        What the data are called in tables.
    recipes
        Names of recipes or of other methods, such as ``"aps/label"``: see `tightset.methods`.
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
    asked = tuple(sorted({as_alpha(level, "levels") for level in levels}))
    splits, start = as_integer(n_splits, "n_splits", 1), as_seed(seed)
    n_test = _test_rows(len(array), as_number(test_share, "test_share"))
    if not names or not asked:
        message = "recipes and levels must not be empty"
        raise ValueError(message)
    least = len(names) * len(asked)
    band_level = 1.0 - 0.001 / (least if n_cells is None else as_integer(n_cells, "n_cells", least))
    methods = [as_method(recipe) for recipe in names]
    for module in {module for method in methods for module in method.needs}:
        import_module(module)  # or the first method to need it would pay for that in seconds
    tallies = {method.name: Tally(method, asked, splits, array.shape[1]) for method in methods}
    alphas = [round(1.0 - level, 12) for level in asked]
    rng = np.random.default_rng(start)
    details: list[Detail] = []
    shares: dict[str, list[str]] = {recipe: [] for recipe in names}
    cautions: dict[str, list[str]] = {recipe: [] for recipe in names}
    for split in range(splits):
        order = rng.permutation(len(array))
        whole = _rows(array, truth, order, n_test, len(array))
        for method in methods:
            most = method.most_rows(array.shape[1]) or len(array)
            is_part = max(n_test, len(array) - n_test) > most
            rest, test = _rows(array, truth, order, n_test, most) if is_part else whole
            if is_part:
                n_rest, n_tested = len(rest[1]), len(test[1])
                shares[method.name] = [f"{n_rest} rows calibrate and {n_tested} test, drawn at random"]
            began = time.perf_counter()
            predictors, warned = _calibrated(method, rest, alphas, start + split, probabilities=probabilities)
            seconds = time.perf_counter() - began
            cautions[method.name] += warned
            tallies[method.name].measure(split, predictors, seconds, *test, probabilities=probabilities)
            if split == 0:
                details.append(_detail(method.name, predictors[0], *test, probabilities=probabilities))
            advance(1)
    cells = tuple(tallies[recipe].cell(i, band_level) for recipe in names for i in range(len(asked)))
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
        notes=(*_in_short(shares), *_in_short(cautions)),
    )
    return with_advice(found, probabilities=probabilities)


def _rows(
    logits: NDArray[np.floating], labels: NDArray[np.int64], order: NDArray[np.int64], n_test: int, most: int
) -> tuple[Rows, Rows]:
    """Return the rows of a split that calibrate and those that test, so many of each at most."""
    rest, test = np.sort(order[n_test:][:most]), np.sort(order[:n_test][:most])
    return (logits[rest], labels[rest]), (logits[test], labels[test])


def _calibrated(
    method: Method, rows: Rows, alphas: Sequence[float], seed: int, *, probabilities: bool
) -> tuple[tuple[SetPredictor, ...], list[str]]:
    """Return the predictors and, of methods beside the recipes, what they warn of too few rows."""
    if method.name == method.recipe:
        return method.calibrate(*rows, alphas, seed, probabilities=probabilities), []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = method.calibrate(*rows, alphas, seed, probabilities=probabilities)
    cautions = []
    for one in caught:
        if issubclass(one.category, SmallCalibrationWarning):
            cautions.append(str(one.message))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return found, cautions


def _in_short(notes: dict[str, list[str]]) -> tuple[str, ...]:
    """Return the first note of each method and how many follow, methods with the same together."""
    methods: dict[str, list[str]] = {}
    for name, texts in notes.items():
        different = list(dict.fromkeys(texts))
        if different:
            more = f" (and {len(different) - 1} more of other splits and levels)" if different[1:] else ""
            methods.setdefault(different[0] + more, []).append(name)
    return tuple(f"{', '.join(names)}: {text}" for text, names in methods.items())


def _test_rows(n: int, share: float) -> int:
    if not 0.0 < share < 1.0:
        message = f"test_share must be strictly between 0 and 1, got {share}"
        raise ValueError(message)
    if n < 10:
        message = f"logits must have at least 10 rows to split, got {n}"
        raise ValueError(message)
    return min(max(round(share * n), 1), n - 1)


def _detail(
    name: str,
    predictor: SetPredictor,
    logits: NDArray[np.floating],
    labels: NDArray[np.int64],
    *,
    probabilities: bool,
) -> Detail:
    sets = predictor.predict_set(logits)
    inner = predictor.predictor if isinstance(predictor, TransformedPredictor) else predictor
    curve = inner.selection_curve if isinstance(inner, Predictor) else None
    return Detail(
        recipe=name,
        candidate=_in_use(predictor),
        size_histogram=np.bincount(sets.sizes, minlength=sets.n_labels + 1),
        by_entropy=coverage_by_entropy(sets, labels, logits, probabilities=probabilities),
        by_scenario=coverage_by_scenario(sets, labels, logits, probabilities=probabilities),
        curve=() if curve is None else curve_lines(curve),
    )


def _in_use(predictor: SetPredictor) -> str:
    if isinstance(predictor, TransformedPredictor):
        chain = ", ".join(part.kind for part in predictor.chain)
        return f"{candidate_text(predictor.predictor)}, after {chain}"
    if isinstance(predictor, RulePredictor):
        several = len(predictor.candidates)
        more = f", among {several} that new rows may choose" if several > 1 else ""
        return f"{predictor.candidates[0].rule}{more}"
    if isinstance(predictor, LocalisedPredictor):
        return f"{predictor.scoring}, {predictor.kernel} kernel of width {predictor.bandwidth:.3g}"
    assert isinstance(predictor, Predictor), "there are no other kinds"
    return candidate_text(predictor)


def candidate_text(predictor: Predictor) -> str:
    """Return what is in use after calibration, in words."""
    if predictor.condition is not None:
        condition = predictor.condition
        used = {str(c.scoring) for cell in condition.cells for c in cell.candidates}
        what = used.pop() if len(used) == 1 else f"{len(used)} scorings"
        return f"{what}, in {condition.n_cells} cells by {condition.kind}"
    if len(predictor.candidates) == 1:
        return str(predictor.scoring)
    curve = predictor.selection_curve
    first = predictor.candidates[0].scoring if curve is None else curve.candidates[curve.chosen]
    return f"{first}, among {len(predictor.candidates)} that new rows may choose"

"""What the sets of one method are like over random splits, and the bands that its coverage must lie in."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tightset.evaluation import Cell
from tightset.family.rule_predictor import RulePredictor
from tightset.localised import LocalisedPredictor
from tightset.methods import Method, SetPredictor
from tightset.metrics import Band, mean_coverage_band
from tightset.metrics.splits import Part, band_of_parts
from tightset.metrics.strata import QUANTILES, by_entropy
from tightset.predictor import Predictor
from tightset.selection_curve import covered_by_chosen
from tightset.transforms.predictor import TransformedPredictor, transformed
from tightset.uncertainty import entropy

_SPLIT_OUTSIDE = 0.05
"""Nine splits of ten lie in `Cell.split_band`."""


@dataclass(frozen=True, slots=True)
class _Law:
    """The thresholds behind the sets of a split, and among how many candidates its rows chose.

    `certain` is the share of test rows that are covered whatever the law says; it only adds coverage.
    """

    parts: Counter[Part]
    n_candidates: int
    certain: float = 0.0


class Tally:
    """Coverage, size and time of a method, at each level and in each split."""

    def __init__(self, method: Method, levels: Sequence[float], n_splits: int, n_labels: int) -> None:
        self.method, self.levels = method, levels
        shape = (len(levels), n_splits)
        self.coverage, self.mean, self.median = np.empty(shape), np.empty(shape), np.empty(shape)
        self.singletons, self.empty, self.switched = np.empty(shape), np.empty(shape), np.zeros(shape)
        self.calibrating, self.predicting = np.empty(shape), np.empty(shape)
        self.of_strata = np.zeros((len(levels), 2, len(QUANTILES) + 1))
        self.of_classes = np.zeros((len(levels), 2, n_labels))
        self.names: tuple[str, ...] = ()
        self.laws: list[list[_Law | None]] = [[] for _ in levels]
        self.n_calibration = self.n_test = 0

    def measure(
        self,
        split: int,
        predictors: Sequence[SetPredictor],
        seconds: float,
        logits: NDArray[np.floating],
        labels: NDArray[np.int64],
        *,
        probabilities: bool,
    ) -> None:
        """Count a split: its predictors, one a level, which took so many seconds, on its test rows."""
        of_rows = entropy(logits, probabilities=probabilities)
        for i, predictor in enumerate(predictors):
            start = time.perf_counter()
            sets = predictor.predict_set(logits)
            at = (i, split)
            self.predicting[at] = time.perf_counter() - start
            self.calibrating[at] = seconds / len(predictors)
            covered, sizes = sets.covers(labels), sets.sizes
            self.coverage[at], self.mean[at], self.median[at] = covered.mean(), sizes.mean(), np.median(sizes)
            self.singletons[at], self.empty[at] = (sizes == 1).mean(), (sizes == 0).mean()
            strata = by_entropy(sets, covered, of_rows, QUANTILES)
            self.names = tuple(stratum.name for stratum in strata)
            self.of_strata[i] += [
                [stratum.rows * (stratum.coverage or 0.0) for stratum in strata],
                [stratum.rows for stratum in strata],
            ]
            n_labels = self.of_classes.shape[2]
            self.of_classes[i, 0] += np.bincount(labels[covered], minlength=n_labels)
            self.of_classes[i, 1] += np.bincount(labels, minlength=n_labels)
            law = _law(predictor, labels)
            self.laws[i].append(law)
            if law is not None and _n_in_use(predictor) > 1:
                self.switched[at] = (_covered_by_chosen(predictor, logits, labels) != covered).mean()
        self.n_calibration, self.n_test = predictors[0].n_calibration, len(labels)

    def cell(self, i: int, band_level: float) -> Cell:
        """Return what was counted at a level."""
        split_band, mean_band = self._bands(i, band_level)
        stratum, of_stratum = _worst(self.of_strata[i])
        label, of_label = _worst(self.of_classes[i])
        return Cell(
            recipe=self.method.name,
            level=self.levels[i],
            guarantee=self.method.guarantee,
            n_calibration=self.n_calibration,
            n_test=self.n_test,
            coverage=self.coverage[i],
            mean_size=self.mean[i],
            median_size=self.median[i],
            singleton_rate=self.singletons[i],
            empty_rate=self.empty[i],
            worst_stratum=self.names[stratum],
            worst_stratum_coverage=of_stratum,
            worst_class=label,
            worst_class_coverage=of_label,
            calibration_seconds=self.calibrating[i],
            prediction_seconds=self.predicting[i],
            split_band=split_band,
            mean_band=mean_band,
        )

    def _bands(self, i: int, band_level: float) -> tuple[Band | None, Band | None]:
        laws = [law for law in self.laws[i] if law is not None]
        if self.method.guarantee == "approximate" or len(laws) < len(self.laws[i]):
            return None, None
        split_band = _raised(band_of_parts(laws[0].parts, _SPLIT_OUTSIDE), laws[0].certain)
        n_candidates = laws[0].n_candidates
        if n_candidates == 1:
            outside = (1.0 - band_level) / 2.0
            band = band_of_parts(sum((law.parts for law in laws), Counter()), outside)
            return split_band, _raised(band, float(np.mean([law.certain for law in laws])))
        alpha = round(1.0 - self.levels[i], 12)
        band = mean_coverage_band(self.n_calibration, alpha, self.n_test, len(laws), band_level, n_candidates)
        # The band is about the coverage of the candidate with the smallest sets. Rows for which
        # another survivor decided differently are added as they were seen.
        switched = float(self.switched[i].mean())
        return split_band, Band(max(0.0, band.lower - switched), min(1.0, band.upper + switched))


def _raised(band: Band, share: float) -> Band:
    return Band(band.lower, min(1.0, band.upper + share))


def _worst(counts: NDArray[np.float64]) -> tuple[int, float]:
    """Return which of them has the lowest share of rows covered, of those that have rows, and this share."""
    seen = np.flatnonzero(counts[1])
    shares = counts[0, seen] / counts[1, seen]
    least = int(shares.argmin())
    return int(seen[least]), float(shares[least])


def _law(predictor: SetPredictor, labels: NDArray[np.int64]) -> _Law | None:
    """Return the law of the covered test rows; None where it is not known."""
    if isinstance(predictor, TransformedPredictor):
        return _law(predictor.predictor, labels)
    if isinstance(predictor, RulePredictor):
        part = Part(predictor.n_calibration, predictor.rank, len(labels))
        return _Law(Counter([part]), predictor.considered if predictor.selection == "modsel" else 1)
    if isinstance(predictor, LocalisedPredictor):
        return None
    assert isinstance(predictor, Predictor), "all other methods are recipes"
    recipe, condition = predictor.recipe, predictor.condition
    n_candidates = len(recipe.candidates) if recipe.selection == "modsel" else 1
    if condition is None:
        part = Part(predictor.n_calibration, predictor.rank, len(labels))
        # Of several thresholds that hold together, the one with the smallest sets: its law is another.
        return (
            None if predictor.guarantee == "pac" and n_candidates > 1 else _Law(Counter([part]), n_candidates)
        )
    if n_candidates > 1:
        return None
    rows = np.bincount(np.array(condition.cell_of)[labels], minlength=condition.n_cells)
    parts: Counter[Part] = Counter()
    n_certain = 0
    for cell, n in zip(condition.cells, rows.tolist(), strict=True):
        parts[Part(cell.n_calibration, cell.rank, n)] += 1
        # Beyond a limit of rank scores tie at infinity; a threshold there covers more than the law says.
        if cell.rank <= cell.n_calibration and cell.candidates[0].threshold == math.inf:
            n_certain += n
    return _Law(parts, 1, n_certain / len(labels))


def _n_in_use(predictor: SetPredictor) -> int:
    """Return the number of candidates that labels of new rows may choose from."""
    inner = predictor.predictor if isinstance(predictor, TransformedPredictor) else predictor
    return len(inner.candidates) if isinstance(inner, (Predictor, RulePredictor)) else 1


def _covered_by_chosen(
    predictor: SetPredictor, logits: NDArray[np.floating], labels: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return whether the candidate that the selection saw smallest covers each row, by itself."""
    if isinstance(predictor, TransformedPredictor):
        rows = transformed(predictor.chain, logits, probabilities=predictor.probabilities)
        return _covered_by_chosen(predictor.predictor, rows, labels)
    if isinstance(predictor, RulePredictor):
        chosen = min(predictor.candidates, key=lambda c: (c.pairs_at_lo or 0) + len(c.between))
        alone = replace(predictor, candidates=(chosen,))
        return alone.scores(logits, labels) <= chosen.threshold
    assert isinstance(predictor, Predictor), "the others have one candidate"
    curve = predictor.selection_curve
    assert curve is not None, "several candidates come from a selection"
    return covered_by_chosen(
        curve, logits, labels, seed=predictor.seed, probabilities=predictor.probabilities
    )

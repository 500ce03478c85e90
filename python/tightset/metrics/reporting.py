"""Everything about the sets of some rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tightset._inputs import ArrayLike, as_alpha
from tightset.metrics.bins import RankStrata, SizeStrata, by_rank, coverage_by_size
from tightset.metrics.excess_risk import ExcessRisk, excess_risk
from tightset.metrics.layout import html, text
from tightset.metrics.marginal import Band, SizeSummary, coverage_band, covers, size_summary
from tightset.metrics.p_value_criteria import PValueCriteria, p_value_criteria
from tightset.metrics.predictor_law import law_band, why_no_law
from tightset.metrics.report_tables import LEVEL, tables_of, title_of
from tightset.metrics.slabs import WorstSlab, worst_slab_coverage
from tightset.metrics.strata import (
    QUANTILES,
    ClassCoverage,
    Stratum,
    by_entropy,
    by_scenario,
    coverage_by_class,
    entropy_of_rows,
)
from tightset.scoring import ranks
from tightset.sets import PredictionSets

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """What `report` found; prints as text, shows as tables in notebooks.

    Attributes
    ----------
    rows, n_labels
        How many of each.
    alpha, n_calibration
        As given or as the predictor has them, or None.
    coverage
        Share of sets that contain the label.
    true_band, observed_band
        Where the true coverage lies for 90 % of calibrations, and where that of so many rows does;
        None without `n_calibration`, and where `why_no_band` says why.
    size
        Sizes, with empty sets apart.
    by_entropy, by_scenario
        Strata of the rows; None without logits.
    by_size, by_class
        Strata with SSCV, worst classes with CovGap.
    by_rank
        Strata of the true label's rank, with DiffViolation; None without logits.
    worst_slab, excess_risk
        Coverage where it is worst, and how well it can be predicted; None without features, and the latter
        without alpha or scikit-learn.
    p_value_criteria
        None without p-values.
    why_no_band
        Why the coverage of the given predictor has no band; None if it has one or no predictor was given.
    """

    rows: int
    n_labels: int
    alpha: float | None
    n_calibration: int | None
    coverage: float
    true_band: Band | None
    observed_band: Band | None
    size: SizeSummary
    by_entropy: tuple[Stratum, ...] | None
    by_scenario: tuple[Stratum, ...] | None
    by_size: SizeStrata
    by_class: ClassCoverage
    by_rank: RankStrata | None = None
    worst_slab: WorstSlab | None = None
    excess_risk: ExcessRisk | None = None
    p_value_criteria: PValueCriteria | None = None
    why_no_band: str | None = None

    def __repr__(self) -> str:
        return f"Report({self.rows} rows, coverage {self.coverage:.4f}, mean size {self.size.mean:.3f})"

    def __str__(self) -> str:
        return text(title_of(self), tables_of(self))

    def _repr_html_(self) -> str:
        return html(title_of(self), tables_of(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dicts, ready for JSON; what is unknown is None.

        The arrays of `by_class`, K numbers each, and those of `worst_slab` and `excess_risk` are not
        among them.
        """

        def strata(found: tuple[Stratum, ...] | None) -> list[dict[str, Any]] | None:
            return None if found is None else [asdict(stratum) for stratum in found]

        return {
            "rows": self.rows,
            "n_labels": self.n_labels,
            "alpha": self.alpha,
            "n_calibration": self.n_calibration,
            "coverage": self.coverage,
            "true_band": None if self.true_band is None else list(self.true_band),
            "observed_band": None if self.observed_band is None else list(self.observed_band),
            "why_no_band": self.why_no_band,
            "size": asdict(self.size),
            "by_entropy": strata(self.by_entropy),
            "by_scenario": strata(self.by_scenario),
            "by_size": {
                "strata": strata(self.by_size.strata),
                "left_out": strata(self.by_size.left_out),
                "min_rows": self.by_size.min_rows,
                "sscv": self.by_size.sscv,
            },
            "by_class": {
                "worst": strata(self.by_class.worst),
                "n_classes": self.by_class.n_classes,
                "cov_gap": self.by_class.cov_gap,
            },
            "by_rank": None
            if self.by_rank is None
            else {
                "strata": strata(self.by_rank.strata),
                "left_out": strata(self.by_rank.left_out),
                "min_rows": self.by_rank.min_rows,
                "violation": self.by_rank.violation,
            },
            "worst_slab": _without(self.worst_slab, "direction"),
            "excess_risk": _without(self.excess_risk, "conditional_coverage"),
            "p_value_criteria": _without(self.p_value_criteria),
        }

    def to_frame(self) -> pd.DataFrame:
        """Return one line for all rows and one for each stratum, as a pandas DataFrame.

        Columns: `by` (what parts the rows), `name`, `rows`, `coverage`, `gap` to 1 - alpha (with alpha),
        `mean_size`, `empty_rate`. Size bins with few rows are among them.
        """
        try:
            import pandas as pd
        except ImportError as error:
            message = "to_frame needs pandas: pip install pandas, or use to_dict"
            raise ImportError(message) from error
        everything = Stratum("all", self.rows, self.coverage, self.size.mean, self.size.empty_rate)
        groups = {
            "all": (everything,),
            "entropy": self.by_entropy or (),
            "scenario": self.by_scenario or (),
            "size": self.by_size.strata + self.by_size.left_out,
            "rank": () if self.by_rank is None else self.by_rank.strata + self.by_rank.left_out,
            "class": self.by_class.worst,
        }
        lines = [{"by": by, **asdict(stratum)} for by, found in groups.items() for stratum in found]
        frame = pd.DataFrame(lines).astype(dict.fromkeys(("coverage", "mean_size", "empty_rate"), float))
        if self.alpha is not None:
            frame.insert(4, "gap", frame["coverage"] - (1.0 - self.alpha))
        return frame


def report(
    sets: PredictionSets,
    labels: ArrayLike,
    logits: ArrayLike | None = None,
    alpha: float | None = None,
    n_calibration: int | None = None,
    label_names: Sequence[object] | None = None,
    *,
    predictor: Any = None,
    features: ArrayLike | None = None,
    p_values: ArrayLike | None = None,
    probabilities: bool = False,
) -> Report:
    """Return coverage and size of prediction sets, overall and by kind of row.

    Parameters
    ----------
    sets
        As `predict_set` returns them.
    labels
        The true label of each row.
    logits
        What the sets were predicted from, for strata by entropy.
    alpha
        Miscoverage that was asked for; without it no gaps to 1 - alpha are reported.
    n_calibration
        Rows that set the threshold, for the bands of `coverage_band`; needs `alpha`. The bands are those of
        one score that was not selected on these rows: see `predictor`.
    label_names
        A name for each of the K labels; by default those that the predictor has, or their numbers.
    predictor
        What the sets were predicted by, in place of `alpha` and `n_calibration`: it knows how logits are read
        and whether its coverage has a band, and where not (it selected on the calibration rows, or has
        several cells) the report says why.
    features
        Where rows are, shape (n, d), for the worst slab and, with alpha, the excess risk (ERT), which needs
        scikit-learn and is left out without it; it takes seconds.
    p_values
        As `predict_p` returns them, for their criteria.
    probabilities
        Whether `logits` holds probabilities instead.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=3000)
    >>> logits = 2 * rng.normal(size=(3000, 3)) + 4 * np.eye(3)[labels]
    >>> predictor = ts.calibrate(logits[:1000], labels[:1000], alpha=0.1, recipe="thr")
    >>> sets = predictor.predict_set(logits[1000:])
    >>> found = ts.metrics.report(sets, labels[1000:], logits[1000:], predictor=predictor)
    >>> print(found)
    Prediction sets: 2000 rows, 3 labels, alpha 0.1, 1000 calibration rows
    <BLANKLINE>
    coverage
      observed                           0.9150
      asked for                          0.9000
      true, 90 % of draws                0.8841  to 0.9152
      observed, 90 % of draws            0.8805  to 0.9185
      observed coverage is within its band
    <BLANKLINE>
    size                                  share   coverage       mean     median
      all sets                           1.0000     0.9150      1.113          1
      non-empty                          1.0000     0.9150      1.113
      empty                              0.0000
      one label                          0.8865     0.9098
      the label alone                    0.8065
    <BLANKLINE>
    by entropy                             rows   coverage        gap  mean size      empty
      0-50 %                               1000     0.9810    +0.0810      1.000     0.0000
      50-75 %                               500     0.8840    -0.0160      1.000     0.0000
      75-90 %                               300     0.8367    -0.0633      1.430     0.0000
      90-100 %                              200     0.7800    -0.1200      1.490     0.0000
    <BLANKLINE>
    top label, entropy                     rows   coverage        gap  mean size      empty
      right, low entropy                    981     1.0000    +0.1000      1.000     0.0000
      right, high entropy                   762     1.0000    +0.1000      1.171     0.0000
      wrong, low entropy                     19     0.0000    -0.9000      1.000     0.0000
      wrong, high entropy                   238     0.3655    -0.5345      1.408     0.0000
    <BLANKLINE>
    by size                                rows   coverage        gap  mean size      empty
      0-1                                  1773     0.9098    +0.0098      1.000     0.0000
      2-3                                   227     0.9559    +0.0559      2.000     0.0000
      SSCV 0.0559
    <BLANKLINE>
    by rank of the label                   rows   coverage        gap  mean size      empty
      1                                    1743     1.0000    +0.1000      1.075     0.0000
      2-3                                   257     0.3385    -0.5615      1.377     0.0000
      DiffViolation 0.5615
    <BLANKLINE>
    worst classes                          rows   coverage        gap  mean size      empty
      0                                     647     0.9104    +0.0104      1.128     0.0000
      2                                     688     0.9113    +0.0113      1.106     0.0000
      1                                     665     0.9233    +0.0233      1.107     0.0000
      CovGap 1.50 percentage points
      3 of 3 classes occur
    """
    covered = covers(sets, labels)
    if predictor is None:
        law = _law_of_rank(alpha, n_calibration, len(sets))
    else:
        law = _law_of(predictor, len(sets), alpha=alpha, n_calibration=n_calibration)
        probabilities = probabilities or getattr(predictor, "probabilities", False)
        if label_names is None:
            label_names = getattr(predictor, "label_names", None)
    level: float | None = law["alpha"]
    entropy_strata = scenarios = rank_strata = None
    if logits is not None:
        of_rows = entropy_of_rows(sets, logits, probabilities, stacklevel=2)
        entropy_strata = by_entropy(sets, covered, of_rows, QUANTILES)
        of_truth = ranks(logits, labels, probabilities=probabilities)
        scenarios = by_scenario(sets, covered, of_rows, of_truth == 1)
        rank_strata = by_rank(sets, covered, of_truth, level)
    slab = risk = None
    if features is not None:
        slab = worst_slab_coverage(sets, labels, features)
        if level is not None and find_spec("sklearn") is not None:
            risk = excess_risk(sets, labels, features, level)
    return Report(
        rows=len(sets),
        n_labels=sets.n_labels,
        **law,
        coverage=float(covered.mean()),
        size=size_summary(sets, labels),
        by_entropy=entropy_strata,
        by_scenario=scenarios,
        by_size=coverage_by_size(sets, labels, level),
        by_class=coverage_by_class(sets, labels, level, label_names),
        by_rank=rank_strata,
        worst_slab=slab,
        excess_risk=risk,
        p_value_criteria=None if p_values is None else p_value_criteria(p_values, labels, level),
    )


def _law_of_rank(alpha: float | None, n_calibration: int | None, n_test: int) -> dict[str, Any]:
    """Return the fields of a report that two numbers tell, which know nothing of a selection."""
    level = None if alpha is None else as_alpha(alpha)
    if n_calibration is None:
        return {"alpha": level, "n_calibration": None, "true_band": None, "observed_band": None}
    if level is None:
        message = f"n_calibration needs alpha, got n_calibration={n_calibration!r} without it"
        raise TypeError(message)
    return {
        "alpha": level,
        "n_calibration": int(n_calibration),
        "true_band": coverage_band(n_calibration, level, level=LEVEL),
        "observed_band": coverage_band(n_calibration, level, n_test, level=LEVEL),
    }


def _law_of(predictor: Any, n_test: int, **given: object) -> dict[str, Any]:
    """Return the same of a predictor, which knows whether the law is its own."""
    for name, value in given.items():
        if value is not None:
            message = f"{name} must not be given beside predictor, which has its own, got {value!r}"
            raise TypeError(message)
    if not hasattr(predictor, "predict_set") or not hasattr(predictor, "n_calibration"):
        message = f"predictor must be what calibrate returns, got {type(predictor).__name__}"
        raise TypeError(message)
    return {
        "alpha": predictor.alpha,
        "n_calibration": predictor.n_calibration,
        "true_band": law_band(predictor, None, LEVEL),
        "observed_band": law_band(predictor, n_test, LEVEL),
        "why_no_band": why_no_law(predictor),
    }


def _without(found: Any, *names: str) -> dict[str, Any] | None:
    if found is None:
        return None
    return {f.name: getattr(found, f.name) for f in fields(found) if f.name not in names}

"""How good prediction sets are: coverage with its exact band, size, and both by kind of row.

>>> import numpy as np
>>> import tightset as ts
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(5, size=3000)
>>> logits = 2 * rng.normal(size=(3000, 5)) + 4 * np.eye(5)[labels]
>>> predictor = ts.calibrate(logits[:1000], labels[:1000], alpha=0.1, recipe="aps")
>>> sets = predictor.predict_set(logits[1000:])
>>> ts.metrics.coverage(sets, labels[1000:])
0.9155
>>> band = ts.metrics.coverage_band(predictor.n_calibration, predictor.alpha, n_test=2000)
>>> band.lower, band.upper
(0.8805, 0.9185)

`report` gathers everything.
"""

from tightset.metrics.bins import RankStrata, SizeStrata, coverage_by_rank, coverage_by_size
from tightset.metrics.excess_risk import ExcessRisk, excess_risk
from tightset.metrics.marginal import Band, SizeSummary, coverage, coverage_band, size_summary
from tightset.metrics.p_value_criteria import PValueCriteria, p_value_criteria
from tightset.metrics.reporting import Report, report
from tightset.metrics.slabs import WorstSlab, worst_slab_coverage
from tightset.metrics.splits import mean_coverage_band
from tightset.metrics.strata import (
    ClassCoverage,
    Stratum,
    coverage_by_class,
    coverage_by_entropy,
    coverage_by_scenario,
)

__all__ = [
    "Band",
    "ClassCoverage",
    "ExcessRisk",
    "PValueCriteria",
    "RankStrata",
    "Report",
    "SizeStrata",
    "SizeSummary",
    "Stratum",
    "WorstSlab",
    "coverage",
    "coverage_band",
    "coverage_by_class",
    "coverage_by_entropy",
    "coverage_by_rank",
    "coverage_by_scenario",
    "coverage_by_size",
    "excess_risk",
    "mean_coverage_band",
    "p_value_criteria",
    "report",
    "size_summary",
    "worst_slab_coverage",
]

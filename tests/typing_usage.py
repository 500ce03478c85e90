"""Typical use, checked by mypy --strict (`make lint`); not run."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import tightset as ts

logits = np.zeros((10, 3), np.float32)
labels = np.zeros(10, np.int64)

one = ts.calibrate(logits, labels, 0.1)
assert_type(one, ts.Predictor)
several = ts.calibrate(logits, labels, [0.1, 0.2], recipe=ts.Recipe("thr"))
assert_type(several, tuple[ts.Predictor, ...])
assert_type(ts.calibrate(logits, labels, confidence_level=[0.9]), tuple[ts.Predictor, ...])
sets = one.predict_set(logits)
assert_type(sets, ts.PredictionSets)
assert_type(sets[0], NDArray[np.int32])
assert_type(sets[0:2], ts.PredictionSets)
assert_type(sets[np.array([True, False])], ts.PredictionSets)
assert_type(sets.coverage(labels), float)
assert_type(ts.label_scores(logits, labels, ts.RAPS(0.1, 2)), NDArray[np.float64])
assert_type(ts.conformal_threshold([0.1, 0.2], 0.5), float)
assert_type(ts.metrics.coverage(sets, labels), float)
assert_type(ts.metrics.coverage_band(100, 0.1, n_test=50), ts.metrics.Band)
assert_type(ts.metrics.size_summary(sets, labels).coverage_nonempty, float | None)
assert_type(ts.metrics.coverage_by_entropy(sets, labels, logits, bins=4), tuple[ts.metrics.Stratum, ...])
assert_type(ts.metrics.coverage_by_scenario(sets, labels, logits)[0].coverage, float | None)
assert_type(ts.metrics.coverage_by_size(sets, labels, 0.1, bins=[1, 5]).sscv, float | None)
assert_type(ts.metrics.coverage_by_class(sets, labels, 0.1).coverage, NDArray[np.float64])
assert_type(ts.monitor.CoverageMonitor(one).update(logits, labels).alarmed_at, int | None)
assert_type(ts.monitor.AdaptiveAlpha(one).predict_set(logits), ts.PredictionSets)
report = ts.metrics.report(sets, labels, logits, alpha=0.1, n_calibration=10, label_names=["a", "b", "c"])
assert_type(report, ts.metrics.Report)
assert_type(report.by_entropy, tuple[ts.metrics.Stratum, ...] | None)
assert_type(report.to_dict()["coverage"], Any)

"""Typical use, checked by mypy --strict (`make lint`); not run."""

from __future__ import annotations

from typing import assert_type

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

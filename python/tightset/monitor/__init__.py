"""Watch a predictor at work: whether its coverage is what was promised, and what to do if not.

`CoverageMonitor` raises an alarm when new labels no longer behave like the calibration labels, with a bound
on false alarms that holds however long and often one looks. `AdaptiveAlpha` moves the threshold so that
coverage returns to its level in the long run, whatever the data do.

>>> import numpy as np
>>> import tightset as ts
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(5, size=4000)
>>> logits = 2 * rng.normal(size=(4000, 5)) + 4 * np.eye(5)[labels]
>>> predictor = ts.calibrate(logits[:2000], labels[:2000], alpha=0.1, recipe="aps")
>>> watch = ts.monitor.CoverageMonitor(predictor)
>>> watch.update(logits[2000:], labels[2000:]).alarm
False
>>> watch.update(logits[2000:] / 2, rng.permutation(labels[2000:])).alarm  # labels that lost their rows
True
"""

from tightset.monitor.adaptive import AdaptiveAlpha
from tightset.monitor.coverage import CoverageMonitor

__all__ = ["AdaptiveAlpha", "CoverageMonitor"]

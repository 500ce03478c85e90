"""Plots of coverage, set sizes and selection, on matplotlib axes that are given or made, and returned.

Needs matplotlib: ``pip install 'tightset[plot]'``.

>>> import tightset as ts
>>> data = ts.datasets.load("fashion-mnist")
>>> predictor = ts.calibrate(data.logits[:5000], data.labels[:5000], alpha=0.05)
>>> ax = ts.plot.size_histogram(predictor.predict_set(data.logits[5000:]))
>>> ax.get_xlabel()
'labels in the set'

Every function takes ``ax`` and ``theme``. Recipes have the same colour and marker in every plot; without a
theme, plots are dark on dark figures.
"""

from tightset.extras import missing as _missing

try:
    import matplotlib as _matplotlib  # noqa: F401
except ModuleNotFoundError as _error:
    _message = _missing("tightset.plot needs", "matplotlib", "plot")
    raise ModuleNotFoundError(_message, name="matplotlib") from _error

from tightset.plot.curves import selection_curve
from tightset.plot.levels import coverage_by_level, saturation, selection_effect, size_by_coverage
from tightset.plot.rows import coverage_by_entropy, scenarios, size_histogram

__all__ = [
    "coverage_by_entropy",
    "coverage_by_level",
    "saturation",
    "scenarios",
    "selection_curve",
    "selection_effect",
    "size_by_coverage",
    "size_histogram",
]

"""Tight, valid prediction sets from any classifier's logits, at memory speed.

Calibrate on held-out logits and labels, then predict sets that contain the truth with a chosen
probability:

>>> import numpy as np
>>> import tightset as ts
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(5, size=2000)
>>> logits = 2 * rng.normal(size=(2000, 5)) + 4 * np.eye(5)[labels]
>>> predictor = ts.calibrate(logits[:1000], labels[:1000], alpha=0.1)
>>> sets = predictor.predict_set(logits[1000:])
>>> sets
PredictionSets(1000 rows, 5 labels, mean size 1.421)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tightset._core import VERSION as __version__
from tightset._core import InternalError
from tightset.calibration import calibrate
from tightset.cells import Candidate, Cell, Condition
from tightset.predictor import Predictor
from tightset.quantile import conformal_rank, conformal_threshold
from tightset.recipes import Recipe
from tightset.scores import APS, MIXED, RANK, RAPS, SAPS, THR, Entropy, Scoring
from tightset.scoring import all_scores, label_scores, ranks
from tightset.selection_curve import SelectionCurve
from tightset.sets import PredictionSets
from tightset.threads import get_num_threads, set_num_threads
from tightset.uncertainty import entropy, gini, margin, softmax
from tightset.warning_kinds import ProbabilitiesWarning, SmallCalibrationWarning

if TYPE_CHECKING:
    from tightset import (
        averaged,
        datasets,
        family,
        graphs,
        localised,
        metrics,
        monitor,
        reweighted,
        transforms,
    )
    from tightset import plot as plot
    from tightset.artefact import load
    from tightset.streaming import Calibration, calibrate_stream

__all__ = [
    "APS",
    "MIXED",
    "RANK",
    "RAPS",
    "SAPS",
    "THR",
    "Calibration",
    "Candidate",
    "Cell",
    "Condition",
    "Entropy",
    "InternalError",
    "PredictionSets",
    "Predictor",
    "ProbabilitiesWarning",
    "Recipe",
    "Scoring",
    "SelectionCurve",
    "SmallCalibrationWarning",
    "__version__",
    "all_scores",
    "averaged",
    "calibrate",
    "calibrate_stream",
    "conformal_rank",
    "conformal_threshold",
    "datasets",
    "entropy",
    "family",
    "get_num_threads",
    "gini",
    "graphs",
    "label_scores",
    "load",
    "localised",
    "margin",
    "metrics",
    "monitor",
    "ranks",
    "reweighted",
    "set_num_threads",
    "softmax",
    "transforms",
]


# Rooms that few programs enter are imported on use; plot is not in __all__, for a star must not
# need matplotlib. What predicts and calibrates is imported at once: a child that is forked while a thread is
# within a first import waits for that import's lock for ever.
_IMPORTED_ON_USE = (
    "averaged",
    "datasets",
    "family",
    "graphs",
    "localised",
    "metrics",
    "monitor",
    "plot",
    "reweighted",
    "transforms",
)

_NAMES_IMPORTED_ON_USE = {
    "Calibration": "tightset.streaming",
    "calibrate_stream": "tightset.streaming",
    "load": "tightset.artefact",
}


def __getattr__(name: str) -> Any:
    if name in _IMPORTED_ON_USE:
        return import_module(f"tightset.{name}")
    if name in _NAMES_IMPORTED_ON_USE:
        return getattr(import_module(_NAMES_IMPORTED_ON_USE[name]), name)
    message = f"module 'tightset' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "plot"})

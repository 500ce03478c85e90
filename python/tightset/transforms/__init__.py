"""Transforms of logits that are fitted on some rows, to calibrate any recipe on others.

>>> import numpy as np
>>> import tightset as ts
>>> data = ts.datasets.load("fashion-mnist")
>>> predictor = ts.transforms.calibrate(
...     data.logits[:5000], data.labels[:5000], 0.1, "aps", transform="entropy-spline"
... )
>>> 0.88 < predictor.predict_set(data.logits[5000:]).coverage(data.labels[5000:]) < 0.92
True
"""

from tightset.transforms.calibration import calibrate
from tightset.transforms.entropy_spline import EntropySpline
from tightset.transforms.files import load
from tightset.transforms.one_vs_rest import Isotonic, Spline
from tightset.transforms.predictor import TransformedPredictor, load_predictor
from tightset.transforms.temperature import ConfTS, TemperatureNLL
from tightset.transforms.transform import Transform
from tightset.transforms.vector_scaling import VectorScaling

__all__ = [
    "ConfTS",
    "EntropySpline",
    "Isotonic",
    "Spline",
    "TemperatureNLL",
    "Transform",
    "TransformedPredictor",
    "VectorScaling",
    "calibrate",
    "load",
    "load_predictor",
]

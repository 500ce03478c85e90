"""Predictors of the wider family, whose scores are computed block by block in NumPy.

`tightset.reweighted` and `tightset.averaged` calibrate them; `load` reads what they save.
"""

from tightset.family.block_predictor import BlockPredictor
from tightset.family.documents import load

__all__ = ["BlockPredictor", "load"]

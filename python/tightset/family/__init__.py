"""Predictors of the wider family, whose scores are computed block by block in NumPy.

`tightset.reweighted` and `tightset.averaged` calibrate them; `load` reads what they save.
"""

from tightset.family.block_predictor import BlockPredictor
from tightset.family.documents import load
from tightset.family.rule_predictor import RuleCandidate, RulePredictor
from tightset.family.rules import Averaged, Reweighted

__all__ = ["Averaged", "BlockPredictor", "Reweighted", "RuleCandidate", "RulePredictor", "load"]

"""Randomly localised conformal prediction: thresholds of each row's own, from calibration rows like it.

RLCP (Hore & Barber, "Conformal prediction with local weights: randomization enables robust guarantees", 2023)
weights calibration rows by how near they are, not to the new row x but to a point x~ drawn around it from the
kernel H(x, .). Given x~ and the n + 1 rows in any order, row j is the new one with probability proportional
to H(x_j, x~), so the quantile of the scores with these weights covers exactly, which that of weights around x
itself does not. The new row's own weight stands on an infinite score.
"""

from tightset.localised.calibration import calibrate
from tightset.localised.predictor import LocalisedPredictor

__all__ = ["LocalisedPredictor", "calibrate"]

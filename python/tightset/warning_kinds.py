"""The warnings of the package, each a class of its own so that callers can tell them apart."""

from __future__ import annotations


class SmallCalibrationWarning(UserWarning):
    """There are too few rows for the level: sets hold all labels, or nothing could be selected."""


class ProbabilitiesWarning(UserWarning):
    """What was passed as logits looks like probabilities."""

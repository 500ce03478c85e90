"""Calibration on rows that are never together: in blocks, over several readings, on several machines."""

from tightset.streaming.calibration import Calibration
from tightset.streaming.run import calibrate_stream

__all__ = ["Calibration", "calibrate_stream"]

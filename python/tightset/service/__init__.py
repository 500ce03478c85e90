"""Prediction sets over HTTP: what `tightset serve` runs. Needs the extra ``serve``."""

from __future__ import annotations

from tightset.service.app import create_app
from tightset.service.server import serve
from tightset.service.settings import Limits, Settings

__all__ = ["Limits", "Settings", "create_app", "serve"]

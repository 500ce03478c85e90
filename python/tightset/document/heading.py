"""The fields that the documents of all predictors begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tightset import _core
from tightset._inputs import as_alpha, as_flag, as_integer, as_seed
from tightset.document.fields import as_float, as_text, check_generator, number_document

if TYPE_CHECKING:
    from tightset.family.block_predictor import BlockPredictor
    from tightset.predictor import Predictor

_AS_THEY_ARE = ("n_labels", "n_calibration", "rank", "seed", "probabilities", "uses_row_ids")

HEADING = ("format", "format_version", "tightset", "generator", "alpha", *_AS_THEY_ARE)
"""In the order in which they are written."""


def heading_document(predictor: Predictor | BlockPredictor, kind: str, version: int) -> dict[str, Any]:
    """Return the fields of a predictor's document of this format."""
    return {
        "format": kind,
        "format_version": version,
        "tightset": _core.VERSION,
        "generator": _core.GENERATOR,
        "alpha": number_document(predictor.alpha),
        **{name: getattr(predictor, name) for name in _AS_THEY_ARE},
    }


def read_heading(document: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of the predictor that the fields hold; format and version were looked at."""
    check_generator(document)
    as_text(document["tightset"], "tightset")
    return {
        "alpha": as_alpha(as_float(document["alpha"], "alpha")),
        "n_labels": as_integer(document["n_labels"], "n_labels", 1, 2**31 - 1),
        "n_calibration": as_integer(document["n_calibration"], "n_calibration", 1),
        "rank": as_integer(document["rank"], "rank", 1),
        "seed": as_seed(document["seed"]),
        "probabilities": as_flag(document["probabilities"], "probabilities"),
        "uses_row_ids": as_flag(document["uses_row_ids"], "uses_row_ids"),
    }

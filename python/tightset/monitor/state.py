"""States of monitors as dicts that JSON can hold, each bound to its predictor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tightset.document import to_document
from tightset.document.canonical import digest
from tightset.predictor import Predictor

VERSION = 1


def require_scores(predictor: Predictor, who: str) -> None:
    """Refuse what is not a predictor with its calibration scores."""
    if not isinstance(predictor, Predictor):
        message = f"predictor must be a tightset.Predictor, got {type(predictor).__name__}"
        raise TypeError(message)
    if predictor.condition is not None:
        kind = predictor.condition.kind
        message = f"{who} needs a predictor without a condition, got one with condition {kind!r}"
        raise ValueError(message)
    if predictor.calibration_scores is None:
        message = (
            f"{who} needs a predictor with its calibration scores: save it with score_table=True to keep "
            "them (calibrate_stream has none)"
        )
        raise ValueError(message)


def fingerprint(predictor: Predictor) -> str:
    """Return a hash of what decides about sets, the calibration scores included.

    Names of labels and the version that wrote a file do not: a state outlives an upgrade.
    """
    from hashlib import sha256

    document = to_document(replace(predictor, label_names=None), score_table=False)
    del document["tightset"]
    scores = predictor.calibration_scores
    assert scores is not None, "require_scores was called before"
    return sha256(digest(document).encode() + scores.astype("<f8").tobytes()).hexdigest()


def check_state(state: Any, kind: str, predictor: str, fields: tuple[str, ...]) -> None:
    """Refuse a state that is of another kind, of another predictor, or incomplete."""
    if not isinstance(state, dict) or state.get("format") != kind:
        found = state.get("format") if isinstance(state, dict) else type(state).__name__
        message = f"state must be a dict of format {kind!r}, got {found!r}"
        raise ValueError(message)
    if state.get("format_version") != VERSION:
        message = f"state must have format_version {VERSION}, got {state.get('format_version')!r}"
        raise ValueError(message)
    expected = {"format", "format_version", "predictor", *fields}
    if set(state) != expected:
        message = f"state must have the fields {sorted(expected)}, got {sorted(map(str, state))}"
        raise ValueError(message)
    if state["predictor"] != predictor:
        message = (
            f"state belongs to another predictor: its hash is {state['predictor']!r}, "
            f"this predictor's is {predictor!r}"
        )
        raise ValueError(message)

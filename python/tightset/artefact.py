"""Predictors as JSON documents.

Numbers that decide membership are written as exact hexadecimal floats beside a readable value; JSON
has no infinity. Loading checks every field and runs no code from the file.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tightset import _core
from tightset._inputs import as_alpha, as_seed
from tightset.predictor import Candidate, Predictor
from tightset.recipes import Recipe
from tightset.scores import Entropy, Scoring, as_score

_FORMAT = "tightset-predictor"
_VERSION = 1
_LARGEST_FILE = 2**32


def save(predictor: Predictor, path: str | os.PathLike[str], *, score_table: bool) -> None:
    """Write the predictor beside its destination, then move it there in one step."""
    text = json.dumps(_document(predictor, score_table=score_table), indent=2, allow_nan=False)
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def load(path: str | os.PathLike[str]) -> Predictor:
    """Return the predictor that `Predictor.save` wrote; it predicts the same bits.

    Raises ValueError when the file is not one, was made by an incompatible version, or holds a value
    outside its domain.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> predictor = ts.calibrate(rng.normal(size=(50, 3)), rng.integers(3, size=50), recipe="aps")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     predictor.save(f"{folder}/predictor.json")
    ...     ts.load(f"{folder}/predictor.json") == predictor
    True
    """
    source = Path(path)
    size = source.stat().st_size
    if size > _LARGEST_FILE:
        message = f"{source} is too large for a predictor: {size} bytes"
        raise ValueError(message)
    try:
        document = json.loads(source.read_bytes(), object_pairs_hook=_no_duplicates)
        return _predictor(document)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = f"missing field {error}" if isinstance(error, KeyError) else error
        message = f"{source} is not a valid predictor: {reason}"
        raise ValueError(message) from error


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        message = "a field stands twice"
        raise ValueError(message)
    return found


def _document(predictor: Predictor, *, score_table: bool) -> dict[str, Any]:
    recipe = predictor.recipe
    document: dict[str, Any] = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "tightset": _core.VERSION,
        "generator": _core.GENERATOR,
        "alpha": predictor.alpha,
        "n_labels": predictor.n_labels,
        "n_calibration": predictor.n_calibration,
        "rank": predictor.rank,
        "seed": predictor.seed,
        "probabilities": predictor.probabilities,
        "uses_row_ids": predictor.uses_row_ids,
        "recipe": {
            "score": [_score_document(score) for score in recipe.score],
            "reweight": [_reweight_document(reweight) for reweight in recipe.reweight],
            "temperature": recipe.temperature
            if recipe.temperature == "auto"
            else [_number_document(t) for t in recipe.temperature],
            "selection": recipe.selection,
        },
        "candidates": [
            {
                "score": _score_document(candidate.scoring.score),
                "reweight": _reweight_document(candidate.scoring.reweight),
                "temperature": _number_document(candidate.scoring.temperature),
                "threshold": _number_document(candidate.threshold),
            }
            for candidate in predictor.candidates
        ],
    }
    if score_table:
        if predictor.calibration_scores is None:
            message = "score_table=True needs the calibration scores, which this predictor was loaded without"
            raise ValueError(message)
        table = predictor.calibration_scores.astype("<f8").tobytes()
        document["calibration_scores"] = base64.b64encode(table).decode("ascii")
    return document


def _predictor(document: Any) -> Predictor:
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        message = f"its format is not {_FORMAT!r}"
        raise ValueError(message)
    for field, supported in (("format_version", _VERSION), ("generator", _core.GENERATOR)):
        if document[field] != supported:
            message = f"its {field} is {document[field]!r}; this version reads {supported!r}"
            raise ValueError(message)
    if not isinstance(document["tightset"], str):
        message = f"tightset must be the version that wrote it, got {document['tightset']!r}"
        raise ValueError(message)
    recipe = document["recipe"]
    temperature = recipe["temperature"]
    candidates = tuple(
        Candidate(
            Scoring(_score(c["score"]), _reweight(c["reweight"]), _number(c["temperature"])),
            _number(c["threshold"]),
        )
        for c in document["candidates"]
    )
    alpha, n = as_alpha(document["alpha"]), _count(document, "n_calibration")
    rank = _count(document, "rank")
    if rank != _core.conformal_rank(n, alpha):
        message = f"rank {rank} does not belong to alpha={alpha} and {n} rows"
        raise ValueError(message)
    if len(candidates) != 1 or math.isnan(candidates[0].threshold):
        message = "it needs one candidate with a threshold"
        raise ValueError(message)
    return Predictor(
        alpha=alpha,
        recipe=Recipe(
            [_score(score) for score in recipe["score"]],
            [_reweight(reweight) for reweight in recipe["reweight"]],
            temperature if temperature == "auto" else [_number(t) for t in temperature],
            recipe["selection"],
        ),
        n_labels=_count(document, "n_labels"),
        n_calibration=n,
        rank=rank,
        candidates=candidates,
        seed=as_seed(document["seed"]),
        probabilities=_flag(document, "probabilities"),
        uses_row_ids=_flag(document, "uses_row_ids"),
        calibration_scores=_score_table(document.get("calibration_scores"), n),
    )


def _score_document(score: Any) -> dict[str, Any]:
    return {"name": score.name, **score.parameters()}


def _score(document: dict[str, Any]) -> Any:
    parameters = {name: value for name, value in document.items() if name != "name"}
    return type(as_score(document["name"]))(**parameters)


def _reweight_document(reweight: Entropy | None) -> dict[str, float] | None:
    return None if reweight is None else asdict(reweight)


def _reweight(document: dict[str, Any] | None) -> Entropy | None:
    return None if document is None else Entropy(**document)


def _number_document(value: float) -> dict[str, Any]:
    return {"exact": value.hex(), "value": value if math.isfinite(value) else None}


def _number(document: dict[str, Any]) -> float:
    return float.fromhex(document["exact"])


def _count(document: dict[str, Any], field: str) -> int:
    value = document[field]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        message = f"{field} must be a positive integer, got {value!r}"
        raise ValueError(message)
    return value


def _flag(document: dict[str, Any], field: str) -> bool:
    value = document[field]
    if not isinstance(value, bool):
        message = f"{field} must be true or false, got {value!r}"
        raise ValueError(message)
    return value


def _score_table(text: str | None, n: int) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    if text is None:
        return None
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        message = f"calibration_scores cannot be read: {error}"
        raise ValueError(message) from error
    if len(raw) != 8 * n:
        message = f"calibration_scores must hold {n} numbers, got {len(raw)} bytes"
        raise ValueError(message)
    scores = np.frombuffer(raw, dtype="<f8").astype(np.float64)
    if np.isnan(scores).any() or (scores[:-1] > scores[1:]).any():
        message = "calibration_scores must be sorted numbers"
        raise ValueError(message)
    return scores

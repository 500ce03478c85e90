"""Predictors as JSON documents.

Temperatures and thresholds are written as exact hexadecimal floats beside a readable value, since JSON
has no infinity; other numbers as the shortest decimals that read back the same. Loading checks every
field and runs no code from the file.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
from dataclasses import asdict
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

import numpy as np

from tightset import _core
from tightset._inputs import as_alpha, as_flag, as_integer, as_seed
from tightset.predictor import Candidate, Predictor
from tightset.recipes import Recipe
from tightset.scores import Entropy, Scoring, as_score

_FORMAT = "tightset-predictor"
_VERSION = 1
_LARGEST_FILE = 2**32


def save(predictor: Predictor, path: str | os.PathLike[str], *, score_table: bool) -> None:
    """Write the predictor beside its destination, then move it there in one step."""
    from pathlib import Path  # here, or `import tightset` would pay for it

    text = json.dumps(_document(predictor, score_table=score_table), indent=2, allow_nan=False)
    target = Path(path)
    if not target.parent.is_dir():
        message = f"the folder of {target} does not exist"
        raise FileNotFoundError(message)
    temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def load(path: str | os.PathLike[str]) -> Predictor:
    """Return the predictor that `Predictor.save` wrote; the same version predicts the same bits with it.

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
    from pathlib import Path

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
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        message = f"field {twice!r} stands twice"
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
            "selection": recipe.selection,
            "parts": [_part_document(part) for part in recipe.parts],
        },
        "candidates": [_candidate_document(candidate) for candidate in predictor.candidates],
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
    candidates = tuple(_candidate(candidate) for candidate in document["candidates"])
    alpha, n = as_alpha(document["alpha"]), _count(document, "n_calibration")
    rank = _count(document, "rank")
    if rank != _core.conformal_rank(n, alpha):
        message = f"rank {rank} does not belong to alpha={alpha} and {n} rows"
        raise ValueError(message)
    recipe = _recipe(document["recipe"])
    _check_candidates(candidates, recipe)
    scores = _score_table(document.get("calibration_scores"), len(candidates), n)
    for i, candidate in enumerate(candidates):
        threshold = candidate.threshold
        expected = math.inf if rank > n else threshold if scores is None else scores[i, rank - 1]
        if threshold != expected:
            message = f"threshold {threshold} does not belong to rank {rank} of {n} rows"
            raise ValueError(message)
    return Predictor(
        alpha=alpha,
        recipe=recipe,
        n_labels=_count(document, "n_labels"),
        n_calibration=n,
        rank=rank,
        candidates=candidates,
        seed=as_seed(document["seed"]),
        probabilities=as_flag(document["probabilities"], "probabilities"),
        uses_row_ids=as_flag(document["uses_row_ids"], "uses_row_ids"),
        calibration_scores=scores,
    )


def _part_document(part: Recipe) -> dict[str, Any]:
    temperature = part.temperature
    return {
        "score": [_score_document(score) for score in part.score],
        "reweight": [_reweight_document(reweight) for reweight in part.reweight],
        "temperature": temperature if temperature == "auto" else [_number_document(t) for t in temperature],
    }


def _recipe(document: Any) -> Recipe:
    _check_object(document, "recipe")
    parts = []
    for part in document["parts"]:
        _check_object(part, "a part of the recipe")
        temperature = part["temperature"]
        parts.append(
            Recipe(
                [_score(score) for score in part["score"]],
                [_reweight(reweight) for reweight in part["reweight"]],
                temperature if temperature == "auto" else [_number(t) for t in temperature],
                document["selection"],
            )
        )
    if not parts:
        message = "the recipe must have at least one part"
        raise ValueError(message)
    return reduce(or_, parts)


def _candidate_document(candidate: Candidate) -> dict[str, Any]:
    document: dict[str, Any] = {
        "score": _score_document(candidate.scoring.score),
        "reweight": _reweight_document(candidate.scoring.reweight),
        "temperature": _number_document(candidate.scoring.temperature),
        "threshold": _number_document(candidate.threshold),
    }
    if candidate.lo is not None:
        document["lo"] = _number_document(candidate.lo)
        document["pairs_at_lo"] = candidate.pairs_at_lo
        document["between"] = [score.hex() for score in candidate.between]
    return document


def _candidate(document: Any) -> Candidate:
    _check_object(document, "a candidate")
    scoring = Scoring(
        _score(document["score"]), _reweight(document["reweight"]), _number(document["temperature"])
    )
    threshold = _number(document["threshold"])
    if "lo" not in document:
        return Candidate(scoring, threshold)
    lo = _number(document["lo"])
    between = tuple(float.fromhex(score) for score in document["between"])
    ordered = (lo, *between, threshold)
    if math.isnan(sum(ordered)) or any(a > b for a, b in pairwise(ordered)) or lo in between:
        message = f"the scores between {lo} and {threshold} must be sorted numbers"
        raise ValueError(message)
    return Candidate(scoring, threshold, lo, as_integer(document["pairs_at_lo"], "pairs_at_lo", 0), between)


def _check_candidates(candidates: tuple[Candidate, ...], recipe: Recipe) -> None:
    if len(candidates) == 1:
        return
    if not candidates or recipe.selection != "modsel" or any(c.lo is None for c in candidates):
        message = f"{len(candidates)} candidates do not belong to selection={recipe.selection!r}"
        raise ValueError(message)


def _score_document(score: Any) -> dict[str, Any]:
    return {"name": score.name, **score.parameters()}


def _score(document: Any) -> Any:
    _check_object(document, "score")
    parameters = {name: value for name, value in document.items() if name != "name"}
    return type(as_score(document["name"]))(**parameters)


def _reweight_document(reweight: Entropy | None) -> dict[str, float] | None:
    return None if reweight is None else asdict(reweight)


def _reweight(document: Any) -> Entropy | None:
    if document is None:
        return None
    _check_object(document, "reweight")
    return Entropy(**document)


def _number_document(value: float) -> dict[str, Any]:
    return {"exact": value.hex(), "value": value if math.isfinite(value) else None}


def _number(document: Any) -> float:
    _check_object(document, "a number")
    value = float.fromhex(document["exact"])
    if document["value"] != (value if math.isfinite(value) else None):
        message = f"{document['exact']} is not {document['value']}"
        raise ValueError(message)
    return value


def _check_object(document: Any, name: str) -> None:
    if not isinstance(document, dict):
        message = f"{name} must be an object, got {document!r}"
        raise ValueError(message)


def _count(document: dict[str, Any], field: str) -> int:
    return as_integer(document[field], field, 1)


def _score_table(text: str | None, m: int, n: int) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    if text is None:
        return None
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        message = f"calibration_scores cannot be read: {error}"
        raise ValueError(message) from error
    if len(raw) != 8 * m * n:
        message = f"calibration_scores must hold {m * n} numbers, got {len(raw)} bytes"
        raise ValueError(message)
    scores = np.frombuffer(raw, dtype="<f8").astype(np.float64).reshape(m, n)
    scores.setflags(write=False)
    if np.isnan(scores).any() or (scores[:, :-1] > scores[:, 1:]).any():
        message = "calibration_scores must be sorted numbers"
        raise ValueError(message)
    return scores

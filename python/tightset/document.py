"""Predictors as documents: a tree of dicts, lists, strings, integers and flags that JSON can hold.

``schema/predictor-v1.json`` defines it. A float is written as its 64 bits in hexadecimal beside a readable
value, since JSON has no infinity and readers differ in how they read decimals; lists of scores are the
bits of one after another. Reading checks every field against every other and runs no code from the
document. ``src/document.rs`` is the same in Rust.
"""

from __future__ import annotations

import math
import struct
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import as_alpha, as_flag, as_integer, as_seed
from tightset.canonical import digest
from tightset.predictor import Candidate, Predictor
from tightset.recipes import Recipe
from tightset.scores import Entropy, Score, Scoring, as_score

FORMAT = "tightset-predictor"
VERSION = 1
MOST_CANDIDATES = 2**14
"""Candidates that a recipe may have; it is made from three lists, whose product a small file can blow up."""

_FIELDS = (
    "format",
    "format_version",
    "tightset",
    "generator",
    "alpha",
    "n_labels",
    "n_calibration",
    "rank",
    "seed",
    "probabilities",
    "uses_row_ids",
    "recipe",
    "candidates",
    "sha256",
)
_BRACKET = ("lo", "pairs_at_lo", "between", "weight")


def to_document(predictor: Predictor, *, score_table: bool) -> dict[str, Any]:
    """Return the document of a predictor."""
    recipe = predictor.recipe
    document: dict[str, Any] = {
        "format": FORMAT,
        "format_version": VERSION,
        "tightset": _core.VERSION,
        "generator": _core.GENERATOR,
        "alpha": _number_document(predictor.alpha),
        "n_labels": predictor.n_labels,
        "n_calibration": predictor.n_calibration,
        "rank": predictor.rank,
        "seed": predictor.seed,
        "probabilities": predictor.probabilities,
        "uses_row_ids": predictor.uses_row_ids,
    }
    if predictor.label_names is not None:
        document["label_names"] = list(predictor.label_names)
    document["recipe"] = {
        "selection": recipe.selection,
        "parts": [_part_document(part) for part in recipe.parts],
    }
    document["candidates"] = [_candidate_document(candidate) for candidate in predictor.candidates]
    if score_table:
        if predictor.calibration_scores is None:
            message = "score_table=True needs the calibration scores, which this predictor is without"
            raise ValueError(message)
        document["calibration_scores"] = [_packed(scores) for scores in predictor.calibration_scores]
    document["sha256"] = digest(document)
    return document


def from_document(document: Any) -> Predictor:
    """Return the predictor of a document; ValueError or TypeError if it is not one."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        message = f"its format is not {FORMAT!r}"
        raise ValueError(message)
    version = document.get("format_version")
    if type(version) is not int or version != VERSION:
        message = f"its format_version is {_shown(version)}; this version reads {VERSION}"
        raise ValueError(message)
    _check_fields(document, "the document", _FIELDS, ("label_names", "calibration_scores"))
    if document["sha256"] != digest(document):
        message = "its sha256 is not that of its contents: it was changed after it was written"
        raise ValueError(message)
    if document["generator"] != _core.GENERATOR:
        message = f"its generator is {_shown(document['generator'])}; this version has {_core.GENERATOR!r}"
        raise ValueError(message)
    _text(document["tightset"], "tightset")
    alpha, n = (
        as_alpha(_number(document["alpha"], "alpha")),
        as_integer(document["n_calibration"], "n_calibration", 1),
    )
    n_labels = as_integer(document["n_labels"], "n_labels", 1, 2**31 - 1)
    rank = as_integer(document["rank"], "rank", 1)
    if rank != _core.conformal_rank(n, alpha):
        message = f"rank {rank} does not belong to alpha={alpha} and {n} rows"
        raise ValueError(message)
    recipe = _recipe(document["recipe"])
    candidates = tuple(_candidate(candidate) for candidate in _list(document["candidates"], "candidates"))
    _check_candidates(candidates, recipe, n, n_labels, rank)
    scores = None
    if "calibration_scores" in document:
        scores = _score_table(document["calibration_scores"], candidates, n, rank)
    return Predictor(
        alpha=alpha,
        recipe=recipe,
        n_labels=n_labels,
        n_calibration=n,
        rank=rank,
        candidates=candidates,
        seed=as_seed(document["seed"]),
        probabilities=as_flag(document["probabilities"], "probabilities"),
        uses_row_ids=as_flag(document["uses_row_ids"], "uses_row_ids"),
        label_names=_label_names(document["label_names"], n_labels) if "label_names" in document else None,
        calibration_scores=scores,
    )


def _part_document(part: Recipe) -> dict[str, Any]:
    temperature = part.temperature
    return {
        "score": [_score_document(score) for score in part.score],
        "reweight": [_reweight_document(reweight) for reweight in part.reweight],
        "temperature": temperature if temperature == "auto" else [_number_document(t) for t in temperature],
        "handicap": _number_document(part.handicap),
    }


def _recipe(document: Any) -> Recipe:
    _check_fields(document, "recipe", ("selection", "parts"))
    selection = document["selection"]
    parts: list[Recipe] = []
    most = 0
    for part in _list(document["parts"], "parts"):
        _check_fields(part, "a part of the recipe", ("score", "reweight", "temperature", "handicap"))
        scores, reweightings = _list(part["score"], "score"), _list(part["reweight"], "reweight")
        temperature = part["temperature"]
        temperatures = [] if temperature == "auto" else _list(temperature, "temperature")
        most += len(scores) * len(reweightings) * max(len(temperatures), 1)
        if most > MOST_CANDIDATES:
            message = f"the recipe has more than {MOST_CANDIDATES} candidates"
            raise ValueError(message)
        parts.append(
            Recipe(
                [_score(score) for score in scores],
                [_reweight(reweight) for reweight in reweightings],
                "auto" if temperature == "auto" else [_number(t, "temperature") for t in temperatures],
                selection,
                handicap=_number(part["handicap"], "handicap"),
            )
        )
    return parts[0] if len(parts) == 1 else reduce(or_, parts)


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
        document["between"] = _packed(np.array(candidate.between))
        document["weight"] = candidate.weight
    return document


def _candidate(document: Any) -> Candidate:
    is_bracketed = isinstance(document, dict) and "lo" in document
    fields = ("score", "reweight", "temperature", "threshold", *(_BRACKET if is_bracketed else ()))
    _check_fields(document, "a candidate", fields)
    temperature = _number(document["temperature"], "temperature")
    scoring = Scoring(_score(document["score"]), _reweight(document["reweight"]), temperature)
    threshold = _number(document["threshold"], "threshold")
    if not is_bracketed:
        return Candidate(scoring, threshold)
    lo = _number(document["lo"], "lo")
    between = tuple(_unpacked(document["between"], "between").tolist())
    ordered = (lo, *between, threshold)
    if any(a > b for a, b in pairwise(ordered)) or lo in between:
        message = f"the scores between {lo} and {threshold} are not sorted"
        raise ValueError(message)
    pairs_at_lo = as_integer(document["pairs_at_lo"], "pairs_at_lo", 0)
    weight = as_integer(document["weight"], "weight", 1, 2**32 - 1)
    return Candidate(scoring, threshold, lo, pairs_at_lo, between, weight)


def _check_candidates(
    candidates: tuple[Candidate, ...], recipe: Recipe, n: int, n_labels: int, rank: int
) -> None:
    is_one = len(candidates) == 1
    if (not is_one and recipe.selection != "modsel") or any((c.lo is None) != is_one for c in candidates):
        message = f"{len(candidates)} candidates do not belong to selection={recipe.selection!r}"
        raise ValueError(message)
    for candidate in candidates:
        if not any(_is_of(candidate.scoring, part) for part in recipe.parts):
            message = f"candidate {candidate.scoring} is not one of the recipe"
            raise ValueError(message)
        if rank > n and candidate.threshold != math.inf:
            message = f"threshold {candidate.threshold} does not belong to rank {rank} of {n} rows"
            raise ValueError(message)
        pairs = (candidate.pairs_at_lo or 0) + len(candidate.between)
        if pairs > n * n_labels or (rank == 1 and candidate.lo not in (None, -math.inf)):
            message = f"lo and pairs_at_lo do not belong to rank {rank} of {n} rows of {n_labels} labels"
            raise ValueError(message)


def _is_of(scoring: Scoring, part: Recipe) -> bool:
    is_listed = part.temperature == "auto" or scoring.temperature in part.temperature
    return is_listed and scoring.score in part.score and scoring.reweight in part.reweight


def _score_document(score: Score) -> dict[str, Any]:
    document: dict[str, Any] = {"name": score.name}
    for name, value in score.parameters().items():
        document[name] = _number_document(value) if isinstance(value, float) else value
    return document


def _score(document: Any) -> Score:
    name = document.get("name") if isinstance(document, dict) else None
    defaults = as_score(_text(name, "score")).parameters()
    _check_fields(document, "score", ("name", *defaults))
    parameters: dict[str, Any] = {
        field: _number(document[field], field) if isinstance(value, float) else document[field]
        for field, value in defaults.items()
    }
    return type(as_score(name))(**parameters)


def _reweight_document(reweight: Entropy | None) -> dict[str, Any] | None:
    if reweight is None:
        return None
    return {"gamma": _number_document(reweight.gamma), "power": _number_document(reweight.power)}


def _reweight(document: Any) -> Entropy | None:
    if document is None:
        return None
    _check_fields(document, "reweight", ("gamma", "power"))
    return Entropy(_number(document["gamma"], "gamma"), _number(document["power"], "power"))


def _label_names(document: Any, n_labels: int) -> tuple[str, ...]:
    names = _list(document, "label_names")
    if len(names) != n_labels:
        message = f"label_names must hold {n_labels} names, got {len(names)}"
        raise ValueError(message)
    return tuple(_text(name, "label_names") for name in names)


def _number_document(value: float) -> dict[str, Any]:
    return {"bits": struct.pack(">d", value).hex(), "value": value if math.isfinite(value) else str(value)}


def _number(document: Any, name: str) -> float:
    _check_fields(document, name, ("bits", "value"))
    values = _unpacked(document["bits"], name)
    if len(values) != 1:
        message = f"{name} must be one number, got {len(values)}"
        raise ValueError(message)
    value = float(values[0])
    readable = document["value"]
    expected = _number_document(value)["value"]
    # Both zeros are told apart, as the bits do.
    if type(readable) is not type(expected) or repr(readable) != repr(expected):
        message = f"{name} has bits for {value!r} beside the value {_shown(readable)}"
        raise ValueError(message)
    return value


def _packed(scores: NDArray[np.float64]) -> str:
    return scores.astype(">f8").tobytes().hex()


def _unpacked(text: Any, name: str) -> NDArray[np.float64]:
    try:
        raw = bytes.fromhex(_text(text, name))
    except ValueError:
        raw = b""
    if raw.hex() != text or len(raw) % 8:
        message = f"{name} must be numbers as 16 hexadecimal digits each, got {_shown(text)}"
        raise ValueError(message)
    scores = np.frombuffer(raw, dtype=">f8").astype(np.float64)
    if np.isnan(scores).any():
        message = f"{name} must not contain NaN"
        raise ValueError(message)
    return scores


def _score_table(document: Any, candidates: tuple[Candidate, ...], n: int, rank: int) -> NDArray[np.float64]:
    rows = [_unpacked(scores, "calibration_scores") for scores in _list(document, "calibration_scores")]
    if [len(row) for row in rows] != [n] * len(candidates):
        message = f"calibration_scores must hold {n} numbers for each of {len(candidates)} candidates"
        raise ValueError(message)
    scores = np.stack(rows)
    scores.setflags(write=False)
    if (scores[:, :-1] > scores[:, 1:]).any():
        message = "calibration_scores are not sorted"
        raise ValueError(message)
    for row, candidate in zip(scores, candidates, strict=True):
        if rank <= n and row[rank - 1] != candidate.threshold:
            message = f"threshold {candidate.threshold} does not belong to rank {rank} of {n} rows"
            raise ValueError(message)
        if candidate.lo is not None and 1 < rank <= n and row[rank - 2] != candidate.lo:
            message = f"lo {candidate.lo} does not belong to rank {rank} of {n} rows"
            raise ValueError(message)
    return scores


def _check_fields(
    document: Any, name: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    if not isinstance(document, dict):
        message = f"{name} must be an object, got {_shown(document)}"
        raise ValueError(message)
    for field in required:
        if field not in document:
            message = f"{name} has no field {field!r}"
            raise ValueError(message)
    for field in document:
        if field not in required and field not in optional:
            message = f"{name} has an unknown field {_shown(field)}"
            raise ValueError(message)


def _list(document: Any, name: str) -> list[Any]:
    if not isinstance(document, list) or not document:
        message = f"{name} must be a list that is not empty, got {_shown(document)}"
        raise ValueError(message)
    return document


def _text(document: Any, name: str) -> str:
    if not isinstance(document, str):
        message = f"{name} must be a string, got {_shown(document)}"
        raise ValueError(message)
    return document


def _shown(value: Any) -> str:
    """Return a value as an error shows it: a document may hold much."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

"""Recipes and scorings in documents."""

from __future__ import annotations

from itertools import product
from typing import Any, TypeAlias

from tightset.document.fields import as_float, as_list, as_text, check_fields, number_document
from tightset.recipes import Recipe, joined
from tightset.scores import Entropy, Score, Scoring, as_score

Combination: TypeAlias = tuple[Score, Entropy | None, float | str]
"""A score, a reweighting, and a temperature or "auto"."""

MOST_CANDIDATES = 2**14
"""Candidates that a recipe may have; it is made from three lists, whose product a small file can blow up."""


def recipe_document(recipe: Recipe) -> dict[str, Any]:
    """Return what a predictor was made by."""
    return {"selection": recipe.selection, "parts": [_part_document(part) for part in recipe.parts]}


def _part_document(part: Recipe) -> dict[str, Any]:
    temperature = part.temperature
    return {
        "score": [score_document(score) for score in part.score],
        "reweight": [_reweight_document(reweight) for reweight in part.reweight],
        "temperature": temperature if temperature == "auto" else [number_document(t) for t in temperature],
        "handicap": number_document(part.handicap),
    }


def as_recipe(document: Any) -> Recipe:
    """Return the recipe of a document."""
    check_fields(document, "recipe", ("selection", "parts"))
    selection = document["selection"]
    parts: list[Recipe] = []
    most = 0
    for part in as_list(document["parts"], "parts"):
        check_fields(part, "a part of the recipe", ("score", "reweight", "temperature", "handicap"))
        scores, reweightings = as_list(part["score"], "score"), as_list(part["reweight"], "reweight")
        temperature = part["temperature"]
        temperatures = [] if temperature == "auto" else as_list(temperature, "temperature")
        most += len(scores) * len(reweightings) * max(len(temperatures), 1)
        if most > MOST_CANDIDATES:
            message = f"the recipe has more than {MOST_CANDIDATES} candidates"
            raise ValueError(message)
        parts.append(
            Recipe(
                [score_of(score) for score in scores],
                [_reweight(reweight) for reweight in reweightings],
                "auto" if temperature == "auto" else [as_float(t, "temperature") for t in temperatures],
                selection,
                handicap=as_float(part["handicap"], "handicap"),
            )
        )
    return joined(parts)


def scoring_document(scoring: Scoring) -> dict[str, Any]:
    """Return the fields of a scoring."""
    return {
        "score": score_document(scoring.score),
        "reweight": _reweight_document(scoring.reweight),
        "temperature": number_document(scoring.temperature),
    }


def as_scoring(document: dict[str, Any]) -> Scoring:
    """Return the scoring that fields hold."""
    temperature = as_float(document["temperature"], "temperature")
    return Scoring(score_of(document["score"]), _reweight(document["reweight"]), temperature)


def combinations(recipe: Recipe) -> set[Combination]:
    """Return what the recipe's parts list: a set, since a file may have thousands of parts and candidates."""
    found: set[Combination] = set()
    for part in recipe.parts:
        temperatures: tuple[float | str, ...] = ("auto",) if part.temperature == "auto" else part.temperature
        found.update(product(part.score, part.reweight, temperatures))
    return found


def score_document(score: Score) -> dict[str, Any]:
    """Return the fields of a score."""
    document: dict[str, Any] = {"name": score.name}
    for name, value in score.parameters().items():
        document[name] = number_document(value) if isinstance(value, float) else value
    return document


def score_of(document: Any) -> Score:
    """Return the score that fields hold."""
    name = document.get("name") if isinstance(document, dict) else None
    defaults = as_score(as_text(name, "score")).parameters()
    check_fields(document, "score", ("name", *defaults))
    parameters: dict[str, Any] = {
        field: as_float(document[field], field) if isinstance(value, float) else document[field]
        for field, value in defaults.items()
    }
    return type(as_score(name))(**parameters)


def _reweight_document(reweight: Entropy | None) -> dict[str, Any] | None:
    if reweight is None:
        return None
    return {"gamma": number_document(reweight.gamma), "power": number_document(reweight.power)}


def _reweight(document: Any) -> Entropy | None:
    if document is None:
        return None
    check_fields(document, "reweight", ("gamma", "power"))
    return Entropy(as_float(document["gamma"], "gamma"), as_float(document["power"], "power"))

"""Predictors as documents: a tree of dicts, lists, strings, integers and flags that JSON can hold.

``schema/predictor-v1.json`` defines it. A float is written as its 64 bits in hexadecimal beside a readable
value, since JSON has no infinity and readers differ in how they read decimals; lists of scores are the
bits of one after another. Reading checks every field against every other and runs no code from the
document. ``src/predictor/document`` is the same in Rust.
"""

from __future__ import annotations

from typing import Any

from tightset._inputs import as_alpha, as_integer
from tightset.cells import Cell
from tightset.document.canonical import digest
from tightset.document.cells import Facts, as_cell, as_condition, cell_fields, condition_document
from tightset.document.fields import (
    as_float,
    as_list,
    as_text,
    check_digest,
    check_fields,
    check_version,
    number_document,
)
from tightset.document.heading import HEADING, heading_document, read_heading
from tightset.document.recipes import as_recipe, combinations, recipe_document
from tightset.predictor import Predictor

FORMAT = "tightset-predictor"
VERSION = 1

# Documents of other kinds, for those who call the wrong reader.
_READ_ELSEWHERE = {
    "tightset-rules": "ts.family.load",
    "tightset-transform": "ts.transforms.load",
    "tightset-transformed-predictor": "ts.transforms.load_predictor",
}


def to_document(predictor: Predictor, *, score_table: bool) -> dict[str, Any]:
    """Return the document of a predictor."""
    if score_table and not predictor.has_scores:
        message = "score_table=True needs the calibration scores, which this predictor is without"
        raise ValueError(message)
    document = heading_document(predictor, FORMAT, VERSION)
    if predictor.delta is not None:
        document["pac"] = {"delta": number_document(predictor.delta), "shares": predictor.shares}
    if predictor.label_names is not None:
        document["label_names"] = list(predictor.label_names)
    document["recipe"] = recipe_document(predictor.recipe)
    if predictor.condition is None:
        scores = predictor.calibration_scores
        cell = Cell(predictor.n_calibration, predictor.rank, predictor.candidates, scores)
        document |= cell_fields(cell, score_table=score_table)
    else:
        document["condition"] = condition_document(predictor.condition, score_table=score_table)
    document["sha256"] = digest(document)
    return document


def from_document(document: Any) -> Predictor:
    """Return the predictor of a document; ValueError or TypeError if it is not one."""
    kind = document.get("format") if isinstance(document, dict) else None
    if kind != FORMAT:
        reader = _READ_ELSEWHERE.get(kind) if isinstance(kind, str) else None
        message = f"its format is not {FORMAT!r}" + (f": {reader} reads it" if reader else "")
        raise ValueError(message)
    check_version(document, VERSION)
    # The document of a condition has cells, any other one is a cell itself.
    is_conditional = "condition" in document
    required = (*HEADING, "recipe", "sha256", "condition" if is_conditional else "candidates")
    optional = ("label_names", "pac") if is_conditional else ("label_names", "pac", "calibration_scores")
    check_fields(document, "the document", required, optional)
    check_digest(document)
    heading = read_heading(document)
    alpha, n, n_labels, rank = (heading[name] for name in ("alpha", "n_calibration", "n_labels", "rank"))
    delta, shares = _pac(document["pac"]) if "pac" in document else (None, 1)
    recipe = as_recipe(document["recipe"])
    facts = Facts(alpha, recipe, combinations(recipe), n_labels, n, is_pac=delta is not None)
    facts.check_rank(rank, n)
    condition = as_condition(document["condition"], facts) if is_conditional else None
    cell = Cell(n, rank, ()) if is_conditional else as_cell(document, facts, n, rank)
    return Predictor(
        **heading,
        recipe=recipe,
        candidates=cell.candidates,
        condition=condition,
        guarantee="marginal" if delta is None else "pac",
        delta=delta,
        shares=shares,
        label_names=_label_names(document["label_names"], n_labels) if "label_names" in document else None,
        calibration_scores=cell.calibration_scores,
    )


def _pac(document: Any) -> tuple[float, int]:
    check_fields(document, "pac", ("delta", "shares"))
    delta = as_alpha(as_float(document["delta"], "delta"), "delta")
    return delta, as_integer(document["shares"], "shares", 1)


def _label_names(document: Any, n_labels: int) -> tuple[str, ...]:
    names = as_list(document, "label_names")
    if len(names) != n_labels:
        message = f"label_names must hold {n_labels} names, got {len(names)}"
        raise ValueError(message)
    return tuple(as_text(name, "label_names") for name in names)

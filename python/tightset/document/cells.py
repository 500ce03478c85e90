"""Cells in documents: candidates with thresholds, their scores, and which labels or groups have them."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import as_integer
from tightset.cells import KINDS, SCARCE, Candidate, Cell, Condition
from tightset.document.fields import (
    as_float,
    as_list,
    as_text,
    check_fields,
    number_document,
    packed,
    shown,
    unpacked,
)
from tightset.document.recipes import Combination, as_scoring, scoring_document
from tightset.recipes import Recipe

_BRACKET = ("lo", "pairs_at_lo", "between", "weight")


class Facts(NamedTuple):
    """What the cells of a document are checked against."""

    alpha: float
    recipe: Recipe
    listed: AbstractSet[Combination]
    n_labels: int
    n_calibration: int
    is_pac: bool

    def check_rank(self, rank: int, n: int) -> None:
        """Refuse a rank that is not that of so many rows."""
        # Which rank delta asks for is not computed again: readers would have to agree on a beta law.
        is_right = rank <= n + 1 if self.is_pac else rank == _core.conformal_rank(n, self.alpha)
        if not is_right:
            message = f"rank {rank} does not belong to alpha={self.alpha} and {n} rows"
            raise ValueError(message)


def cell_fields(cell: Cell, *, score_table: bool) -> dict[str, Any]:
    """Return candidates and, if asked for, their scores."""
    fields: dict[str, Any] = {"candidates": [_candidate_document(c) for c in cell.candidates]}
    if score_table:
        assert cell.calibration_scores is not None, "the caller has looked"
        fields["calibration_scores"] = [packed(scores) for scores in cell.calibration_scores]
    return fields


def as_cell(document: dict[str, Any], facts: Facts, n: int, rank: int) -> Cell:
    """Return the cell that fields hold."""
    facts.check_rank(rank, n)
    candidates = tuple(_candidate(candidate) for candidate in as_list(document["candidates"], "candidates"))
    _check_candidates(candidates, facts, n, rank)
    scores = None
    if "calibration_scores" in document:
        scores = _score_table(document["calibration_scores"], candidates, n, rank)
    return Cell(n, rank, candidates, scores)


def condition_document(condition: Condition, *, score_table: bool) -> dict[str, Any]:
    """Return what coverage is conditional on."""
    document: dict[str, Any] = {"kind": condition.kind, "scarce": condition.scarce}
    if condition.kind == "groups":
        document["groups"] = list(condition.groups)
    document["cell_of"] = list(condition.cell_of)
    document["pooled"] = condition.pooled
    if condition.most_ranks is not None:
        document["most_ranks"] = list(condition.most_ranks)
    document["cells"] = [
        {
            "n_calibration": cell.n_calibration,
            "rank": cell.rank,
            **cell_fields(cell, score_table=score_table),
        }
        for cell in condition.cells
    ]
    return document


def as_condition(document: Any, facts: Facts) -> Condition:
    """Return the condition of a document."""
    kind = document.get("kind") if isinstance(document, dict) else None
    own = {"groups": ("groups",), "rc3p": ("most_ranks",)}.get(kind if isinstance(kind, str) else "", ())
    check_fields(document, "condition", ("kind", "scarce", *own, "cell_of", "pooled", "cells"))
    for name, known in (("kind", KINDS), ("scarce", SCARCE)):
        if as_text(document[name], name) not in known:
            message = f"{name} must be one that is known, got {shown(document[name])}"
            raise ValueError(message)
    cells = tuple(_as_cell_of_many(cell, facts) for cell in as_list(document["cells"], "cells"))
    if len({cell.calibration_scores is None for cell in cells}) > 1:
        message = "calibration_scores must be in all cells or in none"
        raise ValueError(message)
    groups = _groups(document["groups"]) if kind == "groups" else ()
    n_names = len(groups) if kind == "groups" else facts.n_labels
    cell_of = _integers(document["cell_of"], "cell_of", n_names, 0, len(cells) - 1)
    pooled = document["pooled"]
    if pooled is not None:
        pooled = as_integer(pooled, "pooled", 0, len(cells) - 1)
    if (pooled is not None) != (document["scarce"] == "pooled"):
        message = f"pooled must be a cell exactly when scarce is 'pooled', got {shown(pooled)}"
        raise ValueError(message)
    most_ranks = None
    if kind == "rc3p":
        most_ranks = _integers(document["most_ranks"], "most_ranks", facts.n_labels, 1, facts.n_labels)
    return Condition(
        kind=document["kind"],
        scarce=document["scarce"],
        cells=cells,
        cell_of=cell_of,
        groups=groups,
        pooled=pooled,
        most_ranks=most_ranks,
    )


def _as_cell_of_many(document: Any, facts: Facts) -> Cell:
    check_fields(document, "a cell", ("n_calibration", "rank", "candidates"), ("calibration_scores",))
    n = as_integer(document["n_calibration"], "n_calibration", 0)
    return as_cell(document, facts, n, as_integer(document["rank"], "rank", 1))


def _groups(document: Any) -> tuple[int | str, ...]:
    names = as_list(document, "groups")
    if all(type(name) is int for name in names):
        names = [as_integer(name, "groups", -(2**63)) for name in names]
    elif not all(type(name) is str for name in names):
        message = "groups must be all integers or all strings"
        raise ValueError(message)
    if len(set(names)) < len(names):
        message = "groups must differ from each other"
        raise ValueError(message)
    return tuple(names)


def _integers(document: Any, name: str, length: int, least: int, most: int) -> tuple[int, ...]:
    found = as_list(document, name)
    if len(found) != length:
        message = f"{name} must hold {length} integers, got {len(found)}"
        raise ValueError(message)
    return tuple(as_integer(value, name, least, most) for value in found)


def _candidate_document(candidate: Candidate) -> dict[str, Any]:
    document = scoring_document(candidate.scoring)
    document["threshold"] = number_document(candidate.threshold)
    if candidate.lo is not None:
        document["lo"] = number_document(candidate.lo)
        document["pairs_at_lo"] = candidate.pairs_at_lo
        document["between"] = packed(np.array(candidate.between))
        document["weight"] = candidate.weight
    return document


def _candidate(document: Any) -> Candidate:
    is_bracketed = isinstance(document, dict) and "lo" in document
    fields = ("score", "reweight", "temperature", "threshold", *(_BRACKET if is_bracketed else ()))
    check_fields(document, "a candidate", fields)
    scoring = as_scoring(document)
    threshold = as_float(document["threshold"], "threshold")
    if not is_bracketed:
        return Candidate(scoring, threshold)
    lo = as_float(document["lo"], "lo")
    between = tuple(unpacked(document["between"], "between").tolist())
    ordered = (lo, *between, threshold)
    if any(a > b for a, b in pairwise(ordered)) or lo in between:
        message = f"the scores between {lo} and {threshold} are not sorted"
        raise ValueError(message)
    pairs_at_lo = as_integer(document["pairs_at_lo"], "pairs_at_lo", 0)
    weight = as_integer(document["weight"], "weight", 1, 2**32 - 1)
    return Candidate(scoring, threshold, lo, pairs_at_lo, between, weight)


def _check_candidates(candidates: tuple[Candidate, ...], facts: Facts, n: int, rank: int) -> None:
    recipe = facts.recipe
    is_one = len(candidates) == 1
    if (not is_one and recipe.selection != "modsel") or any((c.lo is None) != is_one for c in candidates):
        message = f"{len(candidates)} candidates do not belong to selection={recipe.selection!r}"
        raise ValueError(message)
    for candidate in candidates:
        scoring = candidate.scoring
        if facts.listed.isdisjoint(
            (scoring.score, scoring.reweight, t) for t in (scoring.temperature, "auto")
        ):
            message = f"candidate {scoring} is not one of the recipe"
            raise ValueError(message)
        if rank > n and candidate.threshold != math.inf:
            message = f"threshold {candidate.threshold} does not belong to rank {rank} of {n} rows"
            raise ValueError(message)
        pairs = (candidate.pairs_at_lo or 0) + len(candidate.between)
        is_first = rank > 1 or candidate.lo in (None, -math.inf)
        if pairs > facts.n_calibration * facts.n_labels or not is_first:
            place = f"rank {rank} of {n} rows of {facts.n_labels} labels"
            message = f"lo and pairs_at_lo do not belong to {place}"
            raise ValueError(message)


def _score_table(document: Any, candidates: tuple[Candidate, ...], n: int, rank: int) -> NDArray[np.float64]:
    rows = [unpacked(scores, "calibration_scores") for scores in as_list(document, "calibration_scores")]
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

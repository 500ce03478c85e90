"""A predictor that thresholds the scores of a rule, or lets each label choose among several rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import ArrayLike, as_integer, as_labels, as_row_values
from tightset.document.fields import as_float, as_list, check_fields, number_document, packed, shown, unpacked
from tightset.family.block_predictor import BlockPredictor
from tightset.family.block_rows import Block
from tightset.family.rules import Reweighted, Rule, rule_from_document

RuleSelection: TypeAlias = Literal["modsel", "held-out"]


@dataclass(frozen=True, slots=True)
class RuleCandidate:
    """A rule and its conformal threshold.

    Attributes
    ----------
    rule, threshold
        A label is in this candidate's set when its score is at most the threshold.
    lo, pairs_at_lo, between
        With several candidates in use, as in `tightset.Candidate`.
    """

    rule: Rule
    threshold: float
    lo: float | None = None
    pairs_at_lo: int | None = None
    between: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePredictor(BlockPredictor):
    """Sets of the labels whose score under a rule is at most a threshold.

    Made by `tightset.reweighted.calibrate` and `tightset.averaged.calibrate`. For rows exchangeable with the
    calibration rows, a set contains the label with probability at least 1 - alpha, exactly: a rule is a fixed
    function of the row and the label, and selection among rules is ``"modsel"`` or ``"held-out"``.

    Attributes
    ----------
    candidates
        What prediction uses: one, or with ``"modsel"`` those among which each label of a new row chooses.
    selection
        How they were selected, or None when there was one.
    """

    FORMAT: ClassVar[str] = "tightset-rules"

    candidates: tuple[RuleCandidate, ...]
    selection: RuleSelection | None = None
    considered: int = field(default=1, repr=False)
    """Rules among which was selected."""

    @property
    def rule(self) -> Rule:
        """The rule in use."""
        return self._only().rule

    @property
    def threshold(self) -> float:
        """A label is in the set when its score is at most this."""
        return self._only().threshold

    def _only(self) -> RuleCandidate:
        if len(self.candidates) != 1:
            message = f"{len(self.candidates)} candidates are in use: see .candidates"
            raise ValueError(message)
        return self.candidates[0]

    def scores(
        self,
        logits: ArrayLike,
        labels: ArrayLike | None = None,
        given: ArrayLike | None = None,
        *,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> NDArray[np.float64]:
        """Return the rule's scores: of the given labels, shape (n,), or of all, shape (n, K).

        A label is in its row's set exactly when its score is at most the threshold.
        """
        rule = self.rule
        rows = self._rows(logits, given, row_ids, n_threads)
        if labels is None:
            found = np.empty(rows.logits.shape)
            for place, block in rows.blocks():
                found[place] = rule.scores(block)
            return found
        truth = rows.checked_labels(as_labels(labels, len(rows)))
        return rows.label_scores([rule], truth).reshape(-1)

    def members(self, block: Block) -> NDArray[np.bool_]:
        """Return the labels whose score is at most the threshold of the candidate that they choose."""
        table = np.stack([candidate.rule.scores(block) for candidate in self.candidates])
        thresholds = np.array([candidate.threshold for candidate in self.candidates])
        chosen = self._chosen(table)
        found: NDArray[np.bool_] = (
            np.take_along_axis(table, chosen[np.newaxis], axis=0)[0] <= thresholds[chosen]
        )
        return found

    def p_values(self, block: Block) -> NDArray[np.float64]:
        """Return (1 + calibration scores of at least the label's) / (n + 1), under the label's candidate."""
        assert self.calibration_scores is not None, "predict_p asks for them"
        table = np.stack([candidate.rule.scores(block) for candidate in self.candidates])
        n = self.n_calibration
        found = np.stack(
            [
                (1 + n - np.searchsorted(known, scores, side="left")) / (n + 1)
                for known, scores in zip(self.calibration_scores, table, strict=True)
            ]
        )
        chosen = np.take_along_axis(found, self._chosen(table)[np.newaxis], axis=0)[0]
        return np.asarray(chosen, dtype=np.float64)

    def _chosen(self, table: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return each label's candidate (Liang, Zhu & Barber 2024), from the scores of all (m, b, K).

        If y were the label, the k-th smallest of the n + 1 scores would be its own, clipped to [lo, hi]; the
        candidate is the one with the fewest pairs of a row and a label up to there, ties by lower index.
        """
        if len(self.candidates) == 1:
            return np.zeros(table.shape[1:], dtype=np.int64)
        pairs = np.empty(table.shape, dtype=np.int64)
        for m, candidate in enumerate(self.candidates):
            assert candidate.lo is not None, "several candidates come with their brackets"
            assert candidate.pairs_at_lo is not None, "several candidates come with their brackets"
            q = np.clip(table[m], candidate.lo, candidate.threshold)
            pairs[m] = candidate.pairs_at_lo + np.searchsorted(candidate.between, q, side="right")
            ordered = np.sort(table[m], axis=1)
            for row in range(len(q)):
                pairs[m, row] += np.searchsorted(ordered[row], q[row], side="right")
        return np.asarray(pairs.argmin(axis=0), dtype=np.int64)

    def checked_given(self, given: ArrayLike | None, n_rows: int) -> NDArray[np.float64] | None:
        """Return one number above -gamma for each row, if the rule divides by what is given."""
        rules = [candidate.rule for candidate in self.candidates]
        return checked_given(rules, given, n_rows)

    def parameters(self) -> dict[str, Any]:
        """Return the candidates as JSON holds them."""
        return {
            "selection": self.selection,
            "considered": self.considered,
            "candidates": [_candidate_document(candidate) for candidate in self.candidates],
        }

    @classmethod
    def from_parameters(cls, document: Any, **shared: Any) -> Self:
        """Return the predictor of a document's parameters."""
        check_fields(document, "parameters", ("selection", "considered", "candidates"))
        selection = document["selection"]
        if selection is not None and selection not in get_args(RuleSelection):
            message = f"selection must be 'modsel', 'held-out' or null, got {shown(selection)}"
            raise ValueError(message)
        listed = as_list(document["candidates"], "candidates")
        return cls(
            candidates=tuple(_candidate(part) for part in listed),
            selection=selection,
            considered=as_integer(document["considered"], "considered", len(listed)),
            **shared,
        )

    def check(self) -> None:
        """Refuse candidates that do not belong to the rank and the table of scores."""
        n, is_one = self.n_calibration, len(self.candidates) == 1
        if not is_one and self.selection != "modsel":
            message = f"{len(self.candidates)} candidates do not belong to selection={self.selection!r}"
            raise ValueError(message)
        if len({candidate.rule.needs_given for candidate in self.candidates}) > 1:
            message = "some candidates divide by what is given and some do not"
            raise ValueError(message)
        table = self.calibration_scores
        if table is not None and (len(table) != len(self.candidates) or (table[:, :-1] > table[:, 1:]).any()):
            message = f"calibration_scores must be {len(self.candidates)} sorted rows"
            raise ValueError(message)
        for m, candidate in enumerate(self.candidates):
            if (candidate.lo is None) != is_one:
                message = "lo belongs to several candidates, and to each of them"
                raise ValueError(message)
            expected = table[m, self.rank - 1] if table is not None and self.rank <= n else None
            if (self.rank > n and candidate.threshold != math.inf) or expected not in (
                None,
                candidate.threshold,
            ):
                message = f"threshold {candidate.threshold} does not belong to rank {self.rank} of {n} rows"
                raise ValueError(message)
            if (candidate.pairs_at_lo or 0) + len(candidate.between) > n * self.n_labels:
                message = f"there are more pairs than {n} rows of {self.n_labels} labels have"
                raise ValueError(message)


def checked_given(rules: Sequence[Rule], given: ArrayLike | None, n_rows: int) -> NDArray[np.float64] | None:
    """Return what the rules divide by, one number a row, exactly when they do."""
    if not rules[0].needs_given:
        if given is not None:
            message = "given must be None where scores are not divided by a value for each row"
            raise TypeError(message)
        return None
    if given is None:
        message = "given must hold the value that each row's scores are divided by, as in calibration"
        raise TypeError(message)
    array = as_row_values(given, "given", n_rows)
    gamma = min(rule.gamma for rule in rules if isinstance(rule, Reweighted))
    if not (gamma + array > 0.0).all():
        row = int((gamma + array > 0.0).argmin())
        message = f"given must be above -gamma = {-gamma}: found {array[row]} at row {row}"
        raise ValueError(message)
    return array


def _candidate_document(candidate: RuleCandidate) -> dict[str, Any]:
    document: dict[str, Any] = {
        "rule": candidate.rule.to_document(),
        "threshold": number_document(candidate.threshold),
    }
    if candidate.lo is not None:
        document["lo"] = number_document(candidate.lo)
        document["pairs_at_lo"] = candidate.pairs_at_lo
        document["between"] = packed(np.array(candidate.between))
    return document


def _candidate(document: Any) -> RuleCandidate:
    bracket = ("lo", "pairs_at_lo", "between") if isinstance(document, dict) and "lo" in document else ()
    check_fields(document, "a candidate", ("rule", "threshold", *bracket))
    rule = rule_from_document(document["rule"])
    threshold = as_float(document["threshold"], "threshold")
    if not bracket:
        return RuleCandidate(rule, threshold)
    lo = as_float(document["lo"], "lo")
    between = tuple(unpacked(document["between"], "between").tolist())
    if any(a > b for a, b in pairwise((lo, *between, threshold))) or lo in between:
        message = f"the scores between {lo} and {threshold} are not sorted"
        raise ValueError(message)
    pairs_at_lo = as_integer(document["pairs_at_lo"], "pairs_at_lo", 0)
    return RuleCandidate(rule, threshold, lo, pairs_at_lo, between)

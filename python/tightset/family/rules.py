"""Scores made from the conventional scores of the core: divided by an uncertainty, or averaged.

Conventional scores end at 1.0: where the softmax is nearly one-hot, all labels of the tail tie there, and a
threshold at such a tie takes in all of them or none. So each score here has a last term,

    2^-30 S / (1 + S),    S = -log(1 - APS), the ranked APS score,

which the ranked RAPS score of the core has too. It grows with the rank of a label, so it agrees with the
order that every score here has within a row, it is below 1e-9, so it decides nothing but ties, and it keeps
labels apart down to a tail of about e^-2000, where it meets the rounding of 1.0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import as_number, as_positive
from tightset.document.fields import as_float, as_list, as_text, check_fields, number_document, shown
from tightset.document.recipes import score_document, score_of
from tightset.family.block_rows import Block
from tightset.scores import APS, MIXED, Score, Scoring, as_score

_TIE = 2.0**-30

Uncertainty: TypeAlias = Literal["entropy", "energy", "given"]


def with_ties_broken(block: Block, score: Score) -> NDArray[np.float64]:
    """Return the conventional scores of all labels plus what tells saturated ones apart."""

    def make() -> NDArray[np.float64]:
        ranked = block.scores(Scoring(APS()), ranked=True)
        with np.errstate(invalid="ignore"):  # infinity over infinity, which is 1 here
            share = np.where(np.isposinf(ranked), 1.0, ranked / (1.0 + ranked))
        return block.scores(Scoring(score), ranked=False) + _TIE * share

    return block.once(("with ties broken", score), make)


def softplus_energy(block: Block, tau: float) -> NDArray[np.float64]:
    """Return softplus(tau log sum exp(z / tau)) of each row.

    The sum is that of the core, through ``-log f`` of the top label, so that it does not depend on the batch.
    """
    top = block.top_labels()
    surprise = block.label_scores(Scoring(MIXED(0.0), None, tau), top)
    energy = block.logits()[np.arange(len(block)), top] + tau * surprise
    return np.maximum(energy, 0.0) + np.log1p(np.exp(-np.abs(energy)))


@dataclass(frozen=True, slots=True)
class Reweighted:
    """``B = A / (gamma + g(x))`` for a conventional score A and an uncertainty g of the row.

    Parameters
    ----------
    score
        A.
    divide_by
        ``"entropy"``: g = H. ``"energy"``: g = 1 / softplus(tau log sum exp(z / tau)). ``"given"``: g is
        given for each row.
    gamma
        At least 0. With 0 and a row of entropy 0 every score above 0 is infinite.
    tau
        Temperature of the energy.
    """

    kind: ClassVar[str] = "reweighted"

    score: Score
    divide_by: Uncertainty
    gamma: float
    tau: float = 1.0

    def __post_init__(self) -> None:
        assign = object.__setattr__
        assign(self, "score", as_score(self.score))
        if self.divide_by not in get_args(Uncertainty):
            message = (
                f"divide_by must be 'entropy', 'energy' or an array with a value for each row, "
                f"got {self.divide_by!r}"
            )
            raise ValueError(message)
        assign(self, "gamma", as_number(self.gamma, "gamma"))
        if not 0.0 <= self.gamma < math.inf:
            message = f"gamma must be finite and at least 0, got {self.gamma}"
            raise ValueError(message)
        assign(self, "tau", as_positive(self.tau, "tau"))

    @property
    def needs_given(self) -> bool:
        """Whether rows come with a value beside their logits."""
        return self.divide_by == "given"

    def scores(self, block: Block) -> NDArray[np.float64]:
        """Return B of all labels, shape (b, K)."""
        scale = (self.gamma + self._uncertainty(block))[:, np.newaxis]
        numerator = with_ties_broken(block, self.score)
        with np.errstate(divide="ignore", invalid="ignore"):
            # 0 / 0 is the limit of a score that is 0 at every scale.
            return np.where(numerator == 0.0, 0.0, numerator / scale)

    def _uncertainty(self, block: Block) -> NDArray[np.float64]:
        if self.divide_by == "entropy":
            return block.entropy()
        if self.divide_by == "energy":
            with np.errstate(divide="ignore"):
                return 1.0 / softplus_energy(block, self.tau)
        assert block.given is not None, "the predictor checked that it was given"
        return block.given

    def to_document(self) -> dict[str, Any]:
        """Return the rule as JSON holds it."""
        return {
            "kind": self.kind,
            "score": score_document(self.score),
            "divide_by": self.divide_by,
            "gamma": number_document(self.gamma),
            "tau": number_document(self.tau),
        }

    @staticmethod
    def from_document(document: Any) -> Reweighted:
        """Return the rule that JSON holds."""
        check_fields(document, "a rule", ("kind", "score", "divide_by", "gamma", "tau"))
        return Reweighted(
            score_of(document["score"]),
            as_text(document["divide_by"], "divide_by"),  # type: ignore[arg-type]
            as_float(document["gamma"], "gamma"),
            as_float(document["tau"], "tau"),
        )

    def __str__(self) -> str:
        tau = f", tau={self.tau:g}" if self.divide_by == "energy" else ""
        return f"{Scoring(self.score)} / ({self.gamma:g} + {self.divide_by}{tau})"


@dataclass(frozen=True, slots=True)
class Averaged:
    """``sum_l w_l A_l`` of conventional scores A_l, with weights that sum to 1.

    Parameters
    ----------
    scores_of
        The scores A_l.
    weights
        One for each, at least 0, of sum 1.
    """

    kind: ClassVar[str] = "averaged"
    needs_given: ClassVar[bool] = False

    scores_of: tuple[Score, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        assign = object.__setattr__
        assign(self, "scores_of", tuple(as_score(score) for score in self.scores_of))
        assign(self, "weights", tuple(as_number(weight, "weights") for weight in self.weights))
        if not self.scores_of or len(self.weights) != len(self.scores_of):
            message = f"weights must be one for each of the {len(self.scores_of)} scores, got {self.weights}"
            raise ValueError(message)
        if not all(weight >= 0.0 for weight in self.weights) or abs(sum(self.weights) - 1.0) > 1e-9:
            message = f"weights must be at least 0 and sum to 1, got {self.weights}"
            raise ValueError(message)

    def scores(self, block: Block) -> NDArray[np.float64]:
        """Return the average of all labels, shape (b, K)."""
        # A label that cannot occur is infinite under every score; 0 times that is not a number.
        parts = [
            weight * with_ties_broken(block, score)
            for score, weight in zip(self.scores_of, self.weights, strict=True)
            if weight > 0.0
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def to_document(self) -> dict[str, Any]:
        """Return the rule as JSON holds it."""
        return {
            "kind": self.kind,
            "scores": [score_document(score) for score in self.scores_of],
            "weights": [number_document(weight) for weight in self.weights],
        }

    @staticmethod
    def from_document(document: Any) -> Averaged:
        """Return the rule that JSON holds."""
        check_fields(document, "a rule", ("kind", "scores", "weights"))
        return Averaged(
            tuple(score_of(score) for score in as_list(document["scores"], "scores")),
            tuple(as_float(weight, "weights") for weight in as_list(document["weights"], "weights")),
        )

    def __str__(self) -> str:
        parts = zip(self.weights, self.scores_of, strict=True)
        return " + ".join(f"{weight:g} {score.name}" for weight, score in parts if weight > 0)


Rule: TypeAlias = Reweighted | Averaged

_KINDS: dict[str, type[Rule]] = {kind.kind: kind for kind in (Reweighted, Averaged)}


def rule_from_document(document: Any) -> Rule:
    """Return the rule that JSON holds, of whichever kind."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind not in _KINDS:
        message = f"a rule must be of kind {' or '.join(map(repr, _KINDS))}, got {shown(kind)}"
        raise ValueError(message)
    return _KINDS[kind].from_document(document)

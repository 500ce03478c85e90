"""The parts of a candidate: scores, reweightings, temperatures.

Their formulas are in the core (``src/score/formula.rs``); here they have names, parameters and defaults.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, TypeAlias

from tightset import _core
from tightset._inputs import as_integer, as_number


@dataclass(frozen=True, slots=True)
class _Score:
    """A nonconformity score; low means conforming.

    Scores without parameters inherit what the decorator makes, which takes half a millisecond a class.
    """

    name: ClassVar[str]
    has_limits: ClassVar[bool] = False
    """Whether temperatures 0 and infinity have closed limits."""

    def parameters(self) -> dict[str, float | int]:
        return asdict(self)


class THR(_Score):
    """Threshold score ``1 - f_y`` (Sadinle et al. 2019), elsewhere LAC or hinge."""

    __slots__ = ()
    name: ClassVar[str] = "thr"
    has_limits: ClassVar[bool] = True


class APS(_Score):
    """Adaptive score: the mass ranked before the label plus U times its own (Romano et al. 2020)."""

    __slots__ = ()
    name: ClassVar[str] = "aps"
    has_limits: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RAPS(_Score):
    """APS plus ``penalty * max(0, rank - k_reg)`` (Angelopoulos et al. 2021, as in their code).

    Parameters
    ----------
    penalty
        Cost of each rank beyond `k_reg`; at least 0.
    k_reg
        Ranks without cost. The formula printed in the paper is ``k_reg + 1`` here.
    """

    name: ClassVar[str] = "raps"
    penalty: float = 0.1
    k_reg: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", as_number(self.penalty, "penalty"))
        object.__setattr__(self, "k_reg", as_integer(self.k_reg, "k_reg", 0, 2**32 - 1))
        _core.Scoring("raps", penalty=self.penalty)


@dataclass(frozen=True, slots=True)
class _Weighted(_Score):
    """A score whose parameter is a weight; those that have one inherit what the decorator makes."""

    weight: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", as_number(self.weight, "weight"))
        _core.Scoring(self.name, weight=self.weight)


class SAPS(_Weighted):
    """Top probability, then a constant for each rank (Huang et al. 2024).

    Parameters
    ----------
    weight
        Cost of each rank after the first; at least 0.
    """

    __slots__ = ()
    name: ClassVar[str] = "saps"

    def __init__(self, weight: float = 0.2) -> None:
        super().__init__(weight)


class RANK(_Score):
    """Rank first, probability breaks the ties (Luo & Zhou 2024)."""

    __slots__ = ()
    name: ClassVar[str] = "rank"


class MIXED(_Weighted):
    """``-log f_y + weight * log(rank)``: THR with a cost for the rank, the same in both scales.

    Parameters
    ----------
    weight
        Cost of a factor e in rank; at least 0, where 0 orders labels as THR does.
    """

    __slots__ = ()
    name: ClassVar[str] = "mixed"

    def __init__(self, weight: float = 0.5) -> None:
        super().__init__(weight)


@dataclass(frozen=True, slots=True)
class Entropy:
    """Reweighting of the logits by ``w = (gamma + H) ** power``, H the entropy of the row in nats.

    Parameters
    ----------
    gamma
        Added to the entropy; 0 is the paper's ``z / (H T)``, 1 is what its authors released.
    power
        Exponent; 0 is plain temperature scaling, negative values need ``gamma > 0``.
    """

    gamma: float = 0.0
    power: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", as_number(self.gamma, "gamma"))
        object.__setattr__(self, "power", as_number(self.power, "power"))
        _core.Scoring("aps", gamma=self.gamma, power=self.power)


Score: TypeAlias = THR | APS | RAPS | SAPS | RANK | MIXED
ScoreLike: TypeAlias = Score | str
ReweightLike: TypeAlias = Entropy | str | None

_SCORES: dict[str, type[Score]] = {kind.name: kind for kind in (THR, APS, RAPS, SAPS, RANK, MIXED)}


def as_score(score: object) -> Score:
    """Return the score that a name or an instance stands for."""
    if isinstance(score, tuple(_SCORES.values())):
        return score  # type: ignore[return-value]
    if isinstance(score, str) and score in _SCORES:
        return _SCORES[score]()
    names = ", ".join(repr(name) for name in _SCORES)
    message = f"score must be one of {names} or a score object, got {score!r}"
    raise (ValueError if isinstance(score, str) else TypeError)(message)


def as_reweight(reweight: object) -> Entropy | None:
    """Return the reweighting that None, 'entropy' or an instance stands for."""
    if reweight is None or isinstance(reweight, Entropy):
        return reweight
    if reweight == "entropy":
        return Entropy()
    message = f"reweight must be None, 'entropy' or Entropy(...), got {reweight!r}"
    raise (ValueError if isinstance(reweight, str) else TypeError)(message)


@dataclass(frozen=True, slots=True)
class Scoring:
    """One candidate: a score of the reweighted, tempered logits ``z / (w T)``.

    Parameters
    ----------
    score
        A score or its name.
    reweight
        None, ``"entropy"`` or an `Entropy`.
    temperature
        T; 0 and infinity only for scores with limits there.
    """

    score: Score
    reweight: Entropy | None = None
    temperature: float = 1.0
    core: _core.Scoring = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        assign = object.__setattr__
        assign(self, "score", as_score(self.score))
        assign(self, "reweight", as_reweight(self.reweight))
        assign(self, "temperature", as_number(self.temperature, "temperature"))
        reweighting = {"gamma": 0.0, "power": 0.0} if self.reweight is None else asdict(self.reweight)
        core = _core.Scoring(
            self.score.name,
            **self.score.parameters(),  # type: ignore[arg-type]
            **reweighting,
            temperature=self.temperature,
        )
        assign(self, "core", core)

    def __reduce__(self) -> tuple[Any, ...]:
        return Scoring, (self.score, self.reweight, self.temperature)

    def __str__(self) -> str:
        parameters = ", ".join(f"{f.name}={getattr(self.score, f.name)}" for f in fields(self.score))
        text = f"{self.score.name}({parameters})" if parameters else self.score.name
        if self.reweight is not None:
            text += f", gamma={self.reweight.gamma:g}"
            if self.reweight.power != 1.0:
                text += f", power={self.reweight.power:g}"
        return f"{text}, T={self.temperature:g}"

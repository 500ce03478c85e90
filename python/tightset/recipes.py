"""Recipes: which candidates are considered and how one of them is selected.

Every list of candidates is fixed before the data are seen and is the same for every alpha. A grid
read from the calibration labels would break the symmetry that exact coverage needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Literal, TypeAlias

import numpy as np

from tightset._inputs import as_number
from tightset.scores import Entropy, Score, Scoring, as_reweight, as_score

Selection: TypeAlias = Literal["modsel", "held-out", "paper", "released"]
_SELECTIONS: tuple[Selection, ...] = ("modsel", "held-out", "paper", "released")

_LARGEST_HANDICAP = 100  # weights stay within 32 bits for every n and alpha

_HALF_OCTAVES = tuple(2.0 ** (j / 2) for j in range(-8, 21))
_OCTAVES = tuple(2.0**j for j in range(-4, 19))


def automatic_temperatures(score: Score, reweight: Entropy | None) -> tuple[float, ...]:
    """Return the fixed grid of temperatures for a score and a reweighting.

    Half octaves from 2^-4 to 2^10, or octaves from 2^-4 to 2^18 where the weight may be nearly 0
    (gamma below 0.1 with a positive power); 0 and infinity for the scores that have limits there.
    """
    wide = reweight is not None and reweight.gamma < 0.1 and reweight.power > 0
    finite = _OCTAVES if wide else _HALF_OCTAVES
    return (0.0, *finite, float("inf")) if score.has_limits else finite


@dataclass(frozen=True, slots=True, init=False)
class Recipe:
    """Which candidates are considered and how one is selected.

    Parameters
    ----------
    score
        A score, its name, or a sequence of them.
    reweight
        None, ``"entropy"``, an `Entropy`, or a sequence of them.
    temperature
        A number, a sequence of numbers, or ``"auto"`` for a fixed grid that suits each score and
        reweighting.
    selection
        How one of several candidates is selected. ``"modsel"``: on all the data, the new row among
        them; coverage is exact (Liang, Zhu & Barber 2024). ``"held-out"``: on a quarter of the data,
        the threshold from the rest; coverage is exact. ``"paper"``: Algorithm 1 of Luo & Colombo, sizes
        on one half with thresholds from the other, final threshold from both; coverage is
        approximate. ``"released"``: the same, final threshold from the first half. None: there is
        one candidate, and all data calibrate it.
    handicap
        How much smaller the sets of these candidates must be than those of joined recipes to be selected
        by ``"modsel"``, as a share in units of ``1 / sqrt(n * alpha) + 4 / (n * alpha)``, n the calibration
        rows. Fixed before the data are seen, so coverage stays exact.

    Examples
    --------
    >>> import tightset as ts
    >>> recipe = ts.Recipe(score="aps", reweight=["entropy", None], temperature=[0.5, 1, 2],
    ...                    selection="modsel")
    >>> len(recipe.candidates)
    6

    Recipes with the same selection are joined by ``|``; the candidates are those of both:

    >>> len((recipe | ts.Recipe("thr", None, [1, 2], "modsel")).candidates)
    8
    """

    score: tuple[Score, ...]
    reweight: tuple[Entropy | None, ...]
    temperature: tuple[float, ...] | Literal["auto"]
    selection: Selection | None
    handicap: float
    joined: tuple[Recipe, ...]

    def __init__(
        self,
        score: object = "aps",
        reweight: object = None,
        temperature: object = 1.0,
        selection: Selection | None = None,
        *,
        handicap: float = 0.0,
    ) -> None:
        if selection is not None and selection not in _SELECTIONS:
            names = ", ".join(repr(name) for name in _SELECTIONS)
            message = f"selection must be None or one of {names}, got {selection!r}"
            raise ValueError(message)
        assign = object.__setattr__
        assign(self, "score", tuple(as_score(s) for s in _each(score, "score")))
        assign(self, "reweight", tuple(as_reweight(r) for r in _each(reweight, "reweight")))
        assign(self, "temperature", _temperatures(temperature))
        assign(self, "selection", selection)
        assign(self, "handicap", as_number(handicap, "handicap"))
        if not 0 <= self.handicap <= _LARGEST_HANDICAP:
            message = f"handicap must be between 0 and {_LARGEST_HANDICAP}, got {handicap!r}"
            raise ValueError(message)
        assign(self, "joined", ())
        candidates = self.candidates  # refuses combinations that have no meaning
        if selection is None and len(candidates) > 1:
            message = f"selection must say how to choose among {len(candidates)} candidates, got None"
            raise ValueError(message)

    @property
    def candidates(self) -> tuple[Scoring, ...]:
        """All combinations of score, reweighting and temperature, in this order, then the joined ones.

        A candidate that stands twice counts where it stands first.
        """
        return tuple(self._handicaps())

    def _handicaps(self) -> dict[Scoring, float]:
        """Return the handicap of each candidate, in their order."""
        found: dict[Scoring, float] = {}
        for part in self.parts if self.joined else (self,):
            for candidate in part._own():
                found.setdefault(candidate, part.handicap)
        return found

    def _own(self) -> tuple[Scoring, ...]:
        return tuple(
            Scoring(score, reweight, temperature)
            for score, reweight in product(self.score, self.reweight)
            for temperature in (
                automatic_temperatures(score, reweight) if self.temperature == "auto" else self.temperature
            )
        )

    def __or__(self, other: object) -> Recipe:
        if not isinstance(other, Recipe):
            return NotImplemented
        return joined((self, other))

    @property
    def parts(self) -> tuple[Recipe, ...]:
        """The recipes that were joined, each with its own score, reweighting and temperature."""
        return (self._joined_with(()), *self.joined)

    def _joined_with(self, others: tuple[Recipe, ...]) -> Recipe:
        """Return a copy with others in place of what it is joined with; nothing is checked again."""
        copied = object.__new__(Recipe)
        for field in fields(self):
            object.__setattr__(copied, field.name, getattr(self, field.name))
        object.__setattr__(copied, "joined", others)
        return copied

    @property
    def handicaps(self) -> tuple[float, ...]:
        """The handicap of each candidate."""
        return tuple(self._handicaps().values())

    def with_selection(self, selection: Selection) -> Recipe:
        """Return the same candidates under another selection."""
        return joined(
            [Recipe(r.score, r.reweight, r.temperature, selection, handicap=r.handicap) for r in self.parts]
        )


def joined(recipes: Sequence[Recipe]) -> Recipe:
    """Return the recipe with the candidates of all: ``|`` for many at once, in linear time."""
    first, *rest = recipes
    for other in rest:
        if first.selection is None or first.selection != other.selection:
            message = (
                "recipes are joined when they have the same selection, "
                f"got {first.selection!r} and {other.selection!r}"
            )
            raise ValueError(message)
    return first._joined_with((*first.joined, *(part for other in rest for part in other.parts)))


def _each(value: object, name: str) -> Iterable[object]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            message = f"{name} must not be empty"
            raise ValueError(message)
        return value
    return (value,)


def _temperatures(temperature: object) -> tuple[float, ...] | Literal["auto"]:
    if isinstance(temperature, str):
        if temperature == "auto":
            return "auto"
        message = f"temperature must be numbers or 'auto', got {temperature!r}"
        raise ValueError(message)
    if isinstance(temperature, np.ndarray):
        temperature = temperature.tolist()
    return tuple(as_number(t, "temperature") for t in _each(temperature, "temperature"))


_PLAIN_AND_REWEIGHTED = (None, Entropy(0.0), Entropy(0.1), Entropy(1.0))


def _fixed(score: str) -> Callable[[], Recipe]:
    return lambda: Recipe(score)


def _selected(score: str) -> Callable[[], Recipe]:
    return lambda: Recipe(score, _PLAIN_AND_REWEIGHTED, "auto", "modsel")


def _tightest() -> Recipe:
    from tightset.tightest import CANDIDATES

    return joined([Recipe(s, r, t, "modsel", handicap=handicap) for handicap, s, r, t in CANDIDATES])


_RECIPES: dict[str, Callable[[], Recipe]] = {
    "paper": lambda: Recipe("aps", Entropy(0.0), "auto", "paper"),
    "released": lambda: Recipe("aps", Entropy(1.0), np.logspace(-1, 1, 5), "released"),
    "tightest": _tightest,
    **{f"er-{name}": _selected(name) for name in ("aps", "raps", "saps", "thr", "rank")},
    **{name: _fixed(name) for name in ("thr", "aps", "raps", "saps", "rank", "mixed")},
}

recipe_names: tuple[str, ...] = tuple(_RECIPES)
"""Names that `calibrate` accepts as its recipe."""


def as_recipe(recipe: object) -> Recipe:
    """Return the recipe that a name or an instance stands for."""
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, str):
        if recipe in _RECIPES:
            return _RECIPES[recipe]()
        names = ", ".join(repr(name) for name in recipe_names)
        message = f"recipe must be one of {names} or a Recipe, got {recipe!r}"
        raise ValueError(message)
    message = f"recipe must be a name or a Recipe, such as Recipe(RAPS()), got {recipe!r}"
    raise TypeError(message)

"""Names of methods: a recipe, or a recipe calibrated in another way, such as ``aps/label``.

`tightset compare` and `comparison.compare` take these names. What stands after the slash says what is
different from `tightset.calibrate` with that recipe; `WAYS` lists it, and `ALL` is what ``--all`` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias

from tightset import averaged, localised, reweighted, transforms
from tightset._inputs import ArrayLike
from tightset.calibration import calibrate
from tightset.recipes import as_recipe, recipe_names
from tightset.sets import PredictionSets

__all__ = ["Method", "as_method", "available", "method_names"]

Guarantee: TypeAlias = Literal["marginal", "approximate", "pac", "label", "cluster"]

RECIPES = ("paper", "released", "er-aps", "aps", "raps", "saps", "thr", "rank", "tightest")
"""The recipes that are compared by default: the paper's, its baselines, and what it left out."""

GAMMAS = (0.1, 1.0, 10.0, 100.0)
TAUS = (0.5, 1.0, 4.0, 16.0, 64.0, 256.0)
"""What `entropy` and `energy` select from: from far below to far above the usual values, 1."""

_TRANSFORMS = ("temperature-nll", "confts", "vector-scaling", "isotonic", "spline", "entropy-spline")
_NEEDS = {"isotonic": ("sklearn.isotonic",), "spline": ("sklearn.preprocessing", "sklearn.linear_model")}
_CONDITIONS: dict[str, Guarantee] = {"label": "label", "cluster": "cluster", "rc3p": "label"}
_DIVIDED: dict[str, dict[str, Any]] = {
    "entropy": {"divide_by": "entropy", "gamma": GAMMAS},
    "energy": {"divide_by": "energy", "tau": TAUS},
    "entropy-1": {"divide_by": "entropy", "gamma": 1.0},
    "energy-1": {"divide_by": "energy", "tau": 1.0},
}

WAYS: dict[str, str] = {
    "label": "a threshold for each label",
    "cluster": "a threshold for each cluster of labels",
    "rc3p": "a threshold for each label, labels of a low rank left out",
    "pac": "coverage of all but a tenth of calibrations is at least the level",
    "entropy": "scores divided by gamma + entropy, gamma selected",
    "energy": "scores times the energy, its temperature selected",
    "entropy-1": "scores divided by 1 + entropy",
    "energy-1": "scores times the energy at temperature 1",
    "temperature-nll": "after a temperature fitted by likelihood",
    "confts": "after a temperature fitted by the conformal loss",
    "vector-scaling": "after a factor and a shift for each label",
    "isotonic": "after isotonic calibration of each label",
    "spline": "after spline calibration of each label",
    "entropy-spline": "after a temperature that is a spline of the entropy",
    "rlcp": "a threshold for each row, from calibration rows near it",
}
"""What may stand after the slash, in words."""

ALL = (
    *RECIPES,
    *(f"{score}/{way}" for score in ("aps", "thr") for way in WAYS if not way.endswith("-1")),
    "averaged",
)
"""What ``tightset compare --all`` compares."""

# Rows times labels of a split, at most; beyond it a comparison draws rows. These methods work in NumPy or
# scikit-learn, or read all calibration rows for each new row; the others work in Rust.
_MOST_ENTRIES = 500_000
_FEWEST_ROWS = 1000


class SetPredictor(Protocol):
    """What every method calibrates."""

    @property
    def n_calibration(self) -> int:
        """Rows that set the threshold."""

    def predict_set(self, logits: ArrayLike, /) -> PredictionSets:
        """Return the prediction set of each row."""


@dataclass(frozen=True, slots=True)
class Method:
    """A way to get from rows to predictors, by name.

    Attributes
    ----------
    name, recipe, way
        ``"aps/label"`` is the recipe ``"aps"`` in the way ``"label"``; None where there is none.
    guarantee
        Coverage is at least 1 - alpha: ``"marginal"``, on average; ``"label"`` or ``"cluster"``, for each of
        them; ``"pac"``, in all but a tenth of calibrations; ``"approximate"``, nearly, on average.
    """

    name: str
    recipe: str | None
    way: str | None
    guarantee: Guarantee
    _run: Callable[..., tuple[SetPredictor, ...]]
    _code: str

    @property
    def is_slow(self) -> bool:
        """Whether a comparison gives it a part of many rows only."""
        return self.recipe is None or self.way in (*_TRANSFORMS, *_DIVIDED, "rlcp")

    @property
    def needs(self) -> tuple[str, ...]:
        """Modules beyond NumPy that it imports, from the extra ``sklearn``."""
        return _NEEDS.get(self.way or "", ())

    def calibrate(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        alphas: Sequence[float],
        seed: int = 0,
        *,
        probabilities: bool = False,
    ) -> tuple[SetPredictor, ...]:
        """Return a predictor for each alpha, with the coverage that `guarantee` names."""
        return self._run(logits, labels, list(alphas), seed=seed, probabilities=probabilities)

    def code(self, alpha: float, *, probabilities: bool) -> str:
        """Return Python code that calibrates it on `logits` and `labels`."""
        extra = ", probabilities=True" if probabilities else ""
        return self._code.format(alpha=f"alpha={alpha:g}") + extra + ")"

    def most_rows(self, n_labels: int) -> int | None:
        """Return the rows of a split that a comparison gives it at most, None for all."""
        return max(_FEWEST_ROWS, _MOST_ENTRIES // n_labels) if self.is_slow else None


def as_method(name: object) -> Method:
    """Return the method of a name, such as ``"thr"`` or ``"aps/label"``.

    Examples
    --------
    >>> from tightset.methods import as_method
    >>> as_method("aps/label").guarantee, as_method("paper").guarantee
    ('label', 'approximate')
    """
    if not isinstance(name, str) or name not in _names():
        message = f"recipes must be {names_in_words()}, got {name!r}"
        raise (ValueError if isinstance(name, str) else TypeError)(message)
    recipe, _, way = name.partition("/")
    if name == "averaged":
        code = "ts.averaged.calibrate(logits, labels, {alpha}"
        return Method(name, None, None, "marginal", _each_alpha(averaged.calibrate), code)
    if way in ("", "pac", *_CONDITIONS):
        options: dict[str, Any] = {} if not way else {"condition": way}
        if way == "pac":
            options = {"guarantee": "pac"}
        code = f'ts.calibrate(logits, labels, {{alpha}}, recipe="{recipe}"{_shown(options)}'
        guarantee = _CONDITIONS.get(way, "pac" if way == "pac" else _guarantee(recipe))
        run: Any = partial(calibrate, recipe=recipe, **options)
        return Method(name, recipe, way or None, guarantee, run, code)
    if way in _TRANSFORMS:
        transform = f'"{way}"'
        if way == "entropy-spline":
            transform = f'ts.transforms.EntropySpline({{alpha}}, score="{_spline_score(recipe)}")'
        code = f'ts.transforms.calibrate(logits, labels, {{alpha}}, recipe="{recipe}", transform={transform}'
        return Method(name, recipe, way, _guarantee(recipe), _each_alpha(_transformed(recipe, way)), code)
    if way == "rlcp":
        code = f'ts.localised.calibrate(logits, labels, {{alpha}}, score="{recipe}"'
        run = _each_alpha(partial(localised.calibrate, score=recipe))
    else:
        options = _DIVIDED[way]
        code = f'ts.reweighted.calibrate(logits, labels, {{alpha}}, score="{recipe}"{_shown(options)}'
        run = _each_alpha(partial(reweighted.calibrate, score=recipe, **options))
    return Method(name, recipe, way, "marginal", run, code)


def method_names() -> tuple[str, ...]:
    """Return all names: recipes, recipes in each way that they can be calibrated in, and ``"averaged"``.

    Examples
    --------
    >>> from tightset.methods import method_names
    >>> "aps/rlcp" in method_names(), "paper/rlcp" in method_names()
    (True, False)
    """
    return tuple(_names())


def available(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the methods that can run here, and those that need scikit-learn where it is not installed.

    Examples
    --------
    >>> from tightset.methods import available
    >>> available(["thr", "aps/label"])
    (('thr', 'aps/label'), ())
    """
    missing = tuple(name for name in names if not all(map(_is_importable, as_method(name).needs)))
    return tuple(name for name in names if name not in missing), missing


def _is_importable(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True


def names_in_words() -> str:
    """Return which names there are, shorter than a list of all."""
    return (
        f"some of {', '.join(recipe_names)}, averaged, or one of them with what is done besides, as in "
        f"aps/label: {', '.join(WAYS)}; plain scores take all of these, paper and released the transforms, "
        "the other recipes all but entropy, energy and rlcp, and averaged none"
    )


@cache
def _names() -> dict[str, None]:
    names = dict.fromkeys(recipe_names)
    for recipe in recipe_names:
        selection = as_recipe(recipe).selection
        for way in WAYS:
            conditional = way in _CONDITIONS or way == "pac"
            if (
                way in _TRANSFORMS
                or selection is None
                or (conditional and selection not in ("paper", "released"))
            ):
                names[f"{recipe}/{way}"] = None
    names["averaged"] = None
    return names


def _guarantee(recipe: str) -> Guarantee:
    return "approximate" if as_recipe(recipe).selection in ("paper", "released") else "marginal"


def _shown(options: dict[str, Any]) -> str:
    return "".join(f", {key}={value!r}".replace("'", '"') for key, value in options.items())


def _spline_score(recipe: str) -> Literal["thr", "aps"]:
    """Return which of the two scores that a spline is fitted for is nearer to the recipe's."""
    return "thr" if recipe.endswith("thr") else "aps"


def _transformed(recipe: str, way: str) -> Callable[..., SetPredictor]:
    def run(logits: ArrayLike, labels: ArrayLike, alpha: float, **given: Any) -> SetPredictor:
        transform: Any = way
        if way == "entropy-spline":
            transform = transforms.EntropySpline(alpha, _spline_score(recipe))
        return transforms.calibrate(logits, labels, alpha, recipe, transform=transform, **given)

    return run


def _each_alpha(run: Callable[..., SetPredictor]) -> Callable[..., tuple[SetPredictor, ...]]:
    """Return the same for several levels, one after the other."""

    def all_levels(logits: ArrayLike, labels: ArrayLike, alphas: Sequence[float], **given: Any) -> Any:
        return tuple(run(logits, labels, alpha=alpha, **given) for alpha in alphas)

    return all_levels

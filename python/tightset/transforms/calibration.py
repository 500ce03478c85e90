"""Fitting transforms and calibrating on what they return, on different rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TypeAlias

import numpy as np

from tightset import _core
from tightset._inputs import (
    ArrayLike,
    as_alpha,
    as_flag,
    as_labels,
    as_logits,
    as_number,
    as_row_ids,
    as_seed,
    warn_if_probabilities,
)
from tightset.calibration import calibrate as calibrate_logits
from tightset.recipes import Recipe
from tightset.transforms.files import KINDS
from tightset.transforms.predictor import TransformedPredictor, transformed
from tightset.transforms.transform import Transform, row_blocks

TransformLike: TypeAlias = Transform | str


def calibrate(
    logits: ArrayLike,
    labels: ArrayLike,
    alpha: float = 0.1,
    recipe: str | Recipe = "er-aps",
    *,
    transform: TransformLike | Sequence[TransformLike],
    tuning: float = 0.25,
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> TransformedPredictor:
    """Fit transforms on a part of the rows and calibrate a recipe on the others, transformed.

    For a new row exchangeable with these, the set contains its label with probability at least 1 - alpha, as
    exactly as the recipe has it without transforms: none of them sees a row that calibrates.

    Parameters
    ----------
    logits
        Array of shape (n, K), as in `tightset.calibrate`.
    labels
        Integers of shape (n,).
    alpha
        Miscoverage, strictly between 0 and 1.
    recipe
        A recipe or its name, as in `tightset.calibrate`.
    transform
        A transform, the name of one with its defaults and this alpha (``"temperature-nll"``, ``"confts"``,
        ``"vector-scaling"``, ``"isotonic"``, ``"spline"``, ``"entropy-spline"``), or a sequence of them, each
        fitted on what those before it return.
    tuning
        Share of the rows that the transforms are fitted on. 0 takes them as they are: fitted before, on rows
        that are not among these.
    seed
        Seed of the split and of the randomised scores.
    row_ids, probabilities, n_threads
        As in `tightset.calibrate`.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(1)
    >>> labels = rng.integers(4, size=2000)
    >>> logits = 3 * rng.normal(size=(2000, 4)) + 6 * np.eye(4)[labels]
    >>> chain = [ts.transforms.VectorScaling(), ts.transforms.EntropySpline(alpha=0.1)]
    >>> predictor = ts.transforms.calibrate(logits[:1000], labels[:1000], 0.1, "thr", transform=chain)
    >>> predictor.n_tuning, predictor.n_calibration
    (250, 750)
    >>> 0.85 < predictor.predict_set(logits[1000:]).coverage(labels[1000:]) < 0.95
    True
    """
    array = as_logits(logits)
    truth = as_labels(labels, len(array))
    level, start = as_alpha(alpha), as_seed(seed)
    is_probability = as_flag(probabilities, "probabilities")
    ids = as_row_ids(row_ids, len(array))
    _core.ranks(array, truth, probabilities=is_probability)
    if not is_probability:
        warn_if_probabilities(array, stacklevel=2)
    chain = as_chain(transform, level)
    share = as_number(tuning, "tuning")
    if not 0.0 <= share < 1.0:
        message = f"tuning must be at least 0 and below 1, got {share}"
        raise ValueError(message)
    n_tuning = int(share * len(array))
    order = _core.permutation(start, len(array))
    held, rest = np.sort(order[:n_tuning]), np.sort(order[n_tuning:])
    if share > 0.0:
        fitted: tuple[Transform, ...] = ()
        tuned = transformed((), array[held], probabilities=is_probability)
        for part in chain:
            fitted = (*fitted, part.fit(tuned, truth[held]))
            tuned = fitted[-1].apply(tuned)
        chain = fitted
    for part in chain:
        if not part.is_fitted:
            message = f"transform must be fitted where tuning is 0, got {part}"
            raise ValueError(message)
    rows = np.empty((len(rest), array.shape[1]))
    for place in row_blocks(rows):
        rows[place] = transformed(chain, array[rest[place]], probabilities=is_probability)
    predictor = calibrate_logits(
        rows,
        truth[rest],
        level,
        recipe,
        seed=start,
        row_ids=None if ids is None else ids[rest],
        n_threads=n_threads,
    )
    return TransformedPredictor(
        chain=chain, predictor=predictor, probabilities=is_probability, n_tuning=n_tuning
    )


def as_chain(transform: TransformLike | Sequence[TransformLike], alpha: float) -> tuple[Transform, ...]:
    """Return the transforms that names and instances stand for."""
    is_one = isinstance(transform, (str, Transform))
    parts: Sequence[object] = [transform] if is_one else transform  # type: ignore[assignment]
    if not isinstance(parts, (list, tuple)) or not parts:
        message = f"transform must be a transform, its name, or a sequence of them, got {transform!r}"
        raise TypeError(message)
    found = []
    for part in parts:
        if isinstance(part, Transform):
            found.append(part)
            continue
        if not isinstance(part, str) or part not in KINDS:
            names = ", ".join(repr(name) for name in KINDS)
            message = f"transform must be one of {names} or a transform, got {part!r}"
            raise (ValueError if isinstance(part, str) else TypeError)(message)
        made = KINDS[part]()
        has_alpha = any(f.name == "alpha" for f in fields(made))
        found.append(replace(made, alpha=alpha) if has_alpha else made)  # type: ignore[call-arg]
    return tuple(found)

"""Ranks and nonconformity scores on plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import (
    ArrayLike,
    as_flag,
    as_labels,
    as_logits,
    as_row_ids,
    as_seed,
    as_thread_count,
    as_uniforms,
)
from tightset.scores import ReweightLike, ScoreLike, Scoring


def ranks(
    logits: ArrayLike, labels: ArrayLike, *, probabilities: bool = False, n_threads: int | None = None
) -> NDArray[np.int64]:
    """Return the rank of each row's label: 1 for the largest logit, ties by lower label first.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.ranks([[0.1, 3.0, 2.0], [1.0, 1.0, 0.0]], [2, 1])
    array([2, 2])
    """
    array = as_logits(logits)
    return _core.ranks(
        array,
        as_labels(labels, len(array)),
        probabilities=as_flag(probabilities, "probabilities"),
        n_threads=as_thread_count(n_threads),
    )


def label_scores(
    logits: ArrayLike,
    labels: ArrayLike,
    score: ScoreLike = "aps",
    *,
    reweight: ReweightLike = "entropy",
    temperature: float | Sequence[float] | NDArray[Any] = 1.0,
    u: ArrayLike | None = None,
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    ranked: bool = False,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> NDArray[np.float64]:
    """Return the nonconformity score of each row's label; low means conforming.

    Given the seed, a score is a fixed function of (x, y): calibration and test scores of
    exchangeable rows are exchangeable.

    Parameters
    ----------
    logits
        Array of shape (n, K).
    labels
        Integers of shape (n,).
    score
        ``"thr"``, ``"aps"``, ``"raps"``, ``"saps"``, ``"rank"``, ``"mixed"``, or a score object.
    reweight
        ``"entropy"``, the default, for the paper's ``z / (H T)``, None for the plain score (as in the
        recipe of the same name), or an `Entropy`.
    temperature
        One number, or several for several runs of scores from one reading of the data.
    u
        U in [0, 1]: None for a number that the row and the seed determine, one number for all rows
        (1 is the inclusive deterministic form), or one for each.
    seed
        Seed of U.
    row_ids
        Integers mixed into U, for data with many identical rows.
    ranked
        Whether to return the scale that is ranked and compared: an increasing transform that keeps
        apart what the conventional one, saturated or at T = 0 and infinity, ties.
    probabilities, n_threads
        As in `entropy`.

    Returns
    -------
    Array of shape (n,), or (m, n) for m temperatures, float64.

    Examples
    --------
    >>> import tightset as ts
    >>> logits = [[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]]
    >>> ts.label_scores(logits, [0, 2], "aps", reweight=None, u=1.0).round(4)
    array([0.6652, 0.958 ])
    """
    array = as_logits(logits)
    is_one = not isinstance(temperature, (Sequence, np.ndarray)) or isinstance(temperature, str)
    levels: Sequence[Any] = [temperature] if is_one else temperature  # type: ignore[assignment]
    if not len(levels):
        message = "temperature must not be empty"
        raise ValueError(message)
    candidates = [Scoring(score, reweight, t).core for t in levels]  # type: ignore[arg-type]
    scores = _core.label_scores(
        array,
        as_labels(labels, len(array)),
        candidates,
        ranked=as_flag(ranked, "ranked"),
        seed=as_seed(seed),
        u=as_uniforms(u, len(array)),
        row_ids=as_row_ids(row_ids, len(array)),
        probabilities=as_flag(probabilities, "probabilities"),
        n_threads=as_thread_count(n_threads),
    )
    return scores[0] if is_one else scores


def all_scores(
    logits: ArrayLike,
    score: ScoreLike = "aps",
    *,
    reweight: ReweightLike = "entropy",
    temperature: float = 1.0,
    u: ArrayLike | None = None,
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    ranked: bool = False,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> NDArray[np.float64]:
    """Return the nonconformity score of every label of every row.

    Each equals what `label_scores` gives for that label, to the bit. Parameters are those of
    `label_scores`, with one temperature.

    Returns
    -------
    Array of shape (n, K), float64.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.all_scores([[2.0, 1.0, 0.0]], "thr", reweight=None).round(4)
    array([[0.3348, 0.7553, 0.91  ]])
    """
    array = as_logits(logits)
    return _core.all_scores(
        array,
        Scoring(score, reweight, temperature).core,  # type: ignore[arg-type]
        ranked=as_flag(ranked, "ranked"),
        seed=as_seed(seed),
        u=as_uniforms(u, len(array)),
        row_ids=as_row_ids(row_ids, len(array)),
        probabilities=as_flag(probabilities, "probabilities"),
        n_threads=as_thread_count(n_threads),
    )

"""Building blocks on plain arrays: uncertainty, softmax, ranks, scores, quantile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import (
    ArrayLike,
    as_alpha,
    as_labels,
    as_logits,
    as_number,
    as_row_ids,
    as_seed,
    as_thread_count,
    as_uniforms,
)
from tightset.scores import Entropy, ReweightLike, ScoreLike, Scoring, as_reweight, as_score, scoring


def entropy(
    logits: ArrayLike, *, probabilities: bool = False, n_threads: int | None = None
) -> NDArray[np.float64]:
    """Return the entropy of each row's softmax, in nats, without cancellation.

    Parameters
    ----------
    logits
        Array of shape (n, K); ``-inf`` marks a label that cannot occur.
    probabilities
        Whether `logits` holds probabilities instead.
    n_threads
        Threads to use at most; all that the machine allows by default.

    Returns
    -------
    Array of shape (n,), float64, at least 0.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.entropy([[0.0, 0.0], [50.0, 0.0]])
    array([6.93147181e-01, 9.83662422e-21])
    """
    return _uncertainty(logits, "entropy", probabilities, n_threads)


def margin(
    logits: ArrayLike, *, probabilities: bool = False, n_threads: int | None = None
) -> NDArray[np.float64]:
    """Return the difference of each row's two largest probabilities; 1 for a single label.

    Parameters are those of `entropy`.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.margin([[0.6, 0.3, 0.1]], probabilities=True).round(12)
    array([0.3])
    """
    return _uncertainty(logits, "margin", probabilities, n_threads)


def gini(
    logits: ArrayLike, *, probabilities: bool = False, n_threads: int | None = None
) -> NDArray[np.float64]:
    """Return the Gini impurity ``sum f (1 - f)`` of each row's softmax.

    Parameters are those of `entropy`.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.gini([[0.0, 0.0]])
    array([0.5])
    """
    return _uncertainty(logits, "gini", probabilities, n_threads)


def _uncertainty(
    logits: ArrayLike, measure: str, probabilities: bool, n_threads: int | None
) -> NDArray[np.float64]:
    return _core.uncertainty(
        as_logits(logits), measure, probabilities=probabilities, n_threads=as_thread_count(n_threads)
    )


def softmax(
    logits: ArrayLike,
    reweight: ReweightLike = None,
    temperature: float = 1.0,
    *,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> NDArray[Any]:
    """Return the reweighted, tempered softmax of each row.

    Parameters
    ----------
    logits
        Array of shape (n, K).
    reweight
        None, ``"entropy"`` for the paper's ``z / (H T)``, or an `Entropy`.
    temperature
        T, with the limits 0 (uniform over the largest) and infinity (uniform over the possible).
    probabilities, n_threads
        As in `entropy`.

    Returns
    -------
    Array of shape (n, K): float32 for float16, bfloat16 and float32 logits, float64 otherwise.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.softmax([[1.0, 0.0, -1.0]], reweight="entropy").round(4)
    array([[0.7188, 0.2162, 0.065 ]])
    """
    weights = as_reweight(reweight) or Entropy(power=0.0)
    return _core.softmax(
        as_logits(logits),
        gamma=weights.gamma,
        power=weights.power,
        temperature=as_number(temperature, "temperature"),
        probabilities=probabilities,
        n_threads=as_thread_count(n_threads),
    )


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
        probabilities=probabilities,
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
        ``"thr"``, ``"aps"``, ``"raps"``, ``"saps"``, ``"rank"``, or a score object.
    reweight
        None, ``"entropy"`` for the paper's ``z / (H T)``, or an `Entropy`.
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
        Whether to return the scale that is ranked and compared, which keeps full precision where
        the conventional one saturates. Both order labels alike.
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
    name, weights = as_score(score), as_reweight(reweight)
    is_one = np.ndim(temperature) == 0
    levels = [temperature] if is_one else list(temperature)  # type: ignore[arg-type]
    candidates = [Scoring(name, weights, as_number(t, "temperature")).core for t in levels]
    scores = _core.label_scores(
        array,
        as_labels(labels, len(array)),
        candidates,
        ranked=ranked,
        seed=as_seed(seed),
        u=as_uniforms(u, len(array)),
        row_ids=as_row_ids(row_ids, len(array)),
        probabilities=probabilities,
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
        scoring(score, reweight, temperature).core,
        ranked=ranked,
        seed=as_seed(seed),
        u=as_uniforms(u, len(array)),
        row_ids=as_row_ids(row_ids, len(array)),
        probabilities=probabilities,
        n_threads=as_thread_count(n_threads),
    )


def conformal_rank(n: int, alpha: float) -> int:
    """Return ``ceil((n + 1) (1 - alpha))``, computed in integers.

    Alpha is rounded to 12 significant digits and then taken as an exact decimal. The `rank`-th
    smallest of n calibration scores covers a new exchangeable score with probability at least
    1 - alpha; a rank above n means that no finite threshold does.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.conformal_rank(99, 0.1), ts.conformal_rank(99, 1 - 0.9)
    (90, 90)
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
        message = f"n must be an integer of at least 0, got {n!r}"
        raise ValueError(message)
    return _core.conformal_rank(int(n), as_alpha(alpha))


def conformal_threshold(scores: ArrayLike, alpha: float) -> float:
    """Return the `conformal_rank`-th smallest score, or infinity when there are too few.

    For exchangeable scores, the next one is at most this threshold with probability at least
    1 - alpha.

    Parameters
    ----------
    scores
        Calibration scores of shape (n,), without NaN.
    alpha
        Miscoverage, strictly between 0 and 1.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.conformal_threshold([0.1, 0.5, 0.3, 0.9], 0.4)
    0.5
    """
    array = np.asarray(scores)
    if array.dtype.kind not in "fiu":
        message = f"scores must be real numbers, got dtype {array.dtype}"
        raise TypeError(message)
    if array.ndim != 1 or not len(array):
        message = f"scores must have shape (n,) with n at least 1, got {array.shape}"
        raise ValueError(message)
    array = np.ascontiguousarray(array, dtype=np.float64)
    return _core.kth_smallest(array, conformal_rank(len(array), alpha))

"""Uncertainty of each row, and the probabilities it is measured on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import ArrayLike, as_flag, as_logits, as_number, as_thread_count
from tightset.scores import Entropy, ReweightLike, as_reweight


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
        as_logits(logits),
        measure,
        probabilities=as_flag(probabilities, "probabilities"),
        n_threads=as_thread_count(n_threads),
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
        probabilities=as_flag(probabilities, "probabilities"),
        n_threads=as_thread_count(n_threads),
    )

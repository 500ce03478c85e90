"""Logits of a fitted scikit-learn classifier, by a stated rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset.integrations.class_numbers import class_numbers

METHODS = ("decision_function", "predict_log_proba", "predict_proba")


def method_for(estimator: Any, method: str) -> str:
    """Return the method that gives the logits: the one asked for, or the first that fits."""
    if method != "auto":
        if not hasattr(estimator, method):
            message = f"method={method!r}: {type(estimator).__name__} does not have it"
            raise TypeError(message)
        return method
    for name in METHODS:
        if hasattr(estimator, name) and not (name == "decision_function" and _votes_by_pairs(estimator)):
            return name
    message = f"estimator must have one of {', '.join(METHODS)}, got {type(estimator).__name__}"
    raise TypeError(message)


def logits_of(estimator: Any, method: str, X: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return logits of shape (n, K), a column for each of the classes.

    A class that the estimator did not see in training has ``-inf``: it cannot occur.
    """
    # A probability of zero is the logit -inf, not a mistake.
    with np.errstate(divide="ignore"):
        output = np.asarray(getattr(estimator, method)(X))
        logits = np.log(output) if method == "predict_proba" else output
    known = np.asarray(estimator.classes_)
    if logits.ndim == 1 and len(known) == 2:
        logits = np.stack([np.zeros_like(logits), logits], axis=1)
    if logits.ndim != 2 or logits.shape[1] != len(known):
        message = (
            f"{method} of {type(estimator).__name__} must have a column for each of the {len(known)} "
            f"classes, got shape {logits.shape}"
        )
        raise ValueError(message)
    if np.array_equal(known, classes):
        return logits
    wide = np.full((len(logits), len(classes)), -np.inf, dtype=logits.dtype)
    wide[:, class_numbers(classes, known)[0]] = logits
    return wide


def _votes_by_pairs(estimator: Any) -> bool:
    """Whether the decision function has a column for each pair of classes."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    return getattr(last, "decision_function_shape", None) == "ovo" and len(last.classes_) > 2

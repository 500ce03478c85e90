"""Scores divided by the uncertainty of their row, after they are computed.

`calibrate` is normalised conformal prediction for classifiers (Papadopoulos et al. 2008; the section on
reweighted scores in Luo & Colombo 2024) and, with the energy of the row, energy-reweighted conformal
classification (ICLR 2026). Entropy reweighting proper, of the logits before they are scored, is what
`tightset.calibrate` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from tightset._inputs import ArrayLike, as_number
from tightset.family.rule_calibration import calibrate_rules
from tightset.family.rule_predictor import RulePredictor, RuleSelection
from tightset.family.rules import Reweighted, Uncertainty
from tightset.scores import ScoreLike, as_score

__all__ = ["calibrate"]


def calibrate(
    logits: ArrayLike,
    labels: ArrayLike,
    alpha: float = 0.1,
    score: ScoreLike = "aps",
    divide_by: ArrayLike = "entropy",
    *,
    gamma: float | Sequence[float] | None = None,
    tau: float | Sequence[float] = 1.0,
    selection: RuleSelection = "modsel",
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> RulePredictor:
    """Calibrate a predictor with the score ``B = A / (gamma + g(x))``.

    For a new row exchangeable with these, the set contains its label with probability at least 1 - alpha,
    exactly: B is a fixed function of the row and the label, and among several gamma or tau the selection
    keeps that. Rows with a large g get lower scores and so more labels.

    Parameters
    ----------
    logits
        Array of shape (n, K), as in `tightset.calibrate`.
    labels
        Integers of shape (n,).
    alpha
        Miscoverage, strictly between 0 and 1.
    score
        A, on its conventional scale: a score or its name.
    divide_by
        g: ``"entropy"``, H of the row's softmax in nats; ``"energy"``, 1 / softplus(tau log sum exp(z /
        tau)), so that gamma = 0 multiplies by the softplus as energy-reweighted classification does; or an
        array with a number for each row, which prediction then needs too. The energy changes when a constant
        is added to a row's logits, as nothing else here does; for probabilities it is constant at tau = 1.
    gamma
        At least 0, or a sequence to select from. By default 1 for the entropy, since a row that the
        classifier is sure of would else be divided by almost 0, and 0 otherwise.
    tau
        Temperature of the energy, above 0, or a sequence to select from.
    selection
        How one of several combinations is selected: ``"modsel"`` on all rows, ``"held-out"`` on a quarter.
    seed, row_ids, probabilities, n_threads
        As in `tightset.calibrate`.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(1)
    >>> labels = rng.integers(4, size=2000)
    >>> logits = 3 * rng.normal(size=(2000, 4)) + 6 * np.eye(4)[labels]
    >>> old, new = slice(0, 1000), slice(1000, 2000)
    >>> predictor = ts.reweighted.calibrate(logits[old], labels[old], 0.1, "aps", "energy", tau=[1, 4, 16])
    >>> 0.85 < predictor.predict_set(logits[new]).coverage(labels[new]) < 0.95
    True

    With a measure of your own, here the logits' spread:

    >>> spread = 1 / logits.std(axis=1)
    >>> predictor = ts.reweighted.calibrate(logits[old], labels[old], 0.1, "thr", spread[old])
    >>> len(predictor.predict_set(logits[new], spread[new]))
    1000
    """
    is_given = not isinstance(divide_by, str)
    if divide_by is None:
        message = "divide_by must be 'entropy', 'energy' or an array with a value for each row, got None"
        raise TypeError(message)
    if gamma is None:
        gamma = 1.0 if isinstance(divide_by, str) and divide_by == "entropy" else 0.0
    if isinstance(divide_by, str) and divide_by not in ("entropy", "energy"):
        message = f"divide_by must be 'entropy', 'energy' or a value for each row, got {divide_by!r}"
        raise ValueError(message)
    by: Uncertainty = "given" if is_given else divide_by
    rules = [
        Reweighted(as_score(score), by, *parts)
        for parts in product(_numbers(gamma, "gamma"), _numbers(tau, "tau"))
    ]
    return calibrate_rules(
        rules,
        logits,
        labels,
        alpha,
        given=divide_by if is_given else None,
        selection=selection,
        seed=seed,
        row_ids=row_ids,
        probabilities=probabilities,
        n_threads=n_threads,
    )


def _numbers(value: float | Sequence[float], name: str) -> list[float]:
    if isinstance(value, (list, tuple, np.ndarray)):
        if not len(value):
            message = f"{name} must not be empty"
            raise ValueError(message)
        return [as_number(part, name) for part in value]
    return [as_number(value, name)]

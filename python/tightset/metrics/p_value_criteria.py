"""How efficient p-values are: the ten criteria of Vovk et al. (2016)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import ArrayLike, as_alpha, as_labels, as_p_values, check_columns
from tightset.quantile import as_understood


@dataclass(frozen=True, slots=True)
class PValueCriteria:
    """Means over rows; small is good. What needs alpha or labels is None without them.

    Attributes
    ----------
    s, u, f
        Sum of the p-values; unconfidence, the second largest; fuzziness, the sum of all but the largest.
    n, m, e
        With alpha: size of the set of labels with p-values above it; share of sets with several labels;
        labels beyond the first.
    ou, of
        With labels, "observed": the largest p-value of a wrong label; the sum of those of wrong labels.
    om, oe
        With both: share of sets with a wrong label; wrong labels in a set.
    """

    s: float
    u: float
    f: float
    n: float | None
    m: float | None
    e: float | None
    ou: float | None
    of: float | None
    om: float | None
    oe: float | None


def p_value_criteria(
    p_values: ArrayLike, labels: ArrayLike | None = None, alpha: float | None = None
) -> PValueCriteria:
    """Return the efficiency criteria of p-values (Vovk, Nouretdinov, Fedorova, Petej & Gammerman 2016).

    S, N, OF and OE are proper: true probabilities minimise them. The others are not. With one label
    there is no second or wrong one, and U and OU are 0.

    Parameters
    ----------
    p_values
        Shape (n, K), as `Predictor.predict_p` returns them.
    labels
        The true label of each row.
    alpha
        Level of the sets.

    Examples
    --------
    >>> import tightset as ts
    >>> found = ts.metrics.p_value_criteria([[0.5, 0.2, 0.1], [0.3, 0.4, 0.05]], [0, 0], alpha=0.1)
    >>> round(found.s, 3), round(found.f, 3), round(found.of, 3), found.n, found.oe
    (0.775, 0.325, 0.375, 2.0, 1.0)
    """
    p = as_p_values(p_values)
    n, k = p.shape
    level = None if alpha is None else as_alpha(alpha)
    inside = None if level is None else p > as_understood(level)
    largest = p.max(axis=1)
    second = np.partition(p, k - 2, axis=1)[:, k - 2] if k > 1 else np.zeros(n)
    sums = p.sum(axis=1)
    sizes = None if inside is None else inside.sum(axis=1)
    worst = of_wrong = wrong_labels = None
    if labels is not None:
        truth = as_labels(labels, n)
        check_columns(truth, k)
        wrong = p.copy()
        wrong[np.arange(n), truth] = 0.0
        worst, of_wrong = wrong.max(axis=1), wrong.sum(axis=1)
        if sizes is not None and inside is not None:
            wrong_labels = sizes - inside[np.arange(n), truth]
    return PValueCriteria(
        s=float(sums.mean()),
        u=float(second.mean()),
        f=float((sums - largest).mean()),
        n=_mean(sizes),
        m=None if sizes is None else float((sizes > 1).mean()),
        e=None if sizes is None else float((sizes - 1).clip(min=0).mean()),
        ou=_mean(worst),
        of=_mean(of_wrong),
        om=None if wrong_labels is None else float((wrong_labels > 0).mean()),
        oe=_mean(wrong_labels),
    )


def _mean(values: NDArray[np.float64] | NDArray[np.int64] | None) -> float | None:
    return None if values is None else float(values.mean())

"""APS scores of all labels beside NumPy doing the same: what p-values are made of."""

from __future__ import annotations

import numpy as np
import pytest

import numpy_forms
import tightset as ts
from workloads import title, workload

WORKLOADS = pytest.mark.parametrize("name", ["A", "B", "C"])
SHARE = 0.1
"""Of the rows: scores of all labels of A would take 400 MB."""


def some(name):
    logits, _ = workload(name)
    return logits[: int(SHARE * len(logits))]


def work(name):
    return f"scores of all labels, {title(name)}"


@WORKLOADS
def test_tightset(timed, name):
    logits = some(name)
    call = lambda: ts.all_scores(logits, "aps")  # noqa: E731
    timed(work(name), "tightset", call, share=SHARE)


@WORKLOADS
def test_textbook(timed, name):
    logits = some(name)
    scores = timed(
        work(name), "NumPy, textbook", lambda: numpy_forms.all_scores(logits), share=SHARE, rounds=3
    )
    ours = ts.all_scores(logits, "aps", u=0.5)
    # Labels of equal probability in another order.
    assert np.quantile(np.abs(scores - ours), 0.99) < 1e-4

"""Evaluations for the tests of the report: a real comparison, and one whose names are hostile."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import tightset as ts
from tightset.comparison import compare

HOSTILE = """<script>alert("x")</script> & 'friends' </title>"""


@cache
def real():
    data = ts.datasets.load("carer")
    return compare(
        data.logits,
        data.labels,
        name="carer",
        recipes=("paper", "er-aps", "aps", "raps", "thr"),
        levels=(0.90, 0.95, 0.99),
        n_splits=3,
    )


def hostile():
    """Names a user may choose, and texts that came from them."""
    found = real()
    return replace(
        found,
        dataset=HOSTILE,
        sentence=f"Use {HOSTILE}.",
        snippet=f"x = '{HOSTILE}'\n",
        details=tuple(replace(detail, candidate=HOSTILE) for detail in found.details),
    )

"""Ranks among scores that are never together."""

from __future__ import annotations

import numpy as np
import pytest

import tightset as ts
from tightset import _core
from tightset.streaming.ranks import RankSearch


@pytest.mark.parametrize(
    ("n", "block"),
    [(10**7, 10**6), pytest.param(10**9, 2**22, marks=[pytest.mark.slow, pytest.mark.timeout(3000)])],
)
def test_exact_rank_of_scores_that_are_never_together(n, block):
    """Scores generated from their numbers by a permutation, so that every order statistic is known."""
    # i -> a i + b mod n passes through every number once if a and n have no common divisor.
    a, b = 1_234_567_891, 987_654_321
    assert np.gcd(a, n) == 1
    search = RankSearch.over("all", [0], 2**22)
    ranks = [1, n // 3, ts.conformal_rank(n, 0.1) - 1, ts.conformal_rank(n, 0.1), n]
    search.aim([(0, rank) for rank in ranks])
    passes = 0
    while search.slots:
        passes += 1
        counted, kept = search.counted, search.kept
        counts = np.zeros((len(counted), 2**search.bits), dtype=np.uint64)
        keys = [[] for _ in kept]
        for start in range(0, n, block):
            i = np.arange(start, min(n, start + block), dtype=np.uint64)
            scores = score_of((i * np.uint64(a) + np.uint64(b)) % np.uint64(n))[np.newaxis]
            if counted:
                _core.count_digits(scores, *slots_of(search, counted), counts)
            if kept:
                for found, more in zip(keys, _core.keys_within(scores, *slots_of(search, kept)), strict=True):
                    found.append(more)
        search.narrow(counts, [np.concatenate(found) for found in keys], 2**22)
    assert [search.found[0, rank] for rank in ranks] == [score_of(rank - 1) for rank in ranks]
    assert passes <= 4


def score_of(number):
    # Increasing, of both signs, and rounded the same for one number as for many.
    return np.sqrt(number + 0.5) - 1000.0


def slots_of(search, indices):
    slots = [search.slots[i] for i in indices]
    return (
        [0] * len(slots),
        np.array([s.base for s in slots], dtype=np.uint64),
        np.array([s.width for s in slots], dtype=np.uint32),
    )

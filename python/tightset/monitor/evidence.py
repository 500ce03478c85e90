"""Evidence against exchangeability with the calibration scores, from whether each label is covered.

Let the threshold be the k-th smallest of n calibration scores. If calibration and new scores are
exchangeable and without ties, the new ones fall on its two sides like draws from a Polya urn,

    P(next is covered | the past) = (k + covered so far) / (n + 1 + seen so far),

because the next score is equally likely to have each rank among all that came before it. So the chance of
every path of covered and missed labels is known exactly, the luck of the calibration draw included, and for
any other law Q of such paths the ratio Q / P is a martingale of mean 1 under exchangeability. By Ville's
inequality it ever reaches 1 / level with probability at most level.

Q is a mixture: labels follow the urn until a change at an unknown time, from then on they are missed
independently with a fixed chance, one of a few. The ratio of one such chance q, with prior pi over times, is
kept by one number, since the changes that have happened share their future:

    wealth(t + 1) = (wealth(t) + pi(t)) Q(label t + 1) / P(label t + 1).

(A sum over changes as in Shiryaev (1963), with a prior so that it is a bet with a stake of 1.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Odds of a miss after a change, relative to those of the threshold's rank. For alpha = 0.1 they are misses of
# 14, 18, 25 and 40 %; the ratio is little worse for a chance between two of them.
ODDS = np.array([1.5, 2.0, 3.0, 6.0])

# A change before the first label has a quarter of the prior, later ones have a tail without a mean: after t
# labels the price of not knowing the time of the change is about 1.5 log t, in the logarithm of the evidence.
# Tried: half and quarter, scales 200 to 1000, tails 1/2 and 1: detection within 500 labels differs by 2 %.
AT_START, SCALE, TAIL = 0.25, 500.0, 0.5

MOST = 1e290
"""Where wealth stops growing; a martingale that is cut is one that only loses."""

BLOCK = 4096
"""Rows whose ratios are in memory at once."""


class CoverageEvidence:
    """The value of the bets, for one or several candidates, after any number of labels.

    Parameters
    ----------
    rank, n_calibration
        Of the threshold among the calibration scores; rank at most n_calibration.
    shares
        Prior of each candidate, fixed before any data were seen; their sum is at most 1. Each candidate's
        own ratio is valid if the candidate was fixed. One that was selected on the calibration scores is not,
        but the mixture of the ratios of all candidates is, and it is at least the part of those in use.
    """

    def __init__(self, rank: int, n_calibration: int, shares: NDArray[np.float64]) -> None:
        self.rank, self.n_calibration, self.shares = rank, n_calibration, shares
        missed = n_calibration + 1 - rank
        self._miss = ODDS * missed / (ODDS * missed + rank)
        self.n = 0
        self.covered = np.zeros(len(shares), dtype=np.int64)
        self.wealth = np.zeros((len(shares), len(ODDS)))

    @property
    def value(self) -> float:
        """The evidence: 1 at the start, and at most 1 in expectation at any time under exchangeability."""
        return float(self._values(self.wealth[np.newaxis], _uncommitted(np.array([self.n])))[0])

    def _values(self, wealth: NDArray[np.float64], uncommitted: NDArray[np.float64]) -> NDArray[np.float64]:
        # The part that is not yet bet is the same for all candidates, also for those not in use.
        weighted = wealth * (self.shares / len(ODDS))[:, np.newaxis]
        total: NDArray[np.float64] = uncommitted + weighted.reshape(len(wealth), -1).sum(axis=1)
        return total

    def add(self, covered: NDArray[np.bool_], enough: float) -> int | None:
        """Take in labels, shape (n, candidates), one after another; return the first to reach enough."""
        found = None
        for start in range(0, len(covered), BLOCK):
            first = self._add_block(covered[start : start + BLOCK], enough)
            if found is None and first is not None:
                found = start + first
        return found

    def _add_block(self, covered: NDArray[np.bool_], enough: float) -> int | None:
        seen = self.n + np.arange(len(covered) + 1)
        hits = self.covered + np.concatenate(
            [np.zeros_like(covered[:1], dtype=np.int64), covered.cumsum(axis=0)]
        )
        total = (self.n_calibration + 1 + seen[:-1])[:, np.newaxis]
        null_hit = (self.rank + hits[:-1]) / total
        null_miss = (self.n_calibration + 1 - self.rank + seen[:-1, np.newaxis] - hits[:-1]) / total
        ratios = np.where(
            covered[..., np.newaxis],
            (1.0 - self._miss) / null_hit[..., np.newaxis],
            self._miss / null_miss[..., np.newaxis],
        )
        uncommitted = _uncommitted(seen)
        entering = uncommitted[:-1] - uncommitted[1:]
        # One label after another, so that the bits do not depend on how labels come in batches.
        wealth, path = self.wealth, ratios
        for i, stake in enumerate(entering.tolist()):
            after = path[i]
            after *= wealth + stake
            wealth = np.minimum(after, MOST, out=after)
        self.n, self.covered, self.wealth = int(seen[-1]), hits[-1], wealth.copy()
        enough_at = np.flatnonzero(self._values(path, uncommitted[1:]) >= enough)
        return int(enough_at[0]) if len(enough_at) else None


def _uncommitted(seen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Prior probability that the change is after this many labels or more."""
    return np.where(seen == 0, 1.0, (1.0 - AT_START) * (1.0 + np.maximum(seen - 1, 0) / SCALE) ** -TAIL)

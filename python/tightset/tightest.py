"""The candidates of ``recipe="tightest"``: every score, plain and reweighted, over temperatures.

A product of all parameters would be ten thousand candidates. These are hundreds: the full automatic grid
where it is cheap, whole octaves around the useful temperatures elsewhere, and more parameters for the scores
that win more often (thr and mixed, on every set of logits tried). The lists are fixed before any data are
seen, as exact coverage needs.
"""

from __future__ import annotations

from tightset.scores import MIXED, RAPS, SAPS, Entropy

INF = float("inf")

# Weights that may be nearly 0, so that useful temperatures are high, and weights near 1.
STRONG = tuple(Entropy(gamma, power) for gamma in (0.0, 0.01) for power in (0.5, 1.0))
MILD = (
    *(Entropy(gamma, power) for gamma in (0.1, 1.0) for power in (0.5, 1.0)),
    *(Entropy(gamma, -0.1) for gamma in (0.01, 0.1, 1.0)),
)


def octaves(first: int, last: int, steps: int = 1) -> tuple[float, ...]:
    """Return powers of two, `steps` to an octave."""
    return tuple(2.0 ** (j / steps) for j in range(first * steps, last * steps + 1))


def limits(temperatures: tuple[float, ...]) -> tuple[float, ...]:
    """Add the closed limits."""
    return (0.0, *temperatures, INF)


# Among hundreds of near equals the smallest on the data is no smaller on new rows, and rows pay for the
# choice: on 1,540 rows of 77 labels at alpha = 0.01, without handicaps, sets came out 7 % larger than those
# of plain thr; with these 0.75 %. A candidate that is clearly smaller wins all the same.
USUAL, PLAIN, OTHER = 0.2, 0.5, 0.8

_RAPS = tuple(RAPS(penalty, k_reg) for k_reg in (1, 2, 5) for penalty in (0.001, 0.01, 0.1, 0.3))
_SAPS = tuple(SAPS(weight) for weight in (0.05, 0.1, 0.2, 0.5))
_MIXED = tuple(MIXED(weight) for weight in (0.1, 0.25, 0.5, 1.0, 2.0))

# Handicap (see `Recipe`), scores, reweightings and temperatures; each entry is a product.
CANDIDATES = (
    (0.0, ("thr",), (None,), (1.0,)),
    (USUAL, ("aps", "raps", "saps", "rank"), (None,), (1.0,)),
    (PLAIN, ("thr",), (None,), "auto"),
    (PLAIN, _MIXED, (None,), octaves(-1, 4, steps=2)),
    (OTHER, ("thr",), MILD, limits(octaves(-2, 5))),
    (OTHER, ("thr",), STRONG, limits(octaves(0, 9))),
    (OTHER, _MIXED[1::2], MILD, octaves(-1, 4)),
    (OTHER, _MIXED[1::2], STRONG, octaves(1, 8)),
    (OTHER, ("aps",), (None,), "auto"),
    (OTHER, ("aps",), MILD, limits(octaves(-4, 3))),
    (OTHER, ("aps",), STRONG, limits(octaves(-2, 9))),
    (OTHER, ("rank",), (None,), octaves(-3, 6)),
    (OTHER, ("rank",), MILD, (1.0, 4.0, 16.0)),
    (OTHER, ("rank",), STRONG, (4.0, 16.0, 64.0)),
    (OTHER, _RAPS, (None,), (0.0625, 0.25, 0.5, 1.0, 2.0)),
    (OTHER, (_RAPS[6], _RAPS[9]), MILD, (0.25, 1.0)),
    (OTHER, (_RAPS[6], _RAPS[9]), STRONG, (1.0, 16.0)),
    (OTHER, _SAPS, (None,), (0.5, 1.0, 2.0, 4.0, 8.0)),
    (OTHER, _SAPS[2:], MILD, (1.0, 4.0)),
    (OTHER, _SAPS[2:], STRONG, (4.0, 16.0)),
)

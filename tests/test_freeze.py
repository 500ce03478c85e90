"""Every public call gives the bits that freeze.json pins.

The file has one digest for each call, dtype and shape. All instruction sets, numbers of threads and memory
layouts must give it. Inputs are made of integers, so that they have the same bits on every machine. This
command writes the file, if all of them agree:

    python tests/test_freeze.py --write
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tightset as ts
from tightset import _core

GOLDEN = Path(__file__).with_name("freeze.json")
LEVELS = ("neon",) if platform.machine() in ("aarch64", "arm64") else ("sse2", "avx2", "avx512")
# What two processes do, about as much each.
SHARES = (("float32", "float16", "bfloat16", "calibrate"), ("float64", "int32", "numbers"))
LAYOUTS = ("C", "Fortran", "strided", "big-endian", "rows", "rows of Fortran")
THREADS = (1, 2)
SHAPES = (
    (70, 1),
    (70, 3),
    (33, 10),
    (70, 10),
    (700, 10),
    (70, 40),
    (450, 40),  # threads share it, as they share a thousand labels
    (70, 100),
    (70, 150),
    (36, 1000),
    (36, 1300),
)
SEED = 2**63 + 11

SCORES = {
    "thr": {},
    "aps": {},
    "raps": {"penalty": 0.1, "k_reg": 2},
    "saps": {"weight": 0.2},
    "rank": {},
    "mixed": {"weight": 0.3},
}
WITH_LIMITS = ("thr", "aps")
REWEIGHTS = {"plain": (0.0, 0.0), "gamma 0": (0.0, 1.0), "gamma 1": (1.0, 0.5)}
TEMPERATURES = (0.05, 0.5, 1.0, 7.0, 1e3)
LIMITS = (0.0, np.inf)


# --- Inputs, of integers ---


def words(seed, *shape):
    """Return 64 random bits for each place: SplitMix64."""
    x = np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(seed << 40)
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).reshape(shape)


def below(seed, n, *shape):
    """Return random integers from 0 to n - 1."""
    return (words(seed, *shape) % np.uint64(n)).astype(np.int64)


def units(seed, *shape):
    """Return random multiples of 2^-53 in [0, 1)."""
    return (words(seed, *shape) >> np.uint64(11)) / 2.0**53


def bells(seed, *shape):
    """Return sums of four uniform numbers, of mean 0, in multiples of 2^-39."""
    parts = (words(seed + i, *shape) >> np.uint64(24) for i in range(4))
    return sum(part.astype(np.int64) - 2**39 for part in parts) / 2.0**39


def float_rows(seed, n, k, *, is_calibration):
    """Return float64 logits and labels: ordinary rows, and each kind of strange one."""
    labels = below(seed, k, n)
    logits = bells(seed + 1, n, k)
    # Most labels are likely; scales differ from row to row.
    likely = below(seed + 5, 8, n) > 0
    logits[np.arange(n)[likely], labels[likely]] += 2.5 if k < 100 else 4.0
    logits *= (1 << below(seed + 6, 4, n))[:, None]
    lot = words(seed + 7, n, k)
    own = np.arange(k) == labels[:, None]
    kind = np.arange(n) % 24
    impossible = (kind == 3)[:, None] & (lot % np.uint64(3) == 0)
    # All but one are impossible.
    impossible |= (kind == 11)[:, None] & (np.arange(k) != below(seed + 8, k, n)[:, None])
    # Ties, of both zeros too; then at the top; then everywhere.
    logits[kind == 5] = np.rint(logits[kind == 5])
    logits[kind == 17] = np.rint(logits[kind == 17] / 8)
    at_top = (kind == 7)[:, None] & (lot % np.uint64(4) == 0)
    logits = np.where(at_top, logits.max(axis=1, keepdims=True), logits)
    logits[kind == 9] = 0.375
    # Nearly one-hot, more and more; and nearly equal.
    for of_kind, gap in ((13, 16), (15, 90), (19, 3000)):
        logits[kind == of_kind] += gap * own[kind == of_kind]
    logits[kind == 21] /= 2.0**10
    # Two labels share nearly everything.
    logits[kind == 23] -= 40.0 * (lot[kind == 23] % np.uint64(k) > 1)
    if is_calibration:
        impossible &= ~own
    else:
        logits[1::29] = logits[0]  # identical rows
    impossible[impossible.all(axis=1)] = False
    return np.where(impossible, -np.inf, logits), labels


def probability_rows(seed, n, k):
    """Return float64 probabilities in multiples of 1/8: eight or fewer labels share each row."""
    shares = np.zeros((n, k))
    places = below(seed, k, n, 8)
    cuts = np.sort(below(seed + 1, 9, n, 7), axis=1) * 2.0**-3
    parts = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    np.add.at(shares, (np.arange(n)[:, None], places), parts)
    return shares


def as_dtype(values, dtype):
    """Return the values as the core takes them; every conversion rounds in one way on all machines."""
    if dtype == "int32":
        return np.rint(np.maximum(2 * values, -1000.0)).astype(np.int32)
    if dtype == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return values.astype(dtype)


class Reading(NamedTuple):
    """A matrix in some layout, which of its rows are meant, and the number of threads."""

    matrix: np.ndarray
    rows: np.ndarray | None
    n_threads: int

    @property
    def options(self):
        """What is said of it in a call."""
        picked = {} if self.rows is None else {"rows": self.rows}
        return {"n_threads": self.n_threads, **picked}

    def only(self, i):
        """Return one of the rows."""
        if self.rows is None:
            return self._replace(matrix=self.matrix[i : i + 1])
        return self._replace(rows=self.rows[i : i + 1])


def in_layouts(matrix, dtype):
    """Return, for each layout, the matrix in it and which of its rows are meant."""
    n, k = matrix.shape
    wide = np.zeros((2 * n, 3 * k), matrix.dtype)
    wide[::2, ::3] = matrix
    rows = np.argsort(words(99, n + 7), kind="stable")[:n].astype(np.int64)
    more = np.ones((n + 7, k), matrix.dtype)
    more[rows] = matrix
    found = {
        "C": (np.ascontiguousarray(matrix), None),
        "Fortran": (np.asfortranarray(matrix), None),
        "strided": (wide[::2, ::3], None),
        "big-endian": (matrix.astype(matrix.dtype.newbyteorder(">")), None),
        "rows": (more, rows),
        "rows of Fortran": (np.asfortranarray(more), rows),
    }
    if dtype == "bfloat16":
        # Raw elements have no byte order.
        del found["big-endian"]
        return {name: (array.view("V2"), rows) for name, (array, rows) in found.items()}
    return found


# --- Calls ---


def scoring(score, reweight="plain", temperature=1.0):
    gamma, power = REWEIGHTS[reweight]
    return _core.Scoring(score, **SCORES[score], gamma=gamma, power=power, temperature=temperature)


# Candidates of selections.
RIVALS = (
    ("aps", "plain", 1.0),
    ("aps", "gamma 1", 1.0),
    ("aps", "plain", 0.5),
    ("thr", "plain", 1.0),
    ("raps", "gamma 0", 1.0),
    ("saps", "plain", 1.0),
    ("rank", "gamma 1", 7.0),
    ("mixed", "plain", 0.5),
)


class Case:
    """Rows of one dtype and shape, and what is calibrated for them on other rows."""

    def __init__(self, dtype, n, k):
        self.dtype, self.n, self.k = dtype, n, k
        logits, self.labels = float_rows(1000 * k, n, k, is_calibration=False)
        self.layouts = in_layouts(as_dtype(logits, dtype), dtype)
        shares = probability_rows(1000 * k + 50, n, k)
        if dtype == "int32":
            shares = (np.arange(k) == shares.argmax(axis=1)[:, None]).astype(np.float64) / 2
        self.probabilities = in_layouts(as_dtype(shares, dtype), dtype)
        self.u = units(71, n)
        self.row_ids = words(72, n)
        self.n_calibration = 60 if k < 1000 else 40
        rows, self.calibration_labels = float_rows(1000 * k + 100, self.n_calibration, k, is_calibration=True)
        self.calibration = in_layouts(as_dtype(rows, dtype), dtype)["C"][0]
        self.cell_of = (np.arange(k) % min(3, k)).astype(np.uint32)
        self.most_ranks = (1 + below(73, k, k)).astype(np.uint32)

    def reading(self, layout, n_threads, *, probabilities=False):
        return Reading(*(self.probabilities if probabilities else self.layouts)[layout], n_threads)

    def calibration_scores(self, candidates):
        """Return the ranked scores of the calibration labels."""
        return _core.label_scores(
            self.calibration, self.calibration_labels, candidates, ranked=True, seed=SEED, n_threads=1
        )

    def thresholds(self, candidates):
        """Return a small, a medium and a large threshold of each candidate."""
        n = self.n_calibration
        ranks = [n // 4, n * 9 // 10, n]
        return _core.order_statistics(self.calibration_scores(candidates), ranks, n_threads=1)

    @cached_property
    def rivals(self):
        return [scoring(*rival) for rival in RIVALS]

    @cached_property
    def rival_scores(self):
        """The sorted calibration scores of each rival."""
        return np.sort(self.calibration_scores(self.rivals), axis=1)

    @cached_property
    def edges(self):
        """The scores around the rank of each rival."""
        # Of many labels, some hundred scores lie between two of high rank.
        alpha = 0.15 if self.k < 100 else 0.3 if self.k < 1000 else 0.45
        rank = _core.conformal_rank(self.n_calibration, alpha)
        found = _core.order_statistics(self.rival_scores, [rank - 1, rank], n_threads=1)
        return np.ascontiguousarray(found.T)

    @cache  # noqa: B019 (a case lives as long as its calls)
    def survivors(self, count, *, weighted):
        """Return the first rivals, as calibration leaves them; weights let all of them compete."""
        some, (lo, hi) = self.rivals[:count], self.edges[:, :count].copy()
        counts, between = _core.count_pairs(self.calibration, some, lo, hi, keep=True, seed=SEED, n_threads=1)
        pairs = counts[:, 0].astype(np.int64) + counts[:, 1].astype(np.int64) + 1
        weights = (2**20 // pairs).tolist() if weighted else [1] * count
        return _core.Survivors(
            [
                (some[m], float(lo[m]), float(hi[m]), int(counts[m, 0]), between[m], weights[m])
                for m in range(count)
            ]
        )

    @cache  # noqa: B019
    def cells(self, count, *, limited=False):
        """Return cells of the labels with so many candidates each. The last one counts all labels."""
        n_cells, some, alpha = min(3, self.k), self.rivals[:count], 0.25
        most_ranks = self.most_ranks if limited else None
        scores = self.calibration_scores(some)
        of_rows = self.cell_of[self.calibration_labels]
        own = [np.sort(scores[:, of_rows == cell].copy("C"), axis=1) for cell in range(n_cells)]
        edges = np.empty((2, count, n_cells))
        for cell, sorted_scores in enumerate(own):
            rank = _core.conformal_rank(sorted_scores.shape[1], alpha)
            edges[:, :, cell] = _core.order_statistics(sorted_scores, [rank - 1, rank], n_threads=1).T
        lo, hi = np.ascontiguousarray(edges).reshape(2, -1)
        counts, between = _core.count_cell_pairs(
            self.calibration,
            some,
            self.cell_of,
            n_cells,
            lo,
            hi,
            keep=True,
            most_ranks=most_ranks,
            seed=SEED,
            n_threads=1,
        )
        made = []
        for cell in range(n_cells):
            places = [m * n_cells + cell for m in range(count)]
            survivors = _core.Survivors(
                [
                    (some[m], float(lo[i]), float(hi[i]), int(counts[i, 0]), between[i], 1 + m % 2)
                    for m, i in enumerate(places)
                ]
            )
            made.append((survivors, cell == 2, list(own[cell])))
        return _core.Cells(made, self.cell_of, most_ranks)


class Call(NamedTuple):
    """A call: what it is named, what it does with a reading, and how it reads."""

    name: str
    run: Callable
    has_rows: bool = True
    probabilities: bool = False


def calls_of(case):
    """Yield every call on rows."""
    yield from row_calls(case)
    yield from score_calls(case)
    yield from set_calls(case)
    yield from selection_calls(case)
    yield from cell_calls(case)
    yield from probability_calls(case)
    yield from one_row_calls(case)


def row_calls(case):
    for measure in ("entropy", "margin", "gini"):
        yield Call(
            f"uncertainty {measure}",
            lambda r, measure=measure: _core.uncertainty(r.matrix, measure, **r.options),
            has_rows=False,
        )
    for name, (gamma, power) in REWEIGHTS.items():

        def softmax(r, gamma=gamma, power=power):
            settings = {"gamma": gamma, "power": power, **r.options}
            return [_core.softmax(r.matrix, temperature=t, **settings) for t in (0.05, 1.0, 1e3, *LIMITS)]

        yield Call(f"softmax {name}", softmax, has_rows=False)
    yield Call("ranks", lambda r: _core.ranks(r.matrix, case.labels, **r.options), has_rows=False)
    yield Call("_row_maxima", lambda r: _core._row_maxima(r.matrix, **r.options), has_rows=False)


def score_calls(case):
    for score, reweight, ranked in itertools.product(SCORES, REWEIGHTS, (False, True)):
        temperatures = (*TEMPERATURES, *(LIMITS if score in WITH_LIMITS else ()))
        candidates = [scoring(score, reweight, t) for t in temperatures]
        yield Call(
            f"label_scores {score} {reweight} {'ranked' if ranked else 'conventional'}",
            lambda r, candidates=candidates, ranked=ranked: _core.label_scores(
                r.matrix, case.labels, candidates, ranked=ranked, seed=SEED, **r.options
            ),
        )
    for score in SCORES:
        one = scoring(score, "gamma 1", 0.7)
        yield Call(
            f"label_scores {score} alone",
            lambda r, one=one: _core.label_scores(
                r.matrix, case.labels, [one], ranked=True, seed=0, **r.options
            ),
        )
    randomness = {
        "seed 0": {"seed": 0},
        "u 0.25": {"seed": SEED, "u": 0.25},
        "u of rows": {"seed": SEED, "u": case.u},
        "row_ids": {"seed": SEED, "row_ids": case.row_ids},
    }
    for name, settings in randomness.items():
        yield Call(
            f"label_scores rivals {name}",
            lambda r, settings=settings: _core.label_scores(
                r.matrix, case.labels, case.rivals, ranked=True, **settings, **r.options
            ),
        )
        yield Call(
            f"all_scores aps {name}",
            lambda r, settings=settings: _core.all_scores(
                r.matrix, scoring("aps", "gamma 0", 0.5), ranked=True, **settings, **r.options
            ),
            has_rows=False,
        )
    for score in SCORES:

        def all_scores(r, score=score):
            settings = {"seed": SEED, **r.options}
            return [
                _core.all_scores(r.matrix, scoring(score), ranked=False, **settings),
                _core.all_scores(r.matrix, scoring(score, "gamma 1", 7.0), ranked=True, **settings),
            ]

        yield Call(f"all_scores {score}", all_scores, has_rows=False)
    for score in WITH_LIMITS:

        def limit_scores(r, score=score):
            return [
                _core.all_scores(
                    r.matrix, scoring(score, "gamma 0", t), ranked=ranked, seed=SEED, **r.options
                )
                for t, ranked in itertools.product(LIMITS, (False, True))
            ]

        yield Call(f"all_scores {score} limits", limit_scores, has_rows=False)
    for score in SCORES:
        one = scoring(score, "gamma 1", 0.5)
        (scores,) = np.sort(case.calibration_scores([one]), axis=1)
        kinds = {"": {"smoothed": False}, " smoothed": {"smoothed": True}}
        if score == "aps":
            kinds[" smoothed row_ids"] = {"smoothed": True, "row_ids": case.row_ids}
        for name, settings in kinds.items():
            yield Call(
                f"p_values {score}{name}",
                lambda r, one=one, scores=scores, settings=settings: _core.p_values(
                    r.matrix, one, scores, seed=SEED, **settings, **r.options
                ),
            )


def both_sets(call, *arguments, **settings):
    """Return sets that may be empty, and such that may not."""
    return [
        array
        for allow_empty in (True, False)
        for array in call(*arguments, allow_empty=allow_empty, **settings)
    ]


def set_calls(case):
    temperatures = TEMPERATURES if case.k < 1000 else (0.05, 1e3)
    for score in SCORES:
        one = scoring(score)
        (found,) = case.thresholds([one])
        sizes = {"small": found[0], "medium": found[1], "large": found[2], "infinite": np.inf}
        for name, threshold in sizes.items():
            yield Call(
                f"predict_sets {score} {name}",
                lambda r, one=one, threshold=float(threshold): both_sets(
                    _core.predict_sets, r.matrix, one, threshold, seed=SEED, **r.options
                ),
            )
        others = [
            scoring(score, reweight, t)
            for reweight, t in itertools.product(REWEIGHTS, (*temperatures, *LIMITS))
            if score in WITH_LIMITS or t not in LIMITS
        ]
        thresholds = case.thresholds(others)[:, 1]

        def other_sets(r, others=others, thresholds=thresholds):
            return [
                array
                for one, threshold in zip(others, thresholds.tolist(), strict=True)
                for array in _core.predict_sets(
                    r.matrix, one, threshold, allow_empty=True, seed=SEED, **r.options
                )
            ]

        yield Call(f"predict_sets {score} tempered", other_sets)
    aps = scoring("aps", "gamma 1")
    threshold = float(case.thresholds([aps])[0, 1])
    for name, settings in {
        "u 0": {"u": 0.0},
        "u of rows": {"u": case.u},
        "row_ids": {"row_ids": case.row_ids},
    }.items():
        yield Call(
            f"predict_sets aps {name}",
            lambda r, settings=settings: both_sets(
                _core.predict_sets, r.matrix, aps, threshold, seed=SEED, **settings, **r.options
            ),
        )


def selection_calls(case):
    for count, weighted in ((1, False), (3, False), (3, True), (8, False), (8, True)):
        survivors = case.survivors(count, weighted=weighted)
        name = f"{count}{' weighted' if weighted else ''}"
        yield Call(
            f"predict_selected_sets {name}",
            lambda r, survivors=survivors: both_sets(
                _core.predict_selected_sets, r.matrix, survivors, seed=SEED, **r.options
            ),
        )
        yield Call(
            f"selected_p_values {name}",
            lambda r, survivors=survivors, count=count: _core.selected_p_values(
                r.matrix, survivors, list(case.rival_scores[:count]), seed=SEED, **r.options
            ),
        )
    three = case.survivors(3, weighted=True)
    for name, settings in {
        "u 0.5": {"u": 0.5},
        "u of rows": {"u": case.u},
        "row_ids": {"row_ids": case.row_ids},
    }.items():
        yield Call(
            f"predict_selected_sets 3 {name}",
            lambda r, settings=settings: both_sets(
                _core.predict_selected_sets, r.matrix, three, seed=SEED, **settings, **r.options
            ),
        )
    lo, hi = case.edges
    # Two levels for each rival: its own, and what lies beyond, as far as that is no square of many labels.
    beyond = np.full_like(hi, np.inf) if case.k < 200 else hi
    starts = np.ascontiguousarray(np.stack([lo, hi], axis=1)).reshape(-1)
    ends = np.ascontiguousarray(np.stack([hi, beyond], axis=1)).reshape(-1)
    for name, settings in {
        "": {},
        " keep": {"keep": True},
        " keep row_ids": {"keep": True, "row_ids": case.row_ids},
    }.items():

        def count_pairs(r, settings=settings):
            counts, between = _core.count_pairs(
                r.matrix, case.rivals, lo, hi, seed=SEED, **settings, **r.options
            )
            return [counts, *between]

        yield Call(f"count_pairs{name}", count_pairs)

    def two_levels(r):
        counts, between = _core.count_pairs(
            r.matrix, case.rivals, starts, ends, keep=True, seed=SEED, **r.options
        )
        return [counts, *between]

    yield Call("count_pairs keep two levels", two_levels)

    def each_alone(r):
        return [
            _core.count_pairs(r.matrix, [one], hi[m : m + 1], hi[m : m + 1], seed=SEED, **r.options)[0]
            for m, one in enumerate(case.rivals)
        ]

    yield Call("count_pairs alone", each_alone)


def cell_calls(case):
    n_cells = min(3, case.k)
    some = case.rivals[1:5]
    lo, hi = (np.repeat(edge[1:5], n_cells) for edge in case.edges)
    for name, settings in {
        "": {},
        " keep": {"keep": True},
        " keep most_ranks": {"keep": True, "most_ranks": case.most_ranks},
        " row_ids": {"row_ids": case.row_ids},
    }.items():

        def count_cell_pairs(r, settings=settings):
            counts, between = _core.count_cell_pairs(
                r.matrix, some, case.cell_of, n_cells, lo, hi, seed=SEED, **settings, **r.options
            )
            return [counts, *between]

        yield Call(f"count_cell_pairs{name}", count_cell_pairs)
    kinds = {
        "1": case.cells(1),
        "3": case.cells(3),
        "3 most_ranks": case.cells(3, limited=True),
    }
    for name, cells in kinds.items():
        yield Call(
            f"predict_cell_sets {name}",
            lambda r, cells=cells: _core.predict_cell_sets(
                r.matrix, cells, allow_empty=True, seed=SEED, **r.options
            ),
            has_rows=False,
        )
        yield Call(
            f"cell_p_values {name}",
            lambda r, cells=cells, is_only=name == "1": [
                _core.cell_p_values(r.matrix, cells, smoothed=smoothed, seed=SEED, **r.options)
                for smoothed in ((False, True) if is_only else (False,))
            ],
            has_rows=False,
        )
    for name, settings in {"u of rows": {"u": case.u}, "row_ids": {"row_ids": case.row_ids}}.items():
        yield Call(
            f"predict_cell_sets 3 {name}",
            lambda r, settings=settings: _core.predict_cell_sets(
                r.matrix, kinds["3"], allow_empty=False, seed=SEED, **settings, **r.options
            ),
            has_rows=False,
        )


def probability_calls(case):
    settings = {"probabilities": True}
    aps, thr = scoring("aps", "gamma 1"), scoring("thr")
    yield Call(
        "uncertainty of probabilities",
        lambda r: [
            _core.uncertainty(r.matrix, measure, **settings, **r.options)
            for measure in ("entropy", "margin", "gini")
        ],
        has_rows=False,
        probabilities=True,
    )
    yield Call(
        "softmax and ranks of probabilities",
        lambda r: [
            _core.softmax(r.matrix, gamma=0.0, power=1.0, temperature=0.5, **settings, **r.options),
            _core.ranks(r.matrix, case.labels, **settings, **r.options),
            _core.all_scores(r.matrix, aps, ranked=True, seed=SEED, **settings, **r.options),
        ],
        has_rows=False,
        probabilities=True,
    )
    survivors = case.survivors(3, weighted=False)
    lo, hi = case.edges
    yield Call(
        "label_scores of probabilities",
        lambda r: _core.label_scores(
            r.matrix, case.labels, case.rivals, ranked=True, seed=SEED, **settings, **r.options
        ),
        probabilities=True,
    )
    yield Call(
        "sets of probabilities",
        lambda r: [
            *_core.predict_sets(r.matrix, aps, 2.0, allow_empty=True, seed=SEED, **settings, **r.options),
            *_core.predict_sets(r.matrix, thr, 1.0, allow_empty=False, seed=SEED, **settings, **r.options),
            *_core.predict_selected_sets(
                r.matrix, survivors, allow_empty=True, seed=SEED, **settings, **r.options
            ),
            _core.count_pairs(r.matrix, case.rivals, lo, hi, seed=SEED, **settings, **r.options)[0],
        ],
        probabilities=True,
    )


ALONE = (0, 3, 5, 7, 9, 11, 15, 21, 23, -1)


def one_row_calls(case):
    """Yield calls of one row each."""
    aps, thr = scoring("aps", "gamma 1", 0.5), scoring("thr")
    thresholds = case.thresholds([aps, thr])[:, 1].tolist()
    three, eight = case.survivors(3, weighted=True), case.survivors(8, weighted=False)
    cells = case.cells(3)
    singles = [i % case.n for i in ALONE]

    def each(run):
        return lambda r: [
            array for i in singles for array in run(r.only(i), case.labels[i : i + 1], {"seed": SEED})
        ]

    of_rows = {
        "label_scores": lambda r, y, s: [
            _core.label_scores(r.matrix, y, case.rivals, ranked=True, **s, **r.options),
            _core.label_scores(r.matrix, y, [thr], ranked=False, **s, **r.options),
        ],
        "p_values": lambda r, _, s: [
            _core.p_values(r.matrix, aps, case.rival_scores[0], smoothed=True, **s, **r.options),
            _core.selected_p_values(r.matrix, eight, list(case.rival_scores), **s, **r.options),
        ],
        "predict_sets": lambda r, _, s: [
            array
            for one, threshold in zip((aps, thr), thresholds, strict=True)
            for array in both_sets(_core.predict_sets, r.matrix, one, threshold, **s, **r.options)
        ],
        "predict_selected_sets": lambda r, _, s: [
            array
            for survivors in (three, eight)
            for array in both_sets(_core.predict_selected_sets, r.matrix, survivors, **s, **r.options)
        ],
        "count_pairs": lambda r, _, s: [
            _core.count_pairs(r.matrix, case.rivals, *case.edges, **s, **r.options)[0]
        ],
    }
    for name, run in of_rows.items():
        yield Call(f"one row: {name}", each(run))
    of_matrices = {
        "uncertainty": lambda r, _, s: [
            _core.uncertainty(r.matrix, measure, **r.options) for measure in ("entropy", "margin", "gini")
        ],
        "softmax": lambda r, _, s: [
            _core.softmax(r.matrix, gamma=1.0, power=0.5, temperature=0.5, **r.options)
        ],
        "ranks": lambda r, y, s: [_core.ranks(r.matrix, y, **r.options)],
        "all_scores": lambda r, _, s: [
            _core.all_scores(r.matrix, one, ranked=True, **s, **r.options) for one in case.rivals
        ],
        "predict_cell_sets": lambda r, _, s: both_sets(
            _core.predict_cell_sets, r.matrix, cells, **s, **r.options
        ),
        "cell_p_values": lambda r, _, s: [
            _core.cell_p_values(r.matrix, cells, smoothed=False, **s, **r.options)
        ],
    }
    for name, run in of_matrices.items():
        yield Call(f"one row: {name}", each(run), has_rows=False)


# --- Digests ---


def digest(result):
    """Return the first sixteen hexadecimal digits of the hash of arrays, or of one, and of their types."""
    found = hashlib.sha256()
    for array in [result] if isinstance(result, np.ndarray) else result:
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


class Found(NamedTuple):
    """The digest of one call, and how it was made."""

    call: str
    shape: str
    layout: str
    n_threads: int
    digest: str


def ways_of(level, dtype, n, k):
    """Return in how many ways each call is made; one half makes every other call, in one way.

    A way is a layout and a number of threads. All of them would take minutes. Calls without vectors take ten
    times as long as with them, so they are made in fewer ways. They skip large arrays of the dtypes that
    become float32 or float64 while they are read.
    """
    is_own, is_large = dtype in ("float32", "float64"), n * k > 2**14
    if level == "sse2":
        return 1 if is_own and not is_large else 0 if is_large and not is_own else 0.5
    if level == "avx2":
        return 1 if is_large else 2
    return 2 if is_large else 3


def of_rows(dtype, level) -> Iterator[Found]:
    """Yield the digests of all calls on rows of a dtype."""
    turn = 3 * LEVELS.index(level)
    for n, k in SHAPES:
        count = ways_of(level, dtype, n, k)
        if count == 0:
            continue
        case = Case(dtype, n, k)
        for call in calls_of(case):
            turn += 1
            ways = [
                (layout, n_threads)
                for layout, n_threads in itertools.product(case.layouts, THREADS)
                if call.has_rows or case.layouts[layout][1] is None
            ]
            for i in range(count if count >= 1 else turn % 2):
                layout, n_threads = ways[(turn // 2 if count < 1 else turn + 7 * i) % len(ways)]
                reading = case.reading(layout, n_threads, probabilities=call.probabilities)
                yield Found(call.name, f"{n}x{k}", layout, n_threads, digest(call.run(reading)))


def of_numbers(_section, _level) -> Iterator[Found]:
    """Yield the digests of calls that read no logits."""
    for n_runs, n in ((1, 1), (3, 70), (5, 9000)):
        scores = np.ldexp(bells(7, n_runs, n), 3)
        scores[:, ::7] = np.rint(scores[:, ::7])  # ties and both zeros
        scores[:, 5::31], scores[:, 6::37] = np.inf, -np.inf
        ranks = [0, 1, (n + 1) // 2, n // 2 + 1, n, n + 1]
        shape = f"{n_runs}x{n}"
        # Slots from everything down to one key, that of a score.
        runs = [run for run in range(n_runs) for _ in range(4)]
        keys = _core.keys_within(
            scores, list(range(n_runs)), np.zeros(n_runs, np.uint64), np.full(n_runs, 64, np.uint32)
        )
        widths = np.tile(np.array([64, 50, 11, 0], np.uint32), n_runs)
        bases = np.array(
            [
                0 if width == 64 else int(keys[run][n // 3]) >> int(width) << int(width)
                for run, width in zip(runs, widths, strict=True)
            ],
            np.uint64,
        )
        for n_threads in THREADS:
            settings = {"n_threads": n_threads}

            def found(call, *arrays, shape=shape, n_threads=n_threads):
                return Found(call, shape, "C", n_threads, digest(arrays))

            yield found("order_statistics", _core.order_statistics(scores, ranks, **settings))
            yield found("keys_within", *_core.keys_within(scores, runs, bases, widths, **settings))
            for bits in (1, 8):
                counts = np.ones((len(runs), 2**bits), np.uint64)
                _core.count_digits(scores, runs, bases, widths, counts, **settings)
                yield found(f"count_digits {bits} bits", counts)
            smallest = [_core.kth_smallest(row, rank) for row in scores for rank in ranks[1:]]
            yield found("kth_smallest", np.array(smallest))
            yield found("permutation", *(_core.permutation(seed, n) for seed in (0, 1, SEED)))
    for n, k in ((1, 1), (70, 10), (700, 100)):
        is_in = below(9, 3, n, k) == 0
        offsets = np.concatenate([[0], np.cumsum(is_in.sum(axis=1))])
        labels = (np.nonzero(is_in)[1]).astype(np.int32)
        for n_threads in THREADS:
            _core.set_default_threads(n_threads)
            yield Found("mask", f"{n}x{k}", "C", n_threads, digest(_core.mask(offsets, labels, k)))
            _core.set_default_threads(None)
    alphas = (1e-12, 0.001, 0.05, 0.1, 1 - 0.9, 1 / 3, 0.5, 0.999, 1 - 2.0**-53)
    ranks = [_core.conformal_rank(n, alpha) for n in (0, 1, 9, 99, 1000, 2**62) for alpha in alphas]
    yield Found("conformal_rank", "54", "C", 1, digest(np.array(ranks, np.uint64)))


RECIPES = {
    "aps": {},
    "released": {},
    "er-aps": {},
    "er-thr": {"alpha": (0.1, 0.3)},
    "paper": {},
    "tightest": {},
    "er-aps adaptive": {"objective": "adaptive"},
    "er-raps pac": {"guarantee": "pac"},
    "er-aps row_ids": {"row_ids": words(74, 240)},
    "aps label": {"condition": "label"},
    "er-aps label": {"condition": "label", "scarce": "pooled"},
    "raps cluster": {"condition": "cluster"},
    "aps rc3p": {"condition": "rc3p", "scarce": "pooled"},
    "er-aps groups": {"condition": np.arange(240) % 3},
}


def of_calibrations(_section, level) -> Iterator[Found]:
    """Yield the digests of what the Python layer makes of rows: predictors as text, sets and p-values."""
    n, k, n_calibration = 300, 6, 240
    for turn, (name, given) in enumerate(RECIPES.items()):
        settings = {"alpha": 0.2, "seed": 5, **given}
        for i in range(1 if level == "sse2" else 3):
            dtype = ("float32", "float64")[turn % 2]
            logits, labels = float_rows(31, n, k, is_calibration=True)
            ways = in_layouts(as_dtype(logits, dtype), dtype)
            layout = LAYOUTS[(turn + i) % 4]
            matrix, n_threads = ways[layout][0], THREADS[(turn + i) // 4 % 2]
            predictors = ts.calibrate(
                matrix[:n_calibration],
                labels[:n_calibration],
                recipe=name.split()[0],
                n_threads=n_threads,
                **settings,
            )
            arrays = []
            for predictor in predictors if isinstance(predictors, tuple) else (predictors,):
                new = {"groups": np.arange(n - n_calibration) % 3} if name.endswith("groups") else {}
                if "row_ids" in given:
                    new["row_ids"] = words(75, n - n_calibration)
                text = predictor.to_json(score_table=True).encode()
                sets = predictor.predict_set(matrix[n_calibration:], n_threads=n_threads, **new)
                arrays += [np.frombuffer(text, np.uint8), sets.indptr, sets.indices]
                arrays.append(predictor.predict_p(matrix[n_calibration:], n_threads=n_threads, **new))
            yield Found(f"calibrate {name}", f"{n}x{k} {dtype}", layout, n_threads, digest(arrays))


def in_this_process(level, *sections):
    """Return the digests of sections; None where the machine is without the level."""
    if _core.simd_level() != level:
        return None
    warnings.simplefilter("ignore")  # calibrations of few rows
    others = {"numbers": of_numbers, "calibrate": of_calibrations}
    return {section: list(others.get(section, of_rows)(section, level)) for section in sections}


def at_level(level):
    """Return the digests of all sections at a level; None without it."""

    def run(sections):
        done = subprocess.run(
            [sys.executable, __file__, level, *sections],
            env={**os.environ, "TIGHTSET_SIMD": level},
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert done.returncode == 0, f"{sections} at {level}: {done.stderr}"
        return json.loads(done.stdout)

    with ThreadPoolExecutor(len(SHARES)) as pool:
        parts = list(pool.map(run, SHARES))
    if None in parts:
        return None
    return {section: [Found(*one) for one in found] for part in parts for section, found in part.items()}


def differences(found, pinned, level):
    """Say which calls differ from what is pinned, and which are not pinned."""
    for section, of_section in found.items():
        for call, shape, layout, n_threads, digest in of_section:
            expected = pinned.get(section, {}).get(call, {}).get(shape)
            if digest != expected:
                threads = f"{n_threads} thread{'s' if n_threads > 1 else ''}"
                way = f"{section}, {shape}, {layout}, {threads}, {level}"
                yield f"{call} ({way}): {digest}, pinned is {expected}"


@pytest.mark.parametrize("level", LEVELS)
def test_bits_are_those_that_are_pinned(level):
    found = at_level(level)
    if found is None:
        pytest.skip(f"this machine is without {level}")
    pinned = json.loads(GOLDEN.read_text())
    wrong = list(differences(found, pinned, level))
    assert not wrong, f"{len(wrong)} results differ:\n" + "\n".join(wrong[:50])
    if level != "sse2":
        listed = {(s, call, shape) for s in pinned for call in pinned[s] for shape in pinned[s][call]}
        made = {(s, one.call, one.shape) for s in found for one in found[s]}
        assert listed <= made, f"pinned, but not made: {sorted(listed - made)[:50]}"


def as_text(pinned):
    """Return the digests as JSON, with a line for each call."""
    sections = []
    for section, calls in pinned.items():
        lines = ",\n".join(f"  {json.dumps(call)}: {json.dumps(found)}" for call, found in calls.items())
        sections.append(f" {json.dumps(section)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def write():
    """Write the digests, where all ways of all levels agree on them."""
    pinned = {section: {} for share in SHARES for section in share}
    for level in reversed(LEVELS):
        found = at_level(level)
        if found is None:
            print(f"without {level}")
            continue
        for section, of_section in found.items():
            for one in of_section:
                pinned[section].setdefault(one.call, {}).setdefault(one.shape, one.digest)
        wrong = list(differences(found, pinned, level))
        if wrong:
            sys.exit("\n".join([f"{len(wrong)} results differ:", *wrong]))
    GOLDEN.write_text(as_text(pinned))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        print(json.dumps(in_this_process(*sys.argv[1:])))

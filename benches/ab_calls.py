"""The calls that `ab.py` compares, and the process that times them, one for each side.

It says who it is, then answers commands, a line each: "make 3" sets up the call of row 3, "time 3" times it.
Only calls of tightset are timed. What a side cannot do is answered with the error.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

import tightset as ts
from tightset import _core
from workloads import SHAPES, in_layout, logits_and_labels, title, workload

ALPHA = 0.1
SHARE, SMALL_SHARE = 0.1, 0.01
"""Of the rows, where all of them would take long, or have results so large that their pages are the time."""
BATCH = 2e-4
"""Seconds between two looks at the clock, at least: calls of microseconds are timed many at a time."""
FEW, LONGEST = 5, 5
"""Calls at least, unless they take so many times the seconds that a row has."""
LONG = (200, 128_000)
TEMPERATURES = np.geomspace(0.1, 100, 32)
LAYOUTS = ("float64", "float16", "bfloat16", "fortran")

EIGHT_ROWS = 300
"""Of B: all eight candidates survive a selection on these."""
MANY, MANY_ROWS, MANY_LABELS = 118, 20, 64_000
"""The candidates of er-aps, on long rows: sets have a few labels or nearly all."""


@dataclass(frozen=True)
class Row:
    """A row of the table. `make` returns the call; `over` is the row whose time is the unit of this one."""

    work: str
    what: str
    make: Callable
    over: tuple[str, str] | None = None


def rows(folder):
    """Return all rows, those of one workload side by side; `folder` keeps what takes long to make."""
    return [*_of_a(), *_of_b(), *_of_c(), *_of_few(), *_of_long(folder)]


def _labels(name, what="aps", score="aps", layout=None, share=1.0, **settings):
    def make():
        logits, labels = _part(name, share)
        logits = logits if layout is None else in_layout(logits, layout)
        return partial(ts.label_scores, logits, labels, score, **settings)

    return Row(f"label scores, {_part_title(name, share)}", what, make)


def _of_a():
    yield _labels("A")
    yield _labels("A", "aps, not reweighted", reweight=None)
    yield _labels("A", "aps, 32 temperatures", temperature=TEMPERATURES)
    for score in ("thr", "raps", "saps", "rank", "mixed"):
        yield _labels("A", score, score)
    for layout in LAYOUTS:
        yield _labels("A", f"aps, {layout}", layout=layout)
    yield Row(f"rows, {title('A')}", "entropy", lambda: partial(ts.entropy, workload("A")[0]))
    yield Row(f"rows, {title('A')}", "ranks", lambda: partial(ts.ranks, *workload("A")))
    yield from _sets("A", "aps at T = 0.7", temperature=0.7)
    yield from _sets("A", "aps")
    for score in ("thr", "raps", "saps"):
        yield next(_sets("A", score, score))
    yield _calibration("A", "aps")
    yield Row(f"calibrate, {title('A')}", "Algorithm 1", lambda: _calibrating("A", "paper"))
    yield _all_scores("A")
    yield _pairs("A", SMALL_SHARE)


def _of_b():
    yield _labels("B")
    yield _labels("B", "aps, 32 temperatures", share=SMALL_SHARE, temperature=TEMPERATURES)
    for layout in LAYOUTS:
        yield _labels("B", f"aps, {layout}", layout=layout)
    yield from _sets("B", "aps")
    yield Row(
        f"sets, {title('B')}",
        "8 survivors",
        lambda: partial(_selected_sets, workload("B")[0], _eight()),
        over=(f"label scores, {title('B')}", "aps"),
    )
    yield _calibration("B", "aps")
    yield _calibration("B", "er-aps", SMALL_SHARE)
    yield _all_scores("B")
    yield _pairs("B", SHARE)
    yield Row(f"p-values, {_part_title('B', SHARE)}", "8 survivors", _selected_p_values)
    yield Row(f"sets, {_part_title('B', SHARE)}", "thr, cells by label", _cell_sets)


def _of_c():
    yield _labels("C")
    yield _labels("C", "aps, 32 temperatures", share=SHARE, temperature=TEMPERATURES)
    yield from _sets("C", "aps")
    yield _all_scores("C")
    yield _pairs("C", SHARE)


def _of_few():
    yield _labels("small")
    part = 2 * (1 << 15) // SHAPES["small"][1]
    yield Row(
        f"label scores, {part} x {SHAPES['small'][1]}",
        "aps",
        lambda: partial(ts.label_scores, *_first("small", part), "aps"),
    )
    yield _calibration("small", "er-aps")
    for smoothed in (False, True):
        what = "aps, smoothed" if smoothed else "aps"
        yield Row(f"p-values, {title('small')}", what, partial(_p_values, smoothed=smoothed))


def _of_long(folder):
    n, k = LONG
    yield Row(
        f"label scores, {n} x {k:,}",
        "aps",
        lambda: partial(ts.label_scores, *logits_and_labels(*LONG), "aps"),
    )
    for k in (10, 1000, LONG[1]):
        yield Row("one row, predict_set", f"aps, K = {k:,}", partial(_one_row, k))
    yield Row("one row, predict_p", "aps, K = 1,000", partial(_one_row, 1000, "predict_p"))
    yield Row(
        "one row, predict_set",
        f"{MANY} survivors, K = {MANY_LABELS:,}",
        partial(_many, folder),
    )


def _first(name, n):
    logits, labels = workload(name)
    return logits[:n], labels[:n]


def _part(name, share):
    return _first(name, int(share * SHAPES[name][0]))


def _part_title(name, share):
    n, k = SHAPES[name]
    return title(name) if share == 1 else f"{int(share * n):,} x {k}"


@lru_cache(maxsize=2)
def _calibrated(name, score, temperature):
    return ts.calibrate(*workload(name), ALPHA, ts.Recipe(score, temperature=temperature))


def _sets(name, what, score="aps", temperature=1.0):
    """Sets of a calibrated predictor, and then with the mask."""

    def make(finish):
        predictor, (logits, _) = _calibrated(name, score, temperature), workload(name)
        return lambda: finish(predictor.predict_set(logits))

    work = f"sets, {title(name)}"
    yield Row(work, what, partial(make, lambda sets: sets))
    yield Row(work, f"{what}, with the mask", partial(make, lambda sets: sets.mask))


def _calibrating(name, recipe, share=1.0):
    return partial(ts.calibrate, *_part(name, share), ALPHA, recipe)


def _calibration(name, recipe, share=1.0):
    return Row(f"calibrate, {_part_title(name, share)}", recipe, lambda: _calibrating(name, recipe, share))


def _all_scores(name):
    return Row(
        f"scores of all labels, {_part_title(name, SHARE)}",
        "aps",
        lambda: partial(ts.all_scores, _part(name, SHARE)[0], "aps"),
    )


def _p_values(*, smoothed):
    logits, labels = workload("small")
    predictor = ts.calibrate(logits, labels, ALPHA, "aps")
    return partial(predictor.predict_p, logits, smoothed=smoothed)


def _one_row(k, method="predict_set"):
    logits, labels = logits_and_labels(200, k)
    predictor = ts.calibrate(logits, labels, ALPHA, "aps")
    return partial(getattr(predictor, method), logits[0].copy())


def _cell_sets():
    logits, labels = _part("B", SHARE)
    predictor = ts.calibrate(logits, labels, ALPHA, "thr", condition="label")
    return partial(predictor.predict_set, logits)


def _pairs(name, share):
    def make():
        logits, labels = _part(name, share)
        lo, hi = _edges(logits, labels, _eight_candidates())
        return partial(_core.count_pairs, logits, _cores(_eight_candidates()), lo, hi, seed=0)

    return Row(f"count_pairs, {_part_title(name, share)}", "8 candidates", make)


@lru_cache
def _eight_candidates():
    return [ts.Scoring("aps", r, 2.0**t) for r in (None, ts.Entropy(1.0)) for t in (-3, -2.5, -2, -1.5)]


def _cores(scorings):
    return [scoring.core for scoring in scorings]


def _scores(logits, labels, scorings):
    found = _core.label_scores(logits, labels, _cores(scorings), ranked=True, seed=0)
    return found.reshape(len(scorings), len(labels))


def _edges(logits, labels, scorings):
    """Return the order statistics of each candidate's scores around the conformal rank."""
    rank = _core.conformal_rank(len(labels), ALPHA)
    found = _core.order_statistics(_scores(logits, labels, scorings), [rank - 1, rank])
    return np.ascontiguousarray(found.T)


def _brackets(logits, labels, scorings):
    """Return what prediction needs of each candidate: lo, hi, the pairs up to lo, the scores between.

    Candidates that would not survive the selection get as few pairs as they need to.
    """
    lo, hi = _edges(logits, labels, scorings)
    counts, between = _core.count_pairs(logits, _cores(scorings), lo, hi, keep=True, seed=0)
    most = counts[:, 1].min() + np.uint64(logits.shape[1])
    return lo, hi, np.minimum(counts[:, 0], most), between


def _survivors(scorings, lo, hi, at_lo, between):
    each = zip(_cores(scorings), lo.tolist(), hi.tolist(), at_lo.tolist(), between, strict=True)
    return _core.Survivors([(*survivor, 1) for survivor in each])


def _selected_sets(logits, survivors):
    return _core.predict_selected_sets(logits, survivors, allow_empty=True, seed=0)


def _eight():
    candidates = _eight_candidates()
    return _survivors(candidates, *_brackets(*_first("B", EIGHT_ROWS), candidates))


def _selected_p_values():
    sorted_scores = list(np.sort(_scores(*_first("B", EIGHT_ROWS), _eight_candidates())))
    logits, _ = _part("B", SHARE)
    return partial(_core.selected_p_values, logits, _eight(), sorted_scores, seed=0)


def _many(folder):
    """The set of one row by many candidates. Their brackets take many seconds to make, so they are kept."""
    from tightset.recipes import as_recipe

    logits, labels = logits_and_labels(MANY_ROWS + 1, MANY_LABELS)
    scorings = as_recipe("er-aps").candidates[:MANY]
    path = folder / f"{MANY}-survivors-{MANY_ROWS}-{MANY_LABELS}.npz"
    if not path.exists():
        lo, hi, at_lo, between = _brackets(logits[:MANY_ROWS], labels[:MANY_ROWS], scorings)
        ends = np.cumsum([len(scores) for scores in between])
        part = path.with_suffix(f".{os.getpid()}.npz")  # both sides may be here
        np.savez(part, lo=lo, hi=hi, at_lo=at_lo, between=np.concatenate(between), ends=ends)
        part.replace(path)
    with np.load(path) as kept:
        between = np.split(kept["between"], kept["ends"][:-1])
        survivors = _survivors(scorings, kept["lo"], kept["hi"], kept["at_lo"], between)
    return partial(_selected_sets, logits[MANY_ROWS:].copy(), survivors)


def best_time(call, clock, seconds):
    """Return the least time of a call, by that clock.

    It is called for so many seconds, and a few times at least: the first calls take longer.
    """
    least, spent, calls, number = float("inf"), 0.0, 0, 1
    while spent < seconds or (calls < FEW and spent < LONGEST * seconds):
        start = clock()
        for _ in range(number):
            call()
        took = clock() - start
        least, spent, calls = min(least, took / number), spent + took, calls + number
        if took < BATCH:
            number *= 2
    return least


def answer(command, row, calls, clock, seconds):
    """Do as a command says, and return what to tell of it."""
    try:
        if command == "make":
            calls.clear()  # what the last one held is free
            calls[row] = row.make()
            return {}
        return {"seconds": best_time(calls[row], clock, seconds)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main(folder, threads, seconds):
    ts.set_num_threads(int(threads))
    clock = time.process_time if int(threads) == 1 else time.perf_counter
    gc.disable()
    everything, calls = rows(Path(folder)), {}
    named = [{"work": row.work, "what": row.what, "over": row.over} for row in everything]
    print(json.dumps({"from": ts.__file__, "level": _core.simd_level(), "rows": named}), flush=True)
    for line in sys.stdin:
        command, index = line.split()
        print(json.dumps(answer(command, everything[int(index)], calls, clock, float(seconds))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

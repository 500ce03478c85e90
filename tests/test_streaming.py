"""Calibration in blocks and passes: the bits that all rows at once give, however they come."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic
from tightset import _core
from tightset.progress import RowProgress
from tightset.streaming import block as block_module
from tightset.streaming import plan as plan_module
from tightset.streaming import run

INF = float("inf")
SINGLE = ("thr", "aps", "raps", "saps", "rank", "mixed")
EXACT = (
    "er-aps",
    "er-raps",
    "er-thr",
    ts.Recipe(["aps", "thr"], [None, ts.Entropy(0.1)], [0, 1, INF], "modsel"),
)
SPLIT = ("paper", "released", ts.Recipe("aps", [None, "entropy"], [0.5, 1, 2, 8], "held-out"))

pytestmark = pytest.mark.filterwarnings("ignore::tightset.SmallCalibrationWarning")


def problem(seed=0, n=3000, n_labels=7, *, ties=False):
    rng = np.random.default_rng(seed)
    logits, labels = synthetic(rng, n, n_labels, strength=2.0)
    if ties:
        logits = np.round(logits)[rng.integers(n, size=n)]
        labels = rng.integers(n_labels, size=n)
    return logits, labels, rng.permutation(10 * n)[:n]


def cuts(rng, n, parts):
    """Uneven blocks, some of them empty."""
    edges = np.sort(rng.integers(0, n + 1, size=parts - 1))
    return np.split(np.arange(n), edges)


def in_passes(blocks, recipe, alpha, *, readers=3, via_bytes=True, **options):
    """Calibrate by hand: readers take turns, each pass ends in one merge a reader."""
    state = ts.Calibration(recipe, alpha, **options)
    while not state.is_complete:
        state.begin_pass()
        workers = [state.worker() for _ in range(readers)]
        for i, block in enumerate(blocks):
            assert workers[i % readers].update(*block)
        for worker in workers:
            state.merge(ts.Calibration.from_bytes(worker.to_bytes()) if via_bytes else worker)
        state.end_pass()
        if via_bytes:
            state = ts.Calibration.from_bytes(state.to_bytes())
    return state.finish()


def curve_of(predictor):
    curve = predictor.selection_curve
    return (
        None
        if curve is None
        else (curve.chosen, curve.survivors, curve.sizes.tolist(), curve.thresholds.tolist())
    )


@pytest.mark.parametrize("recipe", [*SINGLE, *EXACT], ids=str)
@pytest.mark.parametrize("state_bytes", [2**22, 2**12])
def test_passes_give_what_all_rows_at_once_give(recipe, state_bytes):
    logits, labels, _ = problem()
    rng = np.random.default_rng(1)
    order = np.argsort(labels, kind="stable")  # shards that have nothing in common
    blocks = [(logits[order[part]], labels[order[part]]) for part in cuts(rng, len(labels), 9)]
    found = in_passes(blocks, recipe, [0.02, 0.1, 0.5], seed=5, state_bytes=state_bytes)
    expected = ts.calibrate(logits, labels, [0.02, 0.1, 0.5], recipe, seed=5)
    assert found == expected
    assert [curve_of(p) for p in found] == [curve_of(p) for p in expected]
    new = logits[:50] + 0.1
    assert found[1].predict_set(new) == expected[1].predict_set(new)


def test_the_recipe_with_handicaps():
    logits, labels, ids = problem(n=400, n_labels=4)
    found = in_passes(
        [(logits[:150], labels[:150], ids[:150]), (logits[150:], labels[150:], ids[150:])], "tightest", 0.1
    )
    assert found == ts.calibrate(logits, labels, 0.1, "tightest", row_ids=ids)


def test_counts_that_handicaps_would_overflow_are_refused(monkeypatch):
    logits, labels, _ = problem(n=200, n_labels=4)
    monkeypatch.setattr(plan_module, "MOST_WEIGHTED_PAIRS", 100)
    assert ts.calibrate_stream([(logits, labels)], 0.1, "er-thr") == ts.calibrate(
        logits, labels, 0.1, "er-thr"
    )
    with pytest.raises(ValueError, match="sums of set sizes up to 100, got"):
        ts.calibrate_stream([(logits, labels)], 0.1, "tightest")


@pytest.mark.parametrize("seed", range(12))
def test_ties_few_rows_and_impossible_labels(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 200))
    logits, labels, ids = problem(seed, n, 3, ties=True)
    if seed % 3 == 0:
        logits[rng.random(logits.shape) < 0.2] = -INF
        logits[np.arange(n), rng.integers(3, size=n)] = 0.0
    ids = ids if seed % 2 else None
    recipe = ts.Recipe(["aps", "thr"], [None, "entropy"], [0, 0.5, 2, INF], "modsel") if seed % 4 else "aps"
    blocks = [
        (logits[part], labels[part], None if ids is None else ids[part])
        for part in cuts(rng, n, int(rng.integers(1, 6)))
    ]
    alphas = [0.01, 0.1, 1 / 3, 0.9]
    found = in_passes(blocks, recipe, alphas, seed=seed, state_bytes=int(2 ** rng.integers(6, 16)))
    assert found == ts.calibrate(logits, labels, alphas, recipe, seed=seed, row_ids=ids)


MASK = 2**64 - 1


def splitmix(word):
    word = (word + 0x9E3779B97F4A7C15) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def split_by_definition(recipe, logits, labels, ids, split_ids, alpha, seed):
    """Candidate, threshold and rows of a selection that splits by a hash, from scores of all pairs."""
    parts = 4 if recipe.selection == "held-out" else 2
    key = splitmix((seed + 0x53706C69745F7631) & MASK)
    first = np.array([splitmix(int(i) ^ key) < 2**64 // parts for i in split_ids])
    fit, size = first, first if parts == 4 else ~first
    calibrate = {"held-out": ~first, "paper": first | ~first, "released": first}[recipe.selection]
    best = (INF, None)
    tables = []
    for m, c in enumerate(recipe.candidates):
        options = {
            "reweight": c.reweight,
            "temperature": c.temperature,
            "seed": seed,
            "row_ids": ids,
            "ranked": True,
        }
        own = ts.label_scores(logits, labels, c.score, **options)
        tables.append(own)
        q = np.sort(own[fit])[ts.conformal_rank(int(fit.sum()), alpha) - 1]
        pairs = int((ts.all_scores(logits, c.score, **options)[size] <= q).sum())
        best = min(best, (pairs, m), key=lambda pair: pair[0])
    rank = ts.conformal_rank(int(calibrate.sum()), alpha)
    return recipe.candidates[best[1]], np.sort(tables[best[1]][calibrate])[rank - 1], int(calibrate.sum())


@pytest.mark.parametrize("recipe", SPLIT, ids=str)
@pytest.mark.parametrize("with_ids", [False, True])
def test_splits_are_by_the_hash_of_ids_or_numbers(recipe, with_ids):
    logits, labels, ids = problem(3, 1200, 5)
    n = len(labels)
    used = ts.calibrate(logits, labels, 0.1, recipe).recipe
    rng = np.random.default_rng(0)
    expected = split_by_definition(
        used, logits, labels, ids if with_ids else None, ids if with_ids else np.arange(n), 0.1, 7
    )
    predictors = []
    for parts in (1, 4, 30):
        blocks = [(logits[p], labels[p], *((ids[p],) if with_ids else ())) for p in cuts(rng, n, parts)]
        predictors.append(
            ts.calibrate_stream(blocks, 0.1, recipe, seed=7, max_memory=1 if parts == 4 else 2**30)
        )
    if with_ids:  # then the order does not matter either
        order = rng.permutation(n)
        predictors.append(in_passes([(logits[order], labels[order], ids[order])], recipe, 0.1, seed=7))
    for found in predictors:
        assert (found.scoring, found.threshold, found.n_calibration) == expected
        assert found == predictors[0]


@pytest.mark.parametrize("objective", ["size", "singletons"])
def test_objectives(objective):
    logits, labels, _ = problem(2, 2000, 6)
    blocks = [(logits[:900], labels[:900]), (logits[900:], labels[900:])]
    found = ts.calibrate_stream(blocks, 0.1, "er-aps", objective=objective)
    assert found.recipe.selection == ("modsel" if objective == "size" else "held-out")
    assert 0.85 < found.predict_set(logits).coverage(labels) < 0.95
    with pytest.raises(ValueError, match="objective 'adaptive' needs the entropies of all rows"):
        ts.Calibration("er-aps", objective="adaptive")


def test_a_block_is_counted_once():
    logits, labels, _ = problem(n=500)
    state = ts.Calibration("aps", 0.1)
    state.begin_pass()
    twin = state.worker()
    assert state.update(logits[:300], labels[:300], block=0)
    assert not state.update(logits[:300], labels[:300], block=0)
    assert twin.update(logits[:300], labels[:300], block=0)
    state.merge(twin)
    assert state.rows_in_pass == 300
    assert twin.update(logits[300:], labels[300:], block=1)
    with pytest.raises(ValueError, match="both have counted block 0"):
        state.merge(twin)
    assert state.rows_in_pass == 300


def test_other_rows_in_a_later_pass_are_noticed():
    logits, labels, _ = problem(n=500)
    for change, message in (
        (lambda z: z[:-1], "pass 2 was given 499 rows"),
        (lambda z: z + 5 * np.arange(7), "the rows of this pass are not those of the pass before"),
    ):
        state = ts.Calibration("aps", 0.1, state_bytes=2**10)
        state.begin_pass()
        state.update(logits, labels)
        state.end_pass()
        state.begin_pass()
        other = change(logits)
        state.update(other, labels[: len(other)])
        with pytest.raises(ValueError, match=message):
            state.end_pass()


def test_misuse_is_refused():
    logits, labels, ids = problem(n=50)
    state = ts.Calibration("paper", 0.1)
    for call in (
        lambda: state.update(logits, labels),
        state.end_pass,
        state.worker,
        lambda: state.merge(state),
    ):
        with pytest.raises(ValueError, match="call begin_pass first"):
            call()
    with pytest.raises(ValueError, match="not complete: pass 1 comes next"):
        state.finish()
    assert state.begin_pass() == 1
    with pytest.raises(ValueError, match="pass 1 has begun already"):
        state.begin_pass()
    with pytest.raises(ValueError, match="at least one row, got 0"):
        state.end_pass()
    with pytest.raises(ValueError, match="start must be given without row_ids: selection='paper'"):
        state.update(logits, labels)
    state.update(logits[:20], labels[:20], ids[:20])
    with pytest.raises(ValueError, match="every update or in none: earlier ones were with"):
        state.update(logits[20:], labels[20:], start=20)
    with pytest.raises(ValueError, match="7 labels as in calibration, got 6"):
        state.update(logits[:, 1:], labels, ids)
    with pytest.raises(ValueError, match="reader of the same pass"):
        state.merge(ts.Calibration("paper", 0.2))
    with pytest.raises(TypeError, match="other must be a Calibration"):
        state.merge(3)
    done = ts.Calibration("aps", 0.1)
    while not done.is_complete:
        done.begin_pass()
        done.update(logits, labels)
        done.end_pass()
    with pytest.raises(ValueError, match="alpha must be one of those asked for"):
        done.finish(0.2)
    assert done.finish(0.1) == done.finish()
    with pytest.raises(ValueError, match="complete: call finish"):
        done.begin_pass()


def test_bad_rows_leave_the_state_as_it_was():
    logits, labels, _ = problem(n=200)
    state = ts.Calibration("er-aps", 0.1)
    state.begin_pass()
    state.update(logits[:100], labels[:100])
    before = state.to_bytes()
    bad = logits[100:].copy()
    bad[-1, 2] = np.nan
    with pytest.raises(ValueError, match="nan at row 99"):
        state.update(bad, labels[100:])
    with pytest.raises(ValueError, match="labels must be between 0 and 6"):
        state.update(logits[100:], labels[100:] + 7)
    assert state.to_bytes() == before


def test_bytes_hold_no_code_and_are_checked():
    state = ts.Calibration("tightest", [0.1, 0.2], seed=2**64 - 1)
    state.begin_pass()
    data = state.to_bytes()
    assert ts.Calibration.from_bytes(data).to_bytes() == data
    assert pickle.loads(pickle.dumps(state)).to_bytes() == data
    for bad in (b"", b"tightset-calibration-1\nxx", data[:-20], data.replace(b"-1\n", b"-2\n", 1)):
        with pytest.raises(ValueError, match="data"):
            ts.Calibration.from_bytes(bad)


def test_states_stay_small():
    logits, labels, _ = problem(n=20_000, n_labels=10)
    state = ts.Calibration("er-aps", 0.1)
    while not state.is_complete:
        state.begin_pass()
        state.update(logits, labels)
        assert len(state.to_bytes()) < 8_000_000
        state.end_pass()


@pytest.mark.parametrize("max_memory", [1, 2**20, 2**30])
def test_memory_decides_how_often_the_source_is_read(max_memory):
    logits, labels, _ = problem(n=2000)
    readings = 0

    def source():
        nonlocal readings
        readings += 1
        return ((logits[i : i + 300], labels[i : i + 300]) for i in range(0, 2000, 300))

    found = ts.calibrate_stream(source, [0.05, 0.1], "er-aps", max_memory=max_memory)
    assert found == ts.calibrate(logits, labels, [0.05, 0.1])
    # Scores, counts, scores between; without room for the scores, their ranks take more readings.
    assert readings == 3 if max_memory == 2**30 else readings > 3


@pytest.mark.parametrize(
    ("recipe", "one_shot"), [("aps", False), ("aps", True), ("er-aps", False), ("er-thr", False)]
)
def test_scores_that_fit_stay_for_p_values(recipe, one_shot):
    logits, labels, _ = problem(n=1200)
    blocks = [(logits[i : i + 250], labels[i : i + 250]) for i in range(0, 1200, 250)]
    alphas = [0.05, 0.2]
    found = ts.calibrate_stream(iter(blocks) if one_shot else blocks, alphas, recipe)
    for ours, expected in zip(found, ts.calibrate(logits, labels, alphas, recipe), strict=True):
        assert ours.calibration_scores.tobytes() == expected.calibration_scores.tobytes()
        assert not ours.calibration_scores.flags.writeable
        assert ours.predict_p(logits[:40]).tobytes() == expected.predict_p(logits[:40]).tobytes()
        assert pickle.loads(pickle.dumps(ours)).predict_p(logits[0]).shape == (1, 7)
        if recipe != "aps":
            ours, expected = ours.selection_curve, expected.selection_curve
            assert ours.coverage_by_entropy == expected.coverage_by_entropy
            assert (ours.level, len(ours.coverage_by_entropy)) == (expected.level, 5)


def test_p_values_of_a_part_of_the_rows():
    logits, labels, ids = problem(n=1200)
    found = ts.calibrate_stream([(logits, labels, ids)], 0.1, "released")
    assert found.calibration_scores.shape == (1, found.n_calibration)
    assert found.calibration_scores[0, found.rank - 1] == found.threshold
    p = found.predict_p(logits, row_ids=ids)
    assert np.array_equal(p > 0.1, found.predict_set(logits, row_ids=ids).mask)


@pytest.mark.parametrize(
    ("recipe", "max_memory"),
    [("aps", 8 * 1199), ("er-aps", 2**16), ("paper", 2**30), (SPLIT[2], 2**30)],
    ids=str,
)
def test_p_values_without_scores_are_refused(recipe, max_memory):
    logits, labels, _ = problem(n=1200)
    found = ts.calibrate_stream([(logits, labels)], 0.1, recipe, max_memory=max_memory)
    with pytest.raises(ValueError, match=r"calibrated on blocks whose scores were not kept \(max_memory\)"):
        found.predict_p(logits)


def test_one_shot_iterators():
    logits, labels, _ = problem(n=1000)
    blocks = [(logits[i : i + 300], labels[i : i + 300]) for i in range(0, 1000, 300)]
    assert ts.calibrate_stream(iter(blocks), 0.1, "raps") == ts.calibrate(logits, labels, 0.1, "raps")
    for recipe in ("er-aps", "released", "paper"):
        with pytest.raises(ValueError, match="source can be read only once, and a recipe with"):
            ts.calibrate_stream(iter(blocks), 0.1, recipe)
    with pytest.raises(ValueError, match="max_memory must hold the scores"):
        ts.calibrate_stream(iter(blocks), 0.1, "aps", max_memory=1000)
    with pytest.raises(ValueError, match="checkpoint needs a source that can be read again"):
        ts.calibrate_stream(iter(blocks), 0.1, "aps", checkpoint="x")


def test_calibrate_takes_sources():
    logits, labels, _ = problem(n=1000)
    blocks = [(logits[i : i + 300], labels[i : i + 300]) for i in range(0, 1000, 300)]
    assert ts.calibrate(blocks, alpha=0.1) == ts.calibrate(logits, labels, 0.1)
    with pytest.raises(TypeError, match="row_ids must be part of the blocks"):
        ts.calibrate(blocks, alpha=0.1, row_ids=[1])
    with pytest.raises(TypeError, match="labels must be given with an array of logits"):
        ts.calibrate(logits)


class Interrupted:
    """A source that is interrupted once, in a given reading, before a given block."""

    def __init__(self, blocks, reading, block):
        self.blocks, self.when, self.readings = blocks, (reading, block), 0

    def __iter__(self):
        self.readings += 1
        for i, block in enumerate(self.blocks):
            if (self.readings, i) == self.when:
                raise KeyboardInterrupt
            yield block


@pytest.mark.parametrize("when", [(1, 0), (1, 3), (2, 0), (3, 5), (4, 1), (5, 2)])
@pytest.mark.parametrize("recipe", ["er-aps", "paper"])
def test_an_interrupted_call_is_taken_up_again(tmp_path, when, recipe):
    logits, labels, _ = problem(n=1500)
    blocks = [(logits[i : i + 200], labels[i : i + 200]) for i in range(0, 1500, 200)]
    source, path = Interrupted(blocks, *when), tmp_path / "state"
    options = {"seed": 3, "max_memory": 2**16, "checkpoint": path}
    with pytest.raises(KeyboardInterrupt):
        ts.calibrate_stream(source, 0.1, recipe, **options)
    assert [p.name for p in tmp_path.iterdir()] == ["state"]
    with pytest.raises(ValueError, match="of a call with other arguments: seed was 3, is 4"):
        ts.calibrate_stream(source, 0.1, recipe, **options | {"seed": 4})
    found = ts.calibrate_stream(source, 0.1, recipe, **options)
    assert found == ts.calibrate_stream(blocks, 0.1, recipe, seed=3)
    assert not list(tmp_path.iterdir())


def test_an_interrupt_in_the_middle_of_a_block(tmp_path, monkeypatch):
    logits, labels, _ = problem(n=1500)
    blocks = [(logits[i : i + 400], labels[i : i + 400]) for i in range(0, 1500, 400)]
    monkeypatch.setattr(block_module, "_BYTES_OF_SCORES", 8 * 100)  # a hundred rows at a time
    real, calls = block_module.add_scores, 0

    def interrupted(*arguments):
        nonlocal calls
        calls += 1
        if calls in (6, 12):
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(block_module, "add_scores", interrupted)
    options = {"max_memory": 2**10, "checkpoint": tmp_path / "state"}
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            ts.calibrate_stream(blocks, 0.1, "aps", **options)
    assert ts.calibrate_stream(blocks, 0.1, "aps", **options) == ts.calibrate(logits, labels, 0.1, "aps")


def test_checkpoints_are_written_from_time_to_time(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    logits, labels, _ = problem(n=400)
    path, sizes = tmp_path / "state", []

    def source():
        for i in range(0, 400, 100):
            yield logits[i : i + 100], labels[i : i + 100]
            sizes.append(ts.Calibration.from_bytes(path.read_bytes()).rows_in_pass)

    ts.calibrate_stream(source, 0.1, "aps", max_memory=2**9, checkpoint=path)
    assert sizes[:4] == [100, 200, 300, 400]


def test_a_checkpoint_that_is_none_is_refused(tmp_path):
    (tmp_path / "state").write_bytes(b"something else")
    with pytest.raises(ValueError, match="cannot be used: data must be bytes"):
        ts.calibrate_stream([], 0.1, "aps", checkpoint=tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == b"something else"


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (3, TypeError, "source must be an iterable"),
        ("nowhere.parquet", FileNotFoundError, "source must be a file or folder that exists"),
        ([np.zeros((3, 2))], TypeError, "block 0 must be \\(logits, labels\\)"),
        ([(np.zeros((3, 2)),)], TypeError, "block 0 must be .* got 1 parts"),
        ([], ValueError, "at least one row, got 0"),
    ],
)
def test_bad_sources(source, error, message):
    with pytest.raises(error, match=message):
        ts.calibrate_stream(source, 0.1, "aps")


def test_errors_say_which_block():
    logits, labels, _ = problem(n=100)
    bad = logits[50:].copy()
    bad[3] = np.nan
    with pytest.raises(ValueError, match="nan at row 3") as caught:
        ts.calibrate_stream([(logits[:50], labels[:50]), (bad, labels[50:])], 0.1, "aps")
    assert caught.value.__notes__ == ["in block 1 of the source, which begins at row 50"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("total", "line"),
    [(None, "pass 1 3,000 rows, 1,000 rows/s"), (6000, "#####] 50%, 1,000 rows/s, 3 s left")],
)
def test_progress_has_a_rate_and_the_time_left(monkeypatch, total, line):
    clock = iter([0.0, 0.5, 3.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with RowProgress(total, "pass 1") as progress:
        progress.advance(1000)
        assert not terminal.getvalue()  # nothing in the first second
        progress.advance(2000)
        shown = terminal.getvalue()
    assert line in shown.replace(" " * 15, "").replace("]  50%", "] 50%")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_warnings_come_once():
    logits, labels, _ = problem(n=5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ts.calibrate_stream([(logits, labels)], 0.01, "er-aps")
    assert [w.category for w in caught] == [ts.SmallCalibrationWarning]


@pytest.mark.parametrize(
    ("n", "block"),
    [(10**7, 10**6), pytest.param(10**9, 2**22, marks=[pytest.mark.slow, pytest.mark.timeout(3000)])],
)
def test_exact_rank_of_scores_that_are_never_together(n, block):
    """Scores generated from their numbers by a permutation, so that every order statistic is known."""
    from tightset.streaming.ranks import RankSearch

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


_STREAMED = """
import numpy as np
import tightset as ts
import footprint

def blocks():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        yield rng.standard_normal((20_000, 100), dtype=np.float32), rng.integers(100, size=20_000)

for _ in zip(range(2), blocks()):
    pass
before = footprint.peak()
predictor = ts.calibrate_stream(blocks, 0.1, "aps", max_memory=2**20)
print(predictor.n_calibration, footprint.peak() - before)
"""


def test_memory_is_bounded_whatever_the_source_holds():
    """480 MB of logits and 9.6 MB of scores go through; the tenth of the logits would be too much."""
    where = Path(__file__).parent
    run = subprocess.run(
        [sys.executable, "-c", _STREAMED], cwd=where, capture_output=True, text=True, check=True
    )
    rows, beyond = map(int, run.stdout.split())
    assert rows == 1_200_000
    assert beyond < 48_000_000

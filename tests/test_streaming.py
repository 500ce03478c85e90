"""Calibration in blocks and passes: the bits that all rows at once give, however they come."""

from __future__ import annotations

import io
import json
import pickle
import zlib

import numpy as np
import pytest

import tightset as ts
from conftest import SCORES
from streaming_cases import cuts, problem
from tightset.streaming import plan as plan_module
from tightset.streaming.ledger import Ledger, LedgerRows

INF = float("inf")
EXACT = (
    "er-aps",
    "er-raps",
    "er-thr",
    ts.Recipe(["aps", "thr"], [None, ts.Entropy(0.1)], [0, 1, INF], "modsel"),
)
SPLIT = ("paper", "released", ts.Recipe("aps", [None, "entropy"], [0.5, 1, 2, 8], "held-out"))

pytestmark = pytest.mark.filterwarnings("ignore::tightset.SmallCalibrationWarning")


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


@pytest.mark.parametrize("recipe", [*SCORES, *EXACT], ids=str)
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
    assert repr(state) == "Calibration(25 candidates, alpha [0.1], pass 1, 20 rows)"
    shared = ts.Calibration("aps", 0.1)
    shared.begin_pass()
    narrow, without_ids = shared.worker(), shared.worker()
    shared.update(logits, labels, ids)
    narrow.update(logits[:, 1:], labels % 6, ids)
    without_ids.update(logits, labels)
    with pytest.raises(ValueError, match="other must agree in n_labels: 6 there, 7 here"):
        shared.merge(narrow)
    with pytest.raises(ValueError, match="other must agree in uses_row_ids: False there, True here"):
        shared.merge(without_ids)
    done = ts.Calibration("aps", 0.1)
    while not done.is_complete:
        done.begin_pass()
        done.update(logits, labels)
        done.end_pass()
    with pytest.raises(ValueError, match="alpha must be one of those asked for"):
        done.finish(0.2)
    assert done.finish(0.1) == done.finish()
    assert repr(done) == "Calibration(1 candidates, alpha [0.1], complete)"
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


def forged(data, **changes):
    """Return bytes of a state with other arrays, or other fields of its document."""
    magic, _, packed = data.partition(b"\n")
    with np.load(io.BytesIO(zlib.decompress(packed)), allow_pickle=False) as file:
        arrays = dict(file)
    document = json.loads(arrays["document"].tobytes())
    for name, value in changes.items():
        (document if name in document else arrays)[name] = value
    arrays["document"] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)
    return magic + b"\n" + zlib.compress(out.getvalue())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tightset": "0.0.0"}, "its tightset is '0.0.0'; this is"),
        ({"generator": "dice"}, "its generator is 'dice'; this is"),
        ({"digits": np.zeros((1, 2))}, r"its counts have shape \(1, 2\), the pass needs"),
        ({"keys": np.zeros(5, np.uint64)}, "5 numbers do not fill 0 places"),
    ],
)
def test_states_that_do_not_hold_together_are_refused(changes, message):
    state = ts.Calibration("aps", 0.1)
    state.begin_pass()
    state.update(*problem(n=50)[:2])
    data = state.to_bytes()
    assert ts.Calibration.from_bytes(forged(data)).to_bytes() == data
    with pytest.raises(ValueError, match=f"data is not a valid calibration state: {message}"):
        ts.Calibration.from_bytes(forged(data, **changes))


def test_what_passes_do_not_keep_is_not_made_up():
    rows = LedgerRows(Ledger((5, 5)), [], 3)
    for call in (rows.entropies, lambda: rows.score_groups([], rows.part("all"))):
        with pytest.raises(ValueError, match="needs the entropies of all rows at hand"):
            call()


def test_states_stay_small():
    logits, labels, _ = problem(n=20_000, n_labels=10)
    state = ts.Calibration("er-aps", 0.1)
    while not state.is_complete:
        state.begin_pass()
        state.update(logits, labels)
        assert len(state.to_bytes()) < 8_000_000
        state.end_pass()

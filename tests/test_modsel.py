"""Selection "modsel": set for set what its definition in plain NumPy gives, and the same set every way."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import modsel_reference as slow
import reference
import tightset as ts
from conftest import synthetic
from tightset.modsel import _check_sums

INF = float("inf")
REWEIGHTS = (
    None,
    ts.Entropy(0.0),
    ts.Entropy(0.1),
    ts.Entropy(1.0),
    ts.Entropy(0.01, 0.5),
    ts.Entropy(1.0, -0.1),
)
ALPHAS = (0.01, 0.05, 0.1, 0.2, 0.25, 1 / 3, 0.5, 0.7, 0.9)

pytestmark = [
    pytest.mark.filterwarnings("ignore::tightset.SmallCalibrationWarning"),
    pytest.mark.filterwarnings("ignore::tightset.ProbabilitiesWarning"),
]


@dataclass
class Problem:
    """Rows to calibrate on, rows to predict and a recipe."""

    logits: Any
    labels: Any
    new: Any
    recipe: ts.Recipe
    seed: int = 0
    row_ids: Any = None
    new_ids: Any = None

    def calibrate(self, alpha, **options):
        options = {"seed": self.seed, "row_ids": self.row_ids} | options
        return ts.calibrate(self.logits, self.labels, alpha, self.recipe, **options)

    def tables(self, recipe=None):
        return slow.score_tables(
            (recipe or self.recipe).candidates,
            self.logits,
            self.labels,
            self.new,
            seed=self.seed,
            row_ids=self.row_ids,
            new_ids=self.new_ids,
        )

    def rank(self, alpha):
        return reference.conformal_rank(len(self.labels), round(alpha, 12))


def mask(tables, k):
    label_scores, calibration, new = tables
    rows = range(new.shape[1])
    return np.stack([slow.prediction_set(label_scores, calibration, new[:, i], k) for i in rows])


def random_recipe(rng):
    """Up to 40 candidates; limits in temperature where every score has them."""
    everything = ("thr", "aps", "rank", ts.RAPS(0.01, 1), ts.RAPS(0.3, 0), ts.SAPS(0.05), ts.SAPS(1.0))
    scores = ("thr", "aps") if rng.random() < 0.5 else everything
    score = list(rng.permutation(np.array(scores, dtype=object))[: rng.integers(1, 4)])
    order = rng.permutation(len(REWEIGHTS))
    reweight = [REWEIGHTS[i] for i in order[: rng.integers(1, 5)]]
    most = max(1, 40 // (len(score) * len(reweight)))
    temperature = list(2.0 ** rng.integers(-4, 8, size=rng.integers(1, most + 1)))
    if scores == ("thr", "aps"):
        temperature = [*rng.choice([0.0, INF], size=rng.integers(3)), *temperature][:most]
    return ts.Recipe(score, reweight, temperature, "modsel")


def random_problem(seed):
    """Small, with ties of every kind: coarse logits, repeated rows, impossible labels."""
    rng = np.random.default_rng(seed)
    n, n_labels, n_new = rng.integers(1, 61), rng.integers(1, 13), 8
    logits, labels = synthetic(rng, n + n_new, n_labels, strength=rng.choice([0.0, 1.0, 3.0]))
    if rng.random() < 0.5:
        logits = np.round(logits * rng.choice([0.5, 1.0, 4.0]))
    if rng.random() < 0.3:
        logits = logits[rng.integers(len(logits), size=len(logits))]
    if rng.random() < 0.3:
        impossible = rng.random(logits.shape) < 0.3
        impossible[np.arange(len(logits)), rng.integers(n_labels, size=len(logits))] = False
        logits[impossible] = -INF
    logits = logits.astype(rng.choice([np.float32, np.float64]))
    ids = rng.integers(10**6, size=len(logits)) if rng.random() < 0.3 else None
    return Problem(
        logits=logits[:n],
        labels=labels[:n],
        new=logits[n:],
        recipe=random_recipe(rng),
        seed=int(rng.integers(2**63)),
        row_ids=None if ids is None else ids[:n],
        new_ids=None if ids is None else ids[n:],
    )


def check(problem, alpha):
    """Sets, p-values and survivors of a predictor against the definition."""
    predictor = problem.calibrate(alpha)
    n = len(problem.labels)
    k = problem.rank(alpha)
    assert (predictor.n_calibration, predictor.rank) == (n, k)
    label_scores, calibration, new = tables = problem.tables()
    expected = mask(tables, k)
    sets = predictor.predict_set(problem.new, row_ids=problem.new_ids)
    np.testing.assert_array_equal(sets.mask, expected)
    p = predictor.predict_p(problem.new, row_ids=problem.new_ids)
    # p > alpha in integers: alpha (n + 1) is at least n + 1 - k, and no integer lies between.
    np.testing.assert_array_equal(np.round(p * (n + 1)) > n + 1 - k, expected)
    if k > n or predictor.candidates[0].threshold == INF:
        # Every label is in whoever is chosen, and the first candidate gives the p-values.
        assert len(predictor.candidates) == 1 or k <= n
        return
    used = set()
    for i, row in enumerate(problem.new):
        scores = new[:, i]
        np.testing.assert_array_equal(p[i], slow.p_values(label_scores, calibration, scores, k))
        used |= set(slow.winners(label_scores, calibration, scores, k).tolist())
        one = predictor.predict_set(
            row, row_ids=None if problem.new_ids is None else problem.new_ids[i : i + 1]
        )
        np.testing.assert_array_equal(one.mask[0], expected[i])
    survivors = [candidate.scoring for candidate in predictor.candidates]
    everything = problem.recipe.candidates
    allowed = slow.kept(label_scores, calibration, k)
    assert {everything[m] for m in used} <= set(survivors) <= {everything[m] for m in allowed}
    _, hi = slow.edges(label_scores, k)
    for candidate in predictor.candidates:
        assert candidate.threshold == hi[everything.index(candidate.scoring)]
    # What was dropped cannot change a set.
    few = [m for m, scoring in enumerate(everything) if scoring in survivors]
    np.testing.assert_array_equal(mask((label_scores[few], calibration[few], new[few]), k), expected)


@pytest.mark.parametrize("seed", range(100))
def test_sets_are_those_of_the_definition(seed):
    rng = np.random.default_rng([seed, 1])
    problem = random_problem(seed)
    for alpha in rng.choice(ALPHAS, size=2, replace=False).tolist():
        check(problem, alpha)


@pytest.mark.parametrize(
    ("n", "alpha", "k"), [(1, 0.9, 1), (4, 0.9, 1), (9, 0.9, 1), (19, 0.9, 2), (9, 0.1, 9), (1, 0.5, 1)]
)
@pytest.mark.parametrize("n_labels", [1, 2, 7])
def test_first_and_last_ranks(n, alpha, k, n_labels):
    assert ts.conformal_rank(n, alpha) == k
    for seed in range(4):
        rng = np.random.default_rng([n, n_labels, seed])
        logits, labels = synthetic(rng, n + 8, n_labels, strength=1.0)
        recipe = ts.Recipe(["thr", "aps"], [None, "entropy"], [0.0, 0.5, 2.0, INF], "modsel")
        check(Problem(logits[:n], labels[:n], logits[n:], recipe), alpha)


@pytest.mark.parametrize("seed", range(10))
def test_candidates_that_only_some_row_chooses_survive(seed):
    """Few rows and many labels: the pairs of the row to predict weigh as much as the others'."""
    rng = np.random.default_rng([seed, 2])
    n = int(rng.integers(2, 9))
    logits, labels = synthetic(rng, n + 20, 12, strength=0.5)
    recipe = ts.Recipe(["thr", "aps"], [None, *REWEIGHTS[2:4]], [0.0, 0.25, 1.0, 4.0, 16.0, INF], "modsel")
    for alpha in (0.3, 0.6):
        check(Problem(logits[:n], labels[:n], logits[n:], recipe), alpha)


def test_too_few_rows_give_all_labels(rng):
    logits, labels = synthetic(rng, 20, 5)
    recipe = ts.Recipe("aps", None, [0.5, 1.0, 2.0], "modsel")
    with pytest.warns(ts.SmallCalibrationWarning, match=r"alpha=0\.01"):
        predictor = ts.calibrate(logits[:8], labels[:8], 0.01, recipe)
    assert predictor.rank == 9
    assert predictor.predict_set(logits).mask.all()


def test_equal_candidates_are_settled_by_order():
    """All logits of a row equal: every aps candidate is a function of U alone, and sizes tie."""
    rng = np.random.default_rng(3)
    logits = np.repeat(rng.normal(size=(30, 1)), 4, axis=1)
    labels = rng.integers(4, size=30)
    for scores in (["rank", "aps"], ["aps", "rank"], ["thr", "rank", "aps"]):
        recipe = ts.Recipe(scores, [None, ts.Entropy(1.0)], [0.5, 1.0, 4.0], "modsel")
        for alpha in (0.1, 0.3, 0.6):
            check(Problem(logits[:20], labels[:20], logits[20:], recipe), alpha)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_larger_problems(dtype):
    """More rows than labels many times over, so that most candidates drop out."""
    rng = np.random.default_rng(8)
    logits, labels = synthetic(rng, 420, 10, dtype=dtype)
    recipe = ts.Recipe(["thr", "aps"], [None, ts.Entropy(0.1)], [0.0, 0.25, 0.5, 1.0, 2.0, 8.0], "modsel")
    for alpha in (0.02, 0.1, 0.4):
        check(Problem(logits[:400], labels[:400], logits[400:], recipe), alpha)


def many_survivors(rng, n=60, n_new=40):
    """A problem whose candidates differ little, so that several survive."""
    logits, labels = synthetic(rng, n + n_new, 8, strength=1.5)
    recipe = ts.Recipe(["aps", "raps"], [None, ts.Entropy(1.0)], [0.45, 0.48, 0.5, 0.52, 0.55], "modsel")
    return Problem(logits[:n], labels[:n], logits[n:], recipe)


def test_threshold_of_several_points_to_candidates(rng):
    problem = many_survivors(rng)
    predictor = problem.calibrate(0.1)
    assert len(predictor.candidates) > 1
    for name in ("threshold", "scoring"):
        with pytest.raises(ValueError, match=r"\.candidates"):
            getattr(predictor, name)


def test_one_survivor_is_ordinary_split_conformal(rng):
    logits, labels = synthetic(rng, 2000, 10)
    recipe = ts.Recipe("aps", None, [0.5, 2.0**10], "modsel")
    predictor = ts.calibrate(logits[:1000], labels[:1000], 0.05, recipe)
    assert len(predictor.candidates) == 1
    one = ts.Recipe("aps", None, predictor.scoring.temperature)
    plain = ts.calibrate(logits[:1000], labels[:1000], 0.05, one)
    assert predictor.threshold == plain.threshold
    assert predictor.predict_set(logits) == plain.predict_set(logits)
    np.testing.assert_array_equal(predictor.predict_p(logits), plain.predict_p(logits))


def test_one_candidate_needs_no_selection(rng):
    logits, labels = synthetic(rng, 90, 6)
    for alpha in (0.01, 0.1, 0.9):
        selected = ts.calibrate(logits, labels, alpha, ts.Recipe("raps", None, 1.0, "modsel"))
        plain = ts.calibrate(logits, labels, alpha, "raps")
        assert selected.threshold == plain.threshold
        assert selected.predict_set(logits) == plain.predict_set(logits)


def test_a_recipe_of_the_survivors_gives_the_same_sets(rng):
    logits, labels = synthetic(rng, 500, 6, strength=2.0)
    temperatures = [0.0, *2.0 ** np.arange(-4, 11, 0.5), INF]
    for alpha in (0.03, 0.1, 0.3):
        predictor = ts.calibrate(
            logits[:200], labels[:200], alpha, ts.Recipe("aps", None, temperatures, "modsel")
        )
        survivors = [candidate.scoring.temperature for candidate in predictor.candidates]
        assert len(survivors) < len(temperatures)
        again = ts.calibrate(logits[:200], labels[:200], alpha, ts.Recipe("aps", None, survivors, "modsel"))
        assert again.predict_set(logits) == predictor.predict_set(logits)


def test_levels_share_readings_and_change_nothing():
    alphas = [0.01, 0.1, 0.3, 0.9]
    for seed in range(20):
        problem = random_problem(seed)
        for alpha, predictor in zip(alphas, problem.calibrate(alphas), strict=True):
            alone = problem.calibrate(alpha)
            assert predictor == alone
            ids = problem.new_ids
            assert predictor.predict_set(problem.new, row_ids=ids) == alone.predict_set(
                problem.new, row_ids=ids
            )


def test_memory_limits_change_nothing():
    for seed in range(20):
        problem = random_problem(seed)
        assert problem.calibrate(0.1) == problem.calibrate(0.1, max_memory=1)


@pytest.mark.parametrize("score_table", [False, True])
def test_saved_and_loaded_to_the_bit(tmp_path, score_table):
    path = tmp_path / "predictor.json"
    problems = [random_problem(seed) for seed in range(20)]
    problems += [many_survivors(np.random.default_rng(seed)) for seed in range(3)]
    for problem in problems:
        for predictor in problem.calibrate([0.1, 0.5]):
            predictor.save(path, score_table=score_table)
            loaded = ts.load(path)
            assert loaded == predictor
            others = (loaded, copy.deepcopy(predictor), pickle.loads(pickle.dumps(predictor)))
            sets = predictor.predict_set(problem.new, row_ids=problem.new_ids)
            for other in others:
                assert other.predict_set(problem.new, row_ids=problem.new_ids) == sets
            if score_table:
                np.testing.assert_array_equal(
                    loaded.predict_p(problem.new, row_ids=problem.new_ids),
                    predictor.predict_p(problem.new, row_ids=problem.new_ids),
                )


def test_p_values_need_the_score_table(rng, tmp_path):
    problem = many_survivors(rng)
    problem.calibrate(0.1).save(tmp_path / "p.json")
    with pytest.raises(ValueError, match="score_table=True"):
        ts.load(tmp_path / "p.json").predict_p(problem.new)


def test_threads_batches_and_layouts_change_nothing(rng):
    problem = many_survivors(rng, n=300, n_new=500)
    predictor = problem.calibrate(0.1, n_threads=1)
    assert len(predictor.candidates) > 1
    sets = predictor.predict_set(problem.new, n_threads=1)
    for n_threads in (2, 3, 7):
        assert problem.calibrate(0.1, n_threads=n_threads) == predictor
        assert predictor.predict_set(problem.new, n_threads=n_threads) == sets
    assert predictor.predict_set(np.asfortranarray(problem.new)) == sets
    order = rng.permutation(len(problem.new))
    assert predictor.predict_set(problem.new[order]) == sets[order]
    for start in range(0, 60, 7):
        assert predictor.predict_set(problem.new[start : start + 7]) == sets[start : start + 7]


def test_order_of_calibration_rows_changes_nothing(rng):
    problem = many_survivors(rng)
    order = rng.permutation(len(problem.labels))
    shuffled = Problem(problem.logits[order], problem.labels[order], problem.new, problem.recipe)
    sets = problem.calibrate(0.1).predict_set(problem.new)
    assert shuffled.calibrate(0.1).predict_set(problem.new) == sets


def test_empty_sets_may_be_refused(rng):
    logits, labels = synthetic(rng, 300, 4, strength=6.0)
    recipe = ts.Recipe(["thr", "aps"], [None, "entropy"], [0.5, 1.0, 2.0], "modsel")
    problem = Problem(logits[:60], labels[:60], logits[60:], recipe)
    expected = mask(problem.tables(), problem.rank(0.3))
    empty = ~expected.any(axis=1)
    assert empty.any()
    expected[empty, problem.new[empty].argmax(axis=1)] = True
    predictor = problem.calibrate(0.3)
    np.testing.assert_array_equal(predictor.predict_set(problem.new, allow_empty=False).mask, expected)


def test_u_by_hand(rng):
    """The given U replaces the row's own in prediction alone."""
    problem = many_survivors(rng)
    label_scores, calibration, _ = problem.tables()
    u = rng.random(len(problem.new))
    new = np.stack(
        [
            ts.all_scores(
                problem.new, c.score, reweight=c.reweight, temperature=c.temperature, u=u, ranked=True
            )
            for c in problem.recipe.candidates
        ]
    )
    expected = mask((label_scores, calibration, new), problem.rank(0.2))
    np.testing.assert_array_equal(problem.calibrate(0.2).predict_set(problem.new, u=u).mask, expected)


@pytest.mark.parametrize("seed", range(10))
def test_count_tables_hold_what_counting_gives(seed):
    problem = random_problem(seed)
    label_scores, calibration, new = problem.tables()
    n = len(problem.labels)
    for k in {1, (n + 1) // 2, n} - {0}:
        lo, hi = slow.edges(label_scores, k)
        for m, (below, inside) in enumerate(slow.count_tables(label_scores, calibration, k)):
            for score in new[m].ravel():
                q = slow.clip(score, lo[m], hi[m])
                assert below + (inside <= q).sum() == slow.pairs_at_most(calibration[m], q)


@pytest.mark.parametrize("seed", range(12))
def test_handicaps_weigh_the_counts(seed):
    """Joined recipes whose handicaps decide some labels, against the definition with the same weights."""
    rng = np.random.default_rng([seed, 5])
    n, alpha = 60, 0.2
    logits, labels = synthetic(rng, n + 30, 8, strength=1.5)
    first = ts.Recipe(["aps", "thr"], None, [0.5, 1.0, 2.0], "modsel")
    recipe = first | ts.Recipe("raps", [None, "entropy"], [0.5, 1.0], "modsel", handicap=0.1)
    recipe |= ts.Recipe("mixed", None, 1.0, "modsel", handicap=0.02)
    assert recipe.handicaps == (0.0,) * 6 + (0.1,) * 4 + (0.02,)
    problem = Problem(logits[:n], labels[:n], logits[n:], recipe)
    label_scores, calibration, new = problem.tables()
    unit = (n * alpha) ** -0.5 + 4 / (n * alpha)
    weights = [round(2**16 * (1 + handicap * unit)) for handicap in recipe.handicaps]
    k = problem.rank(alpha)
    rows = range(new.shape[1])
    expected = [slow.prediction_set(label_scores, calibration, new[:, i], k, weights) for i in rows]
    predictor = problem.calibrate(alpha)
    np.testing.assert_array_equal(predictor.predict_set(problem.new).mask, expected)


def test_handicaps_keep_the_preferred_candidate(rng):
    logits, labels = synthetic(rng, 400, 6)
    plain = ts.Recipe("thr", None, 1.0, "modsel")
    others = ts.Recipe(["aps", "raps", "thr"], None, [0.5, 2.0, 4.0], "modsel", handicap=100.0)
    predictor = ts.calibrate(logits, labels, 0.1, plain | others)
    assert [candidate.scoring for candidate in predictor.candidates] == list(plain.candidates)
    for handicap in (-0.1, 101.0, float("nan")):
        with pytest.raises(ValueError, match="handicap must be between 0 and 100"):
            ts.Recipe("thr", handicap=handicap)


def test_sums_beyond_64_bits_are_refused():
    pairs, weights = np.array([2**31, 2**30]), np.array([2**31, 2**32])
    _check_sums(pairs, 2**31 - 1 - 2**30, weights // 4)
    with pytest.raises(ValueError, match=f"handicaps make sums .* too large to compare: {2**63 + 2**32} is"):
        _check_sums(pairs, 1, weights)


def test_a_recipe_is_joined_with_recipes_alone():
    with pytest.raises(TypeError, match="unsupported operand"):
        ts.Recipe("aps", None, 1.0, "modsel") | "thr"

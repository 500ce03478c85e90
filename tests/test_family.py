"""Scores divided by an uncertainty, averages of scores: formulas, bits, coverage, refusals."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from scipy import special, stats

import modsel_reference
import tightset as ts
from conftest import SCORES, Y, Z, synthetic
from tightset.family import block_rows
from tightset.family.block_rows import BlockRows
from tightset.family.rules import Averaged, Reweighted

RULES = {
    "entropy": Reweighted("aps", "entropy", 1.0),
    "entropy, gamma 0": Reweighted("thr", "entropy", 0.0),
    "energy": Reweighted("aps", "energy", 0.0, 2.0),
    "given": Reweighted("raps", "given", 0.5),
    "averaged": Averaged(("thr", "aps", "rank"), (0.3, 0.5, 0.2)),
}


def rows_of(logits, given=None, **options):
    settings = {"row_ids": None, "seed": 0, "probabilities": False, "n_threads": None, "stacklevel": 2}
    return BlockRows.read(np.asarray(logits), given=given, **(settings | options))


def scores_of(rule, logits, given=None, **options):
    parts = [rule.scores(block) for _, block in rows_of(logits, given, **options).blocks()]
    return np.concatenate(parts)


def calibrated(name, logits, labels, alpha=0.1, **options):
    if name == "averaged":
        return ts.averaged.calibrate(logits, labels, alpha, weights=[(0.3, 0.5, 0.2)], **options)
    rule = RULES[name]
    by = np.exp(np.asarray(logits)[:, 0] / 9) if name == "given" else rule.divide_by
    return ts.reweighted.calibrate(
        logits, labels, alpha, rule.score, by, gamma=rule.gamma, tau=rule.tau, **options
    )


def given_of(name, logits):
    return (np.exp(np.atleast_2d(logits)[:, 0] / 9),) if name == "given" else ()


class TestFormulas:
    """Against the textbook, where nothing saturates."""

    @pytest.mark.parametrize("score", SCORES)
    def test_entropy(self, rng, score):
        logits = rng.normal(size=(50, 6))
        plain = ts.all_scores(logits, score, reweight=None)
        p = special.softmax(logits, axis=1)
        entropy = -(p * np.log(p)).sum(axis=1, keepdims=True)
        found = scores_of(Reweighted(score, "entropy", 0.7), logits)
        np.testing.assert_allclose(found, plain / (0.7 + entropy), rtol=0, atol=2e-9)

    @pytest.mark.parametrize("tau", [0.3, 1.0, 20.0])
    def test_energy_multiplies_by_the_softplus(self, rng, tau):
        logits = rng.normal(size=(50, 6)) * 4
        energy = tau * special.logsumexp(logits / tau, axis=1, keepdims=True)
        plain = ts.all_scores(logits, "aps", reweight=None)
        found = scores_of(Reweighted("aps", "energy", 0.0, tau), logits)
        np.testing.assert_allclose(found, plain * np.logaddexp(0, energy), rtol=1e-8, atol=1e-12)

    def test_energy_of_very_large_and_very_small_logits(self):
        logits = np.array([[2000.0, 0.0, 1990.0], [-600.0, -601.0, -602.0], [-np.inf, 1.0, 0.0]])
        found = scores_of(Reweighted("thr", "energy", 0.0), logits)
        energy = special.logsumexp(logits, axis=1)
        softplus = np.logaddexp(0.0, energy)
        plain = ts.all_scores(logits, "thr", reweight=None)
        np.testing.assert_allclose(found / softplus[:, np.newaxis], plain, rtol=0, atol=2e-9)
        assert np.isposinf(found[2, 0])

    def test_given(self, rng):
        logits, given = rng.normal(size=(50, 6)), rng.gamma(2.0, size=50)
        plain = ts.all_scores(logits, "saps", reweight=None)
        found = scores_of(Reweighted("saps", "given", 0.1), logits, given)
        np.testing.assert_allclose(found, plain / (0.1 + given[:, np.newaxis]), rtol=1e-7)

    def test_average(self, rng):
        logits = rng.normal(size=(50, 6))
        parts = [ts.all_scores(logits, score, reweight=None) for score in ("thr", "aps", "rank")]
        found = scores_of(RULES["averaged"], logits)
        expected = 0.3 * parts[0] + 0.5 * parts[1] + 0.2 * parts[2]
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-9)

    def test_an_impossible_label_scores_infinity(self):
        logits = np.array([[1.0, -np.inf, 0.0]])
        for name in ("entropy", "energy", "averaged"):
            assert np.isposinf(scores_of(RULES[name], logits)[0]).tolist() == [False, True, False]

    def test_a_weight_of_zero_takes_the_score_out(self):
        logits = np.array([[1.0, -np.inf, 0.0]])
        alone = scores_of(Averaged(("thr", "aps"), (1.0, 0.0)), logits)
        np.testing.assert_array_equal(alone, scores_of(Averaged(("thr",), (1.0,)), logits))

    def test_gamma_zero_at_entropy_zero(self):
        """The limit of A / H: infinity, and 0 for the score that is 0 at every scale."""
        logits = np.array([[0.0, -2000.0, -4000.0]])
        assert ts.entropy(logits)[0] == 0.0
        found = scores_of(Reweighted("thr", "entropy", 0.0), logits)
        assert found[0, 1:].tolist() == [np.inf, np.inf]
        assert not np.isnan(found).any()


@pytest.mark.parametrize("rule", [r for r in RULES.values() if r != RULES["entropy, gamma 0"]], ids=str)
def test_saturated_labels_are_kept_apart(rule):
    """All conventional scores of wrong labels are 1.0 here; the order is that of the logits."""
    logits = np.array([[0.0, -60.0, -70.0, -80.0, -1000.0]])
    assert (ts.all_scores(logits, "aps", reweight=None)[0, 1:] == 1.0).all()
    found = scores_of(rule, logits, np.ones(1) if rule.needs_given else None)[0]
    assert (np.diff(found) > 0).all()


class TestBits:
    @pytest.mark.parametrize("name", RULES)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
    def test_membership_is_score_at_most_threshold(self, rng, name, dtype):
        logits, labels = synthetic(rng, 900, 7, dtype=dtype)
        predictor = calibrated(name, logits[:500], labels[:500])
        new, truth = logits[500:], labels[500:]
        scores = predictor.scores(new, None, *given_of(name, new))
        sets = predictor.predict_set(new, *given_of(name, new))
        np.testing.assert_array_equal(sets.mask, scores <= predictor.threshold)
        one = predictor.scores(new, truth, *given_of(name, new))
        np.testing.assert_array_equal(one, scores[np.arange(len(truth)), truth])
        p = predictor.predict_p(new, *given_of(name, new))
        counts = np.round(p * (predictor.n_calibration + 1)).astype(int)
        np.testing.assert_array_equal(
            counts > predictor.n_calibration + 1 - predictor.rank, scores <= predictor.threshold
        )

    @pytest.mark.parametrize("name", RULES)
    def test_threshold_is_the_rank_of_the_calibration_scores(self, rng, name):
        logits, labels = synthetic(rng, 200, 5)
        predictor = calibrated(name, logits, labels)
        own = predictor.scores(logits, labels, *given_of(name, logits))
        assert predictor.threshold == ts.conformal_threshold(own, 0.1)
        np.testing.assert_array_equal(predictor.calibration_scores[0], np.sort(own))

    @pytest.mark.parametrize("name", RULES)
    @pytest.mark.parametrize("k", [2, 9, 130])
    def test_alone_in_blocks_and_in_any_layout(self, rng, name, k, monkeypatch):
        logits, labels = synthetic(rng, 120, k)
        predictor = calibrated(name, logits, labels)
        given = given_of(name, logits)
        whole = predictor.scores(logits, None, *given)
        monkeypatch.setattr(block_rows, "_BLOCK_CELLS", 7 * k)
        np.testing.assert_array_equal(predictor.scores(logits, None, *given), whole)
        for array in (np.asfortranarray(logits), logits[::-1][::-1], logits.astype(">f8")):
            np.testing.assert_array_equal(predictor.scores(array, None, *given), whole)
        for i in (0, 57, 119):
            alone = predictor.scores(logits[i], None, *given_of(name, logits[i]))
            np.testing.assert_array_equal(alone[0], whole[i])
        again = calibrated(name, logits, labels)
        assert again == predictor
        assert again.predict_set(logits, *given) == predictor.predict_set(logits, *given)

    def test_bfloat16(self, rng):
        logits, labels = synthetic(rng, 300, 5)
        narrow = logits.astype(ml_dtypes.bfloat16)
        predictor = ts.reweighted.calibrate(narrow, labels, 0.1)
        wide = ts.reweighted.calibrate(narrow.astype(np.float32), labels, 0.1)
        assert predictor == wide
        assert predictor.predict_set(narrow) == wide.predict_set(narrow.astype(np.float32))

    def test_labels_by_falling_probability_ties_by_lower_label(self):
        logits = np.array([[1.0, 3.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
        with pytest.warns(ts.SmallCalibrationWarning, match="2 rows are too few"):
            predictor = ts.averaged.calibrate(logits, [1, 0], 0.1, ["aps"])
        sets = predictor.predict_set(logits)
        assert [s.tolist() for s in sets] == [[1, 2, 0, 3], [0, 1, 2, 3]]

    def test_probabilities_and_row_ids(self, rng):
        logits, labels = synthetic(rng, 400, 5)
        p, ids = special.softmax(logits, axis=1), np.arange(400)
        predictor = ts.reweighted.calibrate(p, labels, 0.1, probabilities=True, row_ids=ids)
        sets = predictor.predict_set(p, row_ids=ids)
        assert len(sets) == 400
        plain = ts.all_scores(p, "aps", reweight=None, probabilities=True, row_ids=ids)
        entropy = ts.entropy(p, probabilities=True)[:, np.newaxis]
        np.testing.assert_allclose(predictor.scores(p, row_ids=ids), plain / (1 + entropy), rtol=0, atol=2e-9)
        with pytest.raises(ValueError, match="it was with row_ids"):
            predictor.predict_set(p)

    def test_empty_sets_are_filled_with_the_top_label(self, rng):
        labels = rng.integers(3, size=300)
        logits = 10 * np.eye(3)[labels] + rng.normal(size=(300, 3))
        predictor = ts.averaged.calibrate(logits, labels, 0.3, weights=[(1, 0, 0)])
        sets, filled = predictor.predict_set(logits), predictor.predict_set(logits, allow_empty=False)
        empty = sets.sizes == 0
        assert empty.any()
        np.testing.assert_array_equal(filled.indices[filled.indptr[:-1][empty]], logits.argmax(1)[empty])
        np.testing.assert_array_equal(filled.mask[~empty], sets.mask[~empty])


def draw(rng, rows):
    labels = rng.integers(4, size=rows)
    logits = rng.standard_normal(size=(rows, 4))
    logits *= rng.standard_gamma(2.0, size=(rows, 1))
    logits[np.arange(rows), labels] += 1.5
    return logits, labels


def deviation(counts, law):
    return (counts.mean() - law.mean()) / (law.std() / np.sqrt(len(counts)))


class TestCoverage:
    """Coverage of a rule is Beta(k, n + 1 - k) over calibration draws; one rank lower must be noticed."""

    @pytest.mark.parametrize("name", RULES)
    @pytest.mark.parametrize("n", [19, 99])
    def test_law(self, name, n):
        rng, draws, m = np.random.default_rng(n), 4000, 100
        logits, labels = draw(rng, draws * (n + m))
        rule = RULES[name]
        rows = rows_of(logits, rng.gamma(2.0, size=len(logits)) if rule.needs_given else None)
        scores = rows.label_scores([rule], labels)[0].reshape(draws, n + m)
        ordered, k = np.sort(scores[:, :n], axis=1), ts.conformal_rank(n, 0.1)
        law = stats.betabinom(m, k, n + 1 - k)
        for rank, is_right in ((k, True), (k - 1, False)):
            covered = (scores[:, n:] <= ordered[:, [rank - 1]]).sum(axis=1)
            assert (abs(deviation(covered, law)) < 4.9) == is_right

    @pytest.mark.parametrize("name", ["entropy", "averaged"])
    def test_law_through_the_predictor(self, name):
        rng, n, m, counts = np.random.default_rng(2), 19, 100, []
        for _ in range(400):
            logits, labels = draw(rng, n + m)
            predictor = calibrated(name, logits[:n], labels[:n])
            counts.append(predictor.predict_set(logits[n:]).covers(labels[n:]).sum())
        assert abs(deviation(np.array(counts), stats.betabinom(m, 18, 2))) < 4.9

    @staticmethod
    def selected(selection, draws):
        """Standard errors between the mean coverage and k / (n + 1); see test_selection_law.py."""
        rng, n, m, coverage = np.random.default_rng(3), 100, 200, []
        for i in range(draws):
            labels = rng.integers(4, size=n + m)
            logits = rng.normal(size=(n + m, 4)) + 0.5 * np.eye(4)[labels]
            logits *= np.exp(1.5 * rng.normal(size=(n + m, 1)))
            predictor = ts.averaged.calibrate(
                logits[:n], labels[:n], 0.1, ("thr", "aps", "rank"), steps=5, selection=selection, seed=i
            )
            assert predictor.considered == 21
            used = predictor.n_calibration
            assert used == (100 if selection == "modsel" else 75)
            coverage.append(predictor.predict_set(logits[n:]).coverage(labels[n:]))
        law = ts.conformal_rank(used, 0.1) / (used + 1)
        return (np.mean(coverage) - law) / (np.std(coverage, ddof=1) / np.sqrt(draws))

    @pytest.mark.parametrize("selection", ["modsel", "held-out"])
    def test_selection_is_exact(self, selection):
        assert abs(self.selected(selection, 150)) < 4.5

    @pytest.mark.slow
    @pytest.mark.timeout(900)
    @pytest.mark.parametrize("selection", ["modsel", "held-out"])
    def test_selection_is_exact_long(self, selection):
        assert abs(self.selected(selection, 1500)) < 4.5


class TestSelection:
    @pytest.mark.parametrize("kind", ["averaged", "reweighted"])
    def test_modsel_is_the_plain_definition(self, rng, kind):
        logits, labels = synthetic(rng, 160, 5, strength=1.0)
        old, new = logits[:100], logits[100:]
        if kind == "averaged":
            rules = [Averaged(("thr", "aps", "rank"), w) for w in ts.averaged.simplex_grid(3, 4)]
            predictor = ts.averaged.calibrate(old, labels[:100], 0.2, steps=4)
        else:
            gammas, taus = [0.0, 0.5, 2.0], [1.0, 8.0]
            rules = [Reweighted("thr", "energy", g, t) for g in gammas for t in taus]
            predictor = ts.reweighted.calibrate(
                old, labels[:100], 0.2, "thr", "energy", gamma=gammas, tau=taus
            )
        every = np.stack([scores_of(rule, old) for rule in rules])
        own = every[:, np.arange(100), labels[:100]]
        table = np.stack([scores_of(rule, new) for rule in rules])
        k = ts.conformal_rank(100, 0.2)
        expected = [modsel_reference.prediction_set(own, every, table[:, i], k) for i in range(len(new))]
        assert len(predictor.candidates) > 1
        assert len(predictor.candidates) == len(modsel_reference.kept(own, every, k))
        np.testing.assert_array_equal(predictor.predict_set(new).mask, expected)
        p = [modsel_reference.p_values(own, every, table[:, i], k) for i in range(len(new))]
        np.testing.assert_array_equal(predictor.predict_p(new), p)
        with pytest.raises(ValueError, match="candidates are in use"):
            _ = predictor.threshold

    def test_held_out_takes_the_smallest_on_a_quarter(self, rng):
        logits, labels = synthetic(rng, 400, 5, strength=1.0)
        predictor = ts.averaged.calibrate(logits, labels, 0.2, steps=4, selection="held-out", seed=3)
        held, rest = rows_of(logits, seed=3).split(100)
        sizes = {}
        for weights in ts.averaged.simplex_grid(3, 4):
            scores = scores_of(Averaged(("thr", "aps", "rank"), weights), logits[held], seed=3)
            q = ts.conformal_threshold(scores[np.arange(100), labels[held]], 0.2)
            sizes[weights] = (scores <= q).sum()
        assert predictor.rule.weights == min(sizes, key=sizes.get)
        own = predictor.scores(logits[rest], labels[rest])
        assert predictor.threshold == ts.conformal_threshold(own, 0.2)
        assert predictor.n_calibration == 300

    def test_too_few_rows(self, rng):
        logits, labels = synthetic(rng, 12, 3)
        with pytest.warns(ts.SmallCalibrationWarning, match="too few to select a rule") as caught:
            predictor = ts.averaged.calibrate(logits, labels, 0.2, selection="held-out")
        assert len(caught) == 1
        assert predictor.rule.weights == (0.0, 0.0, 1.0)
        with pytest.warns(ts.SmallCalibrationWarning, match="12 rows are too few for alpha=0.01"):
            predictor = ts.averaged.calibrate(logits, labels, 0.01)
        assert predictor.predict_set(logits).mask.all()

    def test_simplex_grid(self):
        weights = list(ts.averaged.simplex_grid(3, 10))
        assert len(weights) == len(set(weights)) == 66
        np.testing.assert_allclose(np.sum(weights, axis=1), 1.0)


NAN_AT_ROW_2 = np.where(np.arange(12).reshape(4, 3) == 7, np.nan, Z)


def reweighted(logits=Z, labels=Y, alpha=0.4, *args, **options):
    return ts.reweighted.calibrate(logits, labels, alpha, *args, **options)


def averaged(logits=Z, labels=Y, alpha=0.4, *args, **options):
    return ts.averaged.calibrate(logits, labels, alpha, *args, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: reweighted(NAN_AT_ROW_2), ValueError, "found nan at row 2, column 1"),
        (lambda: averaged(NAN_AT_ROW_2), ValueError, "found nan at row 2, column 1"),
        (lambda: reweighted().predict_set(NAN_AT_ROW_2), ValueError, "found nan at row 2, column 1"),
        (lambda: reweighted(labels=[0, 1, 3, 0]), ValueError, "found 3 at row 2"),
        (lambda: reweighted(labels=[0, 1]), ValueError, "labels must have one value for each of the 4 rows"),
        (lambda: reweighted(Z[:0], Y[:0]), ValueError, "at least one row"),
        (lambda: reweighted(alpha=1.0), ValueError, "alpha must be strictly between 0 and 1, got 1.0"),
        (lambda: reweighted(seed=-1), ValueError, "seed must be at least 0, got -1"),
        (lambda: reweighted(gamma=-0.1), ValueError, "gamma must be finite and at least 0, got -0.1"),
        (lambda: reweighted(gamma=[]), ValueError, "gamma must not be empty"),
        (lambda: reweighted(gamma="1"), TypeError, "gamma must be a number, got '1'"),
        (lambda: reweighted(tau=0), ValueError, "tau must be positive and finite, got 0.0"),
        (lambda: reweighted(Z, Y, 0.4, "top"), ValueError, "score must be one of"),
        (lambda: reweighted(divide_by="given"), ValueError, "got 'given'"),
        (lambda: reweighted(divide_by="gini"), ValueError, "divide_by must be 'entropy', 'energy'"),
        (lambda: reweighted(divide_by=None), TypeError, "divide_by must be .* got None"),
        (lambda: reweighted(divide_by=np.ones(3)), ValueError, "one value for each of the 4 rows"),
        (lambda: reweighted(divide_by=[1, 2, np.inf, 1]), ValueError, "finite: found inf at row 2"),
        (lambda: reweighted(divide_by=[1, 2, 0, 1]), ValueError, "above -gamma = -0.0: found 0.0 at row 2"),
        (lambda: reweighted(selection="paper", gamma=[0, 1]), ValueError, "selection must be 'modsel' or"),
        (lambda: reweighted().predict_set(Z, np.ones(4)), TypeError, "given must be None"),
        (lambda: reweighted(divide_by=np.ones(4)).predict_set(Z), TypeError, "given must hold the value"),
        (
            lambda: reweighted(divide_by=np.ones(4)).predict_set(Z, -np.ones(4)),
            ValueError,
            "found -1.0 at row 0",
        ),
        (lambda: reweighted().predict_set(Z[:, :2]), ValueError, "must have 3 labels as in calibration"),
        (lambda: reweighted().predict_set(Z, row_ids=Y), ValueError, "it was without row_ids"),
        (lambda: reweighted().predict_set(Z, allow_empty=1), TypeError, "allow_empty must be True or False"),
        (lambda: reweighted().scores(Z, [0, 1, 3, 0]), ValueError, "found 3 at row 2"),
        (lambda: averaged(Z, Y, 0.4, "aps"), TypeError, "scores must be a sequence"),
        (lambda: averaged(Z, Y, 0.4, []), TypeError, "scores must be a sequence"),
        (lambda: averaged(steps=0), ValueError, "steps must be at least 1, got 0"),
        (lambda: averaged(steps=1000), ValueError, "at most 4096 weights"),
        (lambda: averaged(weights=[]), ValueError, "weights must be between 1 and 4096, got 0"),
        (lambda: averaged(weights=[(1, 0)]), ValueError, "one for each of the 3 scores"),
        (lambda: averaged(weights=[(2, -1, 0)]), ValueError, "at least 0 and sum to 1"),
        (lambda: averaged(weights=[(0.5, 0.4, 0.0)]), ValueError, "sum to 1"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_energy_of_probabilities_is_that_of_their_logarithms(rng):
    p, new = rng.dirichlet(np.ones(4), size=60), rng.dirichlet(np.ones(4), size=30)
    new[0] = [0.0, 0.5, 0.5, 0.0]  # impossible labels
    labels = rng.integers(4, size=60)
    found = ts.reweighted.calibrate(p, labels, 0.2, "thr", "energy", gamma=5.0, probabilities=True)
    with np.errstate(divide="ignore"):
        expected = ts.reweighted.calibrate(np.log(p), labels, 0.2, "thr", "energy", gamma=5.0)
        np.testing.assert_allclose(found.scores(new), expected.scores(np.log(new)), rtol=1e-9)
    assert found.threshold == pytest.approx(expected.threshold, rel=1e-9)


def test_probabilities_as_logits_are_noticed(rng):
    p = rng.dirichlet(np.ones(3), size=50)
    with pytest.warns(ts.ProbabilitiesWarning):
        ts.reweighted.calibrate(p, rng.integers(3, size=50), 0.2)


def test_the_wrong_reader_names_the_right_one(tmp_path):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(80, 3)), rng.integers(3, size=80)
    ts.reweighted.calibrate(logits, labels, 0.1).save(tmp_path / "rules.json")
    with pytest.raises(ValueError, match=r"ts\.family\.load reads it"):
        ts.load(tmp_path / "rules.json")
    ts.transforms.calibrate(logits, labels, 0.1, "aps", transform="temperature-nll").save(tmp_path / "t.json")
    with pytest.raises(ValueError, match=r"ts\.transforms\.load_predictor reads it"):
        ts.load(tmp_path / "t.json")

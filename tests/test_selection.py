"""Temperature selection: Algorithm 1 set for set, and what each selection does with its rows."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import reference
import tightset as ts
from conftest import synthetic
from tightset import _core
from tightset.calibration_rows import CalibrationRows
from tightset.recipes import as_recipe, automatic_temperatures

INF = float("inf")


def slow_ranked_aps(logits, u, temperature):
    """Ranked APS under z / (H T) for every label, by the formulas, row by row (textbook sums)."""
    out = np.empty(logits.shape)
    for i, z in enumerate(logits):
        order = np.argsort(-z, kind="stable")
        d = z.max() - z[order]
        w = reference.entropy(z)
        if temperature == 0:
            scores = np.where(d > 0, d / w, -(1 - u[i]))
        elif temperature == INF:
            scores = (np.arange(len(z)) + u[i]) / len(z)
        else:
            x = d / w / temperature
            # log of the tail after each rank, relative to the top: a reversed log-add-exp
            tail = np.append(np.logaddexp.accumulate(-x[::-1])[::-1][1:], -INF)
            scores = np.logaddexp.reduce(-x) - np.logaddexp(np.log1p(-u[i]) - x, tail)
        out[i, order] = scores
    return out


@pytest.mark.parametrize(("n", "k"), [(5000, 10), (2000, 100)])
def test_paper_is_algorithm_1(n, k):
    rng = np.random.default_rng(n)
    logits, labels = synthetic(rng, n, k)
    new, _ = synthetic(rng, 300, k)
    both = np.concatenate([logits, new])
    temperatures = automatic_temperatures(ts.APS(), ts.Entropy())
    # U is the one quantity that is the package's own; at T = inf the top label's score is U / K.
    u = k * ts.label_scores(both, both.argmax(axis=1), "aps", reweight=None, temperature=INF)
    slow = [slow_ranked_aps(both, u, t) for t in temperatures]
    order = _core.permutation(0, n)
    first, second = order[: (n + 1) // 2], order[(n + 1) // 2 :]
    alphas = (0.01, 0.05, 0.1)
    for alpha, predictor in zip(alphas, ts.calibrate(logits, labels, alphas, "paper"), strict=True):
        best, threshold = reference.algorithm_1([s[:n] for s in slow], labels, first, second, alpha)
        assert predictor.scoring.temperature == temperatures[best]
        assert predictor.n_calibration == n
        np.testing.assert_allclose(predictor.threshold, threshold, rtol=1e-9)
        # The slow scores round differently: the label that is the threshold may miss it by an ulp.
        expected = slow[best] <= threshold * (1 + np.sign(threshold) * 1e-9)
        np.testing.assert_array_equal(predictor.predict_set(both).mask, expected)


def test_released_keeps_half_for_calibration(rng):
    logits, labels = synthetic(rng, 1001, 8)
    predictor = ts.calibrate(logits, labels, 0.1, "released")
    first = np.sort(_core.permutation(0, 1001)[:501])
    assert predictor.n_calibration == 501
    assert predictor.scoring.reweight == ts.Entropy(1.0)
    assert predictor.scoring.temperature in np.logspace(-1, 1, 5)
    scores = predictor.scores(logits[first], labels[first])
    assert predictor.threshold == ts.conformal_threshold(scores, 0.1)


def test_held_out_uses_each_row_once(rng):
    logits, labels = synthetic(rng, 800, 8)
    predictor = ts.calibrate(logits, labels, 0.1, as_recipe("er-aps").with_selection("held-out"))
    order = _core.permutation(0, 800)
    held_out, rest = order[:200], order[200:]
    curve = predictor.selection_curve
    sizes = []
    for candidate, q in zip(curve.candidates, curve.thresholds, strict=True):
        options = {"reweight": candidate.reweight, "temperature": candidate.temperature, "ranked": True}
        scores = ts.all_scores(logits[held_out], candidate.score, **options)
        assert q == ts.conformal_threshold(scores[np.arange(200), labels[held_out]], 0.1)
        sizes.append((scores <= q).sum(axis=1).mean())
    np.testing.assert_array_equal(sizes, curve.sizes)
    assert predictor.scoring == curve.candidates[int(np.argmin(sizes))]
    assert predictor.threshold == ts.conformal_threshold(predictor.scores(logits[rest], labels[rest]), 0.1)
    assert predictor.n_calibration == 600


def test_levels_share_readings_and_change_nothing(rng):
    logits, labels = synthetic(rng, 600, 6)
    alphas = [0.05, 0.1, 0.3]
    for recipe in ("aps", "paper", "released", "er-rank", as_recipe("er-aps").with_selection("held-out")):
        together = ts.calibrate(logits, labels, alphas, recipe)
        assert together == tuple(ts.calibrate(logits, labels, a, recipe) for a in alphas)
    by_level = ts.calibrate(logits, labels, confidence_level=[0.95, 0.9, 0.7], recipe="aps")
    assert by_level == ts.calibrate(logits, labels, alphas, "aps")


def test_memory_limit_changes_nothing(rng):
    logits, labels = synthetic(rng, 600, 6)
    assert ts.calibrate(logits, labels, 0.1, max_memory=1) == ts.calibrate(logits, labels, 0.1)


def test_default_level_is_a_tenth(rng):
    logits, labels = synthetic(rng, 600, 6)
    assert ts.calibrate(logits, labels, recipe="aps").alpha == 0.1
    assert ts.calibrate(logits, labels, confidence_level=0.9, recipe="aps").alpha == 0.1


def test_too_few_rows_to_select(rng):
    logits, labels = synthetic(rng, 60, 5)
    with pytest.warns(
        ts.SmallCalibrationWarning, match="15 of 60 rows, the part for selection, are too few to select"
    ) as caught:
        predictor = ts.calibrate(logits, labels, 0.05, as_recipe("er-aps").with_selection("held-out"))
    assert caught[0].filename == __file__
    assert predictor.selection_curve is None
    assert predictor.scoring == predictor.recipe.candidates[0]
    assert predictor.n_calibration == 45


def test_warnings_say_what_selection_spent(rng):
    logits, labels = synthetic(rng, 99, 5)
    with pytest.warns(ts.SmallCalibrationWarning) as caught:
        ts.calibrate(logits, labels, 0.01, as_recipe("er-aps").with_selection("held-out"))
    assert any("75 rows after 24 were spent on selection" in str(w.message) for w in caught)


def test_too_few_rows_to_calibrate(rng):
    logits, labels = synthetic(rng, 8, 5)
    with pytest.warns(
        ts.SmallCalibrationWarning, match="8 rows are too few for alpha=0.1, which needs rank 9"
    ) as caught:
        predictor = ts.calibrate(logits, labels, 0.1, "thr")
    assert caught[0].filename == __file__
    assert (predictor.predict_set(logits).sizes == 5).all()


def test_grids_are_fixed():
    plain = automatic_temperatures(ts.APS(), None)
    assert plain[0] == 0
    assert plain[-1] == INF
    assert plain[1:-1] == tuple(2 ** (j / 2) for j in range(-8, 21))
    assert automatic_temperatures(ts.APS(), ts.Entropy(1.0)) == plain
    assert automatic_temperatures(ts.RAPS(), None) == plain[1:-1]
    wide = automatic_temperatures(ts.THR(), ts.Entropy(0.0))
    assert wide == (0.0, *(2.0**j for j in range(-4, 19)), INF)


def test_edges_are_reported(rng):
    logits, labels = synthetic(rng, 2000, 6)
    recipe = ts.Recipe("thr", None, [50.0, 100.0, 200.0], "held-out")
    assert ts.calibrate(logits, labels, 0.1, recipe).selection_curve.at_edge
    hot = 200 * logits  # so sharp that the highest finite temperature of the plain grid is best
    curve = ts.calibrate(hot, labels, 0.01, ts.Recipe("thr", None, "auto", "held-out")).selection_curve
    winner = curve.candidates[curve.chosen].temperature
    assert curve.at_edge == (winner in (2.0**-4, 2.0**10))
    low = ts.SelectionCurve(curve.candidates, curve.sizes, curve.thresholds, chosen=1)
    assert low.at_edge, "0 and infinity do not hide the edge of the finite grid"
    assert not ts.SelectionCurve(curve.candidates, curve.sizes, curve.thresholds, chosen=0).at_edge
    assert "coverage by rising entropy" in str(curve)
    assert "coverage" not in str(low), "it was not given any"
    assert repr(curve).startswith("SelectionCurve(31 candidates, chosen: thr, T=")
    single = ts.Recipe("thr", [None, "entropy"], 1.0, "held-out")
    assert not ts.calibrate(logits, labels, 0.1, single).selection_curve.at_edge


def test_one_candidate_uses_all_rows(rng):
    logits, labels = synthetic(rng, 100, 5)
    for selection in (None, "paper", "held-out"):
        predictor = ts.calibrate(logits, labels, 0.1, ts.Recipe("thr", selection=selection))
        assert predictor.n_calibration == 100
    released = ts.calibrate(logits, labels, 0.1, ts.Recipe("thr", selection="released"))
    assert released.n_calibration == 50


@pytest.mark.parametrize(("recipe", "objective"), [("er-aps", "size"), ("er-aps", "adaptive")])
def test_scores_of_one_group_are_gone_before_the_next_are_made(monkeypatch, recipe, objective):
    """Or the peak would be twice `max_memory`."""
    logits, labels = synthetic(np.random.default_rng(0), 400, 5)
    real, made = CalibrationRows.label_scores, []

    def watched(self, candidates, rows):
        assert not any(table() is not None for table in made)
        table = real(self, candidates, rows)
        made.append(weakref.ref(table))
        return table

    monkeypatch.setattr(CalibrationRows, "label_scores", watched)
    ts.calibrate(logits, labels, 0.1, recipe, objective=objective, max_memory=8 * 400 * 10)
    assert len(made) > 5

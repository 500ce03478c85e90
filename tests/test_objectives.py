"""What selections look for, what they say about it, and what tightest is made of."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

import tightset as ts
from conftest import SCORES, synthetic
from tightset import progress
from tightset.recipes import as_recipe


def uneven(rng, n, k=10):
    """Easy and hard rows: a threshold on the probability under-covers the hard ones."""
    logits, labels = synthetic(rng, n, k, strength=5.0)
    hard = rng.random(n) < 0.3
    logits[hard] = 1.5 * rng.normal(size=(hard.sum(), k))
    logits[hard, labels[hard]] += 2.0
    return logits, labels


CANDIDATES = ts.Recipe(["thr", "aps"], None, [0.25, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0], "held-out")


def held_out_tables(logits, labels, predictor):
    """Rows of the selection part, with each candidate's sizes and coverage of each row."""
    part = np.sort(ts._core.permutation(0, len(labels))[: len(labels) // 4])
    curve, sizes, covered = predictor.selection_curve, [], []
    for candidate, q in zip(curve.candidates, curve.thresholds, strict=True):
        options = {"reweight": candidate.reweight, "temperature": candidate.temperature, "ranked": True}
        scores = ts.all_scores(logits[part], candidate.score, **options)
        sizes.append((scores <= q).sum(axis=1))
        covered.append(scores[np.arange(len(part)), labels[part]] <= q)
    return part, np.array(sizes), np.array(covered)


def test_singletons_are_counted(rng):
    logits, labels = uneven(rng, 2000)
    predictor = ts.calibrate(logits, labels, 0.1, CANDIDATES, objective="singletons")
    _, sizes, _ = held_out_tables(logits, labels, predictor)
    ones, means = (sizes == 1).sum(axis=1), sizes.mean(axis=1)
    best = min(range(len(ones)), key=lambda m: (-ones[m], means[m], m))
    assert predictor.selection_curve.chosen == best
    assert predictor.selection_curve.objective == "singletons"


def test_adaptive_keeps_a_floor_for_the_worst_stratum(rng):
    logits, labels = uneven(rng, 8000)
    small = ts.calibrate(logits, labels, 0.1, CANDIDATES)
    even = ts.calibrate(logits, labels, 0.1, CANDIDATES, objective="adaptive")
    part, sizes, covered = held_out_tables(logits, labels, even)
    order = np.argsort(ts.entropy(logits[part]), kind="stable")
    strata = np.array_split(order, 5)
    worst = np.array([[c[s].mean() for s in strata] for c in covered]).min(axis=1)
    floor = 0.9 - 2 * np.sqrt(0.09 / min(map(len, strata)))
    assert worst[small.selection_curve.chosen] < floor < worst.max(), "the example must need the floor"
    allowed = np.flatnonzero(worst >= floor)
    best = allowed[sizes[allowed].mean(axis=1).argmin()]
    assert even.selection_curve.chosen == best
    new, truth = uneven(np.random.default_rng(9), 20_000)
    hardest = np.argsort(ts.entropy(new))[-4000:]
    coverage = [p.predict_set(new[hardest]).coverage(truth[hardest]) for p in (small, even)]
    assert coverage[1] > coverage[0] + 0.02


def test_the_curve_explains_the_choice(rng):
    logits, labels = uneven(rng, 8000)
    curve = ts.calibrate(logits, labels, 0.1, CANDIDATES).selection_curve
    text = str(curve)
    assert "14 candidates, objective 'size'" in text
    assert f"* {curve.sizes[curve.chosen]:9.3f}  {curve.candidates[curve.chosen]}" in text
    assert "objective='adaptive' evens this out" in text
    assert len(curve.coverage_by_entropy) == 5
    assert min(curve.coverage_by_entropy) < 0.8
    adaptive = ts.calibrate(logits, labels, 0.1, CANDIDATES, objective="adaptive").selection_curve
    assert "evens this out" not in str(adaptive)
    many = ts.calibrate(*synthetic(rng, 60, 6), 0.3, "er-aps").selection_curve
    assert f"{len(many.survivors)} candidates are in use" in str(many)
    edge = ts.Recipe("thr", None, [50.0, 100.0, 200.0], "modsel")
    assert "at the edge of its grid" in str(ts.calibrate(logits, labels, 0.1, edge).selection_curve)


def test_named_recipes_take_every_objective(rng):
    logits, labels = synthetic(rng, 800, 6)
    for objective in ("singletons", "adaptive"):
        predictor = ts.calibrate(logits, labels, 0.1, objective=objective)
        assert predictor.recipe.selection == "held-out"
        assert predictor.n_calibration == 600
        for recipe in ("aps", "paper", ts.Recipe("aps", None, [1.0, 2.0], "modsel")):
            with pytest.raises(ValueError, match=f"objective '{objective}' needs"):
                ts.calibrate(logits, labels, 0.1, recipe, objective=objective)
    with pytest.raises(
        ValueError, match="objective must be one of 'size', 'singletons', 'adaptive', got 'x'"
    ):
        ts.calibrate(logits, labels, 0.1, objective="x")


def test_tightest_has_every_score_under_every_reweighting():
    candidates = as_recipe("tightest").candidates
    assert 500 < len(candidates) < 1000
    scores = set(SCORES)
    reweights = {(g, p) for g in (0.0, 0.01, 0.1, 1.0) for p in (0.5, 1.0)} | {
        (g, -0.1) for g in (0.01, 0.1, 1.0)
    }
    found = {}
    for c in candidates:
        weight = None if c.reweight is None else (c.reweight.gamma, c.reweight.power)
        found.setdefault(c.score.name, set()).add(weight)
    assert set(found) == scores
    for name in scores:
        assert found[name] == reweights | {None}, name
    temperatures = {c.temperature for c in candidates if c.score.name == "thr"}
    assert {0.0, float("inf")} < temperatures


def test_tightest_beats_untuned_scores_on_hard_rows():
    rng = np.random.default_rng(3)
    labels = rng.integers(40, size=6000)
    logits = rng.normal(size=(6000, 40)) + 3.5 * np.eye(40)[labels]
    logits *= np.exp(0.5 * rng.normal(size=(6000, 1)))  # confidence that says little
    sizes = {}
    for recipe in ("thr", "aps", "tightest"):
        sets = ts.calibrate(logits[:3000], labels[:3000], 0.1, recipe).predict_set(logits[3000:])
        sizes[recipe] = sets.sizes.mean()
    assert sizes["tightest"] < 0.8 * min(sizes["thr"], sizes["aps"])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_for_terminals(rng, monkeypatch):
    logits, labels = synthetic(rng, 200, 5)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr("tightset.calibration_rows._ELEMENTS_A_CALL", 20_000)
    silent, shown = io.StringIO(), Terminal()
    monkeypatch.setattr(sys, "stderr", silent)
    expected = ts.calibrate(logits, labels, 0.1)
    monkeypatch.setattr(sys, "stderr", shown)
    assert ts.calibrate(logits, labels, 0.1) == expected
    assert silent.getvalue() == ""
    assert "scores of 118 candidates [###" in shown.getvalue()
    assert shown.getvalue().endswith("\r\x1b[K")
    monkeypatch.setattr(sys, "stderr", None)
    assert ts.calibrate(logits, labels, 0.1) == expected

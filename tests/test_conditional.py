"""Conditional calibration: equal to plain references, and what labels and groups with few rows get."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import conditional_reference as reference
import tightset as ts
from conftest import SCORES
from modsel_reference import score_tables
from tightset import _core, clusters
from tightset.recipes import as_recipe

K = 4
SMALL = ts.Recipe(["aps", "thr"], [None, "entropy"], [0.5, 1.0, float("inf")], "modsel")
HELD_OUT = SMALL.with_selection("held-out")
ALL = {"condition": "label"}


def draw(seed, n=160, shares=(0.4, 0.3, 0.2, 0.1), dtype=np.float64):
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(shares), size=n, p=shares)
    k = len(shares)
    # Labels that are harder to tell than others, so that thresholds differ.
    logits = 2 * rng.normal(size=(n, k)) + (1 + labels[:, None]) * np.eye(k)[labels]
    return logits.astype(dtype), labels


def mask_of(scores, thresholds):
    return scores <= thresholds


@pytest.mark.parametrize("recipe", SCORES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_label_has_the_threshold_of_its_rows(recipe, dtype):
    logits, labels = draw(1, dtype=dtype)
    new = draw(2, dtype=dtype)[0]
    new[0, 1:3] = -np.inf
    new[1] = new[1, 0]
    predictor = ts.calibrate(logits, labels, 0.2, recipe, condition="label")
    expected = reference.by_label(predictor.scores(logits, labels), labels, K, 0.2)
    np.testing.assert_array_equal(predictor.condition.thresholds, expected)
    sets = predictor.predict_set(new)
    np.testing.assert_array_equal(sets.mask, mask_of(predictor.scores(new), expected))
    # Labels by falling probability.
    for row, found in zip(new, sets, strict=True):
        assert (np.diff(row[found]) <= 0).all()


@pytest.mark.parametrize("recipe", [*SCORES, "er-aps"])
@pytest.mark.parametrize("scarce", ["all", "pooled"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_labels_are_in_sets_as_the_definition_says(recipe, scarce, dtype):
    """Sets of rows equal what the definition gives label by label."""
    rng = np.random.default_rng(30)
    k, n = 100, 3000
    labels = rng.integers(k if scarce == "all" else k - 5, size=n)
    spread = np.exp(rng.normal(size=(n, 1)))
    logits = (spread * (rng.normal(size=(n, k)) + (2 + labels % 4)[:, None] * np.eye(k)[labels])).astype(
        dtype
    )
    new = logits[:300].copy()
    new[0, 5:] = -np.inf
    new[1] = 0.0
    new[2] *= 1e4
    used = as_recipe(recipe).with_selection("held-out") if recipe == "er-aps" else recipe
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.SmallCalibrationWarning)
        predictor = ts.calibrate(logits, labels, 0.2, used, condition="label", scarce=scarce)
    sets = predictor.predict_set(new)
    thresholds = predictor.condition.thresholds
    if scarce == "pooled":
        assert np.isfinite(thresholds).all()
        assert len(np.unique(thresholds)) > 50
    np.testing.assert_array_equal(sets.mask, predictor.scores(new) <= thresholds)
    for row, found in zip(new, sets, strict=True):
        assert (np.diff(row[found]) <= 0).all()
    not_empty = predictor.predict_set(new, allow_empty=False)
    for one, other, row in zip(sets, not_empty, new, strict=True):
        assert other.tolist() == (one.tolist() or [int(row.argmax())])


@pytest.mark.parametrize("n_threads", [1, 2])
def test_labels_select_as_the_reference_does(n_threads):
    for seed, alpha in ((3, 0.2), (4, 0.3), (5, 0.4)):
        logits, labels = draw(seed)
        new = draw(seed + 100, 40)[0]
        predictor = ts.calibrate(logits, labels, alpha, SMALL, condition="label")
        tables = score_tables(SMALL.candidates, logits, labels, new)
        mask, p = reference.modsel_by_label(*tables[:2], labels, tables[2], alpha)
        np.testing.assert_array_equal(predictor.predict_set(new, n_threads=n_threads).mask, mask)
        np.testing.assert_array_equal(predictor.predict_p(new, n_threads=n_threads), p)
        assert max(len(cell.candidates) for cell in predictor.condition.cells) > 2


def test_weights_take_part_in_the_choice():
    """A handicapped recipe is selected less often, by integer weights that the cell's rows give."""
    logits, labels = draw(6, 400)
    plain = ts.Recipe("thr", None, [1.0, 2.0], "modsel")
    free = plain | ts.Recipe("aps", None, [0.5, 1.0], "modsel")
    held_back = plain | ts.Recipe("aps", None, [0.5, 1.0], "modsel", handicap=50.0)

    def scores_in_use(recipe):
        predictor = ts.calibrate(logits, labels, 0.2, recipe, condition="label")
        return {c.scoring.score.name for cell in predictor.condition.cells for c in cell.candidates}

    assert "aps" in scores_in_use(free)
    assert scores_in_use(held_back) == {"thr"}


@pytest.mark.parametrize("recipe", ["aps", SMALL, HELD_OUT, "paper"])
@pytest.mark.parametrize("kind", ["integers", "strings"])
def test_groups_are_calibrated_by_themselves(recipe, kind):
    logits, labels = draw(7, 300)
    new, _ = draw(8, 60)
    index, of_new = np.arange(300) % 3, np.arange(60) % 3
    names = np.array([10, -4, 7]) if kind == "integers" else np.array(["left", "ärm", "r"])
    predictor = ts.calibrate(logits, labels, 0.2, recipe, condition=names[index], seed=9)
    sets = predictor.predict_set(new, groups=names[of_new])
    p = predictor.predict_p(new, groups=names[of_new])
    for g in range(3):
        alone = ts.calibrate(logits[index == g], labels[index == g], 0.2, recipe, seed=9)
        here = of_new == g
        assert [s.tolist() for s, h in zip(sets, here, strict=True) if h] == [
            s.tolist() for s in alone.predict_set(new[here])
        ]
        np.testing.assert_array_equal(p[here], alone.predict_p(new[here]))
        one = predictor.predict_set(new[here], groups=names[g].item())
        assert one == alone.predict_set(new[here])


def test_groups_take_u_and_row_ids_of_their_rows():
    logits, labels = draw(9)
    new, _ = draw(10, 30)
    groups, of_new, ids = np.arange(160) % 2, np.arange(30) % 2, np.arange(30) + 5
    predictor = ts.calibrate(logits, labels, 0.2, "aps", condition=groups, row_ids=np.arange(160))
    u = np.random.default_rng(0).uniform(size=30)
    whole = predictor.predict_set(new, groups=of_new, row_ids=ids, u=u)
    for i in range(30):
        one = predictor.predict_set(new[i], groups=of_new[i : i + 1], row_ids=ids[i : i + 1], u=u[i : i + 1])
        assert one[0].tolist() == whole[i].tolist()


def test_clusters_are_those_of_a_held_out_part():
    logits, labels = draw(11, 2000, (0.25, 0.25, 0.25, 0.25))
    predictor = ts.calibrate(logits, labels, 0.2, "aps", condition="cluster", seed=3)
    condition = predictor.condition
    assert predictor.n_calibration == 1500
    assert sum(cell.n_calibration for cell in condition.cells) == 1500
    order = np.asarray(_core.permutation(3, 2000))
    rest = np.sort(order[500:])
    scores = predictor.scores(logits[rest], labels[rest])
    cells = np.array(condition.cell_of)
    for label in range(K):
        expected = reference.threshold(scores[cells[labels[rest]] == cells[label]], 0.2)
        assert condition.thresholds[label] == expected


def test_clusters_of_labels_that_score_alike():
    """Forty labels of two kinds, easy and hard: rows are too few to know each, enough to know both kinds."""
    rng = np.random.default_rng(12)
    labels = rng.integers(40, size=4000)
    margin = np.where(labels % 2 == 0, 8.0, 3.0)
    logits = rng.normal(size=(4000, 40)) + margin[:, None] * np.eye(40)[labels]
    scores = ts.label_scores(logits, labels, "thr", reweight=None)
    found = clusters.clusters_of(scores, labels, 40, alpha=0.1, seed=0, n_clusters=2)
    assert (found[::2] == found[0]).all()
    assert (found[1::2] == found[1]).all()
    assert found[0] != found[1]
    np.testing.assert_array_equal(found, clusters.clusters_of(scores, labels, 40, 0.1, 0, n_clusters=2))


def test_k_means_is_as_good_as_that_of_scikit_learn():
    cluster = pytest.importorskip("sklearn.cluster")
    rng = np.random.default_rng(13)
    points = rng.normal(size=(60, 5)) + 3 * rng.integers(4, size=(60, 1))
    weights = rng.uniform(1, 5, size=60)
    ours = clusters.k_means(points, weights, 4, seed=0)
    theirs = cluster.KMeans(4, n_init=10, random_state=0).fit(points, sample_weight=weights).labels_

    def cost(assigned):
        total = 0.0
        for c in np.unique(assigned):
            members = assigned == c
            centre = np.average(points[members], axis=0, weights=weights[members])
            total += (weights[members] * ((points[members] - centre) ** 2).sum(axis=1)).sum()
        return total

    assert cost(ours) <= 1.01 * cost(theirs)


def test_k_means_of_equal_points():
    found = clusters.k_means(np.ones((5, 2)), np.ones(5), 3, seed=0)
    assert len(np.unique(found)) == 1


def test_rank_limits_leave_labels_out():
    logits, labels = draw(14, 2000)
    new, _ = draw(15, 200)
    predictor = ts.calibrate(logits, labels, 0.2, "thr", condition="rc3p", seed=1)
    order = np.asarray(_core.permutation(1, 2000))
    slice_, rest = np.sort(order[:500]), np.sort(order[500:])
    ranks = reference.ranks_of(logits)[np.arange(2000), labels]
    most = np.array(predictor.condition.most_ranks)
    for label in range(K):
        n = int((labels[rest] == label).sum())
        allowed = (1 - ts.conformal_rank(n, 0.2) / n) / 2
        own = ranks[slice_][labels[slice_] == label]
        assert (own > most[label]).mean() <= allowed < (own > most[label] - 1).mean()
    capped = np.where(ranks > most[labels], np.inf, predictor.scores(logits, labels))
    expected = reference.by_label(capped[rest], labels[rest], K, 0.2)
    np.testing.assert_array_equal(predictor.condition.thresholds, expected)
    every = np.where(reference.ranks_of(new) > most, np.inf, predictor.scores(new))
    np.testing.assert_array_equal(predictor.predict_set(new).mask, every <= expected)
    assert (reference.ranks_of(new) > most).any()


@pytest.mark.parametrize("recipe", ["aps", SMALL, HELD_OUT])
def test_few_rows_give_all_labels_or_the_threshold_of_all_rows(recipe):
    logits, labels = draw(16, 160, (0.6, 0.4, 0.0, 0.0))
    labels[:3] = 2, 2, 3
    new, _ = draw(17, 100)
    few = r"2 of 4 labels have too few calibration rows for alpha=0\.2: 2 \("
    with pytest.warns(ts.SmallCalibrationWarning, match=few) as w:
        every = ts.calibrate(logits, labels, 0.2, recipe, condition="label")
    assert w[0].filename == __file__
    assert "scarce='all'" in str(w[0].message)
    assert every.predict_set(new).mask[:, 2:].all()
    with pytest.warns(ts.SmallCalibrationWarning, match=r"scarce='pooled'"):
        pooled = ts.calibrate(logits, labels, 0.2, recipe, condition="label", scarce="pooled")
    mask = pooled.predict_set(new).mask
    np.testing.assert_array_equal(mask[:, :2], every.predict_set(new).mask[:, :2])
    # The pooled threshold is that of a calibration without condition.
    marginal = ts.calibrate(logits, labels, 0.2, recipe)
    np.testing.assert_array_equal(mask[:, 2:], marginal.predict_set(new).mask[:, 2:])
    p = pooled.predict_p(new)
    np.testing.assert_array_equal(p[:, 2:], marginal.predict_p(new)[:, 2:])


def test_a_label_without_rows():
    logits, labels = draw(18)
    labels = np.minimum(labels, 2)
    with pytest.warns(ts.SmallCalibrationWarning, match=r"1 of 4 labels .* 3 \(0 rows\)"):
        predictor = ts.calibrate(logits, labels, 0.2, "thr", condition="label")
    assert predictor.predict_set(logits).mask[:, 3].all()
    assert (predictor.predict_p(logits)[:, 3] == 1).all()


def test_few_rows_of_a_group():
    logits, labels = draw(19)
    groups = np.where(np.arange(160) < 3, "few", "many")
    with pytest.warns(ts.SmallCalibrationWarning, match=r"1 of 2 groups .*'few' \(3 rows\)") as w:
        predictor = ts.calibrate(logits, labels, 0.2, "aps", condition=groups)
    assert w[0].filename == __file__
    assert predictor.predict_set(logits[:5], groups="few").mask.all()
    with pytest.warns(ts.SmallCalibrationWarning, match="scarce='pooled'"):
        pooled = ts.calibrate(logits, labels, 0.2, "aps", condition=groups, scarce="pooled")
    marginal = ts.calibrate(logits, labels, 0.2, "aps")
    assert pooled.predict_set(logits, groups="few") == marginal.predict_set(logits)
    assert pooled.predict_set(logits, groups="never seen") == marginal.predict_set(logits)
    with pytest.raises(ValueError, match="found 'never seen' at row 1"):
        predictor.predict_set(logits[:2], groups=["many", "never seen"])
    with pytest.raises(ValueError, match=r"groups must be among the 2 .* found 1 at row 0"):
        predictor.predict_set(logits[:2], groups=1)


def test_labels_that_no_cluster_takes():
    logits, labels = draw(20, 600, (0.5, 0.3, 0.19, 0.01))
    with pytest.warns(ts.SmallCalibrationWarning, match="1 of 4 labels have too few"):
        predictor = ts.calibrate(logits, labels, 0.1, "aps", condition="cluster")
    assert predictor.predict_set(logits).mask[:, 3].all()
    with pytest.warns(ts.SmallCalibrationWarning, match="scarce='pooled'"):
        pooled = ts.calibrate(logits, labels, 0.1, "aps", condition="cluster", scarce="pooled")
    assert pooled.condition.pooled == pooled.condition.cell_of[3]
    assert pooled.condition.cells[pooled.condition.pooled].n_calibration == 450


def test_labels_marked_impossible_are_reported():
    logits, labels = draw(21)
    logits[labels == 1, 1] = -np.inf
    with pytest.warns(ts.SmallCalibrationWarning, match="too many rows of labels 1 have an infinite score"):
        predictor = ts.calibrate(logits, labels, 0.2, "thr", condition="label")
    assert predictor.predict_set(logits).mask[:, 1].all()


@pytest.mark.parametrize("condition", ["label", "cluster", "rc3p", "groups"])
@pytest.mark.parametrize("recipe", ["aps", "er-thr", HELD_OUT])
@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
def test_levels_together_are_levels_alone(condition, recipe, guarantee):
    logits, labels = draw(22, 800)
    new, groups = logits[:50], None
    if condition == "groups":
        condition, groups = np.arange(800) % 2, np.arange(50) % 2
    given = {"condition": condition, "guarantee": guarantee, "seed": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.SmallCalibrationWarning)
        several = ts.calibrate(logits, labels, [0.1, 0.3], recipe, **given)
        for alpha, predictor in zip([0.1, 0.3], several, strict=True):
            alone = ts.calibrate(logits, labels, alpha, recipe, **given)
            assert alone == predictor
            sets = predictor.predict_set(new, groups=groups)
            p = predictor.predict_p(new, groups=groups)
            loaded = ts.Predictor.from_json(predictor.to_json(score_table=True))
            assert loaded == predictor
            assert loaded.predict_set(new, groups=groups) == sets
            np.testing.assert_array_equal(loaded.predict_p(new, groups=groups), p)
            bare = ts.Predictor.from_json(predictor.to_json())
            assert bare.predict_set(new, groups=groups) == sets
            with pytest.raises(ValueError, match="saved without score_table=True"):
                bare.predict_p(new, groups=groups)
            if guarantee == "marginal":
                # A label is in the set exactly when its p-value is above alpha.
                np.testing.assert_array_equal(p > alpha + 1e-12, sets.mask)


def test_rows_alone_are_rows_together():
    logits, labels = draw(23, 500)
    for recipe in ("saps", SMALL):
        predictor = ts.calibrate(logits, labels, 0.2, recipe, condition="label")
        whole = predictor.predict_set(logits[:40], n_threads=2)
        for i in range(40):
            assert predictor.predict_set(logits[i])[0].tolist() == whole[i].tolist()
        fortran = predictor.predict_set(np.asfortranarray(logits)[:40][::-1])
        assert [s.tolist() for s in fortran] == [s.tolist() for s in whole][::-1]
        not_empty = predictor.predict_set(logits[:40], allow_empty=False)
        assert all(len(s) for s in not_empty)


def test_smoothed_p_values():
    logits, labels = draw(24, 400)
    predictor = ts.calibrate(logits, labels, 0.2, "aps", condition="label")
    new, _ = draw(124, 400)
    smoothed, plain = predictor.predict_p(new, smoothed=True), predictor.predict_p(new)
    # Without ties, the new row alone is counted in part.
    lost = (plain - smoothed) * (np.bincount(labels) + 1)
    assert lost.min() >= -1e-9
    assert 0.9 < lost.max() <= 1 + 1e-9
    several = ts.calibrate(logits, labels, 0.2, SMALL, condition="label")
    with pytest.raises(ValueError, match="smoothed must be False with"):
        several.predict_p(logits, smoothed=True)


def test_what_a_conditional_predictor_says():
    logits, labels = draw(25, 400)
    predictor = ts.calibrate(logits, labels, 0.2, "aps", **ALL)
    assert predictor.scoring == ts.Recipe("aps").candidates[0]
    assert predictor.condition.kind == "label"
    assert predictor.candidates == ()
    with pytest.raises(ValueError, match=r"thresholds are those of 4 cells: see \.condition"):
        _ = predictor.threshold
    several = ts.calibrate(logits, labels, 0.2, SMALL, **ALL)
    with pytest.raises(ValueError, match="cells differ in what they score by"):
        _ = several.scoring
    with pytest.raises(ValueError, match="candidates are in use in a cell"):
        _ = several.condition.thresholds


def test_groups_may_be_texts_in_an_array_of_objects():
    logits, labels = draw(3, 200)
    groups = np.array(["day", "night"])[np.arange(200) % 2]
    found = ts.calibrate(logits, labels, 0.1, "aps", condition=groups.astype(object))
    assert found == ts.calibrate(logits, labels, 0.1, "aps", condition=groups)
    assert found.predict_set(logits, groups=groups.astype(object)) == found.predict_set(logits, groups=groups)


def test_only_twenty_labels_are_listed_in_warnings():
    rng = np.random.default_rng(4)
    logits, labels = rng.normal(size=(500, 25)), np.arange(500) % 25
    with pytest.warns(
        ts.SmallCalibrationWarning, match=r"25 of 25 labels .*, 19 \(20 rows\) and 5 more; their"
    ):
        short = ts.calibrate(logits, labels, 0.01, "er-thr", condition="label")
    assert short.predict_set(logits).mask.all()
    logits[np.arange(200), labels[:200]] = -np.inf
    with pytest.warns(
        ts.SmallCalibrationWarning, match="labels 0, 1, .*, 19 and 5 more have an infinite score"
    ):
        found = ts.calibrate(logits, labels, 0.1, "thr", condition="label")
    assert found.predict_set(logits).mask.all()


def test_clusters_without_steps_enough_are_still_clusters(monkeypatch):
    rng = np.random.default_rng(5)
    points, weights = rng.normal(size=(60, 3)), rng.uniform(1, 2, size=60)

    def cost(assigned):
        total = 0.0
        for cluster in range(4):
            own = assigned == cluster
            centre = np.average(points[own], axis=0, weights=weights[own])
            total += (weights[own, np.newaxis] * (points[own] - centre) ** 2).sum()
        return total

    best = clusters.k_means(points, weights, 4, seed=1)
    monkeypatch.setattr(clusters, "_MOST_STEPS", 1)
    short = clusters.k_means(points, weights, 4, seed=1)
    assert set(short) == set(best) == set(range(4))
    assert cost(best) < cost(short)

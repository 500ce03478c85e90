"""`comparison.compare` and the effects that `tightset reproduce` shows."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tightset as ts
from tightset.comparison import compare
from tightset.effects import saturation, selection_effect


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    labels = rng.integers(5, size=800)
    return 2 * rng.normal(size=(800, 5)) + 3 * np.eye(5)[labels], labels


@pytest.fixture(scope="module")
def found(data):
    return compare(
        *data, name="noise", recipes=["aps", "thr", "paper", "er-aps"], levels=[0.95, 0.9], n_splits=4, seed=3
    )


def test_a_cell_is_what_the_library_gives(data, found):
    logits, labels = data
    rng = np.random.default_rng(3)
    for split in range(4):
        order = rng.permutation(800)
        test, rest = np.sort(order[:160]), np.sort(order[160:])
        for recipe in found.recipes:
            predictor = ts.calibrate(logits[rest], labels[rest], 0.05, recipe, seed=3 + split)
            sets, cell = predictor.predict_set(logits[test]), found.cell(recipe, 0.95)
            summary = ts.metrics.size_summary(sets, labels[test])
            assert cell.coverage[split] == sets.coverage(labels[test])
            assert cell.mean_size[split] == summary.mean
            assert cell.median_size[split] == summary.median
            assert cell.singleton_rate[split] == summary.singleton_rate
            assert cell.empty_rate[split] == summary.empty_rate
            assert cell.n_calibration == predictor.n_calibration


def test_shape_of_the_evaluation(found):
    assert (found.n, found.n_labels, found.n_calibration, found.n_test) == (800, 5, 640, 160)
    assert found.levels == (0.9, 0.95)
    assert found.main_level == 0.9
    assert [(c.recipe, c.level) for c in found.cells[:3]] == [("aps", 0.9), ("aps", 0.95), ("thr", 0.9)]
    assert found.band_level == 1 - 0.001 / 8


def test_bands(found):
    assert found.cell("paper", 0.9).mean_band is None
    assert found.cell("paper", 0.9).in_band is None
    thr, selected = found.cell("thr", 0.9), found.cell("er-aps", 0.9)
    assert thr.mean_band == ts.metrics.mean_coverage_band(640, 0.1, 160, 4, found.band_level)
    assert thr.split_band == ts.metrics.coverage_band(640, 0.1, 160)
    assert selected.mean_band.lower < thr.mean_band.lower
    assert thr.in_band
    assert selected.in_band


def test_a_wrong_coverage_is_out_of_band(found):
    from dataclasses import replace

    cell = found.cell("thr", 0.9)
    assert not replace(cell, coverage=cell.coverage - 0.1).in_band
    assert not replace(cell, coverage=cell.coverage + 0.1).in_band


def test_details(found):
    for detail in found.details:
        assert detail.size_histogram.sum() == 160
        assert sum(stratum.rows for stratum in detail.by_entropy) == 160
        assert sum(stratum.rows for stratum in detail.by_scenario) == 160
    assert found.detail("thr").curve == ()
    lines = found.detail("er-aps").curve
    assert sum(line.chosen is not None for line in lines) == 1
    chosen = next(line for line in lines if line.chosen is not None)
    assert chosen.sizes[chosen.chosen] == min(line.sizes.min() for line in lines)
    for line in lines:
        assert (np.diff(line.temperatures) > 0).all()


def test_json(found):
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["cells"][0]["recipe"] == "aps"
    assert document["details"][3]["curve"][0]["temperatures"][-1] == "inf"


def test_advice(found):
    exact = ("aps", "thr", "er-aps")
    sizes = {recipe: found.cell(recipe, 0.9).mean_size.mean() for recipe in exact}
    assert sizes[found.recommended] <= 1.005 * min(sizes.values())
    assert found.sentence.startswith(f"Use {found.recommended}: at level 0.9 its sets hold")
    assert found.sentence.count("\n") == 0


def test_the_snippet_runs(data, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("logits.npy", data[0])
    np.save("labels.npy", data[1])
    np.save("new_logits.npy", data[0])
    exec(found.snippet, {})
    assert (tmp_path / "predictor.json").exists()


def test_warnings_of_the_methods_come_through(data):
    with pytest.warns(ts.ProbabilitiesWarning) as caught:
        compare(ts.softmax(data[0]), data[1], recipes=["aps/label"], levels=[0.9], n_splits=1)
    assert any(one.filename.endswith("methods.py") for one in caught), "where the method calibrates"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"recipes": []}, "recipes and levels must not be empty"),
        ({"recipes": ["best"]}, "recipes must be some of paper, .*, got 'best'"),
        ({"levels": []}, "recipes and levels must not be empty"),
        ({"levels": [0.9, 1.2]}, "levels must be strictly between 0 and 1, got 1.2"),
        ({"recipes": ["thr", "aps"], "levels": [0.9], "n_cells": 1}, "n_cells must be at least 2, got 1"),
        ({"n_splits": 0}, "n_splits must be"),
        ({"test_share": 0.0}, "test_share must be strictly between 0 and 1, got 0.0"),
    ],
)
def test_refusals(data, settings, message):
    with pytest.raises(ValueError, match=message):
        compare(*data, **settings)
    with pytest.raises(ValueError, match="at least 10 rows"):
        compare(data[0][:9], data[1][:9])


@pytest.mark.parametrize("name", ts.datasets.names())
def test_plain_scores_are_in_their_bands_on_real_data(name):
    data = ts.datasets.load(name)
    found = compare(data.logits, data.labels, recipes=["raps", "saps", "rank"])
    assert len(found.cells) == 30
    assert [(cell.recipe, cell.level) for cell in found.cells if not cell.in_band] == []


def test_saturation_ties_labels_and_the_ranked_form_does_not():
    data = ts.datasets.load("fashion-mnist")
    found = saturation(data.logits, data.labels, [0.9, 0.99])
    assert found.textbook[0] == found.ranked[0]
    assert found.textbook[1] > 2 * found.ranked[1]


def test_naive_selection_covers_less_than_modsel():
    """On the same splits, so that their spread does not hide it."""
    data = ts.datasets.load("fashion-mnist")
    found = selection_effect(data.logits, data.labels, [0.9, 0.94], n_splits=60)
    loss = (found.coverage["modsel"] - found.coverage["naive"]).mean(axis=0)
    assert loss.mean() > 3 * loss.std(ddof=1) / np.sqrt(60)

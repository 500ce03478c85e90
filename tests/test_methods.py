"""Methods by name: each runs, covers as its band says, and is what the library gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import comb

import numpy as np
import pytest

import tightset as ts
from methods import winners
from tightset.advice import with_advice
from tightset.comparison import compare
from tightset.methods import ALL, RECIPES, WAYS, as_method, method_names
from tightset.metrics.splits import Part, _bound, band_of_parts
from tightset.report.figures import drawn

LEVELS = [0.9, 0.8]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    labels = rng.choice(4, size=1000, p=[0.4, 0.3, 0.2, 0.1])
    return 2 * rng.normal(size=(1000, 4)) + 3 * np.eye(4)[labels], labels


@pytest.fixture(scope="module")
def found(data):
    return compare(*data, name="noise", recipes=ALL, levels=LEVELS, n_splits=3, seed=3)


def splits_of(n, n_test, n_splits, seed):
    rng = np.random.default_rng(seed)
    for split in range(n_splits):
        order = rng.permutation(n)
        yield split, np.sort(order[n_test:]), np.sort(order[:n_test])


DIRECT = {
    "thr": lambda *rows, **given: ts.calibrate(*rows, recipe="thr", **given),
    "aps/label": lambda *rows, **given: ts.calibrate(*rows, recipe="aps", condition="label", **given),
    "thr/cluster": lambda *rows, **given: ts.calibrate(*rows, recipe="thr", condition="cluster", **given),
    "aps/rc3p": lambda *rows, **given: ts.calibrate(*rows, recipe="aps", condition="rc3p", **given),
    "thr/pac": lambda *rows, **given: ts.calibrate(*rows, recipe="thr", guarantee="pac", **given),
    "aps/entropy": lambda *rows, **given: ts.reweighted.calibrate(
        *rows, score="aps", divide_by="entropy", gamma=[0.1, 1.0, 10.0, 100.0], **given
    ),
    "thr/energy-1": lambda *rows, **given: ts.reweighted.calibrate(
        *rows, score="thr", divide_by="energy", **given
    ),
    "aps/confts": lambda *rows, **given: ts.transforms.calibrate(
        *rows, recipe="aps", transform="confts", **given
    ),
    "er-aps/vector-scaling": lambda *rows, **given: ts.transforms.calibrate(
        *rows, recipe="er-aps", transform="vector-scaling", **given
    ),
    "aps/entropy-spline": lambda *rows, **given: ts.transforms.calibrate(
        *rows, recipe="aps", transform=ts.transforms.EntropySpline(0.1, "aps"), **given
    ),
    "aps/rlcp": lambda *rows, **given: ts.localised.calibrate(*rows, score="aps", **given),
    "averaged": ts.averaged.calibrate,
}


@pytest.mark.parametrize("name", DIRECT)
def test_a_method_is_what_the_library_gives(data, name):
    logits, labels = data
    cell = compare(logits, labels, recipes=[name], levels=[0.9], n_splits=2, seed=3).cell(name, 0.9)
    covered_rows, rows = np.zeros(4), np.zeros(4)
    for split, rest, test in splits_of(1000, 200, 2, 3):
        predictor = DIRECT[name](logits[rest], labels[rest], alpha=0.1, seed=3 + split)
        sets = predictor.predict_set(logits[test])
        assert cell.coverage[split] == sets.coverage(labels[test])
        assert cell.mean_size[split] == sets.sizes.mean()
        assert cell.n_calibration == predictor.n_calibration
        covered = sets.covers(labels[test])
        covered_rows += np.bincount(labels[test][covered], minlength=4)
        rows += np.bincount(labels[test], minlength=4)
    assert cell.worst_class_coverage == pytest.approx((covered_rows / rows).min())
    assert cell.worst_class == (covered_rows / rows).argmin()


@pytest.mark.parametrize("name", method_names())
def test_every_name_runs_and_its_code_does_the_same(data, name):
    logits, labels = data[0][:300], data[1][:300]
    method = as_method(name)
    (predictor,) = method.calibrate(logits, labels, [0.2])
    sets = predictor.predict_set(data[0][300:400])
    assert len(sets) == 100
    session = {"ts": ts, "logits": logits, "labels": labels}
    assert eval(method.code(0.2, probabilities=False), session).predict_set(data[0][300:400]) == sets


def test_names():
    names = method_names()
    assert len(names) == len(set(names))
    assert set(ALL) < set(names)
    assert {"tightest/pac", "er-aps/label", "rank/rlcp", "paper/confts", "averaged"} < set(names)
    assert not {"paper/pac", "released/label", "er-aps/rlcp", "averaged/label"} & set(names)
    assert {name.partition("/")[2] for name in names} == {"", *WAYS}
    with pytest.raises(ValueError, match=r"recipes must be some of paper, .*averaged.*label.*, got 'aps/x'"):
        as_method("aps/x")
    with pytest.raises(TypeError, match=r"recipes must be some of .*, got 3"):
        as_method(3)


def test_bands_are_there_where_the_law_is_known(found):
    assert found.dataset == "noise"
    assert found.recipes == ALL
    without = {cell.recipe for cell in found.cells if cell.mean_band is None}
    assert without == {"paper", "released", "aps/rlcp", "thr/rlcp"}
    # 68 cells, each outside with probability 0.001 / 72.
    assert [(cell.recipe, cell.level) for cell in found.cells if cell.in_band is False] == []
    assert {found.cell(name, 0.9).guarantee for name in ("paper", "released")} == {"approximate"}
    assert found.cell("aps/pac", 0.9).mean_band.lower > found.cell("aps", 0.9).mean_band.lower


def test_a_law_by_label_is_a_sum_of_laws(data):
    """Counted over all ways to split the rows of two labels."""

    def law(part):
        n, k, m = part
        return np.array([comb(k - 1 + c, c) * comb(n - k + m - c, m - c) for c in range(m + 1)]) / comb(
            n + m, m
        )

    first, second = Part(9, 8, 3), Part(4, 4, 2)
    both = np.cumsum(np.convolve(law(first), law(second)))
    for outside in (0.01, 0.05, 0.2, 0.4):
        band = band_of_parts(Counter([first, second]), outside)
        assert band == (np.searchsorted(both, outside) / 5, np.searchsorted(both, 1 - outside) / 5)
    # A label with too few rows is in every set.
    certain = band_of_parts(Counter([first, Part(3, 4, 5)]), 0.05)
    alone = band_of_parts(Counter([first]), 0.05)
    assert certain == tuple((5 + 3 * end) / 8 for end in alone)


def test_coverage_by_label_misses_a_band_that_is_off(found):
    cell = found.cell("thr/label", 0.9)
    assert not replace(cell, coverage=cell.coverage - 0.1).in_band
    assert not replace(cell, coverage=cell.coverage + 0.1).in_band


def test_labels_in_every_set_only_add_coverage(data):
    """Labels with too few rows are certain; where RC3P has infinite thresholds, only the upper end rises."""
    logits, labels = data
    names = ["thr/label", "aps/cluster", "aps/rc3p"]
    found = compare(logits[:200], labels[:200], recipes=names, levels=[0.95], n_splits=20)
    assert found.notes
    for cell in found.cells:
        assert cell.in_band
        assert cell.mean_band.lower > 0.9
    assert found.cell("thr/label", 0.95).mean_band.upper < 0.99


def test_few_rows_and_many_labels_are_said(data):
    logits, labels = data
    found = compare(logits[:60], labels[:60], recipes=["thr", "thr/label"], levels=[0.9], n_splits=2)
    assert any(note.startswith("thr/label: ") and "too few" in note for note in found.notes)


def test_slow_methods_get_a_part_of_many_rows(data, monkeypatch):
    monkeypatch.setattr("tightset.methods._MOST_ENTRIES", 1200)
    monkeypatch.setattr("tightset.methods._FEWEST_ROWS", 10)
    logits, labels = data
    found = compare(logits, labels, recipes=["thr", "thr/temperature-nll"], levels=[0.9], n_splits=2)
    assert found.notes == ("thr/temperature-nll: 300 rows calibrate and 200 test, drawn at random",)
    cell = found.cell("thr/temperature-nll", 0.9)
    assert (cell.n_calibration, cell.n_test) == (225, 200)
    assert found.cell("thr", 0.9).n_calibration == 800
    assert cell.mean_band.upper - cell.mean_band.lower > 0


def only_recipes(found):
    return replace(
        found,
        recipes=RECIPES,
        cells=tuple(cell for cell in found.cells if cell.recipe in RECIPES),
        details=tuple(detail for detail in found.details if detail.recipe in RECIPES),
    )


def test_advice_goes_to_another_method_only_if_it_is_clearly_smaller(found):
    recipe = with_advice(only_recipes(found), probabilities=False).recommended

    def with_sizes(factor):
        """All other methods have the sizes of the recipe, one of them others."""
        cells = []
        for cell in found.cells:
            if cell.recipe not in RECIPES:
                size = found.cell(recipe, cell.level).mean_size
                changed = size * factor if cell.recipe == "thr/vector-scaling" else size
                cells.append(replace(cell, mean_size=changed))
            else:
                cells.append(cell)
        return with_advice(replace(found, cells=tuple(cells)), probabilities=True)

    assert with_sizes(0.999).recommended == recipe
    assert with_sizes(np.array([0.7, 0.9, 1.3])).recommended == recipe
    better = with_sizes(0.9)
    assert better.recommended == "thr/vector-scaling"
    assert 'recipe="thr", transform="vector-scaling", probabilities=True)' in better.snippet


def test_advice_compares_with_aps_only_what_differs(found):
    recipes = only_recipes(found)

    def advised(factor):
        cells = tuple(
            replace(cell, mean_size=(1.0 if cell.recipe == "thr" else factor) * np.array([2.0, 2.1, 2.2]))
            for cell in recipes.cells
        )
        return with_advice(replace(recipes, cells=cells), probabilities=False)

    assert advised(2.0).recommended == "thr"
    assert ", 50.0 % fewer labels than aps" in advised(2.0).sentence
    same = advised(1.0002)
    assert same.recommended == "thr"
    assert "than aps" not in same.sentence


def test_selection_within_labels_has_no_known_law(data):
    found = compare(*data, recipes=["er-thr/label", "thr/label"], levels=[0.8], n_splits=1)
    assert [found.cell(name, 0.8).mean_band is None for name in found.recipes] == [True, False]


def test_figures_draw_what_can_be_told_apart(found):
    few = drawn(replace(found, recommended="averaged"))
    assert few.recipes == (*ALL[:8], "averaged")
    assert few.cell("averaged", 0.8) is found.cell("averaged", 0.8)
    assert few.detail("averaged") is found.detail("averaged")


def test_the_table_of_winners(found):
    """Of `experiments/methods.py`: sizes that differ by chance do not win, and promises that are none."""

    def with_sizes(**sizes):
        document = found.to_dict()
        for cell in document["cells"]:
            cell["mean_size"] = [2.0, 2.1, 2.2]
            cell["worst_stratum_coverage"] = 0.8
            for part, given in sizes.items():
                cell[part] = given.get(cell["recipe"], cell[part])
        document["cells"] = [cell for cell in document["cells"] if cell["level"] == 0.9]
        document["main_level"] = 0.9
        return winners([document]).splitlines()[-1]

    alike = with_sizes(
        mean_size={"paper": [1, 1, 1], "thr": [1.9, 2.3, 2.0], "averaged": [1.99, 2.09, 2.195]}
    )
    assert alike.startswith("| noise | `er-aps` (2.100, 33 more alike) | none |")
    clear = with_sizes(
        mean_size={"aps/rlcp": [1.8, 1.9, 2.0], "rank": [1.9, 2.0, 2.1]},
        worst_stratum_coverage={"rank": 0.88, "aps/rlcp": 0.7},
    )
    assert clear.startswith("| noise | `aps/rlcp` (1.900) | `rank` (2.000) | `rank` (0.880, size 2.000) |")


def test_a_law_without_spread_has_its_value_as_its_bound():
    assert _bound(np.array([0.25, 1.0]), np.array([0.0, 1.0]), allowed=5.0) == 1.0

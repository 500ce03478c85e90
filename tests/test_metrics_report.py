"""`metrics.report`: what it gathers, prints and turns into."""

from __future__ import annotations

import dataclasses
import json
import re
import sys

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic
from tightset import metrics
from tightset.metrics.predictor_law import law_band


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(3)
    logits, labels = synthetic(rng, 3000, 6)
    predictor = ts.calibrate(logits[:1000], labels[:1000], 0.1, "thr")
    return predictor.predict_set(logits[1000:]), labels[1000:], logits[1000:]


def test_report_gathers_the_parts(case):
    sets, labels, logits = case
    found = metrics.report(sets, labels, logits, alpha=0.1, n_calibration=1000)
    assert (found.rows, found.n_labels, found.alpha, found.n_calibration) == (2000, 6, 0.1, 1000)
    assert found.coverage == metrics.coverage(sets, labels)
    assert found.true_band == metrics.coverage_band(1000, 0.1)
    assert found.observed_band == metrics.coverage_band(1000, 0.1, 2000)
    assert found.size == metrics.size_summary(sets, labels)
    assert found.by_entropy == metrics.coverage_by_entropy(sets, labels, logits)
    assert found.by_scenario == metrics.coverage_by_scenario(sets, labels, logits)
    assert found.by_size == metrics.coverage_by_size(sets, labels, 0.1)
    assert found.by_class == metrics.coverage_by_class(sets, labels, 0.1)
    assert found.size.empty_rate > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.rows = 1


def test_a_predictor_tells_the_report_what_it_knows(case):
    sets, labels, logits = case
    rows, truth = synthetic(np.random.default_rng(3), 3000, 6)
    predictor = ts.calibrate(rows[:1000], truth[:1000], 0.1, "thr")
    found = metrics.report(sets, labels, logits, predictor=predictor)
    assert found == metrics.report(sets, labels, logits, 0.1, 1000)
    assert "within its band" in str(found)
    named = predictor.with_label_names([*"abcdef"])
    assert metrics.report(sets, labels, predictor=named).by_class.worst[0].name in "abcdef"
    raised = ts.calibrate(rows[:1000], truth[:1000], 0.1, "thr", guarantee="pac")
    found = metrics.report(raised.predict_set(logits), labels, predictor=raised)
    # A level whose rank this is has the same law.
    assert found.true_band == metrics.coverage_band(1000, 1 - (raised.rank - 0.5) / 1001)
    transform = ts.transforms.TemperatureNLL()
    chain = ts.transforms.calibrate(rows[:1000], truth[:1000], 0.1, "thr", transform=transform)
    found = metrics.report(chain.predict_set(logits), labels, logits, predictor=chain)
    assert found.true_band == metrics.coverage_band(chain.n_calibration, 0.1)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"recipe": "er-aps"}, r"\(modsel\): the mean over calibrations is exact, the spread may be wider"),
        ({"recipe": "paper"}, r"\(paper\): coverage is approximate"),
        ({"recipe": "thr", "condition": "label"}, "condition='label' has a threshold for each cell"),
    ],
)
def test_a_report_has_no_band_without_a_law(settings, reason):
    logits, labels = synthetic(np.random.default_rng(3), 3000, 6)
    predictor = ts.calibrate(logits[:1000], labels[:1000], 0.1, **settings)
    sets = predictor.predict_set(logits[1000:])
    found = metrics.report(sets, labels[1000:], predictor=predictor)
    assert (found.true_band, found.observed_band, found.n_calibration) == (None, None, 1000)
    assert re.search(f"no band: .*{reason}", str(found))
    assert re.search(reason, found.to_dict()["why_no_band"])


def test_a_report_of_rules_and_neighbours_has_the_band_that_they_have():
    logits, labels = synthetic(np.random.default_rng(3), 3000, 6)
    held, rows, truth = (logits[:1000], labels[:1000]), logits[1000:1300], labels[1000:1300]
    one, several = (ts.reweighted.calibrate(*held, gamma=gamma) for gamma in (1.0, [0.1, 1.0]))
    found = metrics.report(one.predict_set(rows), truth, predictor=one)
    assert found.true_band == metrics.coverage_band(1000, 0.1)
    assert "(modsel)" in metrics.report(several.predict_set(rows), truth, predictor=several).why_no_band
    near = ts.localised.calibrate(*held)
    found = metrics.report(near.predict_set(rows), truth, predictor=near)
    assert (found.alpha, found.true_band) == (0.1, None)
    assert "the law of a LocalisedPredictor is not known" in str(found)


def test_report_leaves_out_what_is_not_known(case):
    sets, labels, _ = case
    found = metrics.report(sets, labels)
    assert (found.alpha, found.true_band, found.observed_band) == (None, None, None)
    assert (found.by_entropy, found.by_scenario) == (None, None)
    assert (found.by_size.sscv, found.by_class.cov_gap) == (None, None)
    for word in ("gap", "CovGap", "SSCV", "asked for", "band", "entropy", "None", "nan"):
        assert word not in str(found)
    assert "gap" not in found.to_frame()


def test_report_without_empty_sets_says_so():
    rows = ts.PredictionSets(np.zeros(3, np.int64), np.array([], np.int32), 2)
    found = metrics.report(rows, [0, 1])
    assert found.size.mean_nonempty is found.size.coverage_nonempty is None
    assert found.size.empty_rate == 1.0
    assert "None" not in str(found)


@pytest.mark.parametrize("full", [True, False])
def test_report_prints_in_line(case, full):
    sets, labels, logits = case
    names = ["a\nb", "<i>x</i>", "a name that is far too long for a table of this width", "c", "d", "e"]
    more = {"logits": logits, "alpha": 0.1, "n_calibration": 1000, "label_names": names} if full else {}
    printed = str(metrics.report(sets, labels, **more))
    assert max(map(len, printed.splitlines())) < 100
    tables = [block.splitlines() for block in printed.split("\n\n") if "share" in block or "rows  " in block]
    assert len(tables) == (6 if full else 3)
    for header, *lines in tables:
        ends = [32 + word.end() for word in re.finditer(r"\S+( \S+)*", header[32:])]
        numbers = [line for line in lines if re.search(r"\d\.\d{4}", line[32:])]
        assert numbers
        for line in numbers:
            assert {word.end() + 32 for word in re.finditer(r"\S+", line[32:])} <= set(ends)
    if full:
        assert "\n  a?b  " in printed
        assert "\n  a name that is far too long" in printed


@pytest.mark.parametrize(("n_covered", "where"), [(100, "above"), (90, "within"), (50, "below")])
def test_report_compares_with_its_band(n_covered, where):
    sets = ts.PredictionSets(np.arange(101), np.zeros(100, np.int32), 2)
    labels = [0] * n_covered + [1] * (100 - n_covered)
    assert f"observed coverage is {where} its band" in str(
        metrics.report(sets, labels, alpha=0.1, n_calibration=1000)
    )


def test_report_in_a_line(case):
    sets, labels, _ = case
    found = f"{sets.coverage(labels):.4f}, mean size {sets.sizes.mean():.3f}"
    assert repr(metrics.report(sets, labels)) == f"Report(2000 rows, coverage {found})"


def test_html_escapes_names(case):
    sets, labels, logits = case
    names = ["<b>", "&", "c", "d", "e", "f"]
    page = metrics.report(sets, labels, logits, 0.1, 1000, names)._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert page.count("<table>") == page.count("</table>") == 7


def test_report_to_json(case):
    sets, labels, logits = case
    found = metrics.report(sets, labels, logits, np.float64(0.1), np.int64(1000), np.array(list("abcdef")))
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain == found.to_dict()
    assert set(plain) == {f.name for f in dataclasses.fields(found)}
    assert plain["true_band"] == [found.true_band.lower, found.true_band.upper]
    assert plain["by_size"]["sscv"] == found.by_size.sscv
    assert plain["by_entropy"][3] == dataclasses.asdict(found.by_entropy[3])


def test_report_to_frame(case):
    sets, labels, logits = case
    found = metrics.report(sets, labels, logits, alpha=0.1)
    frame = found.to_frame()
    assert list(frame) == ["by", "name", "rows", "coverage", "gap", "mean_size", "empty_rate"]
    assert (
        frame.groupby("by", sort=False)["rows"].sum()[["all", "entropy", "scenario", "size"]].eq(2000).all()
    )
    assert frame["coverage"][0] == found.coverage
    assert frame["gap"][0] == pytest.approx(found.coverage - 0.9)
    assert frame.dtypes[["coverage", "gap", "mean_size", "empty_rate"]].eq(np.float64).all()


def test_to_frame_without_pandas(case, monkeypatch):
    sets, labels, _ = case
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs pandas"):
        metrics.report(sets, labels).to_frame()


def test_the_band_of_very_many_rows_is_that_of_the_true_coverage():
    rng = np.random.default_rng(0)
    predictor = ts.calibrate(rng.normal(size=(100, 3)), rng.integers(3, size=100), recipe="thr")
    assert law_band(predictor, 10**9, 0.9) == law_band(predictor, None, 0.9)

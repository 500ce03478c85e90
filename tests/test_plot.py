"""Plots draw what they are given, on the axes they are given."""

from __future__ import annotations

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex

import tightset as ts
from conftest import synthetic
from tightset.evaluation import CurveLine
from tightset.metrics import Stratum
from tightset.plot.labels import spread
from tightset.plot.theme import DARK, LIGHT, THEMES, styles_of

LEVELS = [0.90, 0.95, 0.99]
SCENARIOS = ("right, low entropy", "right, high entropy", "wrong, low entropy", "wrong, high entropy")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def lines(ax):
    return {line.get_label(): np.column_stack(line.get_data()) for line in ax.get_lines()}


def texts(ax):
    return [text.get_text() for text in ax.texts]


def strata(names, coverage, size=None):
    size = [1.0] * len(names) if size is None else size
    return [Stratum(n, 100, c, s, 0.0) for n, c, s in zip(names, coverage, size, strict=True)]


def test_coverage_by_level():
    band = [ts.metrics.coverage_band(1000, 1 - level, 500) for level in LEVELS]
    many = [[0.90, 0.92], [0.94, 0.95], [0.99, 1.0]]
    ax = ts.plot.coverage_by_level(LEVELS, {"aps": [0.91, 0.95, 0.985], "thr": many}, band=band)
    found = lines(ax)
    np.testing.assert_allclose(found["aps"], [[0.90, 0.01], [0.95, 0.0], [0.99, -0.005]], atol=1e-12)
    np.testing.assert_allclose(found["thr"][:, 1], [0.01, -0.005, 0.005], atol=1e-12)
    (area,) = ax.collections
    corners = area.get_paths()[0].vertices
    for level, ends in zip(LEVELS, band, strict=True):
        drawn = corners[np.isclose(corners[:, 0], level), 1]
        assert drawn.min() == pytest.approx(ends.lower - level)
        assert drawn.max() == pytest.approx(ends.upper - level)
    assert set(texts(ax)) == {"exact band", "aps", "thr"}


@pytest.mark.parametrize("width", [0.3, 0.01, 0.004, 0.001])
def test_ticks_of_differences_say_where_they_are(width):
    ax = ts.plot.coverage_by_level([0.5, 0.6], {"aps": [0.5 - width / 2, 0.6 + width]})
    ax.figure.draw_without_rendering()
    shown = [float(tick.get_text()) for tick in ax.get_yticklabels()]
    assert len(shown) > 3
    np.testing.assert_allclose(shown, ax.get_yticks(), atol=1e-9)


def test_without_a_band_there_is_none():
    ax = ts.plot.coverage_by_level(LEVELS, {"aps": [0.91, 0.95, 0.985]})
    assert not ax.collections
    assert "exact band" not in texts(ax)


def test_size_by_coverage():
    ax = ts.plot.size_by_coverage(
        {"aps": LEVELS, "mine": [0.91, 0.96]}, {"aps": [[1, 3], [2, 4], [3, 5]], "mine": [1.5, 2.5]}
    )
    np.testing.assert_allclose(lines(ax)["aps"], [[0.90, 2], [0.95, 3], [0.99, 4]])
    np.testing.assert_allclose(lines(ax)["mine"], [[0.91, 1.5], [0.96, 2.5]])


def test_emphasis_is_widest_and_above():
    ax = ts.plot.size_by_coverage(
        dict.fromkeys(("aps", "thr", "rank"), LEVELS),
        dict.fromkeys(("aps", "thr", "rank"), (1, 2, 3)),
        emphasis="thr",
    )
    widths = {line.get_label(): (line.get_linewidth(), line.get_zorder()) for line in ax.get_lines()}
    assert max(widths, key=widths.get) == "thr"
    assert [t.get_text() for t in ax.texts if t.get_fontweight() == "bold"] == ["thr"]


def test_saturation():
    ax = ts.plot.saturation(LEVELS, textbook=[1.0, 2.0, 9.0], ranked=[[1, 1], [1, 2], [3, 5]])
    np.testing.assert_allclose(lines(ax)["textbook"][:, 1], [1, 2, 9])
    np.testing.assert_allclose(lines(ax)["ranked scale"][:, 1], [1, 1.5, 4])


def test_selection_effect():
    naive = np.array([[0.88, 0.90], [0.93, 0.95], [0.98, 0.99]])
    ax = ts.plot.selection_effect(LEVELS, {"naive": naive, "modsel": LEVELS})
    found = lines(ax)
    np.testing.assert_allclose(found["naive"][:, 1], [-0.01, -0.01, -0.005], atol=1e-12)
    np.testing.assert_allclose(found["modsel"][:, 1], 0, atol=1e-12)
    (bars,) = ax.collections  # only splits have a spread
    lengths = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
    np.testing.assert_allclose(lengths, 4 * naive.std(axis=1, ddof=1) / np.sqrt(2))
    assert not np.isin(found["naive"][:, 0], found["modsel"][:, 0]).any()


def test_size_histogram_of_sets_and_counts(rng):
    logits, labels = synthetic(rng, 500, 6)
    sets = ts.calibrate(logits, labels, 0.02, "aps").predict_set(logits)
    counts = np.bincount(sets.sizes, minlength=7)
    for given_as in (sets, counts):
        ax = ts.plot.size_histogram(given_as)
        heights = [bar.get_height() for bar in ax.patches]
        np.testing.assert_allclose(heights, counts[: len(heights)] / 500)
        assert sum(heights) == pytest.approx(1.0)
        assert [bar.get_center()[0] for bar in ax.patches] == pytest.approx(range(len(heights)))


def test_size_histogram_side_by_side():
    ax = ts.plot.size_histogram({"aps": [0, 3, 1], "thr": [1, 3]})
    assert [[bar.get_height() for bar in group] for group in ax.containers] == [
        [0, 0.75, 0.25],
        [0.25, 0.75, 0],
    ]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["aps", "thr"]
    first, second = ax.containers
    assert first[1].get_x() + first[1].get_width() == pytest.approx(second[1].get_x())


def test_coverage_by_entropy():
    names = ["0-50 %", "50-100 %"]
    ax = ts.plot.coverage_by_entropy(
        {"aps": strata(names, [0.95, 0.85]), "thr": strata(names, [0.99, None])}, level=0.9
    )
    found = lines(ax)
    np.testing.assert_allclose(found["aps"][:, 1], [0.95, 0.85])
    np.testing.assert_array_equal(np.isnan(found["thr"][:, 1]), [False, True])
    np.testing.assert_allclose(found["level 0.9"][:, 1], 0.9)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == names
    assert set(texts(ax)) == {"aps", "thr", "level 0.9"}
    assert texts(ts.plot.coverage_by_entropy(strata(names, [0.95, 0.85]), level=0.9)) == ["level 0.9"]


def test_scenarios():
    sizes = {"aps": [1.0, 1.5, 1.2, 2.5], "thr": [1.0, 1.2, None, 2.0]}
    named = {name: strata(SCENARIOS, [0.9] * 4, values) for name, values in sizes.items()}
    ax = ts.plot.scenarios(named)
    for name, values in sizes.items():
        drawn = lines(ax)[name]
        np.testing.assert_allclose(drawn[:, 0], [np.nan if v is None else v for v in values])
        np.testing.assert_array_equal(np.round(drawn[:, 1]), range(4))
    assert (lines(ax)["aps"][:, 1] < lines(ax)["thr"][:, 1]).all()
    assert ax.yaxis_inverted()
    assert "wrong\nhigh entropy\n100 rows" in [tick.get_text() for tick in ax.get_yticklabels()]
    ax = ts.plot.scenarios(named["aps"], "coverage")
    np.testing.assert_allclose(ax.get_lines()[0].get_xdata(), 0.9)
    assert ax.get_legend() is None


def test_selection_curve_of_a_predictor(rng):
    logits, labels = synthetic(rng, 600, 5)
    curve = ts.calibrate(logits, labels, 0.05, "er-aps").selection_curve
    ax = ts.plot.selection_curve(curve)
    drawn = [line for line in ax.get_lines() if line.get_label() != "chosen"]
    heights = np.sort(np.concatenate([line.get_ydata() for line in drawn]))
    np.testing.assert_allclose(heights, np.sort(curve.sizes))
    (chosen,) = (line for line in ax.get_lines() if line.get_label() == "chosen")
    assert chosen.get_ydata() == pytest.approx([curve.sizes[curve.chosen]])
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    assert ticks[:2] == ["0", "∞"]
    assert "1" in ticks


def test_selection_curve_sets_limits_apart():
    temperatures = np.array([0.0, 0.5, 1.0, 4.0, np.inf])
    ax = ts.plot.selection_curve([CurveLine("aps, plain", temperatures, np.array([3.0, 2, 1, 2, 3]), 2)])
    found = lines(ax)
    np.testing.assert_allclose(found["aps, plain"], [[-1, 2], [0, 1], [2, 2]])
    (left, right) = found["_limits of aps, plain"]
    assert left[0] < -1
    assert right[0] > 2
    np.testing.assert_allclose(found["chosen"], [[0, 1]])


def test_selection_curve_of_limits_alone():
    ax = ts.plot.selection_curve([CurveLine("thr", np.array([0.0, np.inf]), np.array([2.0, 1.0]), 1)])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "∞"]
    np.testing.assert_allclose(lines(ax)["_limits of thr"][:, 1], [2, 1])
    assert "thr" not in lines(ax)


def test_selection_curve_has_no_tick_upon_a_limit():
    temperatures = np.array([0.0, *2.0 ** np.arange(-8, 9), np.inf])
    ax = ts.plot.selection_curve([CurveLine("thr", temperatures, np.arange(19.0) + 1, 0)])
    ticks = sorted((tick.get_position()[0], tick.get_text()) for tick in ax.get_xticklabels())
    assert [text for _, text in ticks] == ["0", "1/16", "1", "16", "∞"]


def test_selection_curve_names_the_best_and_the_chosen():
    temperatures = np.array([1.0, 2.0])
    many = [CurveLine(f"line {i}", temperatures, np.array([2.0 + i, 3.0 + i]), None) for i in range(9)]
    many.append(CurveLine("last", temperatures, np.array([11.0, 12.0]), 0))
    ax = ts.plot.selection_curve(many)
    named = [text.get_text() for text in ax.get_legend().get_texts()]
    assert named == [*(f"line {i}" for i in range(5)), "last", "chosen"]
    assert len([line for line in ax.get_lines() if line.get_label() != "chosen"]) == 10


CALLS = {
    "coverage_by_level": lambda **k: ts.plot.coverage_by_level(LEVELS, {"aps": LEVELS}, **k),
    "size_by_coverage": lambda **k: ts.plot.size_by_coverage({"aps": LEVELS}, {"aps": [1, 2, 3]}, **k),
    "saturation": lambda **k: ts.plot.saturation(LEVELS, [1, 2, 3], [1, 1, 2], **k),
    "selection_effect": lambda **k: ts.plot.selection_effect(LEVELS, {"naive": LEVELS}, **k),
    "size_histogram": lambda **k: ts.plot.size_histogram([1, 2], **k),
    "coverage_by_entropy": lambda **k: ts.plot.coverage_by_entropy(strata(["a", "b"], [0.9, 0.8]), **k),
    "scenarios": lambda **k: ts.plot.scenarios(strata(SCENARIOS, [0.9] * 4), **k),
    "selection_curve": lambda **k: ts.plot.selection_curve(
        [CurveLine("aps", np.array([1.0, 2.0]), np.array([1.0, 2.0]), 0)], **k
    ),
}


def test_every_plot_is_among_these():
    assert CALLS.keys() == set(ts.plot.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_axes_given_are_returned_and_their_figure_is_left_alone(name):
    figure, (one, other) = plt.subplots(1, 2)
    face = figure.get_facecolor()
    assert CALLS[name](ax=one) is one
    assert figure.get_facecolor() == face
    assert not other.has_data()
    assert plt.get_fignums() == [figure.number]
    figure.draw_without_rendering()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("theme", [None, "light", "dark"])
def test_themes(name, theme):
    with plt.rc_context({"figure.facecolor": "black"} if theme is None else {}):
        ax = CALLS[name](theme=theme)
        expected = DARK if theme is None else THEMES[theme]
        assert to_hex(ax.figure.get_facecolor()) == expected.paper
        assert ax.xaxis.label.get_color() == expected.muted
        drawn = [line.get_color() for line in ax.get_lines()] + [bar.get_facecolor() for bar in ax.patches]
        if name == "selection_curve":  # the ring around the chosen one is an edge, not a line
            drawn[-1] = ax.get_lines()[-1].get_markeredgecolor()
        assert drawn
        assert {to_hex(c) for c in drawn} <= {*expected.series, expected.ink, expected.muted, expected.line}


def test_a_light_figure_is_light():
    ax = CALLS["size_histogram"](ax=plt.subplots()[1])
    assert ax.xaxis.label.get_color() == LIGHT.muted


@pytest.mark.parametrize("theme", THEMES)
def test_recipes_keep_their_look(theme):
    names = ["er-aps", "aps", "raps", "saps", "thr", "rank", "paper", "released", "tightest"]
    together = styles_of(names, THEMES[theme])
    for name in names:
        assert styles_of([name], THEMES[theme])[name] == together[name]
    looks = {(s["color"], s["marker"], str(s["linestyle"])) for s in together.values()}
    assert len(looks) == len(names)
    assert together["er-aps"]["color"] == together["aps"]["color"]


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.01, 0.2))
def test_labels_are_apart_and_in_order(places, gap):
    found = spread(places, gap)
    order = np.argsort(places, kind="stable")
    apart = np.diff(np.array(found)[order])
    assert (apart >= gap - 1e-9).all()
    far = [abs(a - b) for i, a in enumerate(places) for b in places[:i]]
    if not far or min(far) >= gap:
        assert found == pytest.approx(places)


def test_dollars_are_no_mathematics():
    name = "$x_{"
    for ax in (
        ts.plot.size_by_coverage({name: LEVELS}, {name: [1, 2, 3]}),
        ts.plot.size_histogram({name: [1, 2], "b": [1, 2]}),
        ts.plot.scenarios({name: strata(SCENARIOS, [0.9] * 4)}),
        ts.plot.selection_curve([CurveLine(name, np.array([1.0, 2.0]), np.array([1.0, 2.0]), 0)]),
    ):
        ax.figure.draw_without_rendering()
        shown = texts(ax) + [text.get_text() for text in (ax.get_legend() or ax).findobj(plt.Text)]
        assert name in shown


def test_labels_stay_at_the_axes():
    names = [f"recipe {i}" for i in range(9)]
    ax = ts.plot.size_by_coverage(
        dict.fromkeys(names, LEVELS), {name: [1, 1, 1 + 1e-3 * i] for i, name in enumerate(names)}
    )
    ax.figure.draw_without_rendering()
    places = sorted(text.xyann[1] for text in ax.texts)
    assert places[0] > -0.1
    assert places[-1] < 1.1
    width, height = ax.figure.canvas.get_width_height()
    for text in ax.texts:
        box = text.get_window_extent()
        assert box.x1 <= width
        assert -1 <= box.y0 <= box.y1 <= height + 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ts.plot.coverage_by_level([0.9, 1.5], {"a": [1, 1]}), r"levels must be .* got \[0.9, 1.5\]"),
        (
            lambda: ts.plot.coverage_by_level([0.9], {"a": [1, 1]}),
            r"coverage\['a'\] must have .* \(1\).*\(2,\)",
        ),
        (
            lambda: ts.plot.coverage_by_level([0.9], {"a": [1]}, band=[1, 2]),
            r"band must have .* shape \(2,\)",
        ),
        (
            lambda: ts.plot.size_by_coverage({"a": [1]}, {"b": [1]}),
            r"size must have the names .* got \['b'\]",
        ),
        (lambda: ts.plot.saturation([0.9], [1.0], [1.0, 2.0]), r"ranked must have .*\(2,\)"),
        (lambda: ts.plot.size_histogram([0, 0]), r"sets must be .* got \[0, 0\]"),
        (lambda: ts.plot.size_histogram([1, -1]), r"sets must be .* got \[1, -1\]"),
        (lambda: ts.plot.size_histogram([1, np.inf]), r"sets must be .* got \[1, inf\]"),
        (lambda: ts.plot.size_histogram({}), "sets must not be empty"),
        (
            lambda: ts.plot.size_histogram({"a": ts.PredictionSets(np.zeros(1, int), np.zeros(0, int), 2)}),
            r"sets must be .* one row or more, got PredictionSets\(0 rows",
        ),
        (lambda: ts.plot.scenarios([]), r"strata must not be empty, got \[\]"),
        (lambda: ts.plot.scenarios(strata(SCENARIOS, [1] * 4), "size"), "value must be .* got 'size'"),
        (lambda: ts.plot.selection_curve([]), "curve must have at least one line"),
        (lambda: ts.plot.size_histogram([1], theme="blue"), "theme must be .* got 'blue'"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def in_a_new_process(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_the_package_does_not_import_matplotlib():
    code = "import sys, tightset as ts; from tightset import *; print('matplotlib' in sys.modules, dir(ts))"
    loaded, _, names = in_a_new_process(code).stdout.partition(" ")
    assert loaded == "False"
    assert "'plot'" in names


@pytest.mark.parametrize("module", ["plot", "report"])
def test_without_matplotlib_the_extra_is_named(module):
    code = f"import sys; sys.modules['matplotlib'] = None; import tightset.{module}"
    found = in_a_new_process(code)
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "ModuleNotFoundError: tightset.plot needs matplotlib, of the extra plot: pip install"
    )

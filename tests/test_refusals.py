"""Bad input never shrinks a set: each is refused with an error that names the argument and value."""

from __future__ import annotations

import numpy as np
import pytest

import tightset as ts
from conftest import Y, Z
from tightset import _core

NAN, INF = float("nan"), float("inf")


def with_value(value, row=2, column=1, dtype=np.float64):
    bad = Z.astype(dtype)
    bad[row, column] = value
    return bad


def calibrate(logits=Z, labels=Y, alpha=0.4, recipe="aps", **options):
    return ts.calibrate(logits, labels, alpha, recipe, **options)


def predict(logits, **options):
    return calibrate().predict_set(logits, **options)


# (what is refused, call, error, part of its message)
LOGITS = [
    ("nan", with_value(NAN), ValueError, "logits must not contain NaN or +inf: found nan at row 2, column 1"),
    ("+inf", with_value(INF), ValueError, "found inf at row 2, column 1"),
    ("float32 nan", with_value(NAN, dtype=np.float32), ValueError, "found nan at row 2, column 1"),
    ("float16 +inf", with_value(INF, dtype=np.float16), ValueError, "found inf at row 2, column 1"),
    ("big-endian nan", with_value(NAN).astype(">f8"), ValueError, "found nan at row 2, column 1"),
    ("all -inf", np.vstack([Z[:1], np.full((3, 3), -INF)]), ValueError, "row 1 is -inf throughout"),
    ("no labels", np.zeros((4, 0)), ValueError, "at least one label, got shape (4, 0)"),
    ("0-d", np.float64(1.0), ValueError, "logits must have shape"),
    ("3-d", np.zeros((4, 3, 1)), ValueError, "got (4, 3, 1)"),
    ("complex", Z.astype(complex), TypeError, "logits must be real numbers, got dtype complex128"),
    ("object", Z.astype(object), TypeError, "got dtype object"),
    ("bool", Z > 0, TypeError, "got dtype bool"),
    ("string", np.array([["a", "b", "c"]] * 4), TypeError, "got dtype <U1"),
    ("raw bytes", np.zeros((4, 3), "V2"), TypeError, "got dtype |V2"),
    ("dates", np.zeros((4, 3), "M8[s]"), TypeError, "got dtype datetime64[s]"),
    ("ragged", [[1.0, 2.0], [1.0]], ValueError, "logits cannot be read as an array"),
    ("masked", np.ma.array(Z, mask=Z > 1.5), TypeError, "logits must not be masked: 1 entries are"),
    ("none", None, TypeError, "got dtype object"),
    ("none in a list", [[1.0, 2.0, 3.0], [1.0, None, 3.0]], TypeError, "found None at row 1, column 1"),
    ("text in a list", [[1.0, 2.0, 3.0], [1.0, 2.0, "3"]], TypeError, "found '3' at row 1, column 2"),
]


@pytest.mark.parametrize(("logits", "error", "message"), [c[1:] for c in LOGITS], ids=[c[0] for c in LOGITS])
def test_logits(logits, error, message):
    calls = [
        lambda: calibrate(logits),
        lambda: predict(logits),
        lambda: calibrate().predict_p(logits),
        lambda: calibrate().scores(logits),
        lambda: ts.entropy(logits),
        lambda: ts.softmax(logits),
        lambda: ts.ranks(logits, Y),
        lambda: ts.label_scores(logits, Y),
        lambda: ts.all_scores(logits),
    ]
    for call in calls:
        with pytest.raises(error) as caught:
            call()
        assert message in str(caught.value)


LABELS = [
    (
        "too large",
        [0, 1, 3, 0],
        ValueError,
        "labels must be between 0 and 2, the last column: found 3 at row 2",
    ),
    ("negative", [0, -1, 2, 0], ValueError, "found -1 at row 1"),
    ("ignore index", [0, 1, -100, 0], ValueError, "found -100 at row 2"),
    (
        "huge unsigned",
        np.array([0, 1, 2**64 - 1, 0], np.uint64),
        ValueError,
        "found 18446744073709551615 at row 2",
    ),
    (
        "fractions",
        [0.0, 1.5, 2.0, 0.0],
        TypeError,
        "labels must be integers, got dtype float64: found 1.5 at row 1",
    ),
    ("whole floats", [0.0, 1.0, 2.0, 0.0], TypeError, "convert them with .astype(int)"),
    ("nan", [0.0, 1.0, NAN, 0.0], TypeError, "got dtype float64: found nan at row 2"),
    ("float infinity", [0.0, 1.0, 2.0, INF], TypeError, "got dtype float64: found inf at row 3"),
    ("no floats", np.zeros(0), TypeError, "labels must be integers, got dtype float64"),
    ("bool", [True, False, True, True], TypeError, "got dtype bool"),
    ("strings", ["0", "1", "2", "0"], TypeError, "got dtype <U1; give the number of each label's column"),
    ("one-hot", np.eye(4), TypeError, "take .argmax(axis=1)"),
    ("object", np.array([0, 1, 2, None]), TypeError, "got dtype object: found None at row 3"),
    ("too few", [0, 1, 2], ValueError, "one value for each of the 4 rows, got shape (3,)"),
    ("too many", [0, 1, 2, 0, 1], ValueError, "one value for each of the 4 rows, got shape (5,)"),
    ("one for all", [0], ValueError, "got shape (1,)"),
    ("column", np.zeros((4, 1), int), ValueError, "got shape (4, 1): pass .ravel() of it"),
    ("scalar", 0, ValueError, "got shape ()"),
    ("masked", np.ma.array(Y, mask=[0, 0, 1, 0]), TypeError, "labels must not be masked"),
]


@pytest.mark.parametrize(("labels", "error", "message"), [c[1:] for c in LABELS], ids=[c[0] for c in LABELS])
def test_labels(labels, error, message):
    calls = [
        lambda: calibrate(labels=labels),
        lambda: ts.label_scores(Z, labels),
        lambda: ts.ranks(Z, labels),
        lambda: calibrate().scores(Z, labels),
        lambda: predict(Z).covers(labels),
        lambda: predict(Z).coverage(labels),
    ]
    for call in calls:
        with pytest.raises(error) as caught:
            call()
        assert message in str(caught.value)


ARGUMENTS = [
    (lambda: calibrate(np.zeros((0, 3)), []), ValueError, "at least one row to calibrate on, got 0"),
    (lambda: calibrate(Z[0], [0]), ValueError, "logits must have shape (n, K), got (3,)"),
    (
        lambda: calibrate(alpha=0.0),
        ValueError,
        "alpha must be strictly between 0 and 1, got 0.0; alpha=0.1 asks for sets that cover 90 %",
    ),
    (lambda: calibrate(alpha=1.0), ValueError, "got 1.0"),
    (lambda: calibrate(alpha=-0.1), ValueError, "got -0.1"),
    (lambda: calibrate(alpha=NAN), ValueError, "got nan"),
    (lambda: calibrate(alpha=True), TypeError, "alpha must be a number, got True"),
    (lambda: calibrate(alpha="0.1"), TypeError, "alpha must be a number, got '0.1'"),
    (lambda: calibrate(alpha=[]), ValueError, "alpha must not be empty"),
    (lambda: calibrate(alpha=[0.1, 2.0]), ValueError, "got 2.0"),
    (lambda: calibrate(alpha=0.1, confidence_level=0.9), TypeError, "not both"),
    (
        lambda: calibrate(alpha=None, confidence_level=90),
        ValueError,
        "confidence_level must be strictly between",
    ),
    (lambda: calibrate(recipe="lac"), ValueError, "recipe must be one of 'paper'"),
    (
        lambda: calibrate(recipe=ts.APS()),
        TypeError,
        "recipe must be a name or a Recipe, such as Recipe(RAPS()), got APS()",
    ),
    (
        lambda: calibrate().save("no such folder/p.json"),
        FileNotFoundError,
        "the folder of no such folder/p.json does not exist",
    ),
    (lambda: ts.load("p.json", max_bytes=0), ValueError, "max_bytes must be at least 1, got 0"),
    (
        lambda: calibrate().with_label_names(["a"]),
        ValueError,
        "names must hold one name for each of the 3 labels",
    ),
    (
        lambda: calibrate().with_label_names("abc"),
        TypeError,
        "names must be strings, one for each label, got 'abc'",
    ),
    (lambda: ts.Predictor.from_json("{}"), ValueError, "this is not a valid predictor: its format is not"),
    (lambda: calibrate(seed=-1), ValueError, "seed must be at least 0, got -1"),
    (lambda: calibrate(seed=0.5), TypeError, "seed must be an integer, got 0.5"),
    (lambda: calibrate(n_threads=0), ValueError, "n_threads must be at least 1, got 0"),
    (lambda: calibrate(n_threads=True), TypeError, "n_threads must be an integer, got True"),
    (lambda: calibrate(max_memory=0), ValueError, "max_memory must be at least 1, got 0"),
    (lambda: calibrate(row_ids=[1, 2]), ValueError, "row_ids must have one value for each of the 4 rows"),
    (lambda: calibrate(row_ids=[0.1] * 4), TypeError, "row_ids must be integers"),
    (
        lambda: calibrate(row_ids=["a"] * 4),
        TypeError,
        "got dtype <U1; give an integer for each row",
    ),
    (lambda: calibrate(Z, probabilities=True), ValueError, "probabilities must be between 0 and 1: found -1"),
    (
        lambda: calibrate(np.abs(Z) / 10, probabilities=True),
        ValueError,
        "must sum to 1 in every row: row 0 sums to 0.2",
    ),
    (lambda: predict(Z[:, :2]), ValueError, "logits must have 3 labels as in calibration, got 2"),
    (lambda: predict(Z, row_ids=np.arange(4)), ValueError, "it was without row_ids"),
    (lambda: calibrate(row_ids=np.arange(4)).predict_set(Z), ValueError, "it was with row_ids"),
    (lambda: predict(Z, u=1.5), ValueError, "u must be between 0 and 1, got 1.5"),
    (lambda: predict(Z, u=[0.1, 0.2, NAN, 0.3]), ValueError, "found nan at row 2"),
    (lambda: predict(Z, u=[0.1, 0.2]), ValueError, "one for each of the 4 rows, got shape (2,)"),
    (lambda: predict(Z, u="high"), TypeError, "u must be real numbers"),
    (lambda: ts.label_scores(Z, Y, "lac"), ValueError, "score must be one of 'thr'"),
    (lambda: ts.label_scores(Z, Y, 3), TypeError, "got 3"),
    (lambda: ts.label_scores(Z, Y, reweight="margin"), ValueError, "reweight must be None, 'entropy'"),
    (lambda: ts.label_scores(Z, Y, temperature=-1.0), ValueError, "temperature must be at least 0, got -1"),
    (lambda: ts.label_scores(Z, Y, temperature=NAN), ValueError, "temperature must be at least 0, got nan"),
    (lambda: ts.label_scores(Z, Y, temperature="hot"), TypeError, "temperature must be a number, got 'hot'"),
    (
        lambda: ts.label_scores(Z, Y, "raps", temperature=0.0),
        ValueError,
        "positive and finite for raps, saps, rank and mixed",
    ),
    (lambda: ts.RAPS(penalty=-1.0), ValueError, "penalty must be finite and at least 0, got -1"),
    (lambda: ts.RAPS(k_reg=-1), ValueError, "k_reg must be at least 0"),
    (lambda: ts.RAPS(k_reg=1.5), TypeError, "k_reg must be an integer, got 1.5"),
    (lambda: ts.SAPS(weight=INF), ValueError, "weight must be finite and at least 0, got inf"),
    (lambda: ts.Entropy(gamma=-1.0), ValueError, "gamma must be finite and at least 0, got -1"),
    (lambda: ts.Entropy(power=NAN), ValueError, "power must be finite, got nan"),
    (lambda: ts.Entropy(power=-0.5), ValueError, "gamma must be above 0 when power is negative, got 0"),
    (lambda: ts.Recipe(temperature=[1, 2]), ValueError, "choose among 2 candidates"),
    (lambda: ts.Recipe(temperature="warm"), ValueError, "numbers or 'auto', got 'warm'"),
    (lambda: ts.Recipe(score=[]), ValueError, "score must not be empty"),
    (lambda: ts.Recipe(selection="best"), ValueError, "got 'best'"),
    (lambda: ts.Recipe("saps", temperature=0.0), ValueError, "positive and finite"),
    (lambda: ts.conformal_rank(-1, 0.1), ValueError, "n must be at least 0, got -1"),
    (lambda: ts.conformal_rank(2.5, 0.1), TypeError, "n must be an integer, got 2.5"),
    (lambda: ts.conformal_threshold([], 0.1), ValueError, "n at least 1, got (0,)"),
    (
        lambda: ts.conformal_threshold([0.1, NAN], 0.5),
        ValueError,
        "scores must not contain NaN: found nan at position 1",
    ),
    (lambda: ts.conformal_threshold(["a"], 0.5), TypeError, "scores must be real numbers"),
    (lambda: calibrate(max_memory=INF), TypeError, "max_memory must be an integer, got inf"),
    (lambda: calibrate(alpha=10**400), ValueError, "alpha must be a number that a float can hold"),
    (
        lambda: calibrate(alpha=None, confidence_level=1e-17),
        ValueError,
        "confidence_level must not be so near 0",
    ),
    (lambda: calibrate(n_threads=2**64), ValueError, "n_threads must be between 1 and"),
    (lambda: calibrate(probabilities="no"), TypeError, "probabilities must be True or False, got 'no'"),
    (lambda: predict(Z, allow_empty=0), TypeError, "allow_empty must be True or False, got 0"),
    (lambda: predict(np.zeros((0, 3)), u=7.0), ValueError, "u must be between 0 and 1, got 7.0"),
    (lambda: ts.label_scores(Z, Y, ranked=1), TypeError, "ranked must be True or False, got 1"),
    (lambda: ts.label_scores(Z, Y, temperature=[]), ValueError, "temperature must not be empty"),
    (
        lambda: ts.label_scores(Z, Y, temperature=[[1.0], [2.0]]),
        TypeError,
        "temperature must be a number, got [1.0]",
    ),
    (lambda: ts.Scoring("lac"), ValueError, "score must be one of 'thr'"),
    (lambda: ts.Scoring("aps", 3), TypeError, "reweight must be None, 'entropy' or Entropy(...), got 3"),
    (
        lambda: ts.Entropy(1e300, 50.0),
        ValueError,
        "power must be one that keeps (gamma + H)^power finite, got 50",
    ),
    (
        lambda: ts.Recipe("raps", temperature=[1.0, 0.0], selection="held-out"),
        ValueError,
        "positive and finite",
    ),
    (lambda: ts.conformal_rank(2**64, 0.1), ValueError, "n must be between 0 and"),
    (
        lambda: ts.conformal_threshold(np.ma.array([0.1, 0.9], mask=[0, 1]), 0.5),
        TypeError,
        "scores must not be masked",
    ),
    (lambda: ts.entropy([np.ma.array([1.0, 2.0], mask=[0, 1])]), TypeError, "logits must not be masked"),
    (
        lambda: ts.entropy([[np.void(b"ab"), np.void(b"cd")]]),
        TypeError,
        "logits must be real numbers, got dtype |V2",
    ),
    (
        lambda: ts.PredictionSets(np.array([0, 1]), np.array([7], np.int32), 3).mask,
        ValueError,
        "indices must be labels below n_labels, got 7",
    ),
    (
        lambda: ts.PredictionSets(np.array([0, 9]), np.array([1], np.int32), 3).mask,
        ValueError,
        "indptr must be offsets into indices, got 9",
    ),
    (lambda: predict(np.zeros((0, 3))).coverage([]), ValueError, "at least one row"),
    (lambda: predict(Z)[9], IndexError, "row must be between -4 and 3, got 9"),
]


@pytest.mark.parametrize(("call", "error", "message"), ARGUMENTS, ids=[c[2][:40] for c in ARGUMENTS])
def test_arguments(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


def test_sparse():
    sparse = pytest.importorskip("scipy.sparse")
    for kind in (sparse.csr_matrix, sparse.coo_array):
        with pytest.raises(TypeError, match="logits must be dense"):
            ts.entropy(kind(Z))


def test_bad_rows_are_named_by_their_place_in_the_whole():
    """Selection reads rows in parts; errors still count from the first row that was passed."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(1000, 4)), rng.integers(4, size=1000)
    for row in (0, 123, 999):
        bad = logits.copy()
        bad[row, 2] = NAN
        for recipe in ("aps", "paper", "released", "er-aps"):
            with pytest.raises(ValueError, match=f"found nan at row {row}, column 2"):
                ts.calibrate(bad, labels, 0.1, recipe)
        wrong = labels.copy()
        wrong[row] = 4
        with pytest.raises(ValueError, match=f"found 4 at row {row}"):
            ts.calibrate(logits, wrong, 0.1, "er-aps")


def test_the_first_bad_row_is_named_whatever_the_threads():
    logits = np.zeros((50_000, 8), np.float32)
    logits[[31, 40_000, 49_999], 5] = NAN
    for n_threads in (1, 2, 4):
        with pytest.raises(ValueError, match="row 31, column 5"):
            ts.entropy(logits, n_threads=n_threads)


def test_results_that_do_not_fit_are_memory_errors():
    rows = np.broadcast_to(np.zeros((1, 3)), (10**13, 3))
    sets = ts.PredictionSets(np.array([0, 0]), np.array([], np.int32), 10**15)
    calls = [
        lambda: ts.entropy(rows),
        lambda: ts.softmax(rows),
        lambda: ts.all_scores(np.broadcast_to(np.int8(0), (2**40, 2**21))),
        lambda: sets.mask,
    ]
    for call in calls:
        with pytest.raises(MemoryError, match="does not fit into memory"):
            call()


def test_one_row_is_too_few_to_select(recwarn):
    for recipe in ("paper", "released"):
        with pytest.warns(ts.SmallCalibrationWarning, match="too few to select"):
            assert ts.calibrate(Z[:1], Y[:1], 0.5, recipe).selection_curve is None


def test_no_rows_predict_nothing():
    sets = predict(np.zeros((0, 3)))
    assert len(sets) == 0
    assert sets.mask.shape == (0, 3)
    assert calibrate().predict_p(np.zeros((0, 3))).shape == (0, 3)
    assert predict(np.zeros((0, 3))).covers([]).shape == (0,)
    assert ts.entropy(np.zeros((0, 3))).shape == (0,)
    assert ts.softmax(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert ts.label_scores(np.zeros((0, 3)), np.zeros(0, int), temperature=[1, 2]).shape == (2, 0)


def test_the_core_refuses_what_the_layer_would():
    with pytest.raises(ValueError, match="logits must have 2 dimensions"):
        _core.uncertainty(np.zeros(3), "entropy")
    with pytest.raises(TypeError, match="logits must be real numbers"):
        _core.uncertainty(np.zeros((2, 2), complex), "entropy")
    with pytest.raises(ValueError, match="rows must be between 0 and 3"):
        _core.label_scores(Z, Y[:1], [], ranked=True, seed=0, rows=np.array([4]))
    with pytest.raises(ValueError, match="measure must be"):
        _core.uncertainty(Z, "variance")
    with pytest.raises(ValueError, match="score must be one of"):
        _core.Scoring("lac")
    for lo, hi, message in ([[], [], "brackets must be"], [[1.0], [0.0], "pairs lo <= hi, got 1 and 0"]):
        with pytest.raises(ValueError, match=message):
            _core.count_pairs(Z, [_core.Scoring("aps")], np.array(lo), np.array(hi), seed=0)
    survivor = (_core.Scoring("aps"), 0.0, 1.0, 3, np.array([2.0]), 1)
    for survivors in ([], [survivor], [(*survivor[:4], np.array([0.5]), 0)]):
        with pytest.raises(ValueError, match="survivors must be"):
            _core.Survivors(survivors)


def test_probabilities_passed_as_logits_are_noticed():
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=200)
    logits = rng.normal(size=(200, 4)) + 2 * np.eye(4)[labels]
    p = ts.softmax(logits)
    with pytest.warns(ts.ProbabilitiesWarning, match="pass probabilities=True") as caught:
        ts.calibrate(p, labels, 0.1, "aps")
    assert caught[0].filename == __file__
    with pytest.warns(ts.ProbabilitiesWarning) as caught:
        ts.calibrate(logits, labels, 0.1, "aps").predict_set(p)
    assert caught[0].filename == __file__
    ts.calibrate(p, labels, 0.1, "aps", probabilities=True).predict_set(p)


def test_impossible_true_labels_are_noticed():
    logits = [[1.0, -INF, 0.0], [2.0, 3.0, 1.0]] * 50
    with pytest.warns(ts.SmallCalibrationWarning, match="50 of 100 true labels are marked impossible"):
        assert ts.calibrate(logits, [1, 1] * 50, recipe="aps", row_ids=np.arange(100)).threshold == INF


def test_masks_without_labels_are_empty():
    for n in (1, 100_001):
        sets = ts.PredictionSets(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), 0)
        assert sets.mask.shape == (n, 0)

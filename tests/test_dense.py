"""Pixels and tokens are read where they are, and give what the same rows in one matrix give."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tightset as ts
from tightset.integrations import dense

K = 7


@pytest.fixture(params=[np.float32, np.float64, np.float16])
def images(request):
    rng = np.random.default_rng(0)
    labels = rng.integers(K, size=(6, 9, 11))
    logits = (2 * rng.normal(size=(6, 9, 11, K)) + 3 * np.eye(K)[labels]).astype(request.param)
    labels[:, 2:4, 5] = 255
    return logits, labels


LAYOUTS = {
    "last": (lambda z: z, "last"),
    "first": (lambda z: np.ascontiguousarray(np.moveaxis(z, -1, 1)), "first"),
    "first, a view of last": (lambda z: np.moveaxis(z, -1, 1), "first"),
    "last, a view of first": (
        lambda z: np.moveaxis(np.ascontiguousarray(np.moveaxis(z, -1, 1)), 1, -1),
        "last",
    ),
    "cropped": (lambda z: padded(z)[1:-1, 2:-1, 1:-3], "last"),
    "cropped, first": (lambda z: np.moveaxis(padded(z), -1, 1).copy()[1:-1, :, 2:-1, 1:-3], "first"),
    "every second": (lambda z: np.repeat(np.repeat(z, 2, axis=1), 2, axis=3)[:, ::2, :, ::2], "last"),
    "upside down": (lambda z: np.ascontiguousarray(z[:, ::-1])[:, ::-1], "last"),
    "Fortran": (np.asfortranarray, "last"),
    "read-only": (lambda z: read_only(z), "last"),
}


class Foreign:
    """An array of a library that NumPy asks for its values."""

    def __init__(self, values):
        self.values = values
        self.dtype = values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_bfloat16_of_a_library_that_is_not_torch(images):
    logits, labels = images
    narrow = logits.astype(ml_dtypes.bfloat16)
    predictor = dense.calibrate(Foreign(narrow), labels, 0.1, "aps", ignore_index=255)
    found = dense.predict_set(predictor, Foreign(narrow))
    assert found == predictor.predict_set(narrow.astype(np.float32).reshape(-1, K))


def padded(logits):
    return np.pad(logits, ((1, 1), (2, 1), (1, 3), (0, 0)), constant_values=np.nan)


def read_only(logits):
    copy = logits.copy()
    copy.setflags(write=False)
    return copy


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("recipe", ["aps", "er-aps", "er-thr"])
def test_every_layout_gives_what_one_matrix_gives(images, layout, recipe):
    logits, labels = images
    change, channels = LAYOUTS[layout]
    laid_out = change(logits)
    kept = labels != 255
    expected = ts.calibrate(logits[kept], labels[kept], 0.1, recipe)
    found = dense.calibrate(laid_out, labels, 0.1, recipe, channels=channels, ignore_index=255)
    assert found == expected
    assert found.calibration_scores.tobytes() == expected.calibration_scores.tobytes()
    sets = dense.predict_set(found, laid_out, channels=channels)
    assert sets == expected.predict_set(logits.reshape(-1, K))


def test_objectives_that_read_entropies(images):
    logits, labels = images
    kept = labels != 255
    expected = ts.calibrate(logits[kept], labels[kept], 0.1, objective="adaptive")
    first = np.ascontiguousarray(np.moveaxis(logits, -1, 1))
    found = dense.calibrate(first, labels, 0.1, objective="adaptive", channels="first", ignore_index=255)
    assert found == expected
    assert found.selection_curve.coverage_by_entropy == expected.selection_curve.coverage_by_entropy


@pytest.mark.parametrize("shape", [(40, 30), (5, 6, 7, 8), (300,), (1, 1, 300), (300, 1)])
def test_other_numbers_of_axes(shape):
    rng = np.random.default_rng(1)
    labels = rng.integers(K, size=shape)
    logits = rng.normal(size=(*shape, K))
    expected = ts.calibrate(logits.reshape(-1, K), labels.reshape(-1), 0.2, "aps")
    assert dense.calibrate(logits, labels, 0.2, "aps") == expected
    first = np.moveaxis(logits, -1, 1).copy()
    assert dense.calibrate(first, labels, 0.2, "aps", channels="first") == expected
    assert dense.predict_set(expected, first, channels="first") == expected.predict_set(logits.reshape(-1, K))


@pytest.mark.parametrize("layout", ["last", "first", "cropped", "cropped, first", "every second"])
def test_nothing_is_copied(layout):
    logits = np.zeros((6, 9, 11, K))
    change, channels = LAYOUTS[layout]
    laid_out = change(logits)
    view = dense._labels_last(laid_out, channels)
    matrix, positions = dense._matrix(view)
    assert np.shares_memory(matrix, laid_out)
    assert all(np.shares_memory(part, laid_out) for part in dense._parts(view))
    if positions is not None:
        np.testing.assert_array_equal(matrix[positions].reshape(view.shape), view)


def test_labels_in_the_ignored_part_only():
    with pytest.raises(
        ValueError, match="labels must hold one that is not ignored, got 6 of ignore_index=-100"
    ):
        dense.calibrate(np.zeros((2, 3, 4)), np.full((2, 3), -100), ignore_index=-100)


def test_refusals():
    with pytest.raises(
        ValueError, match=r"labels must have shape \(2, 3\), that of logits without K, got \(2, 4\)"
    ):
        dense.calibrate(np.zeros((2, 3, 4)), np.zeros((2, 4), int))
    with pytest.raises(ValueError, match="channels must be 'first' or 'last', got 1"):
        dense.calibrate(np.zeros((2, 3, 4)), np.zeros((2, 3), int), channels=1)
    with pytest.raises(ValueError, match=r"logits must have K and at least one other axis.*got shape \(4,\)"):
        dense.calibrate(np.zeros(4), 0)
    with pytest.raises(ValueError, match=r"labels must be between 0 and 3.*found 255 at row 1"):
        dense.calibrate(np.zeros((1, 3, 4)), np.array([[0, 255, 0]]), recipe="thr")
    with pytest.raises(TypeError, match=r"ignore_index must be an integer, got 1.5"):
        dense.calibrate(np.zeros((2, 3, 4)), np.zeros((2, 3), int), ignore_index=1.5)
    with pytest.raises(ValueError, match=r"found NaN|NaN"):
        dense.calibrate(np.full((2, 3, 4), np.nan), np.zeros((2, 3), int), recipe="thr")
    with pytest.raises(TypeError, match=r"alpha must be one number, got \[0.1, 0.2\]"):
        dense.calibrate(np.zeros((2, 3, 4)), np.zeros((2, 3), int), alpha=[0.1, 0.2])


def test_probabilities_of_pixels(images):
    logits, labels = images
    p = ts.softmax(logits.reshape(-1, K)).reshape(logits.shape)
    found = dense.calibrate(p, labels, 0.1, "thr", ignore_index=255, probabilities=True)
    kept = labels != 255
    assert found == ts.calibrate(p[kept], labels[kept], 0.1, "thr", probabilities=True)

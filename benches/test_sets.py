"""Calibration and prediction as whole calls, beside NumPy doing the same."""

from __future__ import annotations

import numpy as np
import pytest

import numpy_forms
import tightset as ts
from tightset.recipes import as_recipe
from workloads import logits_and_labels, title, workload

ALPHA = 0.1
# Plain APS makes large sets on A; at a lower temperature they have fewer than 20 labels.
CASES = pytest.mark.parametrize(
    ("name", "temperature"), [("A", 0.7), ("A", 1.0), ("B", 1.0)], ids=["A, T = 0.7", "A", "B"]
)


def calibrated(name, temperature):
    logits, labels = workload(name)
    return logits, ts.calibrate(logits, labels, ALPHA, ts.Recipe("aps", temperature=temperature))


def work(name, temperature):
    kind = "plain APS sets" if temperature == 1 else f"APS sets at T = {temperature}"
    return f"{kind}, {title(name)}"


@CASES
def test_compressed(timed, name, temperature):
    logits, predictor = calibrated(name, temperature)
    size = float(predictor.predict_set(logits).sizes.mean())
    call = lambda: predictor.predict_set(logits)  # noqa: E731
    timed(work(name, temperature), "tightset", call, rounds=7, mean_size=size)


@CASES
def test_with_mask(timed, name, temperature):
    logits, predictor = calibrated(name, temperature)
    call = lambda: predictor.predict_set(logits).mask  # noqa: E731
    timed(work(name, temperature), "tightset, with the mask", call)


@CASES
def test_textbook(timed, name, temperature):
    logits, predictor = calibrated(name, temperature)
    part = logits[: len(logits) // 10]
    # The threshold is -log(1 - A) of the conventional score A.
    threshold = -np.expm1(-predictor.threshold)
    call = lambda: numpy_forms.plain_sets(part / np.float32(temperature), threshold)  # noqa: E731
    mask = timed(work(name, temperature), "NumPy, textbook", call, share=0.1, rounds=3)
    assert np.mean(mask == predictor.predict_set(part, u=0.5).mask) > 0.9999


@pytest.mark.parametrize("k", [10, 1000, 128_000])
@pytest.mark.parametrize("what", ["tightset", "NumPy, textbook"])
def test_one_row(timed, k, what):
    logits, labels = logits_and_labels(200, k)
    predictor = ts.calibrate(logits, labels, ALPHA, "aps")
    row, threshold = logits[0].copy(), -np.expm1(-predictor.threshold)
    calls = {
        "tightset": lambda: predictor.predict_set(row),
        "NumPy, textbook": lambda: numpy_forms.one_set(row, threshold),
    }
    rounds = 1000 if k > 10_000 else 20_000
    timed(f"predict_set of one row, E, K = {k:,}", what, calls[what], rounds=rounds, warmups=100)


def test_algorithm_1(timed):
    logits, labels = workload("A")
    call = lambda: ts.calibrate(logits, labels, ALPHA, "paper")  # noqa: E731
    timed(f"Algorithm 1, {title('A')}", "tightset", call, rounds=3)


def test_algorithm_1_textbook(timed):
    logits, labels = workload("A")
    part = len(labels) // 10
    # The limits T = 0 and infinity are left out: NumPy does less than tightset here.
    grid = [c.temperature for c in as_recipe("paper").candidates if 0 < c.temperature < np.inf]
    call = lambda: numpy_forms.algorithm_1(logits[:part], labels[:part], grid, ALPHA)  # noqa: E731
    timed(f"Algorithm 1, {title('A')}", "NumPy, textbook", call, share=0.1, rounds=1, warmups=0)

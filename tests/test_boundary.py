"""Panics and the GIL at the boundary between Python and Rust."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic
from tightset import _core


@pytest.mark.parametrize("elements", [1, 10**6])
def test_panics_are_exceptions(elements, capfd):
    with pytest.raises(ts.InternalError, match="asked for by a test") as caught:
        _core._panic_for_tests(elements)
    assert isinstance(caught.value, RuntimeError)
    assert ts.entropy([[0.0, 0.0]])[0] > 0  # the next call works
    capfd.readouterr()


def test_gil_is_released_in_long_calls(rng):
    logits = rng.normal(size=(20_000, 500)).astype(np.float32)
    ticks, stop = [], threading.Event()

    def count():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    start = time.perf_counter()
    ts.all_scores(logits)
    end = time.perf_counter()
    stop.set()
    thread.join()
    middle = [t for t in ticks if start + (end - start) / 4 < t < end - (end - start) / 4]
    assert middle, "another thread must run in the middle of the call"


def test_one_predictor_on_many_threads(rng):
    logits, labels = synthetic(rng, 4000, 20)
    predictor = ts.calibrate(logits, labels, 0.1, "aps")
    expected = predictor.predict_set(logits)
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda _: predictor.predict_set(logits), range(64)))
    assert all(sets == expected for sets in results)


def test_results_do_not_alias_inputs(rng):
    logits, labels = synthetic(rng, 50, 4)
    before = logits.copy()
    ts.softmax(logits)[:] = 0
    ts.calibrate(logits, labels, 0.2, "aps").predict_set(logits).mask[:] = True
    np.testing.assert_array_equal(logits, before)

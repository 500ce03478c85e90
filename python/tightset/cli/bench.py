"""`tightset bench`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

import tightset
from tightset.cli import options, tables
from tightset.progress import Progress

_SHAPES = ((20_000, 1000), (200_000, 100), (1_000_000, 10))
_ALPHA = 0.1


def bench(
    *,
    rows: Annotated[
        int | None, typer.Option(help="Rows of every array, instead of 20 million entries.", min=100)
    ] = None,
    repeat: Annotated[int, typer.Option(help="Runs, of which the best counts.", min=1)] = 3,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Time this machine: label scores, calibration and prediction beside NumPy doing the same.

    \b
    tightset bench
    tightset bench --rows 10000 --threads 1
    """
    found = []
    shapes = [(rows or n, k) for n, k in _SHAPES]
    with Progress(4 * len(shapes), "timing") as progress:
        for n, k in shapes:
            for name, call in _calls(n, k, threads).items():
                seconds = _best(call, repeat)
                found.append(_Timed(name, n, k, seconds))
                progress.advance(1)
    n_threads = threads or tightset.get_num_threads()
    if json:
        results = [one._asdict() for one in found]
        options.print_json({"version": tightset.__version__, "threads": n_threads, "results": results})
        return
    lines = [["work", "rows", "labels", "ms", "million entries / s"]]
    for one in found:
        rate = one.rows * one.labels / one.seconds / 1e6
        lines.append([one.work, f"{one.rows}", f"{one.labels}", f"{1e3 * one.seconds:.1f}", f"{rate:.0f}"])
    title = f"tightset {tightset.__version__}, {n_threads} threads, float32, best of {repeat}"
    sys.stdout.write(f"{title}\n\n{tables.aligned(lines)}\n")


class _Timed(NamedTuple):
    work: str
    rows: int
    labels: int
    seconds: float


def _calls(n: int, k: int, threads: int | None) -> dict[str, Callable[[], object]]:
    logits, labels = _data(n, k)
    predictor = tightset.calibrate(logits, labels, _ALPHA, "aps", n_threads=threads)
    return {
        "label scores": lambda: tightset.label_scores(logits, labels, "aps", n_threads=threads),
        "the same in NumPy": lambda: _numpy_scores(logits, labels),
        "calibrate aps": lambda: tightset.calibrate(logits, labels, _ALPHA, "aps", n_threads=threads),
        "predict sets": lambda: predictor.predict_set(logits, n_threads=threads),
    }


def _data(n: int, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(n, k), scale=2.0).astype(np.float32)
    labels = rng.integers(k, size=n)
    logits[np.arange(n), labels] += 4.0
    return logits, labels


def _best(call: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def _numpy_scores(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float32]:
    """Entropy-reweighted APS by softmax, argsort and cumsum, as textbooks have it; U is one half."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    weights = np.exp(shifted)
    total = weights.sum(axis=1, keepdims=True)
    entropy = np.log(total) - (weights * shifted).sum(axis=1, keepdims=True) / total
    reweighted = np.exp(shifted / np.maximum(entropy, 1e-30))
    probabilities = reweighted / reweighted.sum(axis=1, keepdims=True)
    order = np.argsort(-probabilities, axis=1)
    cumulated = np.cumsum(np.take_along_axis(probabilities, order, axis=1), axis=1)
    place = (order == labels[:, np.newaxis]).argmax(axis=1)
    rows = np.arange(len(labels))
    scores: NDArray[np.float32] = cumulated[rows, place] - 0.5 * probabilities[rows, labels]
    return scores

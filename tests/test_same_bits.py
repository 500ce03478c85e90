"""The same bits for any thread count, block, batch, order, memory layout and instruction set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightset as ts
from conftest import SCORES, synthetic
from tightset import _core


def everything(logits, labels, **options):
    """Bytes of all that is computed from a batch."""
    arrays = [ts.entropy(logits, **options), ts.margin(logits, **options), ts.gini(logits, **options)]
    arrays.append(ts.softmax(logits, "entropy", 0.7, **options))
    arrays.append(ts.ranks(logits, labels, **options))
    for score in SCORES:
        arrays.append(ts.label_scores(logits, labels, score, temperature=[0.5, 3.0], **options))
        arrays.append(ts.all_scores(logits, score, ranked=True, **options))
    for reweight in (None, ts.Entropy(0.1), ts.Entropy(1.0, 0.5)):
        limits = {"reweight": reweight, "temperature": [0.0, np.inf], "ranked": True}
        arrays += [ts.label_scores(logits, labels, score, **limits, **options) for score in ("aps", "thr")]
    arrays.append(ts.label_scores(logits, labels, row_ids=np.arange(len(labels)), **options))
    half = len(labels) // 2
    for recipe in ("aps", "raps", "released", "er-rank"):
        predictor = ts.calibrate(logits[:half], labels[:half], 0.2, recipe, **options)
        sets = predictor.predict_set(logits, **options)
        arrays += [
            np.float64([c.threshold for c in predictor.candidates]),
            sets.indptr,
            sets.indices,
            sets.mask,
        ]
        arrays.append(predictor.predict_p(logits, **options))
        if len(predictor.candidates) == 1:
            arrays.append(predictor.predict_p(logits, smoothed=True, **options))
    return [np.ascontiguousarray(a).tobytes() for a in arrays]


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def batch(request, rng):
    return synthetic(rng, 3000, 37, dtype=request.param)


def test_threads(batch):
    logits, labels = batch
    one = everything(logits, labels, n_threads=1)
    for n_threads in (2, 4, 7, None):
        assert everything(logits, labels, n_threads=n_threads) == one


def test_rows_alone_and_in_blocks(batch):
    logits, _ = batch
    for score in SCORES:
        whole = ts.all_scores(logits, score, ranked=True)
        alone = np.concatenate(
            [ts.all_scores(logits[i : i + 1], score, ranked=True) for i in range(0, 3000, 97)]
        )
        assert alone.tobytes() == whole[::97].tobytes()
        for size in (1, 2, 3, 64, 1000, 2999):
            blocks = [logits[i : i + size] for i in range(0, min(3000, 40 * size), size)]
            found = np.concatenate([ts.all_scores(block, score, ranked=True) for block in blocks])
            assert found.tobytes() == whole[: len(found)].tobytes()


def test_rows_permuted(batch, rng):
    logits, labels = batch
    order = rng.permutation(len(logits))
    scores = ts.label_scores(logits, labels, "aps", ranked=True)
    assert (
        ts.label_scores(logits[order], labels[order], "aps", ranked=True).tobytes() == scores[order].tobytes()
    )


def layouts(logits):
    """The same matrix, laid out in other ways."""
    n, k = logits.shape
    yield "fortran", np.asfortranarray(logits)
    wide = np.zeros((2 * n, 3 * k), logits.dtype)
    wide[::2, ::3] = logits
    yield "strided", wide[::2, ::3]
    yield "negative strides", logits[::-1, ::-1].copy()[::-1, ::-1]
    yield "big-endian", logits.astype(logits.dtype.newbyteorder(">"))
    yield "big-endian fortran", np.asfortranarray(logits.astype(logits.dtype.newbyteorder(">")))
    raw = np.zeros(logits.nbytes + 1, np.uint8)
    misaligned = raw[1:].view(logits.dtype).reshape(n, k)
    misaligned[:] = logits
    assert not misaligned.flags.aligned
    yield "misaligned", misaligned
    read_only = logits.copy()
    read_only.flags.writeable = False
    yield "read-only", read_only
    yield "transposed twice", logits.T.copy().T


def test_memory_layouts(batch):
    logits, labels = batch
    contiguous = everything(logits, labels)
    for name, same in layouts(logits):
        np.testing.assert_array_equal(same, logits)
        assert everything(same, labels) == contiguous, name


@pytest.mark.parametrize("k", [3, 150, 1000, 1300])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_columns_are_read_for_more_rows_than_are_worked_on(rng, dtype, k):
    # Groups of 32 rows and fewer, twice as many read at a time, and blocks that end within them.
    for n in (1, 31, 32, 33, 63, 64, 65, 96, 127, 129, 300):
        logits = rng.normal(size=(n, k)).astype(dtype)
        labels = rng.integers(k, size=n)
        for picked in (slice(None), slice(1, None, 2), rng.permutation(n)):
            rows, y = np.asfortranarray(logits)[picked], labels[picked]
            expected = ts.label_scores(np.ascontiguousarray(rows), y, "aps")
            assert ts.label_scores(rows, y, "aps").tobytes() == expected.tobytes(), (n, picked)
        bad = np.asfortranarray(logits)
        bad[n // 2, k - 1] = np.nan
        with pytest.raises(ValueError, match=f"row {n // 2}, column {k - 1}"):
            ts.label_scores(bad, labels, "aps")


@pytest.mark.parametrize(
    "dtype",
    [
        np.float16,
        np.float32,
        np.float64,
        np.int8,
        np.int16,
        np.int32,
        np.int64,
        np.uint8,
        np.uint16,
        np.uint32,
        np.uint64,
    ],
)
def test_dtypes_equal_their_computing_type(rng, dtype):
    logits, labels = synthetic(rng, 200, 9)
    logits = np.abs(np.round(3 * logits)).clip(0, 120).astype(dtype)
    computing = np.float32 if dtype in (np.float16, np.float32) else np.float64
    expected = everything(logits.astype(computing), labels)
    assert everything(logits, labels) == expected
    assert everything(logits.astype(np.dtype(dtype).newbyteorder(">")), labels) == expected


def test_memory_map(batch, tmp_path):
    logits, labels = batch
    np.save(tmp_path / "logits.npy", logits)
    assert everything(np.load(tmp_path / "logits.npy", mmap_mode="r"), labels) == everything(logits, labels)


@given(st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=20), st.integers(0, 2**64 - 1))
def test_negative_zero_is_zero(row, seed):
    row = np.array([row])
    other = np.where(row == 0, -row, row)
    assert ts.all_scores(row, "aps", seed=seed).tobytes() == ts.all_scores(other, "aps", seed=seed).tobytes()


def test_u_is_a_function_of_row_and_seed(rng):
    logits, _ = synthetic(rng, 20_000, 10)
    zero = np.zeros(len(logits), int)
    u = ts.label_scores(
        logits - logits.max(axis=1, keepdims=True),
        logits.argmax(axis=1),
        "aps",
        temperature=np.inf,
        reweight=None,
    )
    u = u * 10  # (r - 1 + U) / K at infinite temperature, r = 1
    assert abs(u.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(u, logits.max(axis=1))[0, 1]) < 0.03
    assert len(set(u)) == len(u)
    one, other = (ts.label_scores(logits, zero, "aps", seed=s, ranked=True) for s in (0, 1))
    assert (one != other).all()
    ids = np.arange(len(logits))
    assert (ts.label_scores(logits, zero, "aps", row_ids=ids, ranked=True) != one).all()


def test_identical_rows_need_row_ids():
    logits = np.tile([[1.0, 0.5, 0.0]], (1000, 1))
    labels = np.zeros(1000, int)
    assert len(set(ts.label_scores(logits, labels, "aps"))) == 1
    assert len(set(ts.label_scores(logits, labels, "aps", row_ids=np.arange(1000)))) == 1000


FINGERPRINT = """
import hashlib, numpy as np, tightset as ts, tightset._core as core
from test_same_bits import everything
from conftest import synthetic
digest = hashlib.sha256()
for dtype in (np.float32, np.float64):
    for n, k in ((300, 10), (60, 129), (3, 5000)):
        logits, labels = synthetic(np.random.default_rng(k), n, k, dtype=dtype)
        # Round values, so that the inputs do not depend on the platform's own functions.
        logits = np.round(logits * 64) / 64
        logits[::5, 1] = logits[::5, 2]
        logits[1::5, 3] = -np.inf
        labels[labels == 3] = 0
        for part in everything(logits.astype(dtype), labels):
            digest.update(part)
print(core.simd_level(), digest.hexdigest())
"""


def fingerprint(level):
    environment = {**os.environ, "TIGHTSET_SIMD": level, "PYTHONPATH": str(Path(__file__).parent)}
    run = subprocess.run(
        [sys.executable, "-c", FINGERPRINT], env=environment, capture_output=True, text=True, timeout=100
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_instruction_sets():
    best, levels = _core.simd_level(), ("sse2", "avx2", "avx512")
    digests = {}
    # Other processors have one level.
    for level in levels[: levels.index(best) + 1] if best in levels else (best,):
        name, digest = fingerprint(level)
        assert name == level
        digests[level] = digest
    assert len(set(digests.values())) == 1, digests
    # Pinned, so that a change of any bit is a decision: update it with the CHANGELOG.
    golden = Path(__file__).with_name("fingerprint.txt").read_text().strip()
    assert golden == digests[best]

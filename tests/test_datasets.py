"""The logits that come with the package are what their cards say."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest

import tightset as ts

FOLDER = Path(ts.datasets.__file__).parent
NAMES = ts.datasets.names()
SHAPES = {"mnist": (10_000, 10), "fashion-mnist": (10_000, 10), "ag-news": (7_600, 4), "carer": (2_000, 6)}


@pytest.fixture(scope="module", params=NAMES)
def data(request):
    return ts.datasets.load(request.param)


def test_files_are_those_of_the_names_and_small():
    assert {p.stem for p in FOLDER.glob("*.npz")} == set(NAMES)
    assert {p.stem for p in FOLDER.glob("cards/*")} == set(NAMES)
    assert sum(p.stat().st_size for p in FOLDER.rglob("*") if p.is_file()) < 2_000_000


def test_arrays(data):
    n, k = SHAPES[data.name]
    assert data.logits.shape == (n, k)
    assert data.logits.dtype == np.float32
    assert np.isfinite(data.logits).all()
    assert data.labels.shape == (n,)
    assert data.labels.dtype == np.int64
    assert len(data.label_names) == len(set(data.label_names)) == k
    assert set(np.unique(data.labels)) == set(range(k))


def test_the_card_says_what_the_arrays_give(data):
    probabilities = np.exp(data.logits.astype(np.float64))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    confidence = probabilities.max(axis=1).mean()
    accuracy = (data.logits.argmax(axis=1) == data.labels).mean()
    assert data.card["name"] == data.name
    assert data.card["accuracy"] == pytest.approx(accuracy, abs=5e-7)
    assert data.card["mean_confidence"] == pytest.approx(confidence, abs=6e-7)
    assert (data.card["n"], data.card["k"]) == data.logits.shape


def test_the_card_says_how_it_was_made(data):
    for field in ("title", "source", "licence", "model", "training", "order"):
        assert len(data.card[field]) > 10, field
    script = re.fullmatch(r"python (experiments/\w+\.py) (\S+) --data DIR .*", data.card["command"])
    assert script[2] == data.name
    assert f"--seed {data.card['seed']} " in data.card["command"]
    assert date.fromisoformat(data.card["date"])
    assert {"python", "numpy", "torch"} <= set(data.card["versions"])


def test_rows_are_in_random_order(data):
    # Errors of both halves alike: MNIST's test file begins with the harder one, by 4.8 standard errors.
    wrong = data.logits.argmax(axis=1) != data.labels
    first, second = np.array_split(wrong, 2)
    spread = np.sqrt(wrong.var() * (1 / len(first) + 1 / len(second)))
    assert abs(first.mean() - second.mean()) < 4 * spread
    # Labels: a sorted file has far fewer changes from row to row than chance gives.
    share = np.bincount(data.labels) / len(data.labels)
    expected = 1 - (share**2).sum()
    assert (np.diff(data.labels) != 0).mean() == pytest.approx(expected, abs=0.05)


def test_nothing_can_be_changed_by_accident(data):
    with pytest.raises(ValueError, match="read-only"):
        data.logits[0, 0] = 0
    with pytest.raises(ValueError, match="read-only"):
        data.labels[0] = 0
    with pytest.raises(AttributeError):
        data.name = "other"
    with pytest.raises(TypeError):
        data.card["accuracy"] = 1.0


@pytest.mark.parametrize("name", ["cifar10", "MNIST", "", "../mnist", None])
def test_unknown_names_are_refused(name):
    with pytest.raises(ValueError) as caught:
        ts.datasets.load(name)
    known = "'mnist', 'fashion-mnist', 'ag-news', 'carer'"
    assert str(caught.value) == f"name must be one of {known}, got {name!r}"


def test_import_reads_no_data():
    watch = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
import tightset as ts
assert any("tightset" in path for path in opened), "the hook saw nothing"
assert not [path for path in opened if path.endswith((".npz", ".json"))], opened
ts.datasets.load("mnist")
assert len([path for path in opened if path.endswith((".npz", ".json"))]) == 2, opened
"""
    subprocess.run([sys.executable, "-c", watch], check=True, timeout=60)

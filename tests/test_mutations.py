"""Damaged documents: each is refused with ValueError or equal to the original; nothing else happens."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic
from tightset.document.canonical import digest

SMALL = ts.Recipe(["aps", "thr"], [None, "entropy"], [0.0, 1.0, 4.0], "modsel")
PIECES = [
    '"',
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "0",
    "-",
    "1e999",
    "\\u0000",
    "null",
    "true",
    '"value": ',
    "\ud800",
]
ODD = [
    None,
    True,
    0,
    -1,
    2**63,
    2**64,
    1.5,
    1e300,
    "",
    "inf",
    "0" * 16,
    "f" * 16,
    "auto",
    [],
    {},
    [[]],
    "modsel",
]


def documents():
    rng = np.random.default_rng(3)
    logits, labels = synthetic(rng, 60, 4)
    for recipe, options in [("raps", {}), (SMALL, {"seed": 2**64 - 1}), ("thr", {"row_ids": np.arange(60)})]:
        predictor = ts.calibrate(logits, labels, 0.2, recipe, **options)
        yield predictor.with_label_names(["a", "é", '"', "\\"]).to_json(score_table=True)


TEXTS = list(documents())


def damaged(text, rng):
    """One to three edits of the text: a character changed, a run cut, doubled, moved or replaced."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        i = rng.randrange(len(text))
        j = min(len(text), i + rng.choice([1, 1, 2, 8, 40, 300]))
        kind = rng.randrange(6)
        if kind == 0:
            text = text[:i] + chr(ord(text[i]) ^ 1 << rng.randrange(7)) + text[i + 1 :]
        elif kind == 1:
            text = text[:i] + text[j:]
        elif kind == 2:
            text = text[:j] + text[i:]
        elif kind == 3:
            text = text[:i] + rng.choice(PIECES) + text[i:]
        elif kind == 4:
            k = rng.randrange(len(text))
            text = text[:k] + text[i:j] + text[k:]
        else:
            text = text[:i] + str(rng.randrange(10)) + text[i + 1 :]
        if not text:
            return "0"
    return text


def read(text):
    """The predictor of a text, or None if it is refused as it should be."""
    try:
        return ts.Predictor.from_json(text)
    except ValueError as error:
        message = str(error)
    assert message.startswith("this is not a valid predictor: ")
    return None


def check_damaged(count, seed):
    rng = random.Random(seed)
    refused = 0
    for i in range(count):
        original = TEXTS[i % len(TEXTS)]
        loaded = read(damaged(original, rng))
        refused += loaded is None
        assert loaded is None or loaded.to_json(score_table=True) == original
    # Most edits hurt; some only touch spaces.
    assert count / 2 < refused < count


def places(node, path=()):
    yield path
    if isinstance(node, dict):
        for key, value in node.items():
            yield from places(value, (*path, key))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from places(value, (*path, i))


def forged(text, rng):
    """A document with some values replaced, removed or doubled, and the hash that belongs to it."""
    document = json.loads(text)
    for _ in range(rng.choice([1, 1, 2])):
        path = rng.choice([path for path in places(document) if path])
        node = document
        for step in path[:-1]:
            node = node[step]
        kind = rng.randrange(4)
        if kind == 0:
            del node[path[-1]]
        elif kind == 1 and isinstance(node, list):
            node.append(node[path[-1]])
        elif kind == 2 and type(node[path[-1]]) is int:
            node[path[-1]] += rng.choice([-1, 1, 2**32])
        else:
            node[path[-1]] = rng.choice(ODD)
    document["sha256"] = digest(document)
    return json.dumps(document)


def check_forged(count, seed):
    rng = random.Random(seed)
    rows = synthetic(np.random.default_rng(5), 5, 4)[0]
    accepted = 0
    for i in range(count):
        loaded = read(forged(TEXTS[i % len(TEXTS)], rng))
        accepted += loaded is not None
        if loaded is not None and loaded.n_labels == 4:
            given = ts.softmax(rows) if loaded.probabilities else rows
            ids = np.arange(5) if loaded.uses_row_ids else None
            sets = loaded.predict_set(given, row_ids=ids)
            assert sets.indices.max(initial=0) < 4
    assert accepted > 0


def test_damaged_documents():
    check_damaged(600, seed=1)


def test_forged_documents():
    check_forged(600, seed=2)


def peak_growth(call):
    """Return by how many bytes a process of its own grows at its peak when it makes the call."""
    code = f"import footprint, test_mutations\nbefore = footprint.peak()\ntest_mutations.{call}\n"
    run = subprocess.run(
        [sys.executable, "-c", code + "print(footprint.peak() - before)"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


@pytest.mark.parametrize("call", ["check_damaged(300, seed=3)", "check_forged(300, seed=4)"])
def test_memory_of_damaged_documents(call):
    assert peak_growth(call) < 64e6


@pytest.mark.parametrize(
    "text",
    [
        "'[' + '0,' * (2**20 - 2) + '0]'",
        "'[' + '{\"\": 0},' * (2**18 - 1) + '0]'",
        "'[' + '[[0]],' * (2**17 - 1) + '0]'",
        "'[' + '{\"\": 0},' * (2**20 - 2) + '0]'",
    ],
)
def test_memory_of_hostile_texts(text):
    assert peak_growth(f"read({text})") < 64e6


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10))
def test_many_damaged_documents(seed):
    assert peak_growth(f"check_damaged(10_000, seed={100 + seed})") < 64e6


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2))
def test_many_forged_documents(seed):
    assert peak_growth(f"check_forged(10_000, seed={200 + seed})") < 64e6


def number(value):
    return {"bits": struct.pack(">d", value).hex(), "value": value}


def part(temperatures):
    temperatures = [number(float(t)) for t in temperatures]
    return {
        "score": [{"name": "aps"}],
        "reweight": [None],
        "temperature": temperatures,
        "handicap": number(0.0),
    }


def hostile(*, parts, first, candidates):
    """A valid document with that many parts, the first of many candidates, and one candidate many times."""
    document = json.loads(TEXTS[1])
    document["recipe"]["parts"] = [part(range(1, first + 1)), *([part([1])] * (parts - 1))]
    scored = {"score": {"name": "aps"}, "reweight": None, "temperature": number(float(first))}
    bracket = {"lo": number(0.5), "pairs_at_lo": 3, "between": "", "weight": 1}
    document["candidates"] = [scored | {"threshold": number(1.0)} | bracket] * candidates
    del document["calibration_scores"]
    document["sha256"] = digest(document)
    return json.dumps(document)


def test_documents_are_read_in_linear_time():
    """Work that grew with parts times candidates would outlast the watchdog of all tests."""
    predictor = ts.Predictor.from_json(hostile(parts=8000, first=8000, candidates=8000))
    assert len(predictor.candidates) == 8000
    assert len(predictor.recipe.parts) == 8000
    assert len(predictor.recipe.candidates) == 8000
    with pytest.raises(ValueError, match="more than 16384 candidates"):
        ts.Predictor.from_json(hostile(parts=8400, first=8000, candidates=2))

"""Damaged documents: each is refused with ValueError or equal to the original; nothing else happens."""

from __future__ import annotations

import json
import random
import tracemalloc

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic
from tightset.canonical import digest

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


def test_memory_of_damaged_documents():
    tracemalloc.start()
    try:
        check_damaged(100, seed=3)
        check_forged(100, seed=4)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64e6


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10))
def test_many_damaged_documents(seed):
    check_damaged(10_000, seed=100 + seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2))
def test_many_forged_documents(seed):
    check_forged(10_000, seed=200 + seed)

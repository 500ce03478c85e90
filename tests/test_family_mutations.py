"""Documents of the wider family with any one value changed: read, or refused with a ValueError."""

from __future__ import annotations

import contextlib
import copy
import json

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic
from tightset.canonical import digest
from tightset.family import documents
from tightset.transforms import predictor as transformed_predictor

WRONG = (None, True, -1, 0, 2**63, 0.5, "", "x", [], {}, [1], {"bits": "7ff8000000000000", "value": "nan"})


def places(node, path=()):
    """Paths to every value of a document but its hash."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        if key != "sha256":
            yield (*path, key)
            yield from places(value, (*path, key))


def predictor_texts():
    rng = np.random.default_rng(6)
    logits, labels = synthetic(rng, 60, 3, strength=1.0)
    found = {
        "rules": ts.averaged.calibrate(logits, labels, 0.2, ["thr", "aps"], steps=3),
        "given": ts.reweighted.calibrate(logits, labels, 0.2, ts.RAPS(0.1, 2), np.ones(60)),
    }
    for kind in ("confts", "vector-scaling", "isotonic", "spline", "entropy-spline"):
        found[kind] = ts.transforms.calibrate(logits, labels, 0.2, "thr", transform=kind, tuning=0.5)
    return {name: predictor.to_json() for name, predictor in found.items()}, logits


TEXTS, LOGITS = predictor_texts()


@pytest.mark.parametrize("name", TEXTS)
def test_one_value_changed(name):
    loads = documents.loads if name in ("rules", "given") else transformed_predictor.loads
    given = (np.ones(60),) if name == "given" else ()
    document = json.loads(TEXTS[name])
    refused = 0
    for path in places(document):
        for value in WRONG:
            changed = copy.deepcopy(document)
            node = changed
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = value
            if isinstance(changed.get("predictor"), dict):
                changed["predictor"]["sha256"] = digest(changed["predictor"])
            changed["sha256"] = digest(changed)
            try:
                same = loads(json.dumps(changed))
            except ValueError:
                refused += 1
                continue
            # What was read predicts, or says why it cannot: no other error leaves it.
            with contextlib.suppress(ValueError, TypeError):
                same.predict_set(LOGITS, *given)
    assert refused > 100

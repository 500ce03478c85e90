"""Files of the wider family: read back to the bit, or refused, whatever value is changed."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle

import numpy as np
import pytest

import tightset as ts
from conftest import synthetic
from tightset.document.canonical import digest
from tightset.family import documents
from tightset.transforms import predictor as transformed_predictor

HUGE = {"bits": "7fe0000000000000", "value": 2.0**1023}
GIVEN = json.loads(ts.reweighted.calibrate(2 * np.eye(4), np.arange(4), 0.5, "thr", np.ones(4)).to_json())
GIVEN = GIVEN["parameters"]["candidates"][0]["rule"]


class TestFiles:
    @pytest.fixture(params=["given", "modsel"])
    def predictor(self, request, rng):
        logits, labels = synthetic(rng, 120, 4, strength=1.0)
        if request.param == "given":
            by = np.exp(logits[:, 0] / 9)
            return ts.reweighted.calibrate(logits, labels, 0.1, "raps", by, gamma=0.5)
        return ts.averaged.calibrate(logits, labels, 0.2, steps=4)

    def test_round_trip(self, predictor, rng, tmp_path):
        new, _ = synthetic(rng, 50, 4, strength=1.0)
        given = (np.ones(50),) if predictor.candidates[0].rule.needs_given else ()
        predictor.save(tmp_path / "p.json", score_table=True)
        same = ts.family.load(tmp_path / "p.json")
        assert same == predictor
        assert same.predict_set(new, *given) == predictor.predict_set(new, *given)
        np.testing.assert_array_equal(same.predict_p(new, *given), predictor.predict_p(new, *given))
        for other in (pickle.loads(pickle.dumps(predictor)), copy.deepcopy(predictor), copy.copy(predictor)):
            assert other == predictor
            np.testing.assert_array_equal(other.predict_p(new, *given), predictor.predict_p(new, *given))
        predictor.save(tmp_path / "p.json")
        same = ts.family.load(tmp_path / "p.json")
        assert same.predict_set(new, *given) == predictor.predict_set(new, *given)
        with pytest.raises(ValueError, match="score_table=True to keep them"):
            same.predict_p(new, *given)
        with pytest.raises(ValueError, match="was loaded without"):
            same.save(tmp_path / "q.json", score_table=True)
        assert not (tmp_path / "q.json").exists()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda d: d.update(format="tightset-predictor"), "its format is not 'tightset-rules'"),
            (lambda d: d.update(format_version=2), "format_version is 2"),
            (lambda d: d.update(generator="other"), "its generator is 'other'"),
            (lambda d: d.update(rank=7), "rank 7 does not belong"),
            (lambda d: d.update(extra=1), "unknown field 'extra'"),
            (lambda d: d.pop("seed"), "no field 'seed'"),
            (lambda d: d["parameters"].update(selection="paper"), "selection must be"),
            (lambda d: d["parameters"].update(selection="held-out"), "do not belong to selection='held-out'"),
            (lambda d: d["parameters"]["candidates"][0].pop("rule"), "no field 'rule'"),
            (
                lambda d: d["parameters"]["candidates"][0]["rule"].update(kind="eval"),
                "a rule must be of kind",
            ),
            (lambda d: d["parameters"]["candidates"][0].update(pairs_at_lo=481), "more pairs than"),
            (lambda d: d["parameters"]["candidates"][0].update(threshold=d["alpha"]), "not sorted"),
            (lambda d: d["parameters"]["candidates"][0]["rule"].update(weights=[d["alpha"]] * 3), "sum to"),
            (lambda d: d["calibration_scores"].pop(), "sorted rows"),
            (
                lambda d: [d["parameters"]["candidates"][0].pop(f) for f in ("lo", "pairs_at_lo", "between")],
                "lo belongs to several candidates",
            ),
            (lambda d: d["parameters"]["candidates"][0].update(threshold=HUGE), "does not belong to rank 97"),
            (
                lambda d: d["parameters"]["candidates"][0].update(rule=GIVEN),
                "some candidates divide by what is given and some do not",
            ),
            (lambda d: d.update(calibration_scores=["00" * 8] * 9), "must hold 120 numbers"),
        ],
    )
    def test_wrong_documents_are_refused(self, rng, change, message, tmp_path):
        logits, labels = synthetic(rng, 120, 4, strength=1.0)
        predictor = ts.averaged.calibrate(logits, labels, 0.2, steps=4)
        document = json.loads(predictor.to_json(score_table=True))
        change(document)
        document["sha256"] = digest(document)
        (tmp_path / "p.json").write_text(json.dumps(document))
        with pytest.raises(ValueError, match=message):
            ts.family.load(tmp_path / "p.json")

    def test_changed_and_large_files_are_refused(self, predictor, tmp_path):
        path = tmp_path / "p.json"
        predictor.save(path)
        with pytest.raises(ValueError, match="max_bytes=10"):
            ts.family.load(path, max_bytes=10)
        path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
        with pytest.raises(ValueError, match=r"p\.json is not a valid predictor: its sha256"):
            ts.family.load(path)


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

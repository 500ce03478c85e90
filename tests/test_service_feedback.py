"""Labels that come later: coverage, alarm, adaptation, bounded memory, and a state for the next process."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

import tightset as ts
from load_client import Service, serving
from service_cases import ask, data, save
from tightset.service.feedback import Memory
from tightset.service.models import Model
from tightset.service.refusals import Refusal
from tightset.service.room import Room, log
from tightset.service.settings import Limits, Settings


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "five.json"
    return path, save(path, 5)


def send(service, logits, labels, size=50):
    """Predict in requests and give their labels; return the last answer."""
    for i in range(0, len(logits), size):
        asked = ask(service, "/v1/predict", {"rows": logits[i : i + size].tolist()}).json
        told = {"request_id": asked["request_id"], "labels": labels[i : i + size].tolist()}
        answer = ask(service, "/v1/feedback", told)
        assert answer.status == 200, answer.content
    return answer.json


def watched(service, model=0):
    return ask(service, "/v1/state").json["models"][model]["watch"]


def test_coverage_and_alarm_are_those_of_the_monitor(predictor, tmp_path):
    path, model = predictor
    state = tmp_path / "state.json"
    good, labels = data(5, 600, seed=1)
    bad = good + 4 * np.random.default_rng(2).normal(size=good.shape)
    expected = ts.monitor.CoverageMonitor(model)
    service = Service(path, "--state", state)
    try:
        answer = send(service, good, labels)
        expected.update(good, labels)
        assert answer["coverage"] == expected.coverage
        assert answer["alarm"] is False
        assert watched(service)["evidence"] == expected.evidence
        assert watched(service)["band"] == list(expected.band)
        # A restart goes on where it was.
        assert service.stop() == 0
        assert json.loads(state.read_text())["models"]["five"]["labelled"] == 600
        service = Service(path, "--state", state)
        assert watched(service)["labelled"] == 600
        answer = send(service, bad, labels)
        expected.update(bad, labels)
        assert expected.alarm
        assert answer["alarm"] is True
        assert watched(service)["alarmed_at"] == expected.alarmed_at
        assert answer["coverage"] == expected.coverage
        late = int(model.predict_set(bad).covers(labels)[-500:].sum())
        assert watched(service)["recent"] == {"labels": 500, "coverage": late / 500}
        history = watched(service)["history"]
        assert [point[0] for point in history] == sorted(point[0] for point in history)
        assert history[-1][:2] == [1200, expected.coverage]
    finally:
        service.stop()
    # Another model under the name begins anew, and says so.
    other = tmp_path / "other.json"
    save(other, 4)
    with serving(f"five={other}", "--state", state) as service:
        assert watched(service)["labelled"] == 0
        assert any("five has changed since" in line for line in service.log)


def test_adaptation_brings_coverage_back(predictor):
    path, model = predictor
    logits, labels = data(5, 2000, seed=6, noise=3.0)
    assert model.predict_set(logits).coverage(labels) < 0.8
    expected = ts.monitor.AdaptiveAlpha(model, rate=0.01)
    with serving(path, "--adapt", "--rate", "0.01") as service:
        covered = 0
        for i in range(0, 2000, 20):
            rows, truth = logits[i : i + 20], labels[i : i + 20]
            asked = ask(service, "/v1/predict", {"rows": rows.tolist()}).json
            assert asked["alpha"] == expected.alpha
            assert asked["sets"] == [one.tolist() for one in expected.predict_set(rows)]
            told = {"request_id": asked["request_id"], "labels": truth.tolist()}
            covered += ask(service, "/v1/feedback", told).json["covered"]
            expected.update(rows, truth)
        assert abs(covered / 2000 - 0.9) < 0.03
        assert watched(service)["alpha"] == expected.alpha
        refused = ask(service, "/v1/predict", {"rows": [[1, 2, 3, 4, 5]], "allow_empty": False})
        assert refused.code == "invalid_request"


def test_labels_may_come_row_by_row_and_once(predictor):
    path, model = predictor
    logits, labels = data(5, 3, seed=8)
    with serving(path) as service:
        ask(service, "/v1/predict", {"rows": logits.tolist()}, headers={"X-Request-Id": "r:1"})

        def tell(labels, name="r:1"):
            return ask(service, "/v1/feedback", {"request_id": name, "labels": labels})

        for wrong in (
            None,
            [],
            [0],
            [0, 1, 5],
            [0, 1, -1],
            [0, 1, 1.0],
            [0, 1, "1"],
            [True, 0, 0],
            [None] * 3,
        ):
            assert tell(wrong).code == "invalid_labels"
        hits = model.predict_set(logits).covers(labels)
        first = tell([int(labels[0]), None, None]).json
        assert (first["labels"], first["covered"]) == (1, int(hits[0]))
        assert tell([int(labels[0]), int(labels[1]), None]).code == "label_given"
        second = tell([None, int(labels[1]), int(labels[2])]).json
        assert (second["labels"], second["covered"]) == (2, int(hits[1:].sum()))
        done = tell([0, 0, 0])
        assert (done.status, done.code) == (404, "request_unknown")
        assert "of which a row still waits for its label" in done.content.decode()
        assert ask(service, "/v1/feedback", {"labels": [1]}).code == "invalid_request"
        assert (
            ask(service, "/v1/feedback", {"request_id": "x", "labels": [1], "a": 1}).code == "invalid_request"
        )
        assert watched(service)["labelled"] == 3


def test_without_a_score_table_coverage_is_counted_without_an_alarm(tmp_path):
    path = tmp_path / "plain.json"
    save(path, 5, score_table=False)
    with serving(path) as service:
        assert any("no coverage alarm" in line for line in service.log)
        answer = send(service, *data(5, 100, seed=1))
        assert answer["alarm"] is None
        assert 0.7 < answer["coverage"] < 1
        lower, upper = watched(service)["band"]
        assert (lower, upper) == ts.metrics.coverage_band(2000, 0.1, 100)
        metrics = ask(service, "/metrics").content.decode()
        assert 'tightset_coverage{model="plain"}' in metrics
        assert "tightset_coverage_alarm" not in metrics
        assert "tightset_coverage_evidence" not in metrics


def test_feedback_can_be_off(predictor):
    with serving(predictor[0], "--no-feedback") as service:
        assert ask(service, "/v1/predict", {"rows": [[1, 2, 3, 4, 5]]}).status == 200
        assert "tightset_remembered" not in ask(service, "/metrics").content.decode()
        assert ask(service, "/v1/feedback", {"request_id": "x", "labels": [1]}).code == "feedback_off"
        assert ask(service, "/v1/state").json["models"][0]["watch"] is None


def test_memory_is_bounded_by_size_and_age(predictor):
    model = Model("m", predictor[1], "v", 0.0)
    now = [0.0]
    memory = Memory(Limits(remembered=50_000, remembered_seconds=10.0), clock=lambda: now[0])
    logits = np.zeros((100, 5), np.float32)
    sets = predictor[1].predict_set(logits)
    for i in range(100):
        memory.keep(f"r{i}", model, logits, None, sets)
        assert memory.nbytes <= 50_000
    assert 5 < len(memory) < 25
    assert "r99" in memory
    with pytest.raises(Refusal, match="r0"):
        memory.find("r0")
    now[0] = 9.0
    memory.keep("late", model, logits, None, sets)
    now[0] = 10.5
    assert "r99" not in memory
    assert len(memory) == 1
    # What is larger than everything is not kept, and drives nothing out.
    memory.keep("huge", model, np.zeros((10_000, 5), np.float32), None, sets)
    assert len(memory) == 1
    memory.find("late").waits[:] = False
    memory.done("late")
    assert (len(memory), memory.nbytes) == (0, 0)


def test_a_damaged_state_is_refused_at_start(predictor, tmp_path):
    state = tmp_path / "state.json"
    for text in ("{", "[]", "{}", '{"format": "tightset-service-state", "format_version": 2, "models": {}}'):
        state.write_text(text)
        with pytest.raises(ValueError, match="move it away"):
            Room(Settings(models={"five": str(predictor[0])}, state=state))


def learnt(room, name, logits, labels):
    """Predict rows and give their labels, without HTTP."""

    async def learn():
        room.open()
        model = room.models.find(name)
        sets, _ = room.predict(model, logits, None, allow_empty=True)
        room.sent("r", model, logits, None, sets)
        await room.learn(room.memory.find("r"), labels.tolist())

    asyncio.run(learn())


def test_a_state_brings_back_what_was_learnt_of_models_that_are_there(predictor, tmp_path):
    plain, state = tmp_path / "plain.json", tmp_path / "state.json"
    save(plain, 5, score_table=False)
    logits, labels = data(5, 40, seed=1)
    both = {"five": str(predictor[0]), "plain": str(plain)}
    first = Room(Settings(models=both, state=state))
    learnt(first, "plain", logits, labels)
    first.close()
    # No alarm to go on from, but what was counted.
    again = Room(Settings(models=both, state=state))
    assert [again.watches[name].labelled for name in both] == [0, 40]
    assert again.watches["plain"].coverage == first.watches["plain"].coverage
    assert again.watches["plain"].monitor is None
    # A model that is not served any more is no reason to begin anew with the others.
    one = Room(Settings(models={"five": str(predictor[0])}, state=state, adapt=True))
    learnt(one, "five", logits, labels)
    one.close()
    adapted = one.watches["five"].alpha
    assert adapted != 0.1
    last = Room(Settings(models={"five": str(predictor[0])}, state=state, adapt=True))
    assert (last.watches["five"].alpha, last.watches["five"].labelled) == (adapted, 40)


def test_the_state_is_saved_while_the_service_runs(predictor, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("tightset.service.room.SECONDS", 0.01)
    monkeypatch.setattr(log, "propagate", True)
    folder = tmp_path / "folder"
    state = folder / "state.json"
    room = Room(Settings(models={"five": str(predictor[0])}, state=state, state_seconds=0.001))
    learnt(room, "five", *data(5, 40, seed=1))

    async def beat():
        beating = asyncio.create_task(room.beat())
        while "could not be saved" not in caplog.text:
            await asyncio.sleep(0.01)
        folder.mkdir()
        while not state.exists():
            await asyncio.sleep(0.01)
        beating.cancel()

    asyncio.run(asyncio.wait_for(beat(), 30))
    assert f"the state could not be saved: the folder of {state} does not exist" in caplog.text
    assert json.loads(state.read_text())["models"]["five"]["labelled"] == 40
    # Nothing has come since: the file is left alone.
    state.write_text("as it was")
    room.close()
    assert state.read_text() == "as it was"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 2, "feedback": True}, "feedback needs one worker, got workers=2"),
        ({"workers": 2, "adapt": True}, "adapt needs one worker, got workers=2"),
        ({"workers": 2, "state": "x"}, "state needs one worker, got workers=2"),
        ({"adapt": True, "feedback": False}, "adapt needs feedback"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"port": 65536}, "port must be between 0 and 65535"),
        ({"rate": 0.0}, "rate must be positive and finite"),
        ({"alarm_level": 1.0}, "alarm_level must be strictly between 0 and 1"),
        ({"token": "a\nb"}, "token must be printable"),
        ({"models": {}}, "models must name at least one file"),
        ({"models": {"a b": "x"}}, "models must have names"),
    ],
)
def test_settings_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Settings(**{"models": {"m": "m.json"}, **settings})

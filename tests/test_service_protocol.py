"""`/v2`: the paths and documents of the Open Inference Protocol."""

from __future__ import annotations

import numpy as np
import pytest

from load_client import serving
from service_cases import JSON, ask, data, save


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "four.json"
    found = save(path, 4, recipe="er-aps")
    return path, found


@pytest.fixture(scope="module")
def service(predictor):
    path, _ = predictor
    ids = path.with_name("ids.json")
    save(ids, 3, row_ids=True)
    with serving(path, ids) as found:
        yield found


def tensor(logits, datatype="FP32", **more):
    shape = list(np.shape(logits))
    return {
        "name": "logits",
        "shape": shape,
        "datatype": datatype,
        "data": np.asarray(logits).ravel().tolist(),
        **more,
    }


def infer(service, *inputs, model="four", **more):
    return ask(service, f"/v2/models/{model}/infer", {"inputs": list(inputs), **more})


def outputs(answer):
    assert answer.status == 200, answer.content
    return {one["name"]: one for one in answer.json["outputs"]}


def test_health_and_metadata(service):
    assert ask(service, "/v2/health/live").json == {"live": True}
    assert ask(service, "/v2/health/ready").json == {"live": True, "ready": True}
    server = ask(service, "/v2").json
    assert server["name"] == "tightset"
    assert server["extensions"] == []
    assert server["version"]
    model = ask(service, "/v2/models/four").json
    assert model["name"] == "four"
    assert model["platform"] == "tightset"
    assert model["inputs"] == [{"name": "logits", "datatype": "FP32", "shape": [-1, 4]}]
    assert [(o["name"], o["datatype"], o["shape"]) for o in model["outputs"]] == [
        ("sizes", "INT64", [-1]),
        ("labels", "INT32", [-1]),
        ("mask", "BOOL", [-1, 4]),
    ]
    assert [i["name"] for i in ask(service, "/v2/models/ids").json["inputs"]] == ["logits", "row_ids"]
    (version,) = model["versions"]
    assert ask(service, f"/v2/models/four/versions/{version}").json == model
    assert ask(service, f"/v2/models/four/versions/{version}/ready").json == {"name": "four", "ready": True}
    assert ask(service, "/v2/models/four/ready").json == {"name": "four", "ready": True}
    for path in ("/v2/models/five", "/v2/models/four/versions/1", "/v2/models/five/ready"):
        refused = ask(service, path)
        assert refused.status == 404
        assert isinstance(refused.json["error"], str), "the protocol has a text here"
        assert refused.code == "model_unknown"


@pytest.mark.parametrize(
    ("datatype", "dtype"), [("FP32", np.float32), ("FP64", np.float64), ("FP16", np.float16)]
)
@pytest.mark.parametrize("nested", [False, True])
def test_sets_are_those_of_the_library(service, predictor, datatype, dtype, nested):
    logits = data(4, 30, seed=2)[0].astype(dtype)
    expected = predictor[1].predict_set(logits)
    given = tensor(logits, datatype)
    if nested:
        given["data"] = logits.tolist()
    answer = infer(service, given, id="mine-1")
    found = outputs(answer)
    assert answer.json["id"] == "mine-1"
    assert answer.json["model_name"] == "four"
    assert found["sizes"]["data"] == expected.sizes.tolist()
    assert found["labels"]["data"] == expected.indices.tolist()
    assert found["labels"]["shape"] == [len(expected.indices)]
    assert found["mask"]["shape"] == [30, 4]
    assert found["mask"]["data"] == expected.mask.ravel().tolist()
    # The rows wait for labels under the id that was given.
    labels = data(4, 30, seed=2)[1].tolist()
    assert ask(service, "/v1/feedback", {"request_id": "mine-1", "labels": labels}).status == 200


def test_outputs_are_those_that_were_asked_for(service):
    answer = infer(service, tensor([[1, 2, 3, 4]]), outputs=[{"name": "mask"}, {"name": "sizes"}])
    assert [one["name"] for one in answer.json["outputs"]] == ["mask", "sizes"]
    assert list(outputs(infer(service, tensor([1.0, 2, 3, 4]), outputs=[]))) == ["sizes", "labels", "mask"]


def test_row_ids_are_a_tensor(service):
    ids = {"name": "row_ids", "shape": [2], "datatype": "UINT64", "data": [7, 2**64 - 1]}
    assert outputs(infer(service, tensor([[1, 2, 3], [1, 2, 3]]), ids, model="ids"))["sizes"]["shape"] == [2]
    assert infer(service, tensor([[1, 2, 3], [1, 2, 3]]), model="ids").code == "invalid_request"
    wrong = {**ids, "shape": [3]}
    assert infer(service, tensor([[1, 2, 3], [1, 2, 3]]), wrong, model="ids").code == "shape_mismatch"


ROW = tensor([[1, 2, 3, 4]])


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({}, "invalid_request"),
        ({"inputs": []}, "invalid_request"),
        ({"inputs": ROW}, "invalid_request"),
        ({"inputs": [ROW, ROW]}, "invalid_request"),
        ({"inputs": [ROW, 3]}, "invalid_request"),
        ({"inputs": [{**ROW, "name": "scores"}]}, "invalid_request"),
        ({"inputs": [{**ROW, "name": ["logits"]}]}, "invalid_request"),
        ({"inputs": [{**ROW, "datatype": "BYTES"}]}, "invalid_request"),
        ({"inputs": [{**ROW, "datatype": None}]}, "invalid_request"),
        ({"inputs": [{**ROW, "shape": [0, 4]}]}, "shape_mismatch"),
        ({"inputs": [{**ROW, "shape": [1.0, 4]}]}, "shape_mismatch"),
        ({"inputs": [{**ROW, "shape": [2, 4]}]}, "shape_mismatch"),
        ({"inputs": [{**ROW, "shape": [2, 4], "data": [[1, 2, 3, 4]]}]}, "shape_mismatch"),
        ({"inputs": [{**ROW, "shape": [4, 1]}]}, "wrong_labels"),
        ({"inputs": [{**ROW, "shape": [1, 1, 4]}]}, "wrong_labels"),
        ({"inputs": [{**ROW, "shape": [10**9, 4]}]}, "too_many_rows"),
        ({"inputs": [{**ROW, "data": []}]}, "invalid_rows"),
        ({"inputs": [{**ROW, "data": [1, 2, "3", 4]}]}, "invalid_rows"),
        ({"inputs": [{**ROW, "data": [1, 2, [3], 4]}]}, "invalid_rows"),
        ({"inputs": [{**ROW, "datatype": "FP16", "data": [1, 2, 70000, 4]}]}, "not_finite"),
        ({"inputs": [ROW], "id": 3}, "invalid_request"),
        ({"inputs": [ROW], "outputs": [{"name": "p"}]}, "invalid_request"),
        ({"inputs": [ROW], "outputs": [{"name": ["mask"]}]}, "invalid_request"),
        ({"inputs": [ROW], "outputs": 3}, "invalid_request"),
    ],
)
def test_what_is_refused(service, document, code):
    answer = ask(service, "/v2/models/four/infer", document)
    assert answer.code == code
    assert isinstance(answer.json["error"], str)


def test_an_id_waits_for_its_labels_once(service):
    assert infer(service, ROW, id="twice").status == 200
    assert infer(service, ROW, id="twice").code == "request_id_in_use"
    assert ask(service, "/v2/models/four/infer", b"{", headers=JSON).code == "invalid_json"

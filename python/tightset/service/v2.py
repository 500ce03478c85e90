"""The paths of the Open Inference Protocol, ``/v2``, which Triton, KServe and Seldon speak too.

Sets are ragged and its tensors are not, so a model has three outputs: the size of each set, the labels of all
sets one after the other, and the mask of shape (n, K).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray

from tightset._core import VERSION
from tightset.service import schemas
from tightset.service.bodies import JSON, parse_object
from tightset.service.models import Model
from tightset.service.refusals import Refusal
from tightset.service.room import Room
from tightset.service.rows import check_count, row_ids_of, rows_of_flat, rows_of_lists
from tightset.sets import PredictionSets

_DTYPES: dict[str, type[np.generic]] = {
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    **dict.fromkeys(("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"), np.float64),
}
_OUTPUTS = ("sizes", "labels", "mask")


def routes(room: Room) -> APIRouter:
    """Return the paths, which answer from this room."""
    router = APIRouter(tags=["Open Inference Protocol"])
    known = [model.predictor.n_labels for model in room.models]
    state = {"type": "object"}
    named = [_path("name", room.names)]
    versioned = [*named, _path("version")]
    of_infer = {
        "content": {JSON: {"schema": schemas.infer_request(min(known), max(known), room.limits.rows)}}
    }

    @router.get("/v2", summary="Server metadata", responses=schemas.answers(state, flat=True))
    async def server() -> Response:
        """Name the server."""
        return _json({"name": "tightset", "version": VERSION, "extensions": []})

    @router.get("/v2/health/live", summary="Server live", responses=schemas.answers(state, flat=True))
    async def live() -> Response:
        """Say that the process answers; does nothing else."""
        return _json({"live": True})

    @router.get("/v2/health/ready", summary="Server ready", responses=schemas.answers(state, 503, flat=True))
    async def ready() -> Response:
        """Say whether requests should come here: all models have loaded, and no shutdown has begun."""
        if room.is_draining:
            return _json({"live": True, "ready": False}, 503)
        return _json({"live": True, "ready": True})

    async def metadata(request: Request) -> Response:
        """Tell inputs and outputs of a model."""
        model = _model(room, request)
        k = model.predictor.n_labels
        inputs = [{"name": "logits", "datatype": "FP32", "shape": [-1, k]}]
        if model.predictor.uses_row_ids:
            inputs.append({"name": "row_ids", "datatype": "UINT64", "shape": [-1]})
        outputs = [
            {"name": "sizes", "datatype": "INT64", "shape": [-1]},
            {"name": "labels", "datatype": "INT32", "shape": [-1]},
            {"name": "mask", "datatype": "BOOL", "shape": [-1, k]},
        ]
        about = {"name": model.name, "versions": [model.version], "platform": "tightset"}
        return _json({**about, "inputs": inputs, "outputs": outputs})

    async def model_ready(request: Request) -> Response:
        """Say whether a model has loaded."""
        return _json({"name": _model(room, request).name, "ready": True})

    async def infer(request: Request) -> Response:
        """Predict a set for each row of the input `logits`."""
        room.bodies.media_type(request, JSON)
        body = await room.bodies.read(request, JSON)
        model = _model(room, request)

        def work() -> tuple[str, NDArray[Any], NDArray[np.uint64] | None, PredictionSets, bytes]:
            given = parse_object(body)
            request_id = _request_id(room, given)
            wanted = _wanted(given)
            logits, row_ids = _inputs(room, model, given)
            sets, alpha = room.predict(model, logits, row_ids, allow_empty=True)
            answer = {
                "model_name": model.name,
                "model_version": model.version,
                "id": request_id,
                "parameters": {"alpha": alpha},
                "outputs": [_output(name, sets) for name in wanted],
            }
            content = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
            return request_id, logits, row_ids, sets, content

        request_id, logits, row_ids, sets, content = await room.run(len(body), work, is_json=True)
        room.sent(request_id, model, logits, row_ids, sets)
        return Response(content, media_type=JSON)

    for version, parameters in (("", named), ("/versions/{version}", versioned)):
        path = f"/v2/models/{{name}}{version}"
        suffix = "_of_version" if version else ""
        router.add_api_route(
            path,
            metadata,
            methods=["GET"],
            summary="Model metadata",
            operation_id=f"metadata{suffix}",
            responses=schemas.answers(schemas.METADATA_ANSWER, 404, flat=True),
            openapi_extra={"parameters": parameters},
        )
        router.add_api_route(
            f"{path}/ready",
            model_ready,
            methods=["GET"],
            summary="Model ready",
            operation_id=f"model_ready{suffix}",
            responses=schemas.answers(state, 404, flat=True),
            openapi_extra={"parameters": parameters},
        )
        router.add_api_route(
            f"{path}/infer",
            infer,
            methods=["POST"],
            summary="Inference",
            operation_id=f"infer{suffix}",
            responses=schemas.answers(
                schemas.INFER_ANSWER, 400, 404, 408, 409, 413, 415, 422, 503, flat=True
            ),
            openapi_extra={"parameters": parameters, "requestBody": {"required": True, **of_infer}},
        )
    return router


def _path(name: str, values: list[str] | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if values is not None:
        schema["enum"] = values
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _model(room: Room, request: Request) -> Model:
    model = room.models.find(request.path_params["name"])
    version = request.path_params.get("version")
    if version is not None and version != model.version:
        message = f"version of model {model.name} must be {model.version}, got {version[:80]!r}"
        raise Refusal("model_unknown", message)
    return model


def _request_id(room: Room, given: dict[str, Any]) -> str:
    found = given.get("id")
    if found is not None and not isinstance(found, str):
        message = f"id must be text, got {found!r:.80}"
        raise Refusal("invalid_request", message)
    return room.request_id(found)


def _wanted(given: dict[str, Any]) -> list[str]:
    outputs = given.get("outputs")
    if outputs is None:
        return list(_OUTPUTS)
    names = (
        [o.get("name") if isinstance(o, dict) else None for o in outputs] if isinstance(outputs, list) else []
    )
    if not isinstance(outputs, list) or any(name not in _OUTPUTS for name in names):
        message = f"outputs must be a list of objects whose names are {', '.join(_OUTPUTS)}"
        raise Refusal("invalid_request", message)
    return [str(name) for name in names] or list(_OUTPUTS)


def _inputs(
    room: Room, model: Model, given: dict[str, Any]
) -> tuple[NDArray[Any], NDArray[np.uint64] | None]:
    inputs = given.get("inputs")
    if not isinstance(inputs, list) or not all(isinstance(one, dict) for one in inputs):
        message = "inputs must be a list of tensors"
        raise Refusal("invalid_request", message)
    by_name: dict[Any, dict[str, Any]] = {}
    for one in inputs:
        name = one.get("name")
        if name not in ("logits", "row_ids") or name in by_name:
            message = (
                f"inputs must be logits, and row_ids where a model has them, once each, got {name!r:.80}"
            )
            raise Refusal("invalid_request", message)
        by_name[name] = one
    if "logits" not in by_name:
        message = "inputs must have one whose name is logits"
        raise Refusal("invalid_request", message)
    logits = _logits(room, model, by_name["logits"])
    ids = by_name.get("row_ids")
    if ids is not None and ids.get("shape") != [len(logits)]:
        message = f"shape of row_ids must be [{len(logits)}], got {ids.get('shape')!r:.80}"
        raise Refusal("shape_mismatch", message, rows=len(logits))
    row_ids = None if ids is None else ids.get("data")
    return logits, row_ids_of(row_ids, len(logits), needed=model.predictor.uses_row_ids)


def _logits(room: Room, model: Model, tensor: dict[str, Any]) -> NDArray[Any]:
    k = model.predictor.n_labels
    datatype = tensor.get("datatype")
    if not isinstance(datatype, str) or datatype not in _DTYPES:
        message = f"datatype of logits must be one of {', '.join(_DTYPES)}, got {datatype!r:.80}"
        raise Refusal("invalid_request", message)
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not shape or any(type(size) is not int or size < 1 for size in shape):
        message = f"shape of logits must be [rows, {k}], got {shape!r:.80}"
        raise Refusal("shape_mismatch", message)
    n = 1 if len(shape) == 1 else shape[0]
    check_count(n, room.limits)
    if len(shape) > 2 or shape[-1] != k:
        message = f"shape of logits must be [rows, {k}], got {shape!r:.80}"
        raise Refusal("wrong_labels", message, rows=n)
    data = tensor.get("data")
    if not isinstance(data, list) or not data:
        message = "data of logits must be a list of numbers, flat or a list for each row"
        raise Refusal("invalid_rows", message, rows=n)
    if not isinstance(data[0], list):
        return rows_of_flat(data, (n, k), _DTYPES[datatype])
    logits = rows_of_lists(data, k, room.limits, _DTYPES[datatype])
    if len(logits) != n:
        message = f"data of logits must have {n} rows as its shape has, got {len(logits)}"
        raise Refusal("shape_mismatch", message, rows=n)
    return logits


def _output(name: str, sets: PredictionSets) -> dict[str, Any]:
    data: NDArray[Any]
    if name == "sizes":
        datatype, shape, data = "INT64", [len(sets)], sets.sizes
    elif name == "labels":
        datatype, shape, data = "INT32", [len(sets.indices)], sets.indices
    else:
        datatype, shape, data = "BOOL", list(sets.mask.shape), sets.mask.reshape(-1)
    return {"name": name, "shape": shape, "datatype": datatype, "data": data}


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(orjson.dumps(content), status_code=status, media_type=JSON)

"""The service's own paths, ``/v1``."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import orjson
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray

from tightset.service import schemas
from tightset.service.bodies import BINARY, JSON, known_fields, parse_object
from tightset.service.models import Model
from tightset.service.page import live_state
from tightset.service.refusals import Refusal
from tightset.service.room import Room
from tightset.service.rows import row_ids_of, rows_of_bytes, rows_of_lists
from tightset.sets import PredictionSets

_PREDICT = frozenset({"rows", "model", "dtype", "allow_empty", "names", "row_ids"})
_FEEDBACK = frozenset({"request_id", "labels"})
_QUERY = frozenset({"model", "allow_empty"})
_DTYPES: dict[Any, type[np.generic]] = {"float64": np.float64, "float32": np.float32}
_SWITCHES = {"true": True, "false": False}


def routes(room: Room) -> APIRouter:
    """Return the paths, which answer from this room."""
    router = APIRouter(tags=["v1"])
    known = [model.predictor.n_labels for model in room.models]
    span = (min(known), max(known), room.limits.rows)

    @router.post(
        "/v1/predict",
        summary="Sets of labels for rows of logits",
        responses=schemas.answers(
            schemas.PREDICT_ANSWER, 400, 404, 408, 409, 413, 415, 422, 503, binary=True
        ),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    JSON: {"schema": schemas.predict_request(*span, room.names)},
                    BINARY: {
                        "schema": {
                            "type": "string",
                            "format": "binary",
                            "description": "float32, little-endian, row by row; needs Tightset-Shape.",
                        }
                    },
                },
            },
            "parameters": [
                {
                    "name": "Tightset-Shape",
                    "in": "header",
                    "description": "Rows and labels of a binary body, as in 8,1000.",
                    "schema": {"type": "string", "pattern": "^[0-9]{1,12},[0-9]{1,12}$"},
                },
                {
                    "name": "X-Request-Id",
                    "in": "header",
                    "description": "Your own id for feedback, instead of one that is made.",
                    "schema": {"type": "string", "pattern": f"^{schemas.REQUEST_ID}$"},
                },
                {
                    "name": "model",
                    "in": "query",
                    "description": "Of a binary body.",
                    "schema": {"type": "string", "enum": room.names},
                },
                {
                    "name": "allow_empty",
                    "in": "query",
                    "description": "Of a binary body.",
                    "schema": {"type": "string", "enum": ["true", "false"]},
                },
            ],
        },
    )
    async def predict(request: Request) -> Response:
        """Predict a set for each row.

        JSON in gives JSON out. With `Accept: application/octet-stream` the answer is the size of each set
        as int32, then the labels of all sets as int32, little-endian.
        """
        media_type = room.bodies.media_type(request, JSON, BINARY)
        request_id = room.request_id(request.headers.get("x-request-id"))
        known_fields(dict(request.query_params), _QUERY, "the query")
        body = await room.bodies.read(request, media_type)
        in_bytes = BINARY in request.headers.get("accept", "")

        def work() -> tuple[Model, NDArray[Any], NDArray[np.uint64] | None, PredictionSets, bytes]:
            read = _read_json if media_type == JSON else _read_binary
            model, logits, row_ids, allow_empty, names = read(room, request, body)
            sets, alpha = room.predict(model, logits, row_ids, allow_empty=allow_empty)
            if in_bytes:
                packed = b"".join(
                    (sets.sizes.astype("<i4").data, sets.indices.astype("<i4", copy=False).data)
                )
                return model, logits, row_ids, sets, packed
            answer = {
                "request_id": request_id,
                "model": model.name,
                "version": model.version,
                "alpha": alpha,
                "sets": lists_of(sets),
            }
            if names:
                answer["names"] = _names_of(sets, model)
            return model, logits, row_ids, sets, orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)

        model, logits, row_ids, sets, content = await room.run(len(body), work, is_json=media_type == JSON)
        room.sent(request_id, model, logits, row_ids, sets)
        headers = {"X-Request-Id": request_id}
        if in_bytes:
            headers["Tightset-Rows"] = str(len(sets))
        return Response(content, media_type=BINARY if in_bytes else JSON, headers=headers)

    @router.post(
        "/v1/feedback",
        summary="True labels of a request",
        responses=schemas.answers(schemas.FEEDBACK_ANSWER, 400, 404, 408, 409, 413, 415, 422, 503),
        openapi_extra={
            "requestBody": {"required": True, "content": {JSON: {"schema": schemas.FEEDBACK_REQUEST}}}
        },
    )
    async def feedback(request: Request) -> Response:
        """Say what the labels of a request were; coverage and its alarm follow from them.

        Labels must come for rows that were not chosen by what they or their sets look like.
        """
        room.bodies.media_type(request, JSON)
        if room.memory is None:
            message = "this service keeps no rows: it needs one worker and feedback on"
            raise Refusal("feedback_off", message)
        given = parse_object(await room.bodies.read(request, JSON))
        known_fields(given, _FEEDBACK)
        request_id = given.get("request_id")
        if not isinstance(request_id, str):
            message = "request_id must be the text that came with the sets"
            raise Refusal("invalid_request", message)
        sent = room.memory.find(request_id)
        labels, covered = await room.learn(sent, given.get("labels"))
        room.memory.done(request_id)
        watch = room.watches[sent.model.name]
        answer = {
            "model": sent.model.name,
            "labels": labels,
            "covered": covered,
            "coverage": watch.coverage,
            "alarm": None if watch.monitor is None else bool(watch.monitor.alarm),
        }
        return Response(orjson.dumps(answer), media_type=JSON)

    @router.get("/v1/models", summary="Models in service", responses=schemas.answers({"type": "object"}))
    async def models() -> Response:
        """Tell what each model is; a threshold that is infinite is null."""
        found = [
            {**model.described(), "reload_error": room.models.failures.get(model.name)}
            for model in room.models
        ]
        return Response(orjson.dumps({"models": found}), media_type=JSON)

    @router.get(
        "/v1/state", summary="What the live page shows", responses=schemas.answers({"type": "object"})
    )
    async def state() -> Response:
        """Tell coverage, set sizes, latency and the last refusals."""
        return Response(
            orjson.dumps(live_state(room)), media_type=JSON, headers={"Cache-Control": "no-store"}
        )

    return router


def _read_json(
    room: Room, request: Request, body: bytes | memoryview
) -> tuple[Model, NDArray[Any], NDArray[np.uint64] | None, bool, bool]:
    given = parse_object(body)
    known_fields(given, _PREDICT)
    if request.query_params:
        message = "a JSON body says model and allow_empty itself: the query must be empty"
        raise Refusal("invalid_request", message)
    name = given.get("model")
    if name is not None and not isinstance(name, str):
        message = f"model must be a name, got {name!r:.80}"
        raise Refusal("invalid_request", message)
    model = room.models.find(name)
    dtype = given.get("dtype", "float64")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        message = f"dtype must be float64 or float32, got {dtype!r:.80}"
        raise Refusal("invalid_request", message)
    switches = {"allow_empty": given.get("allow_empty", True), "names": given.get("names", False)}
    for switch, value in switches.items():
        if not isinstance(value, bool):
            message = f"{switch} must be true or false, got {value!r:.80}"
            raise Refusal("invalid_request", message)
    if switches["names"] and model.predictor.label_names is None:
        message = f"names must be false: the labels of model {model.name} have none"
        raise Refusal("invalid_request", message)
    logits = rows_of_lists(given.get("rows"), model.predictor.n_labels, room.limits, _DTYPES[dtype])
    row_ids = row_ids_of(given.get("row_ids"), len(logits), needed=model.predictor.uses_row_ids)
    return model, logits, row_ids, switches["allow_empty"], switches["names"]


def _read_binary(
    room: Room, request: Request, body: bytes | memoryview
) -> tuple[Model, NDArray[Any], NDArray[np.uint64] | None, bool, bool]:
    model = room.models.find(request.query_params.get("model"))
    word = request.query_params.get("allow_empty", "true")
    if word not in _SWITCHES:
        message = f"allow_empty must be true or false, got {word[:80]!r}"
        raise Refusal("invalid_request", message)
    shape = request.headers.get("tightset-shape")
    if shape is None:
        message = "a binary body needs the header Tightset-Shape, as in 8,1000"
        raise Refusal("shape_mismatch", message)
    logits = rows_of_bytes(body, shape, model.predictor.n_labels, room.limits)
    if model.predictor.uses_row_ids:
        message = f"model {model.name} needs row_ids, which a binary body has no place for: send JSON"
        raise Refusal("invalid_request", message, rows=len(logits))
    return model, logits, None, _SWITCHES[word], False


def lists_of(sets: PredictionSets) -> list[NDArray[np.int32]]:
    """Return the labels of each row, as views that are written as lists."""
    ends = sets.indptr.tolist()
    indices = sets.indices
    return [indices[a:b] for a, b in pairwise(ends)]


def _names_of(sets: PredictionSets, model: Model) -> list[list[str]]:
    names = model.predictor.label_names
    assert names is not None, "checked when the request was read"
    return [[names[label] for label in row] for row in sets]

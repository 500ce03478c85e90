"""What OpenAPI says of bodies and answers."""

from __future__ import annotations

from typing import Any

from tightset.service.refusals import STATUS

JsonSchema = dict[str, Any]

_NUMBER: JsonSchema = {"type": "number", "minimum": -1e30, "maximum": 1e30}
REQUEST_ID = "[A-Za-z0-9._:-]{1,128}"
"""What a client may call a request."""

_REQUEST_ID: JsonSchema = {"type": "string", "pattern": f"^{REQUEST_ID}$"}
_ROW_IDS: JsonSchema = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}}


def rows(fewest: int, most: int, max_rows: int) -> JsonSchema:
    """Return the schema of rows of logits."""
    row = {"type": "array", "items": _NUMBER, "minItems": fewest, "maxItems": most}
    return {"type": "array", "items": row, "minItems": 1, "maxItems": max_rows}


def predict_request(fewest: int, most: int, max_rows: int, names: list[str]) -> JsonSchema:
    """Return the schema of what ``/v1/predict`` takes."""
    return {
        "type": "object",
        "required": ["rows"],
        "additionalProperties": False,
        "properties": {
            "rows": rows(fewest, most, max_rows) | {"description": "Logits, a list for each row."},
            "model": {"type": "string", "enum": names, "description": "The first one if left out."},
            "dtype": {
                "type": "string",
                "enum": ["float64", "float32"],
                "default": "float64",
                "description": "What numbers are rounded to; float32 gives the bits of the binary form.",
            },
            "allow_empty": {
                "type": "boolean",
                "default": True,
                "description": "Whether a set may be empty, or has the top label.",
            },
            "names": {
                "type": "boolean",
                "default": False,
                "description": "Whether to send the names of labels too.",
            },
            "row_ids": {**_ROW_IDS, "description": "For models calibrated with row ids."},
        },
    }


PREDICT_ANSWER: JsonSchema = {
    "type": "object",
    "required": ["request_id", "model", "version", "alpha", "sets"],
    "properties": {
        "request_id": _REQUEST_ID,
        "model": {"type": "string"},
        "version": {"type": "string"},
        "alpha": {"type": "number"},
        "sets": {
            "type": "array",
            "description": "Labels of each row, the most probable first.",
            "items": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        },
        "names": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
    },
}

FEEDBACK_REQUEST: JsonSchema = {
    "type": "object",
    "required": ["request_id", "labels"],
    "additionalProperties": False,
    "properties": {
        "request_id": _REQUEST_ID | {"description": "Of the answer, or its header X-Request-Id."},
        "labels": {
            "type": "array",
            "minItems": 1,
            "items": {"type": ["integer", "null"], "minimum": 0, "maximum": 2**31 - 1},
            "description": "The true label of each row, or null where it is not known yet.",
        },
    },
}

FEEDBACK_ANSWER: JsonSchema = {
    "type": "object",
    "required": ["model", "labels", "covered", "coverage", "alarm"],
    "properties": {
        "model": {"type": "string"},
        "labels": {"type": "integer", "description": "Labels taken in."},
        "covered": {"type": "integer", "description": "Sets, as sent, that had them."},
        "coverage": {"type": ["number", "null"], "description": "Over all labels so far."},
        "alarm": {"type": ["boolean", "null"], "description": "Null without a score table."},
    },
}

_TENSOR: JsonSchema = {
    "type": "object",
    "required": ["name", "shape", "datatype"],
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer"}},
        "datatype": {"type": "string"},
    },
}


def infer_request(fewest: int, most: int, max_rows: int) -> JsonSchema:
    """Return the schema of what ``/v2/models/{name}/infer`` takes."""
    logits = {
        "type": "object",
        "required": ["name", "shape", "datatype", "data"],
        "properties": {
            "name": {"type": "string", "enum": ["logits", "row_ids"]},
            "shape": {
                "type": "array",
                "items": {"type": "integer", "minimum": 1, "maximum": max(max_rows, most)},
                "minItems": 1,
                "maxItems": 2,
            },
            "datatype": {"type": "string", "enum": ["FP16", "FP32", "FP64", "INT64", "UINT64"]},
            "parameters": {"type": "object"},
            "data": {
                "type": "array",
                "description": "Row-major, flat or a list for each row.",
                "items": {"anyOf": [_NUMBER, {"type": "array", "items": _NUMBER, "minItems": fewest}]},
            },
        },
    }
    return {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": _REQUEST_ID,
            "parameters": {"type": "object"},
            "inputs": {"type": "array", "items": logits, "minItems": 1, "maxItems": 2},
            "outputs": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "enum": ["sizes", "labels", "mask"]},
                        "parameters": {"type": "object"},
                    },
                },
            },
        },
    }


INFER_ANSWER: JsonSchema = {
    "type": "object",
    "required": ["model_name", "model_version", "id", "outputs"],
    "properties": {
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "id": {"type": "string"},
        "parameters": {"type": "object"},
        "outputs": {
            "type": "array",
            "items": {
                **_TENSOR,
                "required": [*_TENSOR["required"], "data"],
                "properties": {**_TENSOR["properties"], "data": {"type": "array"}},
            },
        },
    },
}

METADATA_ANSWER: JsonSchema = {
    "type": "object",
    "required": ["name", "versions", "platform", "inputs", "outputs"],
    "properties": {
        "name": {"type": "string"},
        "versions": {"type": "array", "items": {"type": "string"}},
        "platform": {"type": "string"},
        "inputs": {"type": "array", "items": _TENSOR},
        "outputs": {"type": "array", "items": _TENSOR},
    },
}

_ERROR: JsonSchema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "enum": list(STATUS)},
                "message": {"type": "string"},
                "row": {"type": "integer"},
                "label": {"type": "integer"},
            },
        }
    },
}
_FLAT_ERROR: JsonSchema = {
    "type": "object",
    "required": ["error", "code"],
    "properties": {
        "error": {"type": "string"},
        "code": {"type": "string", "enum": list(STATUS)},
        "row": {"type": "integer"},
        "label": {"type": "integer"},
    },
}


def answers(ok: JsonSchema, *statuses: int, flat: bool = False, binary: bool = False) -> dict[Any, Any]:
    """Return the answers of an operation: what it sends when all is well, and its refusals by status."""
    content: dict[str, Any] = {"application/json": {"schema": ok}}
    if binary:
        content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    found: dict[Any, Any] = {200: {"description": "OK", "content": content}}
    refused = _FLAT_ERROR if flat else _ERROR
    for status in (401, *statuses):
        codes = ", ".join(code for code, its in STATUS.items() if its == status)
        found[status] = {"description": codes, "content": {"application/json": {"schema": refused}}}
    return found

"""What documents share: floats as bits, lists of them, checked fields, and version, hash and generator."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset.document.canonical import digest


def number_document(value: float) -> dict[str, Any]:
    """Return a float as documents hold it."""
    return {"bits": struct.pack(">d", value).hex(), "value": value if math.isfinite(value) else str(value)}


def as_float(document: Any, name: str) -> float:
    """Return the float of a document."""
    check_fields(document, name, ("bits", "value"))
    values = unpacked(document["bits"], name)
    if len(values) != 1:
        message = f"{name} must be one number, got {len(values)}"
        raise ValueError(message)
    value = float(values[0])
    readable = document["value"]
    expected = number_document(value)["value"]
    # Both zeros are told apart, as the bits do.
    if type(readable) is not type(expected) or repr(readable) != repr(expected):
        message = f"{name} has bits for {value!r} beside the value {shown(readable)}"
        raise ValueError(message)
    return value


def packed(scores: NDArray[np.float64]) -> str:
    """Return floats as the bits of one after another."""
    return scores.astype(">f8").tobytes().hex()


def unpacked(text: Any, name: str) -> NDArray[np.float64]:
    """Return the floats that `packed` wrote."""
    try:
        raw = bytes.fromhex(as_text(text, name))
    except ValueError:
        raw = b""
    if raw.hex() != text or len(raw) % 8:
        message = f"{name} must be numbers as 16 hexadecimal digits each, got {shown(text)}"
        raise ValueError(message)
    scores = np.frombuffer(raw, dtype=">f8").astype(np.float64)
    if np.isnan(scores).any():
        message = f"{name} must not contain NaN"
        raise ValueError(message)
    return scores


def check_version(document: dict[str, Any], version: int) -> None:
    """Refuse a document of a version that this one does not read."""
    found = document.get("format_version")
    if type(found) is not int or found != version:
        message = f"its format_version is {shown(found)}; this version reads {version}"
        raise ValueError(message)


def check_digest(document: dict[str, Any]) -> None:
    """Refuse a document that is not what was written."""
    if document.get("sha256") != digest(document):
        message = "its sha256 is not that of its contents: it was changed after it was written"
        raise ValueError(message)


def check_generator(document: dict[str, Any]) -> None:
    """Refuse a document whose scores were drawn by another U."""
    if document["generator"] != _core.GENERATOR:
        message = f"its generator is {shown(document['generator'])}; this version has {_core.GENERATOR!r}"
        raise ValueError(message)


def check_fields(document: Any, name: str, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Refuse what is not an object with these fields."""
    if not isinstance(document, dict):
        message = f"{name} must be an object, got {shown(document)}"
        raise ValueError(message)
    for field in required:
        if field not in document:
            message = f"{name} has no field {field!r}"
            raise ValueError(message)
    for field in document:
        if field not in required and field not in optional:
            message = f"{name} has an unknown field {shown(field)}"
            raise ValueError(message)


def as_list(document: Any, name: str) -> list[Any]:
    """Return a list that is not empty."""
    if not isinstance(document, list) or not document:
        message = f"{name} must be a list that is not empty, got {shown(document)}"
        raise ValueError(message)
    return document


def as_text(document: Any, name: str) -> str:
    """Return a string."""
    if not isinstance(document, str):
        message = f"{name} must be a string, got {shown(document)}"
        raise ValueError(message)
    return document


def shown(value: Any) -> str:
    """Return a value as an error shows it: a document may hold much."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

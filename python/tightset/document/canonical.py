"""The text of a document: strict JSON in, one hash out, the same in Rust (``src/predictor/json``).

The hash covers the canonical form: the document without its own ``sha256`` and without the readable
``value`` beside each number's bits, keys sorted, no spaces, only the escapes that JSON requires, UTF-8. No
decimal fraction is left in it, so that no two languages can write it differently.
"""

from __future__ import annotations

from typing import Any

_MOST_VALUES = 2**20
_MOST_BRACKETS = 2**18
"""Lists and objects, which take more room than their characters; brackets in strings are counted, too."""
_MOST_DIGITS = 20
"""Digits of the largest 64-bit integer."""


def parse(text: str | bytes) -> Any:
    """Return the value of a JSON text, refusing what readers disagree on."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            message = f"it is no predictor document, which is JSON in UTF-8: byte {error.start} is not text"
            raise ValueError(message) from None
    if text.count(",") > _MOST_VALUES:
        message = f"it has more than {_MOST_VALUES} values"
        raise ValueError(message)
    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        message = f"it has more than {_MOST_BRACKETS} lists and objects"
        raise ValueError(message)
    import json  # here, or `import tightset` would pay for it

    return json.loads(
        text, object_pairs_hook=_no_duplicates, parse_int=_integer, parse_constant=_refuse_constant
    )


def digest(document: dict[str, Any]) -> str:
    """Return the SHA-256 of the canonical form, in hexadecimal."""
    import json  # here, or `import tightset` would pay for them
    from hashlib import sha256

    rest = {key: value for key, value in document.items() if key != "sha256"}
    text = json.dumps(_without_values(rest), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def _without_values(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_values(value) for key, value in node.items() if key != "value"}
    return [_without_values(value) for value in node] if isinstance(node, list) else node


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            message = f"field {name[:40]!r} stands twice"
            raise ValueError(message)
        found[name] = value
    return found


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS or text == "-0":
        message = f"{text[:40]} is not an integer of 64 bits"
        raise ValueError(message)
    return int(text)


def _refuse_constant(text: str) -> Any:
    message = f"{text} is not JSON"
    raise ValueError(message)

"""The file that keeps the watch on coverage over restarts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tightset.service.watch import Watch
from tightset.whole_files import written

_FORMAT = "tightset-service-state"
_VERSION = 1


def save_state(path: str | os.PathLike[str], watches: Mapping[str, Watch]) -> None:
    """Write what all watches know, whole or not at all."""
    states = {name: watch.state() for name, watch in watches.items()}
    document = {"format": _FORMAT, "format_version": _VERSION, "models": states}
    text = json.dumps(document, allow_nan=False)
    with written(path) as file:
        file.write(text.encode())


def restore_state(path: str | os.PathLike[str], watches: Mapping[str, Watch]) -> list[str]:
    """Let the watches go on from a file, if there is one; return the names whose model has changed since.

    A file that cannot be read is an error: beginning anew would forget an alarm.
    """
    source = Path(path)
    if not source.exists():
        return []
    try:
        others = []
        for name, state in _models_of(json.loads(source.read_bytes())).items():
            if name not in watches:
                continue
            if state["version"] != watches[name].model.version:
                others.append(name)
                continue
            watches[name].restore(state)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        message = f"{source} is not a state that this service can go on from ({error!r:.200}): move it away"
        raise ValueError(message) from error
    return others


def _models_of(document: Any) -> dict[str, Any]:
    if document["format"] != _FORMAT or document["format_version"] != _VERSION:
        message = f"format {document['format']!r} {document['format_version']!r}"
        raise ValueError(message)
    models: dict[str, Any] = document["models"]
    return models

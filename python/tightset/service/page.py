"""The live page, the page of the interface, and what they show."""

from __future__ import annotations

import time
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Response

from tightset._core import VERSION
from tightset.service.measures import KINDS, quantile
from tightset.service.pulse import SECONDS
from tightset.service.room import Room

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_PAGES = {"/": "live.html", "/docs": "docs.html"}
_FILES = ("style.css", "live.js", "docs.js")
_HEADERS = {
    "Cache-Control": "no-cache",
    # Nothing from elsewhere, nothing inline: what a client sent and a page shows stays text.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def routes() -> APIRouter:
    """Return the pages and their files, read once."""
    router = APIRouter(include_in_schema=False)
    folder = files("tightset.service").joinpath("web")
    for path, name in (*_PAGES.items(), *((f"/web/{name}", name) for name in _FILES)):
        router.add_api_route(path, _sender(folder.joinpath(name).read_bytes(), name), methods=["GET"])
    return router


def _sender(content: bytes, name: str) -> Any:
    media_type = _TYPES[name.rpartition(".")[2]]

    async def send() -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return send


def live_state(room: Room) -> dict[str, Any]:
    """Return everything that the live page shows."""
    measures = room.measures
    models = []
    for model in room.models:
        ends, counts, total = measures.histogram("set_size", model.name)
        rows = float(counts.sum())
        watch = room.watches.get(model.name)
        facts = model.described()
        facts["label_names"] = (facts["label_names"] or [])[:1000]
        models.append(
            {
                **facts,
                "reload_error": room.models.failures.get(model.name),
                "rows": rows,
                "mean_size": total / rows if rows else None,
                "set_sizes": {"ends": ends, "counts": counts.tolist()},
                "kinds": {kind: measures.total("sets", model.name, kind) for kind in KINDS},
                "watch": None if watch is None else watch.described(),
            }
        )
    ends, predicted, _ = measures.histogram("request_seconds", "predict")
    _, inferred, _ = measures.histogram("request_seconds", "infer")
    both = predicted + inferred
    return {
        "version": VERSION,
        "now": time.time(),
        "started_at": room.started_at,
        "workers": room.settings.workers,
        "feedback": room.memory is not None,
        "remembered": None if room.memory is None else len(room.memory),
        "draining": room.is_draining,
        "every": SECONDS,
        "requests": float(both.sum()),
        "latency": {f"p{share}": quantile(ends, both, share / 100) for share in (50, 90, 99)},
        "series": room.pulse.series(),
        "refusals": room.refusals.latest(),
        "models": models,
    }

"""A calibration state as bytes: names and numbers, compressed. Reading them runs no code."""

from __future__ import annotations

import json
import zlib
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset.document.recipes import as_recipe, recipe_document
from tightset.streaming.calibration import Calibration
from tightset.streaming.ledger import Ledger, Wanted, WantedBetween, WantedCounts, WantedRanks
from tightset.streaming.plan import Seen
from tightset.streaming.ranks import RankSearch, Slot
from tightset.streaming.tally import Tally

_MAGIC = b"tightset-calibration-1\n"


def to_bytes(state: Calibration) -> bytes:
    """Return the state as bytes."""
    tally, ledger, seen = state._tally, state._plan.ledger, state._seen
    document = plan_document(state) | {
        "n_labels": None if seen is None else seen.n_labels,
        "uses_row_ids": None if seen is None else seen.uses_row_ids,
        "n_threads": state.n_threads,
        "blocks": _runs(tally.blocks),
        "n_keys": [len(keys) for keys in tally.keys],
        "n_between": [len(scores) for scores in tally.between],
        "kept_between": None if ledger.between is None else [len(scores) for scores in ledger.between],
    }
    arrays: dict[str, NDArray[Any]] = {
        "document": np.frombuffer(json.dumps(document).encode(), dtype=np.uint8),
        "rows": tally.rows,
        "digits": tally.digits,
        "keys": _flat(tally.keys, np.uint64),
        "counts": tally.counts,
        "between": _flat(tally.between, np.float64),
        "ledger_between": _flat(ledger.between or (), np.float64),
    }
    file = BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return _MAGIC + zlib.compress(file.getvalue(), 1)


def from_bytes(data: bytes) -> Calibration:
    """Return the state that `to_bytes` wrote."""
    if not data.startswith(_MAGIC):
        message = "data must be bytes that Calibration.to_bytes of this version wrote"
        raise ValueError(message)
    try:
        with np.load(BytesIO(zlib.decompress(data[len(_MAGIC) :])), allow_pickle=False) as file:
            arrays = dict(file)
        return _state(json.loads(arrays.pop("document").tobytes()), arrays)
    except (KeyError, TypeError, ValueError, OSError, zlib.error) as error:
        message = f"data is not a valid calibration state: {error}"
        raise ValueError(message) from error


def plan_document(state: Calibration) -> dict[str, Any]:
    """Return all that readers of one pass share."""
    plan = state._plan
    ledger, search, asked = plan.ledger, plan.search, plan.asked
    return {
        "tightset": _core.VERSION,
        "generator": _core.GENERATOR,
        "recipe": recipe_document(asked.recipe),
        "alphas": list(asked.alphas),
        "has_several_alphas": plan.has_several_alphas,
        "objective": asked.objective,
        "seed": asked.seed,
        "probabilities": asked.probabilities,
        "state_bytes": plan.state_bytes,
        "pass_number": state.pass_number,
        "is_in_pass": state.is_in_pass,
        "rows": list(ledger.rows),
        "statistics": [[*place, score.hex()] for place, score in ledger.statistics.items()],
        "pair_counts": None if ledger.counts is None else ledger.counts.tolist(),
        "wanted": _wanted_document(plan.wanted),
        "search": None if search is None else _search_document(search),
    }


def _state(document: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Calibration:
    for field, ours in (("tightset", _core.VERSION), ("generator", _core.GENERATOR)):
        if document[field] != ours:
            message = f"its {field} is {document[field]!r}; this is {ours!r}"
            raise ValueError(message)
    state = Calibration(
        as_recipe(document["recipe"]),
        document["alphas"],
        objective=document["objective"],
        seed=document["seed"],
        probabilities=document["probabilities"],
        n_threads=document["n_threads"],
        state_bytes=document["state_bytes"],
    )
    state.is_in_pass = document["is_in_pass"]
    if document["n_labels"] is not None:
        state._seen = Seen(document["n_labels"], document["uses_row_ids"])
    plan = state._plan
    plan.has_several_alphas, plan.pass_number = document["has_several_alphas"], document["pass_number"]
    counts, between = document["pair_counts"], document["kept_between"]
    plan.ledger = Ledger(
        rows=(document["rows"][0], document["rows"][1]),
        statistics={(p, m, rank): float.fromhex(text) for p, m, rank, text in document["statistics"]},
        counts=None if counts is None else np.array(counts, dtype=np.int64),
        between=None if between is None else list(_split(arrays["ledger_between"], between)),
    )
    plan.wanted = _wanted(document["wanted"])
    plan.search = None if document["search"] is None else _search(document["search"])
    tally = Tally(
        rows=arrays["rows"],
        digits=arrays["digits"],
        keys=_split(arrays["keys"], document["n_keys"]),
        counts=arrays["counts"],
        between=_split(arrays["between"], document["n_between"]),
        blocks=frozenset(b for first, last in document["blocks"] for b in range(first, last + 1)),
    )
    expected = plan.no_rows()
    if tally.digits.shape != expected.digits.shape or tally.counts.shape != expected.counts.shape:
        message = f"its counts have shape {tally.digits.shape}, the pass needs {expected.digits.shape}"
        raise ValueError(message)
    state._tally = tally
    return state


def _wanted_document(wanted: Wanted | None) -> dict[str, Any] | None:
    if wanted is None:
        return None
    if isinstance(wanted, WantedRanks):
        return {"what": "ranks", "part": wanted.part, "ranks": [list(pair) for pair in wanted.ranks]}
    if isinstance(wanted, WantedCounts):
        edges = {name: _hex(getattr(wanted, name)) for name in ("lo", "hi")}
        return {"what": "counts", "part": wanted.part, "shape": list(wanted.hi.shape), **edges}
    return {"what": "between", "brackets": [[m, a.hex(), b.hex()] for m, a, b in wanted.brackets]}


def _wanted(document: dict[str, Any] | None) -> Wanted | None:
    if document is None:
        return None
    if document["what"] == "ranks":
        return WantedRanks(document["part"], [(m, rank) for m, rank in document["ranks"]])
    if document["what"] == "counts":
        lo, hi = (
            np.array([float.fromhex(text) for text in document[name]]).reshape(document["shape"])
            for name in ("lo", "hi")
        )
        return WantedCounts(document["part"], lo, hi)
    return WantedBetween([(m, float.fromhex(a), float.fromhex(b)) for m, a, b in document["brackets"]])


def _search_document(search: RankSearch) -> dict[str, Any]:
    return {
        "part": search.part,
        "slots": [[s.candidate, s.base, s.width, s.count, s.below] for s in search.slots],
        "targets": search.targets,
        "bits": search.bits,
        "found": [[m, rank, score.hex()] for (m, rank), score in search.found.items()],
    }


def _search(document: dict[str, Any]) -> RankSearch:
    return RankSearch(
        document["part"],
        [Slot(*slot) for slot in document["slots"]],
        document["targets"],
        document["bits"],
        {(m, rank): float.fromhex(text) for m, rank, text in document["found"]},
    )


def _hex(values: NDArray[np.float64]) -> list[str]:
    return [value.hex() for value in values.ravel().tolist()]


def _flat(arrays: Any, dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *arrays])


def _split(flat: NDArray[Any], lengths: list[int]) -> tuple[NDArray[Any], ...]:
    if sum(lengths) != len(flat):
        message = f"{len(flat)} numbers do not fill {sum(lengths)} places"
        raise ValueError(message)
    return tuple(np.split(flat, np.cumsum(lengths)[:-1])) if lengths else ()


def _runs(numbers: frozenset[int]) -> list[list[int]]:
    """Return the numbers as first and last of consecutive ones."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs

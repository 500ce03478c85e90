"""Calibration on one machine, on rows that are read block by block."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tightset._inputs import as_integer
from tightset.objectives import Objective
from tightset.predictor import Predictor
from tightset.progress import RowProgress
from tightset.recipes import Recipe
from tightset.streaming.calibration import STATE_BYTES, Calibration
from tightset.streaming.kept_scores import KeptScores
from tightset.streaming.sources import Block, Source, blocks_of, parts_of
from tightset.streaming.wire import plan_document
from tightset.whole_files import written

_SECONDS_BETWEEN_CHECKPOINTS = 60.0


def calibrate_stream(
    source: Source,
    alpha: float | Sequence[float] | None = None,
    recipe: str | Recipe = "er-aps",
    *,
    confidence_level: float | Sequence[float] | None = None,
    objective: Objective = "size",
    seed: int = 0,
    n_threads: int | None = None,
    probabilities: bool = False,
    max_memory: int = 2**30,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Predictor | tuple[Predictor, ...]:
    """Calibrate on blocks of rows that need not fit in memory together.

    The predictor is the one that `calibrate` gives for the same rows, for recipes with one candidate and
    ``"modsel"`` selection. Other selections split rows by a hash of the seed and the row's id, or its number
    if there are no ids; how the rows are cut into blocks does not matter.

    Parameters
    ----------
    source
        An iterable of ``(logits, labels)`` or ``(logits, labels, row_ids)`` that can be iterated several
        times, with the same rows each time; a function that returns one; the path of a Parquet file or
        folder with columns ``logits`` (lists) or ``logit_0``, ``logit_1``, ..., ``label`` and maybe
        ``row_id``; or the path of a zarr group with arrays ``logits``, ``labels`` and maybe ``row_ids``. A
        one-shot iterator will do for recipes with one candidate. Blocks of some MB are read fastest.
    alpha, recipe, confidence_level, objective, seed, n_threads, probabilities
        As in `calibrate`.
    max_memory
        Bytes for the scores of the first reading. If they fit, thresholds need no other, and the predictor
        keeps those of its candidates for `predict_p`; if not, some more readings find the same thresholds
        with a few MB. Blocks come on top.
    checkpoint
        A file that the state is written to from time to time and when the call is interrupted. A call that
        finds it goes on from there, with the same source and arguments; it is removed at the end.

    Returns
    -------
    A frozen `Predictor`, or a tuple of them if `alpha` is a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(1)
    >>> labels = rng.integers(4, size=2000)
    >>> logits = 3 * rng.normal(size=(2000, 4)) + 6 * np.eye(4)[labels]
    >>> blocks = [(logits[i : i + 300], labels[i : i + 300]) for i in range(0, 2000, 300)]
    >>> ts.calibrate_stream(blocks, alpha=0.1) == ts.calibrate(logits, labels, alpha=0.1)
    True
    """
    room = as_integer(max_memory, "max_memory", 1)
    state = Calibration(
        recipe,
        alpha,
        confidence_level=confidence_level,
        objective=objective,
        seed=seed,
        probabilities=probabilities,
        n_threads=n_threads,
        state_bytes=max(1, min(STATE_BYTES, room // 4)),
    )
    read = blocks_of(source)
    if read is None:
        return _from_one_reading(state, iter(source), room, checkpoint)  # type: ignore[arg-type]
    path = None if checkpoint is None else Path(checkpoint)
    resumed = None if path is None or not path.exists() else _resumed(path, state)
    kept = None if resumed is not None else KeptScores.for_plan(state._plan, room)
    state = state if resumed is None else resumed
    saver = _Saver(path)
    while not state.is_complete:
        if not state.is_in_pass:
            state.begin_pass()
        if kept is not None and kept.serve(state._plan):
            state._pass_over(kept)
        else:
            _read_all(state, read(), kept if state.pass_number == 1 else None, saver)
        state.end_pass()
        saver.save(state)
    predictors = _finished(state, kept)
    saver.remove()
    return predictors


def _finished(state: Calibration, kept: KeptScores | None) -> Predictor | tuple[Predictor, ...]:
    predictors = state._predictors()
    if kept is not None:
        predictors = kept.given_to(predictors, state._plan)
    return predictors if state._plan.has_several_alphas else predictors[0]


def _read_all(state: Calibration, blocks: Iterator[Block], kept: KeptScores | None, saver: _Saver) -> None:
    start = 0
    what = f"tightset: pass {state.pass_number}"
    with RowProgress(state.n_rows, what) as progress, saver.on_interrupt(state):
        for number, block in enumerate(blocks):
            logits, labels, ids = parts_of(block, number)
            try:
                state._update(logits, labels, ids, start, number, kept)
            except (TypeError, ValueError) as error:
                error.add_note(f"in block {number} of the source, which begins at row {start}")
                raise
            start += len(logits)
            progress.advance(len(logits))
            saver.save_sometimes(state)


def _from_one_reading(
    state: Calibration, blocks: Iterator[Block], room: int, checkpoint: object
) -> Predictor | tuple[Predictor, ...]:
    if len(state.candidates) > 1 or state.splits_rows:
        message = (
            f"source can be read only once, and a recipe with {len(state.candidates)} candidates "
            "needs several readings: pass a list, an object with __iter__, or a function that returns an "
            "iterator"
        )
        raise ValueError(message)
    if checkpoint is not None:
        message = "checkpoint needs a source that can be read again, got an iterator"
        raise ValueError(message)
    kept = KeptScores.for_plan(state._plan, room)
    state.begin_pass()
    _read_all(state, _while_kept(blocks, kept, room), kept, _Saver(None))
    state.end_pass()
    while not state.is_complete:
        state.begin_pass()
        state._pass_over(kept)
        state.end_pass()
    return _finished(state, kept)


def _while_kept(blocks: Iterator[Block], kept: KeptScores, room: int) -> Iterator[Block]:
    for block in blocks:
        yield block
        if kept.tables is None:
            message = (
                f"max_memory must hold the scores of a source that can be read only once, 8 bytes a row: "
                f"{room} bytes are too few; pass more or a source that can be read again"
            )
            raise ValueError(message)


def _resumed(path: Path, state: Calibration) -> Calibration:
    try:
        found = Calibration.from_bytes(path.read_bytes())
    except ValueError as error:
        message = f"checkpoint {str(path)!r} cannot be used: {error}"
        raise ValueError(message) from error
    ours, theirs = plan_document(state), plan_document(found)
    names = ("recipe", "alphas", "has_several_alphas", "objective", "seed", "probabilities", "state_bytes")
    for name in names:
        if ours[name] != theirs[name]:
            message = (
                f"checkpoint {str(path)!r} is of a call with other arguments: {name} was {theirs[name]!r}, "
                f"is {ours[name]!r}; remove it to begin anew"
            )
            raise ValueError(message)
    found.n_threads = state.n_threads
    return found


class _Saver:
    """Writes checkpoints, if there is a file for them."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._last = path, time.monotonic()

    def save(self, state: Calibration) -> None:
        if self._path is None:
            return
        with written(self._path) as file:
            file.write(state.to_bytes())
        self._last = time.monotonic()

    def save_sometimes(self, state: Calibration) -> None:
        if self._path is not None and time.monotonic() - self._last > _SECONDS_BETWEEN_CHECKPOINTS:
            self.save(state)

    def on_interrupt(self, state: Calibration) -> _SaveOnError:
        return _SaveOnError(lambda: self.save(state))

    def remove(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class _SaveOnError:
    """Saves when the work inside ends early, for whatever reason."""

    def __init__(self, save: Callable[[], None]) -> None:
        self._save = save

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._save()

"""Saved predictors of the family: the same kind of JSON document as `tightset.document` writes.

The fields of `BlockPredictor`, with what rules add under ``parameters``. Floats are bits beside readable
values, and a SHA-256 covers the whole.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import as_alpha, as_flag, as_integer, as_seed
from tightset.document.envelope import MOST_BYTES, opened, read_bounded, sealed
from tightset.document.fields import (
    as_float,
    as_list,
    as_text,
    check_fields,
    check_generator,
    number_document,
    packed,
    unpacked,
)
from tightset.whole_files import written

if TYPE_CHECKING:
    from tightset.family.block_predictor import BlockPredictor

VERSION = 1

_FIELDS = (
    "format",
    "format_version",
    "tightset",
    "generator",
    "alpha",
    "n_labels",
    "n_calibration",
    "rank",
    "seed",
    "probabilities",
    "uses_row_ids",
    "parameters",
    "sha256",
)


def dumps(predictor: BlockPredictor, *, score_table: bool) -> str:
    """Return the predictor's document as text."""
    document: dict[str, Any] = {
        "format": predictor.FORMAT,
        "format_version": VERSION,
        "tightset": _core.VERSION,
        "generator": _core.GENERATOR,
        "alpha": number_document(predictor.alpha),
        "n_labels": predictor.n_labels,
        "n_calibration": predictor.n_calibration,
        "rank": predictor.rank,
        "seed": predictor.seed,
        "probabilities": predictor.probabilities,
        "uses_row_ids": predictor.uses_row_ids,
        "parameters": predictor.parameters(),
    }
    if score_table:
        if predictor.calibration_scores is None:
            message = "score_table=True needs the calibration scores, which this predictor was loaded without"
            raise ValueError(message)
        document["calibration_scores"] = [packed(row) for row in predictor.calibration_scores]
    return sealed(document)


def loads(text: str | bytes, name: str = "this") -> BlockPredictor:
    """Return the predictor of a document's text; pickles call this and nothing else."""
    from tightset.family.rule_predictor import RulePredictor  # here, for it writes itself by this module

    try:
        return _predictor(opened(text, RulePredictor.FORMAT, VERSION), RulePredictor)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"{name} is not a valid predictor: {error}"
        raise ValueError(message) from error


def _predictor(document: dict[str, Any], kind: type[BlockPredictor]) -> BlockPredictor:
    check_fields(document, "the document", _FIELDS, ("calibration_scores",))
    check_generator(document)
    as_text(document["tightset"], "tightset")
    alpha = as_alpha(as_float(document["alpha"], "alpha"))
    n = as_integer(document["n_calibration"], "n_calibration", 1)
    rank = as_integer(document["rank"], "rank", 1)
    if rank != _core.conformal_rank(n, alpha):
        message = f"rank {rank} does not belong to alpha={alpha} and {n} rows"
        raise ValueError(message)
    table = document.get("calibration_scores")
    predictor = kind.from_parameters(
        document["parameters"],
        alpha=alpha,
        n_labels=as_integer(document["n_labels"], "n_labels", 1, 2**31 - 1),
        n_calibration=n,
        rank=rank,
        seed=as_seed(document["seed"]),
        probabilities=as_flag(document["probabilities"], "probabilities"),
        uses_row_ids=as_flag(document["uses_row_ids"], "uses_row_ids"),
        calibration_scores=None if table is None else _score_table(table, n),
    )
    predictor.check()
    return predictor


def _score_table(document: Any, n: int) -> NDArray[np.float64]:
    rows = [unpacked(row, "calibration_scores") for row in as_list(document, "calibration_scores")]
    if any(len(row) != n for row in rows):
        message = f"calibration_scores must hold {n} numbers for each candidate"
        raise ValueError(message)
    scores = np.stack(rows)
    scores.setflags(write=False)
    return scores


def save(predictor: BlockPredictor, path: str | os.PathLike[str], *, score_table: bool) -> None:
    """Write the predictor's document, whole or not at all."""
    with written(path) as file:
        file.write(dumps(predictor, score_table=score_table).encode())


def load(path: str | os.PathLike[str], *, max_bytes: int = MOST_BYTES) -> BlockPredictor:
    """Return a predictor of the family that its `save` wrote.

    Raises ValueError when the file is not one, was changed since, or holds a value outside its domain. No
    code from the file is run.

    Parameters
    ----------
    path
        The file.
    max_bytes
        Larger files are refused.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> predictor = ts.reweighted.calibrate(rng.normal(size=(50, 3)), rng.integers(3, size=50), 0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     predictor.save(f"{folder}/predictor.json")
    ...     ts.family.load(f"{folder}/predictor.json") == predictor
    True
    """
    return loads(read_bounded(path, max_bytes), str(path))

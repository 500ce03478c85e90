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
from tightset.document.envelope import MOST_BYTES, opened, read_bounded, sealed
from tightset.document.fields import as_list, check_fields, packed, unpacked
from tightset.document.heading import HEADING, heading_document, read_heading
from tightset.whole_files import written

if TYPE_CHECKING:
    from tightset.family.block_predictor import BlockPredictor

VERSION = 1


def dumps(predictor: BlockPredictor, *, score_table: bool) -> str:
    """Return the predictor's document as text."""
    document = heading_document(predictor, predictor.FORMAT, VERSION)
    document["parameters"] = predictor.parameters()
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
    check_fields(document, "the document", (*HEADING, "parameters", "sha256"), ("calibration_scores",))
    heading = read_heading(document)
    alpha, n, rank = (heading[name] for name in ("alpha", "n_calibration", "rank"))
    if rank != _core.conformal_rank(n, alpha):
        message = f"rank {rank} does not belong to alpha={alpha} and {n} rows"
        raise ValueError(message)
    table = document.get("calibration_scores")
    predictor = kind.from_parameters(
        document["parameters"],
        **heading,
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

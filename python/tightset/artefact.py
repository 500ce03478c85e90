"""Predictors as JSON text and files: read whole or refused, written whole or not at all."""

from __future__ import annotations

import os

from tightset.document import from_document, to_document
from tightset.document.canonical import parse
from tightset.document.envelope import MOST_BYTES, read_bounded, written_out
from tightset.predictor import Predictor
from tightset.whole_files import written


def dumps(predictor: Predictor, *, score_table: bool) -> str:
    """Return the predictor's document as text."""
    return written_out(to_document(predictor, score_table=score_table))


def loads(text: str | bytes, name: str = "this") -> Predictor:
    """Return the predictor of a document's text; pickles call this and nothing else."""
    try:
        return from_document(parse(text))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"{name} is not a valid predictor: {error}"
        raise ValueError(message) from error


def save(predictor: Predictor, path: str | os.PathLike[str], *, score_table: bool) -> None:
    """Write the predictor's document, whole or not at all."""
    with written(path) as file:
        file.write(dumps(predictor, score_table=score_table).encode())


def load(path: str | os.PathLike[str], *, max_bytes: int = MOST_BYTES) -> Predictor:
    """Return the predictor that `Predictor.save` wrote; the same version predicts the same bits with it.

    Raises ValueError when the file is not one, was changed since, was made by an incompatible version, or
    holds a value outside its domain. No code from the file is run.

    Parameters
    ----------
    path
        The file.
    max_bytes
        Larger files are refused. A score table has 16 bytes for each row and candidate.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> predictor = ts.calibrate(rng.normal(size=(50, 3)), rng.integers(3, size=50), recipe="aps")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     predictor.save(f"{folder}/predictor.json")
    ...     ts.load(f"{folder}/predictor.json") == predictor
    True
    """
    return loads(read_bounded(path, max_bytes), str(path))

"""Predictors from and to files and pipes."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tightset.artefact import load
from tightset.cli.standard_streams import STANDARD
from tightset.predictor import Predictor
from tightset.whole_files import check_folder


def read_predictor(path: str) -> Predictor:
    """Return the predictor of a file, or of standard input for ``-``."""
    if path != STANDARD:
        if not Path(path).is_file():
            message = f"{path} does not exist" if not Path(path).exists() else f"{path} is not a file"
            raise FileNotFoundError(message)
        return load(path)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "standard-input"
        copy.write_bytes(sys.stdin.buffer.read())
        try:
            return load(copy)
        except ValueError as error:
            message = str(error).replace(str(copy), "standard input")
            raise ValueError(message) from error


def check_destination(path: str) -> None:
    """Refuse a destination that could not be written, before work is spent on it."""
    if path != STANDARD:
        check_folder(Path(path))


def write_predictor(predictor: Predictor, path: str, *, score_table: bool) -> None:
    """Write the predictor, whole or not at all."""
    if path != STANDARD:
        predictor.save(path, score_table=score_table)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "predictor.json"
        predictor.save(copy, score_table=score_table)
        sys.stdout.write(copy.read_text(encoding="utf-8"))


def has_law(predictor: Predictor) -> bool:
    """Whether marginal coverage follows the beta law of its rank, over calibrations.

    Not with selection on the rows that calibrate, with thresholds of several cells, or with a higher rank.
    """
    is_fixed = predictor.recipe.selection in (None, "held-out")
    return is_fixed and predictor.condition is None and predictor.guarantee == "marginal"

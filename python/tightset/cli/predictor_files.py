"""Predictors from and to files and pipes."""

from __future__ import annotations

import sys
from pathlib import Path

from tightset.artefact import load, loads
from tightset.cli.input_files import check_is_file
from tightset.cli.standard_streams import STANDARD
from tightset.document.envelope import MOST_BYTES, read_up_to
from tightset.predictor import Predictor
from tightset.whole_files import check_folder


def read_predictor(path: str) -> Predictor:
    """Return the predictor of a file, or of standard input for ``-``."""
    if path != STANDARD:
        check_is_file(path)
        return load(path)
    name = "standard input"
    return loads(read_up_to(MOST_BYTES, sys.stdin.buffer, name), name)


def check_destination(path: str) -> None:
    """Refuse a destination that could not be written, before work is spent on it."""
    if path != STANDARD:
        check_folder(Path(path))


def write_predictor(predictor: Predictor, path: str, *, score_table: bool) -> None:
    """Write the predictor, whole or not at all."""
    if path != STANDARD:
        predictor.save(path, score_table=score_table)
        return
    sys.stdout.write(predictor.to_json(score_table=score_table))

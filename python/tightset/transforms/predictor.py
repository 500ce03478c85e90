"""A predictor whose rows go through fitted transforms first."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._float_rows import as_log_values
from tightset._inputs import ArrayLike, as_flag, as_integer, as_labels, as_logits, as_row_ids
from tightset.document import from_document
from tightset.document.envelope import MOST_BYTES, opened, read_bounded, sealed
from tightset.document.fields import check_fields
from tightset.predictor import Predictor
from tightset.sets import PredictionSets, joined
from tightset.transforms.files import chain_document, chain_from_document
from tightset.transforms.transform import Transform, row_blocks
from tightset.whole_files import written

FORMAT = "tightset-transformed-predictor"
VERSION = 1


@dataclass(frozen=True, slots=True)
class TransformedPredictor:
    """A calibrated predictor of transformed logits: immutable, and a row's set is the same in any batch.

    Made by `tightset.transforms.calibrate`. For rows exchangeable with the calibration rows, a set contains
    the label with probability at least 1 - alpha, as the recipe of `predictor` has it: the transforms were
    fitted on other rows, so they are fixed functions here.

    Attributes
    ----------
    chain
        The fitted transforms, in the order they are applied.
    predictor
        What was calibrated on transformed logits.
    probabilities
        Whether rows hold probabilities instead of logits.
    n_tuning
        Rows that the transforms were fitted on.
    """

    chain: tuple[Transform, ...]
    predictor: Predictor
    probabilities: bool
    n_tuning: int

    def __post_init__(self) -> None:
        if self.predictor.probabilities:
            message = "the predictor of transformed logits must read logits"
            raise ValueError(message)

    @property
    def alpha(self) -> float:
        """Miscoverage level."""
        return self.predictor.alpha

    @property
    def n_labels(self) -> int:
        """K, the number of labels."""
        return self.predictor.n_labels

    @property
    def n_calibration(self) -> int:
        """Rows that set the threshold."""
        return self.predictor.n_calibration

    def predict_set(
        self,
        logits: ArrayLike,
        *,
        allow_empty: bool = True,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> PredictionSets:
        """Return the prediction set of each row, with the parameters of `Predictor.predict_set`."""
        parts = (
            self.predictor.predict_set(rows, allow_empty=allow_empty, row_ids=ids, n_threads=n_threads)
            for rows, ids in self._transformed(logits, row_ids)
        )
        return joined(parts, self.n_labels)

    def predict_p(
        self,
        logits: ArrayLike,
        *,
        smoothed: bool = False,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> NDArray[np.float64]:
        """Return the conformal p-value of every label, shape (n, K), as `Predictor.predict_p` does."""
        parts = [np.zeros((0, self.n_labels))]
        for rows, ids in self._transformed(logits, row_ids):
            parts.append(self.predictor.predict_p(rows, smoothed=smoothed, row_ids=ids, n_threads=n_threads))
        return np.concatenate(parts)

    def scores(
        self,
        logits: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> NDArray[np.float64]:
        """Return ranked scores of the given labels, shape (n,), or of all, shape (n, K).

        With one candidate in use, a label is in its row's set exactly when its score is at most
        ``predictor.threshold``.
        """
        if labels is None:
            found = [
                self.predictor.scores(rows, row_ids=ids, n_threads=n_threads)
                for rows, ids in self._transformed(logits, row_ids)
            ]
            return np.concatenate([np.zeros((0, self.n_labels)), *found])
        array = as_logits(logits, n_labels=self.n_labels, one_row=True)
        truth = as_labels(labels, len(array))
        _core.ranks(array, truth, probabilities=self.probabilities)
        found, start = [], 0
        for rows, ids in self._transformed(array, row_ids):
            part = truth[start : start + len(rows)]
            start += len(rows)
            found.append(self.predictor.scores(rows, part, row_ids=ids, n_threads=n_threads))
        return np.concatenate([np.zeros(0), *found])

    def _transformed(
        self, logits: ArrayLike, row_ids: ArrayLike | None
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.uint64] | None]]:
        """Yield transformed rows and their ids, a block at a time, after all rows were looked at."""
        array = as_logits(logits, n_labels=self.n_labels, one_row=True)
        _core.uncertainty(array, "entropy", probabilities=self.probabilities)
        ids = as_row_ids(row_ids, len(array))  # the predictor knows whether it needs them
        for place in row_blocks(array):
            rows = transformed(self.chain, array[place], probabilities=self.probabilities, first=place.start)
            yield rows, None if ids is None else ids[place]

    def save(self, path: str | os.PathLike[str], *, score_table: bool = False) -> None:
        """Write transforms and predictor to one JSON file, whole or not at all; `load_predictor` reads it."""
        with written(path) as file:
            file.write(self.to_json(score_table=score_table).encode())

    def to_json(self, *, score_table: bool = False) -> str:
        """Return what `save` writes."""
        return sealed(
            {
                "format": FORMAT,
                "format_version": VERSION,
                "tightset": _core.VERSION,
                "probabilities": self.probabilities,
                "n_tuning": self.n_tuning,
                "transforms": chain_document(self.chain),
                "predictor": json.loads(self.predictor.to_json(score_table=score_table)),
            }
        )

    def __reduce__(self) -> tuple[Callable[[str], TransformedPredictor], tuple[str]]:
        return loads, (self.to_json(score_table=self.predictor.calibration_scores is not None),)


def transformed(
    chain: tuple[Transform, ...], rows: NDArray[Any], *, probabilities: bool, first: int = 0
) -> NDArray[np.float64]:
    """Return rows that were checked, as logits after each transform of the chain."""
    found = as_log_values(rows, probabilities=probabilities)
    for transform in chain:
        found = transform.applied(found, first)
    return found


def loads(text: str | bytes, name: str = "this") -> TransformedPredictor:
    """Return the predictor of a document's text; pickles call this and nothing else."""
    fields = (
        "format",
        "format_version",
        "tightset",
        "probabilities",
        "n_tuning",
        "transforms",
        "predictor",
        "sha256",
    )
    try:
        document = opened(text, FORMAT, VERSION)
        check_fields(document, "the document", fields)
        predictor = from_document(document["predictor"])
        chain = chain_from_document(document["transforms"])
        for transform in chain:
            transform.check_labels(predictor.n_labels)
        return TransformedPredictor(
            chain=chain,
            predictor=predictor,
            probabilities=as_flag(document["probabilities"], "probabilities"),
            n_tuning=as_integer(document["n_tuning"], "n_tuning", 0),
        )
    except (TypeError, ValueError, RecursionError) as error:
        message = f"{name} is not a valid predictor: {error}"
        raise ValueError(message) from error


def load_predictor(path: str | os.PathLike[str], *, max_bytes: int = MOST_BYTES) -> TransformedPredictor:
    """Return the predictor that `TransformedPredictor.save` wrote.

    Raises ValueError when the file is not one, was changed since, or holds a value outside its domain. No
    code from the file is run.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> logits, labels = rng.normal(size=(80, 3)), rng.integers(3, size=80)
    >>> predictor = ts.transforms.calibrate(logits, labels, 0.1, "aps", transform="temperature-nll")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     predictor.save(f"{folder}/predictor.json")
    ...     ts.transforms.load_predictor(f"{folder}/predictor.json") == predictor
    True
    """
    return loads(read_bounded(path, max_bytes), str(path))

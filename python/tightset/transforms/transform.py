"""What all transforms of logits share: settings, a fit that returns a new one, and documents."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._float_rows import as_log_values
from tightset._inputs import ArrayLike, as_flag, as_labels, as_logits
from tightset.document.fields import as_float, check_fields, number_document, packed, unpacked

_BLOCK_CELLS = 2**18


@dataclass(frozen=True, slots=True)
class Transform(ABC):
    """A map from rows of logits to rows of logits, fitted on labelled rows and fixed from then on.

    `fit` returns a fitted copy; nothing changes one. A row's result depends on that row alone. Labels with
    logit ``-inf`` cannot occur, before and after. Rows that a transform was fitted on must not calibrate a
    predictor of transformed logits: `tightset.transforms.calibrate` sees to that.
    """

    kind: ClassVar[str]
    """Its name in documents."""

    fitted: ClassVar[tuple[str, ...]]
    """Fields that `fit` fills; None until then."""

    def fit(self, logits: ArrayLike, labels: ArrayLike, *, probabilities: bool = False) -> Self:
        """Return a fitted copy.

        Parameters
        ----------
        logits
            Array of shape (n, K), n at least 2. Rows whose label is marked impossible are left out.
        labels
            Integers of shape (n,).
        probabilities
            Whether `logits` holds probabilities instead.
        """
        array = as_logits(logits)
        truth = as_labels(labels, len(array))
        is_probability = as_flag(probabilities, "probabilities")
        _core.ranks(array, truth, probabilities=is_probability)  # refuses what cannot be read
        values = as_log_values(array, probabilities=is_probability)
        possible = np.isfinite(values[np.arange(len(values)), truth])
        if possible.sum() < 2:
            message = f"logits must have at least 2 rows whose label is possible, got {possible.sum()}"
            raise ValueError(message)
        return self._fit(values[possible], truth[possible])

    @abstractmethod
    def _fit(self, logits: NDArray[np.float64], labels: NDArray[np.int64]) -> Self:
        """Return a copy fitted on rows that were checked, labels possible."""

    @abstractmethod
    def _apply(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return transformed rows; ``-inf`` may come out as anything."""

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` made it."""
        return all(getattr(self, name) is not None for name in self.fitted)

    def apply(self, logits: ArrayLike, *, probabilities: bool = False) -> NDArray[np.float64]:
        """Return the transformed logits, float64 of shape (n, K); one row of K gives one row."""
        self._check_fitted()
        array = as_logits(logits, one_row=True)
        is_probability = as_flag(probabilities, "probabilities")
        _core.uncertainty(array, "entropy", probabilities=is_probability)
        found = np.empty(array.shape)
        for place in row_blocks(array):
            values = as_log_values(array[place], probabilities=is_probability)
            found[place] = self.applied(values, first=place.start)
        return found

    def applied(self, logits: NDArray[np.float64], first: int = 0) -> NDArray[np.float64]:
        """Return transformed rows of logits that were checked; `first` is the row that errors count from."""
        self.check_labels(logits.shape[1])
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = np.where(np.isneginf(logits), -np.inf, self._apply(logits))
        broken = ~np.isfinite(found) & np.isfinite(logits)
        if broken.any():
            row, column = (int(place[0]) for place in np.nonzero(broken))
            message = (
                f"logits are too large for {self.kind}: {logits[row, column]} at row {first + row}, column "
                f"{column} became {found[row, column]}"
            )
            raise ValueError(message)
        return found

    def _check_fitted(self) -> None:
        if not self.is_fitted:
            message = (
                f"{type(self).__name__} is not fitted: call fit(logits, labels), which returns a fitted one"
            )
            raise ValueError(message)

    @property
    def n_labels(self) -> int | None:
        """Labels that rows must have: as in the fit where each has its own parameters, else any number."""
        return None

    def check_labels(self, n_labels: int) -> None:
        """Refuse rows of another number of labels."""
        if self.n_labels is not None and n_labels != self.n_labels:
            message = f"logits must have {self.n_labels} labels as in fit, got {n_labels}"
            raise ValueError(message)

    def to_document(self) -> dict[str, Any]:
        """Return the transform as JSON holds it."""
        self._check_fitted()
        document: dict[str, Any] = {"kind": self.kind}
        for f in fields(self):
            document[f.name] = _value_document(getattr(self, f.name))
        return document

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Return the transform that JSON holds."""
        names = [f.name for f in fields(cls)]
        check_fields(document, "a transform", ("kind", *names))
        found = cls(**{name: _value(document[name], name) for name in names})
        if not found.is_fitted:
            message = f"{found.kind} is not fitted"
            raise ValueError(message)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted transform to a JSON file, whole or not at all; `load` reads it."""
        from tightset.transforms.files import save

        save(self, path)


def _value_document(value: Any) -> Any:
    if isinstance(value, float):
        return number_document(value)
    if isinstance(value, tuple):
        if value and isinstance(value[0], tuple):
            return [_value_document(part) for part in value]
        return {"numbers": packed(np.array(value, dtype=np.float64))}
    return value


def _value(document: Any, name: str) -> Any:
    if isinstance(document, list):
        return tuple(_value(part, name) for part in document)
    if isinstance(document, dict):
        if set(document) == {"numbers"}:
            return tuple(unpacked(document["numbers"], name).tolist())
        return as_float(document, name)
    return document


def row_blocks(array: NDArray[Any]) -> Iterator[slice]:
    """Yield the places of blocks of rows that are small enough to copy."""
    step = max(1, _BLOCK_CELLS // array.shape[1])
    yield from (slice(a, b) for a, b in pairwise([*range(0, len(array), step), len(array)]))


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log f of each row."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    found: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return found


def mean_over(weights: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of each row's values by weights, where a weight of 0 takes out even infinity."""
    found: NDArray[np.float64] = np.where(weights > 0, weights * np.where(weights > 0, values, 0.0), 0.0).sum(
        axis=1
    )
    return found

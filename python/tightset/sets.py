"""Prediction sets as compressed rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tightset import _core, set_frames
from tightset._inputs import ArrayLike, as_labels, check_columns


class PredictionSets:
    """One set of labels for each row, as `predict_set` returns them.

    Attributes
    ----------
    indptr
        int64 of shape (n + 1,): row i's labels are ``indices[indptr[i]:indptr[i + 1]]``.
    indices
        int32: labels by falling probability.
    n_labels
        K.
    label_names
        What the labels are called, shape (K,), or None.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> sets = ts.PredictionSets(np.array([0, 2, 2]), np.array([1, 0], np.int32), n_labels=3)
    >>> sets.sizes, sets[0], sets.covers([0, 0])
    (array([2, 0]), array([1, 0], dtype=int32), array([ True, False]))
    """

    def __init__(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        n_labels: int,
        label_names: ArrayLike | None = None,
    ) -> None:
        self.indptr = indptr
        self.indices = indices
        self.n_labels = n_labels
        self.label_names = None if label_names is None else set_frames.as_label_names(label_names, n_labels)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of labels in each set, shape (n,)."""
        return np.diff(self.indptr)

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """Membership as a boolean array of shape (n, K)."""
        return _core.mask(self.indptr, self.indices, self.n_labels)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @overload
    def __getitem__(self, row: int) -> NDArray[np.int32]: ...
    @overload
    def __getitem__(self, row: slice | NDArray[Any] | list[int] | list[bool]) -> PredictionSets: ...
    def __getitem__(
        self, row: int | slice | NDArray[Any] | list[int] | list[bool]
    ) -> NDArray[np.int32] | PredictionSets:
        """Return the labels of one row, or the sets of some rows, chosen as from an array."""
        if not isinstance(row, (slice, np.ndarray, list)):
            n = len(self)
            if not -n <= row < n:
                message = f"row must be between {-n} and {n - 1}, got {row}"
                raise IndexError(message)
            row %= n
            return self.indices[self.indptr[row] : self.indptr[row + 1]]
        rows = np.arange(len(self))[row]
        sizes = self.sizes[rows]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        # Each label's place: its row's start, and how far into the row it is.
        inside = np.arange(indptr[-1]) - np.repeat(indptr[:-1], sizes)
        indices = self.indices[np.repeat(self.indptr[rows], sizes) + inside]
        return PredictionSets(indptr, indices, self.n_labels, self.label_names)

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PredictionSets):
            return NotImplemented
        return (
            self.n_labels == other.n_labels
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        mean = f", mean size {self.sizes.mean():.3f}" if len(self) else ""
        return f"PredictionSets({len(self)} rows, {self.n_labels} labels{mean})"

    def covers(self, labels: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each row's set contains its label."""
        truth = as_labels(labels, len(self))
        check_columns(truth, self.n_labels)
        rows = np.repeat(np.arange(len(self)), self.sizes)
        covered = np.zeros(len(self), dtype=np.bool_)
        covered[rows[self.indices == truth[rows]]] = True
        return covered

    def coverage(self, labels: ArrayLike) -> float:
        """Return the share of rows whose set contains the label."""
        if not len(self):
            message = "coverage needs at least one row, got 0"
            raise ValueError(message)
        return float(self.covers(labels).mean())

    def with_names(self, label_names: ArrayLike | None) -> PredictionSets:
        """Return the same sets, whose labels have these names; None leaves them as they are.

        Examples
        --------
        >>> import numpy as np
        >>> import tightset as ts
        >>> sets = ts.PredictionSets(np.array([0, 2, 2]), np.array([1, 0], np.int32), n_labels=2)
        >>> sets.with_names(["cat", "dog"]).to_pandas()
               labels  size
        0  [dog, cat]     2
        1          []     0
        """
        if label_names is None:
            return self
        return PredictionSets(self.indptr, self.indices, self.n_labels, label_names)

    def to_pandas(
        self, label_names: ArrayLike | None = None, *, wide: bool = False, index: Any = None
    ) -> Any:
        """Return a pandas DataFrame with a row for each set.

        Parameters
        ----------
        label_names
            Names of the labels, shape (K,); by default those that the sets have, or numbers.
        wide
            Whether to give a boolean column for each label, instead of the columns ``labels``, a list by
            falling probability, and ``size``.
        index
            Index of the frame.
        """
        return set_frames.to_pandas(self.with_names(label_names), wide=wide, index=index)

    def to_polars(self, label_names: ArrayLike | None = None, *, wide: bool = False) -> Any:
        """Return a polars DataFrame with a row for each set, as `to_pandas` does."""
        return set_frames.to_polars(self.with_names(label_names), wide=wide)

    def to_arrow(self, label_names: ArrayLike | None = None) -> Any:
        """Return a pyarrow array of lists, which shares the memory of the labels.

        With names, the lists hold a dictionary type.
        """
        return set_frames.to_arrow(self.with_names(label_names))

    def to_torch(self) -> Any:
        """Return the mask as a boolean torch tensor of shape (n, K) on the CPU."""
        return set_frames.to_torch(self)


def joined(parts: Iterable[PredictionSets], n_labels: int) -> PredictionSets:
    """Return the sets of consecutive blocks of rows as those of all rows."""
    sizes, labels = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int32)]
    for part in parts:
        sizes.append(part.sizes)
        labels.append(part.indices)
    return PredictionSets(np.cumsum(np.concatenate(sizes)), np.concatenate(labels), n_labels)

"""What predictors share whose sets are decided block by block, from arrays of shape (rows, K)."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import ArrayLike, as_flag, as_logits, check_as_in_calibration
from tightset.family import documents
from tightset.family.block_rows import Block, BlockRows
from tightset.sets import PredictionSets


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPredictor(ABC):
    """A calibrated predictor: immutable, and a row's set is the same alone and in any batch.

    A kind of predictor says which labels of a block are in their sets (`members`), their p-values
    (`p_values`), and what a file keeps of it (`parameters`, `from_parameters`). What each of them promises
    is in its own class.

    Attributes
    ----------
    alpha
        Miscoverage level.
    n_labels
        K, the number of labels.
    n_calibration
        Rows that set the threshold.
    rank
        Which of their scores, in order, the threshold is; above `n_calibration` it is infinite.
    seed, probabilities, uses_row_ids
        How rows are read, as in calibration.
    calibration_scores
        Sorted scores of the calibration labels, a row for each candidate in use; None if it was saved
        without them.
    """

    FORMAT: ClassVar[str]

    alpha: float
    n_labels: int
    n_calibration: int
    rank: int
    seed: int
    probabilities: bool
    uses_row_ids: bool
    calibration_scores: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)

    @abstractmethod
    def members(self, block: Block) -> NDArray[np.bool_]:
        """Return which labels are in the set of each row of the block, shape (b, K)."""

    @abstractmethod
    def p_values(self, block: Block) -> NDArray[np.float64]:
        """Return the p-value of every label of each row of the block, shape (b, K)."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return what a document keeps beside the fields that all kinds share."""

    @classmethod
    @abstractmethod
    def from_parameters(cls, document: Any, **shared: Any) -> Self:
        """Return the predictor of a document's parameters and the fields that all kinds share."""

    @abstractmethod
    def checked_given(self, given: ArrayLike | None, n_rows: int) -> NDArray[Any] | None:
        """Return what is given beside the logits, one entry a row, or None where nothing is needed."""

    @abstractmethod
    def check(self) -> None:
        """Refuse fields that do not belong together, as a document may have them."""

    def predict_set(
        self,
        logits: ArrayLike,
        given: ArrayLike | None = None,
        *,
        allow_empty: bool = True,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> PredictionSets:
        """Return the prediction set of each row.

        A set contains the label of a row exchangeable with the calibration rows with probability at
        least 1 - alpha.

        Parameters
        ----------
        logits
            Array of shape (n, K), or one row of shape (K,).
        given
            What the score needs of each row beside its logits, exactly when calibration had it.
        allow_empty
            Whether a set may be empty; if not, such a set holds the top label, which only adds coverage.
        row_ids
            Required exactly when calibration had them.
        n_threads
            Threads to use at most.
        """
        fill = not as_flag(allow_empty, "allow_empty")
        rows = self._rows(logits, given, row_ids, n_threads)
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        parts = [np.zeros(0, dtype=np.int32)]
        for place, block in rows.blocks():
            found = self.members(block)
            if fill:
                empty = np.flatnonzero(~found.any(axis=1))
                found[empty, block.top_labels()[empty]] = True
            indptr[place.start + 1 : place.stop + 1] = found.sum(axis=1)
            parts.append(block.in_order(found))
        return PredictionSets(np.cumsum(indptr), np.concatenate(parts), self.n_labels)

    def predict_p(
        self,
        logits: ArrayLike,
        given: ArrayLike | None = None,
        *,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> NDArray[np.float64]:
        """Return the conformal p-value of every label, shape (n, K).

        Labels above alpha, but for the rounding of p, are those of the set. Parameters are those of
        `predict_set`.
        """
        if self.calibration_scores is None:
            message = "p-values need the calibration scores: save with score_table=True to keep them"
            raise ValueError(message)
        rows = self._rows(logits, given, row_ids, n_threads)
        found = np.empty(rows.logits.shape)
        for place, block in rows.blocks():
            found[place] = self.p_values(block)
        return found

    def _rows(
        self, logits: ArrayLike, given: ArrayLike | None, row_ids: ArrayLike | None, n_threads: int | None
    ) -> BlockRows:
        check_as_in_calibration(row_ids, "row_ids", had=self.uses_row_ids)
        array = as_logits(logits, n_labels=self.n_labels, one_row=True)
        return BlockRows.read(
            array,
            row_ids=row_ids,
            given=self.checked_given(given, len(array)),
            seed=self.seed,
            probabilities=self.probabilities,
            n_threads=n_threads,
            stacklevel=3,
        )

    def save(self, path: str | os.PathLike[str], *, score_table: bool = False) -> None:
        """Write the predictor to a JSON file, whole or not at all; `tightset.family.load` reads it.

        Parameters
        ----------
        path
            The file, replaced if it exists.
        score_table
            Whether to keep the calibration scores, 16 bytes each, which `predict_p` needs.
        """
        documents.save(self, path, score_table=as_flag(score_table, "score_table"))

    def to_json(self, *, score_table: bool = False) -> str:
        """Return what `save` writes."""
        return documents.dumps(self, score_table=as_flag(score_table, "score_table"))

    def __reduce__(self) -> tuple[Callable[[str], BlockPredictor], tuple[str]]:
        return documents.loads, (self.to_json(score_table=self.calibration_scores is not None),)

    def __copy__(self) -> Self:
        return self  # nothing in it can change

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

"""The models of a service by name, and their exchange for new files."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightset.artefact import load
from tightset.predictor import Predictor
from tightset.service.refusals import Refusal


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A predictor in service; a reload makes a new one and leaves this as it is.

    Attributes
    ----------
    version
        Start of the SHA-256 of the predictor's document.
    """

    name: str
    predictor: Predictor
    version: str
    loaded_at: float

    @property
    def is_trivial(self) -> bool:
        """Whether every set holds all labels, because calibration had too few rows."""
        condition = self.predictor.condition
        cells = (self.predictor,) if condition is None else condition.cells
        return all(c.threshold == math.inf for cell in cells for c in cell.candidates)

    def described(self) -> dict[str, Any]:
        """Return what there is to know of it; thresholds of +inf, which JSON lacks, are None.

        Those of a condition's cells, which may be as many as labels, are not listed.
        """
        p = self.predictor
        return {
            "name": self.name,
            "version": self.version,
            "loaded_at": self.loaded_at,
            "alpha": p.alpha,
            "n_labels": p.n_labels,
            "n_calibration": p.n_calibration,
            "probabilities": p.probabilities,
            "uses_row_ids": p.uses_row_ids,
            "trivial": self.is_trivial,
            "condition": None if p.condition is None else p.condition.kind,
            "candidates": [
                {
                    "scoring": str(c.scoring),
                    "threshold": c.threshold if math.isfinite(c.threshold) else None,
                }
                for c in p.candidates
            ],
            "label_names": None if p.label_names is None else list(p.label_names),
        }


def load_model(name: str, path: str, *, max_labels: int) -> Model:
    """Return the model of a file that is whole, small enough and has predicted a row."""
    predictor = load(path)
    if predictor.n_labels > max_labels:
        message = f"{path} has {predictor.n_labels} labels, more than the limit of {max_labels}"
        raise ValueError(message)
    if predictor.condition is not None and predictor.condition.kind == "groups":
        message = f"{path} was calibrated by groups, which requests have no place for"
        raise ValueError(message)
    _try_a_row(predictor, path)
    text = predictor.to_json(score_table=predictor.calibration_scores is not None)
    version = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Model(name, predictor, version, time.time())


def _try_a_row(predictor: Predictor, path: str) -> None:
    """Predict a row and hold the set against its definition, before anything is served."""
    row = np.linspace(1.0, 0.0, predictor.n_labels, dtype=np.float32)
    if predictor.probabilities:
        row /= row.sum()
    ids = [0] if predictor.uses_row_ids else None
    sets = predictor.predict_set(row, row_ids=ids)
    if len(predictor.candidates) != 1:
        return
    expected = np.flatnonzero(predictor.scores(row, row_ids=ids)[0] <= predictor.threshold)
    if not np.array_equal(np.sort(sets[0]), expected):
        message = f"{path} does not predict as defined: {sets.sizes[0]} labels where {len(expected)} conform"
        raise ValueError(message)


class Models:
    """Models by name. A request holds on to the one it began with."""

    def __init__(self, files: Mapping[str, str], *, max_labels: int) -> None:
        self._files = dict(files)
        self._max_labels = max_labels
        self._models = {name: load_model(name, path, max_labels=max_labels) for name, path in files.items()}
        self.failures: dict[str, str] = {}

    def __iter__(self) -> Any:
        return iter(self._models.values())

    @property
    def default(self) -> Model:
        """The first one."""
        return next(iter(self._models.values()))

    def find(self, name: str | None) -> Model:
        """Return the model of this name, or the default for None."""
        if name is None:
            return self.default
        found = self._models.get(name)
        if found is None:
            known = ", ".join(self._models)
            message = f"model must be one of {known}, got {name[:80]!r}"
            raise Refusal("model_unknown", message)
        return found

    def read_again(self) -> tuple[dict[str, Model], dict[str, str]]:
        """Read all files; return the models that changed, and what is wrong with files that stay unused."""
        changed, failures = {}, {}
        for name, path in self._files.items():
            try:
                model = load_model(name, path, max_labels=self._max_labels)
            except (ValueError, TypeError, OSError) as error:
                failures[name] = str(error)
                continue
            if model.version != self._models[name].version:
                changed[name] = model
        return changed, failures

    def exchange(self, changed: Mapping[str, Model], failures: Mapping[str, str]) -> None:
        """Put the changed models in place, in one step."""
        self._models = {**self._models, **changed}
        self.failures = dict(failures)

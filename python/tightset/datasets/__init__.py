"""Logits of real classifiers on real test sets, small enough to come with the package.

No row was used in training, and the rows are in random order, so any slice is a sample of them:

>>> import tightset as ts
>>> data = ts.datasets.load("fashion-mnist")
>>> predictor = ts.calibrate(data.logits[:5000], data.labels[:5000], alpha=0.1, recipe="thr")
>>> sets = predictor.predict_set(data.logits[5000:])
>>> 0.88 < sets.coverage(data.labels[5000:]) < 0.92
True

Each data set has a card, which says where the data are from, under which licence, and how the classifier was
trained. The scripts that made the files are in the folder `experiments` of the project's sources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import check_choice

__all__ = ["Dataset", "load", "names"]

_FOLDER = Path(__file__).parent
_NAMES = ("mnist", "fashion-mnist", "ag-news", "carer")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Held-out logits and labels of one classifier.

    Attributes
    ----------
    name
        What `load` knows it by.
    logits
        One row for each image or text, float32 (n, K), read-only.
    labels
        The true labels, int64 (n,), read-only.
    label_names
        What the labels 0 to K - 1 stand for.
    card
        Source, licence, model, training and the command that made the file, with `accuracy`,
        `mean_confidence` (of the softmax's largest probability), `n` and `k`.
    """

    name: str
    logits: NDArray[np.float32] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    label_names: tuple[str, ...]
    card: Mapping[str, Any] = field(repr=False)


def names() -> tuple[str, ...]:
    """Names of the data sets that `load` knows.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> import tightset as ts
    >>> ts.datasets.names()
    ('mnist', 'fashion-mnist', 'ag-news', 'carer')
    """
    return _NAMES


def load(name: str) -> Dataset:
    """Read one of the data sets that come with the package.

    Parameters
    ----------
    name
        One of `names()`.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If there is no data set of this name.

    Examples
    --------
    >>> import tightset as ts
    >>> data = ts.datasets.load("mnist")
    >>> data.logits.shape, data.labels.shape, data.label_names[:3]
    ((10000, 10), (10000,), ('0', '1', '2'))
    >>> data.card["title"]
    'MNIST: handwritten digits'
    >>> data.card["accuracy"]
    0.9844
    """
    check_choice(name, "name", _NAMES)
    card = json.loads((_FOLDER / "cards" / f"{name}.json").read_text(encoding="utf-8"))
    with np.load(_FOLDER / f"{name}.npz", allow_pickle=False) as arrays:
        logits = arrays["logits"]
        labels = arrays["labels"].astype(np.int64)
    logits.flags.writeable = False
    labels.flags.writeable = False
    label_names = tuple(card.pop("label_names"))
    return Dataset(name, logits, labels, label_names, MappingProxyType(card))

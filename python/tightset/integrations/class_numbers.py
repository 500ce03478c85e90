"""Class labels of any kind as numbers of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def class_numbers(classes: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return each label's place among the classes, in any order, and whether it is none of them.

    Examples
    --------
    >>> import numpy as np
    >>> class_numbers(np.array(["b", "a"]), np.array(["a", "b", "c"]))
    (array([1, 0, 0]), array([False, False,  True]))
    """
    order = np.argsort(classes)
    places = np.minimum(np.searchsorted(classes, labels, sorter=order), len(classes) - 1)
    numbers = order[places]
    return numbers, classes[numbers] != labels

"""The workloads: their shapes and their logits."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

SHAPES = {
    "A": (50_000, 1000),
    "B": (1_000_000, 10),
    "C": (200_000, 100),
    "D": (2_000, 128_000),
    "small": (10_000, 100),
    "large": (1_000_000, 100),
}


def title(name):
    """Return how tables name a workload, such as "A, 50,000 x 1000"."""
    n, k = SHAPES[name]
    letter = f"{name}, " if len(name) == 1 else ""
    return f"{letter}{n:,} x {k:,}" if k >= 10_000 else f"{letter}{n:,} x {k}"


@lru_cache(maxsize=2)
def workload(name):
    """Logits and labels of a named workload; the last two are kept."""
    return logits_and_labels(*SHAPES[name])


def logits_and_labels(n, k, seed=0):
    """A few strong labels and a long tail, float32: three of four labels are the top one."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((n, k), dtype=np.float32)
    labels = rng.integers(k, size=n)
    strong = rng.integers(k, size=(n, 3))
    strong[:, 0] = labels
    gains = 6 + 6 * rng.random((n, 3), dtype=np.float32)
    gains[:, 1:] -= 3
    np.put_along_axis(logits, strong, np.take_along_axis(logits, strong, 1) + gains, 1)
    return logits, labels


def in_layout(logits, layout):
    """Return the logits in another dtype, or in Fortran order."""
    if layout == "fortran":
        return np.asfortranarray(logits)
    if layout == "bfloat16":
        import ml_dtypes

        return logits.astype(ml_dtypes.bfloat16)
    return logits.astype(layout)

"""Minimising a smooth function of a few numbers, without SciPy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Objective: TypeAlias = Callable[[Vector], tuple[float, Vector]]

_MEMORY = 10
_SUFFICIENT = 1e-4
"""Share of the decrease that the slope promises which a step must bring (Armijo)."""


def minimise(objective: Objective, start: Vector, *, max_steps: int, tolerance: float = 1e-8) -> Vector:
    """Return where limited-memory BFGS (Nocedal & Wright, algorithm 7.5) ends from a start.

    Steps are halved until they bring enough; it ends when the gradient is below the tolerance, when no step
    brings enough, or after `max_steps`.
    """
    x = start.astype(np.float64)
    value, gradient = objective(x)
    pairs: deque[tuple[Vector, Vector, float]] = deque(maxlen=_MEMORY)
    for _ in range(max_steps):
        if np.abs(gradient).max() < tolerance:
            break
        direction = -_inverse_hessian_times(gradient, pairs)
        slope = float(gradient @ direction)
        if slope >= 0.0:  # rounding has spoilt the pairs
            pairs.clear()
            direction, slope = -gradient, -float(gradient @ gradient)
        size = 1.0 if pairs else min(1.0, 1.0 / float(np.abs(gradient).sum()))
        for _ in range(40):
            ahead = x + size * direction
            ahead_value, ahead_gradient = objective(ahead)
            if ahead_value <= value + _SUFFICIENT * size * slope:
                break
            size /= 2.0
        else:
            break
        step, change = ahead - x, ahead_gradient - gradient
        curvature = float(step @ change)
        if curvature > 1e-12 * float(change @ change):
            pairs.append((step, change, curvature))
        x, value, gradient = ahead, ahead_value, ahead_gradient
    return x


def _inverse_hessian_times(gradient: Vector, pairs: deque[tuple[Vector, Vector, float]]) -> Vector:
    found, shares = gradient.copy(), []
    for step, change, curvature in reversed(pairs):
        share = float(step @ found) / curvature
        shares.append(share)
        found -= share * change
    if pairs:
        _, change, curvature = pairs[-1]
        found *= curvature / float(change @ change)
    for (step, change, curvature), share in zip(pairs, reversed(shares), strict=True):
        found += (share - float(change @ found) / curvature) * step
    return found

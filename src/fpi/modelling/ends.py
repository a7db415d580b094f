"""Where episodes end: the simplest rule that no visit contradicts.

Thresholds on single coordinates, else the sign of a quadratic function, else whether the nearest state seen is an end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fpi.kernels.windows import Ends
from fpi.modelling.calls import separate
from fpi.modelling.known import make_net

Floats = NDArray[np.float64]

MOST_POINTS = 400
PASSES = 300


def fit_ends(ends: Floats, rewards: Floats, others: Floats) -> Ends:
    """The rule for the ends (rows) and the states that were none."""
    nothing = np.empty(0, np.int64), np.empty(0), np.empty(0)
    plain = np.empty(0)
    points = np.ascontiguousarray(np.concatenate([ends, make_net(others, 0.3, MOST_POINTS)[0]]).T)
    if not len(ends):
        return Ends(*nothing, plain, np.ascontiguousarray(points), 0, False, np.zeros(1))
    rules = _thresholds(ends, others)
    if rules is not None:
        return Ends(*rules, plain, points, len(ends), False, rewards)
    curve = separate(_products(ends), _products(others), PASSES)
    if curve.size:
        return Ends(*nothing, curve, points, len(ends), False, rewards)
    return Ends(*nothing, plain, points, len(ends), True, rewards)


def _thresholds(ends: Floats, others: Floats) -> tuple[NDArray[np.int64], Floats, Floats] | None:
    """Sides of coordinates that no other state reaches and that hold all ends together, those with most ends first."""
    d = others.shape[1]
    left = np.ones(len(ends), np.bool_)
    rules: list[tuple[int, float, float]] = []
    while left.any():
        best = (0, 0.0, 0, 0.0, 0.0)
        for j in range(d):
            for sign in (-1.0, 1.0):
                reached = (sign * others[:, j]).max()
                beyond = left & (sign * ends[:, j] > reached)
                count = int(beyond.sum())
                if count:
                    nearest = (sign * ends[beyond, j]).min()
                    clear = float((sign * ends[beyond, j] - reached).mean())
                    best = max(best, (count, clear, j, sign, sign * (reached + nearest) / 2))
        count, _, j, sign, threshold = best
        if not count:
            return None
        rules.append((j, sign, threshold))
        left &= sign * (ends[:, j] - threshold) <= 0
    coordinates, signs, thresholds = zip(*rules, strict=True)
    return np.array(coordinates, np.int64), np.array(signs), np.array(thresholds)


def _products(points: Floats) -> Floats:
    """1, the coordinates, and their products."""
    d = points.shape[1]
    squares = [points[:, j] * points[:, k] for j in range(d) for k in range(j, d)]
    return np.column_stack([np.ones(len(points)), points, *squares])

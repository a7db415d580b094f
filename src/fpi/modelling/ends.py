"""Where episodes end: the simplest rule that no visit contradicts.

Thresholds on single coordinates, else the sign of a quadratic function, else whether the nearest state seen is an end.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from fpi.kernels.windows import Ends
from fpi.modelling.calls import separate
from fpi.modelling.known import make_net

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_POINTS = 400
PASSES = 300


def fit_ends(ends: Floats, rewards: Floats, others: Floats) -> Ends:
    """The rule for the ends (rows) and the states that were none."""
    nothing = np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int64)
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


def _thresholds(ends: Floats, others: Floats) -> tuple[Ints, Floats, Floats, Floats, Ints] | None:
    """Sides of coordinates that no other state reaches and that hold all ends together, those with most ends first.

    Each is a group with all further sides that hold its ends as well: which of them ends the episode is not known,
    unless one is of a coordinate that has to be the reason of other ends.
    """
    sides = list(itertools.product(range(others.shape[1]), (-1.0, 1.0)))
    reached = {(j, sign): float((sign * others[:, j]).max()) for j, sign in sides}
    beyond = {(j, sign): sign * ends[:, j] > reached[j, sign] for j, sign in sides}
    left = np.ones(len(ends), np.bool_)
    groups: list[tuple[NDArray[np.bool_], list[tuple[int, float]]]] = []
    while left.any():
        held = left & max(beyond.values(), key=lambda held: int((left & held).sum()))
        if not held.any():
            return None
        groups.append((held, [side for side in sides if (beyond[side] | ~held).all()]))
        left &= ~held
    reasons = {found[0][0] for _, found in groups if len(found) == 1}
    rules = [
        (j, sign, float((sign * ends[held, j]).min()), reached[j, sign], number)
        for number, (held, found) in enumerate(groups)
        for j, sign in [side for side in found if side[0] in reasons] or found
    ]
    coordinates, signs, thresholds, safe, numbers = map(np.array, zip(*rules, strict=True))
    return coordinates, signs, thresholds, safe, numbers


def _products(points: Floats) -> Floats:
    """1, the coordinates, and their products."""
    d = points.shape[1]
    squares = [points[:, j] * points[:, k] for j in range(d) for k in range(j, d)]
    return np.column_stack([np.ones(len(points)), points, *squares])

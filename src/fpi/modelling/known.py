"""The known set: steps near the data that the model rests on. And the cover of plans: a net of visited states."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fpi.kernels.windows import ODD_REACH, Dynamics
from fpi.modelling.calls import extend_net

Floats = NDArray[np.float64]

GROWTH = 1.2  # of the radius, where a net has too many members


def distances(dynamics: Dynamics, z: Floats) -> Floats:
    """For every action, how far its step at z is from the model's data, in the kernel's units: below 1 it is known."""
    x = (z * dynamics.rates)[:, None]
    squares: Floats = (((dynamics.points - x) ** 2).sum(axis=0) + dynamics.offsets).min(axis=1)
    odd = ((dynamics.odd_points - z[:, None]) ** 2).sum(axis=0)
    np.minimum.at(squares, dynamics.odd_actions, dynamics.reach * odd / ODD_REACH)
    return np.sqrt(squares / dynamics.reach)


def make_net(points: Floats, radius: float, most: int) -> tuple[Floats, float]:
    """The net of these points in order, and its radius: wider than asked for where it would have too many members."""
    while True:
        net = np.empty((most, points.shape[1]))
        count = extend_net(net, 0, np.ascontiguousarray(points), radius)
        if count <= most:
            return net[:count].copy(), radius
        radius *= GROWTH


def add_to_net(net: Floats, points: Floats, radius: float, most: int) -> Floats:
    """The net with those of further points that no member represents, as far as there is room."""
    larger = np.empty((max(most, len(net)), net.shape[1]))
    larger[: len(net)] = net
    count = extend_net(larger, len(net), np.ascontiguousarray(points), radius)
    return larger[: min(count, len(larger))].copy()

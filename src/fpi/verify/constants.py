"""The constants of an instance by `formulas`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fpi.testbeds.base import Testbed
from fpi.verify import formulas
from fpi.verify.instances import DELTA, Instance


def constants_of(testbed: Testbed, instance: Instance) -> Any:
    """What the paper says of an instance."""
    return (_of_class if instance.algorithm == "Eluder" else _of_features)(testbed, instance)


def _of_features(testbed: Testbed, instance: Instance) -> formulas.Linear:
    return formulas.Linear(
        testbed.horizon,
        testbed.dim,
        instance.ridge,
        DELTA,
        testbed.misspecification,
        testbed.theta_bound,
        instance.constants,
        1.0 if instance.algorithm == "PAC" else instance.scale,
        _noise(instance),
        instance.first_level,
    )


def _of_class(testbed: Any, instance: Instance) -> formulas.Class:
    episodes, ball = instance.episodes, None if hasattr(testbed, "tables") else _ball(testbed)
    if ball is None:
        covering = math.log(len(testbed.tables))
    else:
        dim, bound, (_, slope) = ball
        covering = dim * math.log(1 + 2 * slope * bound * episodes**2)

    def most_of(epsilon: float) -> Callable[[float], float]:
        if ball is not None:
            return formulas.most_in_ball(*ball, epsilon)
        size, _, states, actions = testbed.tables.shape
        growth = formulas.most_growth(size - 1, 0.5, size * testbed.horizon**2 / (2 * epsilon**2))
        return formulas.most_dependent(min(size * (size - 1) // 2, states * actions, growth), epsilon)

    return formulas.Class(
        testbed.horizon, DELTA, episodes, covering, instance.constants, most_of, instance.scale, _noise(instance)
    )


def _ball(testbed: Any) -> tuple[int, float, tuple[float, float]]:
    """Dimension and radius of the parameters, and the slopes of the link: logistic, or none."""
    if hasattr(testbed, "arms"):
        e = math.exp(-testbed.radius)
        return testbed.arms.dim, testbed.radius, (e / (1 + e) ** 2, 0.25)
    return testbed.dim, testbed.theta_bound, (1.0, 1.0)


def _noise(instance: Instance) -> float:
    """Rewards, divided by their span, are subGaussian with this."""
    low, high = sorted(instance.paid)
    return (high - low) / (max(high, 0.0) - min(low, 0.0)) / 2

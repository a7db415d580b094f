"""The constants of an instance by `formulas`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from fpi.testbeds.base import Testbed
from fpi.verify import formulas
from fpi.verify.instances import DELTA, Instance

HIGHEST = 40  # the last level of any agent


class Constants:
    """What the paper says of an instance."""

    def __init__(self, testbed: Testbed, instance: Instance) -> None:
        self.horizon, self.instance = testbed.horizon, instance
        self.leveled = instance.algorithm != "PAC"

    @property
    def accuracies(self) -> list[float]:
        """epsilon, or 2^-l of all levels that are tested."""
        return [0.5**level for level in range(1, self.last)] if self.leveled else [self.instance.epsilon]

    first: int = 1
    """The first level that is tested."""
    last: int
    """L-bar, or one beyond the last level that is tested."""

    def stage_gap(self, stage: int, level: int) -> float:
        """Delta_l."""
        raise NotImplementedError

    def level_gap(self, level: int) -> float:
        """Where it is largest."""
        return max(self.stage_gap(stage, level) for stage in range(self.horizon))

    def later(self, stage: int, level: int) -> float:
        """The sum from a stage on."""
        return sum(self.stage_gap(each, level) for each in range(stage, self.horizon))

    def most_data(self, level: int) -> float:
        """D_l."""
        raise NotImplementedError

    def errors(self, stage: int, level: int, k: int, log_det: float | None) -> tuple[float, float]:
        """Factor and bias of the errors of estimates at a prefix, in widths."""
        raise NotImplementedError

    def margins(self, stage: int, level: int, k: int, log_det: float | None) -> tuple[float, float, float]:
        """Eq. (7) by three rules: factor and bias of errors at the state itself, and a slack."""
        if self.instance.elimination == "paper":
            return 0.0, 0.0, 2 * self.horizon * self.levels.level_gap(level)
        if self.instance.elimination == "stage":
            return 0.0, 0.0, 2 * self.later(stage, level)
        return *self.errors(stage, level, k, log_det), 2 * self.later(stage + 1, level)

    @cached_property
    def levels(self) -> formulas.Levels:
        return formulas.Levels(self.horizon, cache(self.most_data), cache(self.level_gap), self.first, self.last)


class LinearConstants(Constants):
    def __init__(self, testbed: Testbed, instance: Instance) -> None:
        super().__init__(testbed, instance)
        self.linear = formulas.Linear(
            self.horizon,
            testbed.dim,
            instance.ridge,
            DELTA,
            testbed.misspecification,
            testbed.theta_bound,
            instance.constants,
            instance.scale if self.leveled else 1.0,
            noise=noise(instance),
        )
        self.last = int(min(HIGHEST + 1, self.linear.last_level()))
        self.first = self._first_promising() if instance.first_level == "auto" else int(instance.first_level)

    def _first_promising(self) -> int:
        """Where 2 H Delta_l < H, or 1."""
        promising = (level for level in range(1, self.last) if 2 * self.level_gap(level) < 1)
        return next(promising, 1)

    def stage_gap(self, stage: int, level: int) -> float:
        return self.linear.stage_gap(stage, 0.5**level, level)

    def most_data(self, level: int) -> float:
        return self.linear.most_data(0.5**level)

    def errors(self, stage: int, level: int, k: int, log_det: float | None) -> tuple[float, float]:
        return self.linear.alpha(k, log_det, level, stage), self.linear.kappa


class ClassConstants(Constants):
    def __init__(self, testbed: Any, instance: Instance) -> None:
        super().__init__(testbed, instance)
        self.last = max(1, math.floor(math.log2(instance.episodes))) + 1
        self._testbed = testbed
        covering = self._log_covering(instance.episodes**-2.0)
        self.known = formulas.Class(
            self.horizon, DELTA, instance.episodes, covering, instance.constants, instance.scale, noise(instance)
        )

    def _ball(self) -> tuple[int, float, tuple[float, float]]:
        """Dimension and radius of the parameters, and the slopes of the link: logistic, or none."""
        if hasattr(self._testbed, "arms"):
            e = math.exp(-self._testbed.radius)
            return self._testbed.arms.dim, self._testbed.radius, (e / (1 + e) ** 2, 0.25)
        return self._testbed.dim, self._testbed.theta_bound, (1.0, 1.0)

    def _log_covering(self, radius: float) -> float:
        if hasattr(self._testbed, "tables"):
            return math.log(len(self._testbed.tables))
        dim, bound, (_, slope) = self._ball()
        return dim * math.log(1 + 2 * slope * bound / radius)

    def stage_gap(self, stage: int, level: int) -> float:
        return 0.5**level

    def bound_on_data(self, epsilon: float) -> Callable[[float], float]:
        """How many data of an accuracy there can be, from the radius of the last confidence set."""
        if not hasattr(self._testbed, "tables"):
            return formulas.most_in_ball(*self._ball(), epsilon)
        size, _, states, actions = self._testbed.tables.shape
        growth = formulas.most_growth(size - 1, 0.5, size * self.horizon**2 / (2 * epsilon**2))
        return formulas.most_dependent(min(size * (size - 1) // 2, states * actions, growth), epsilon)

    def most_data(self, level: int) -> float:
        return self.known.most_data(level, self.bound_on_data(0.5**level))

    def errors(self, stage: int, level: int, k: int, log_det: float | None) -> tuple[float, float]:
        return 1.0, 0.0

    def radius(self, stage: int, level: int) -> Callable[[int], float]:
        """beta of a level."""
        return lambda k: self.known.beta(level, k, stage)


def noise(instance: Instance) -> float:
    """Rewards, divided by their span, are subGaussian with this."""
    low, high = sorted(instance.paid)
    return (high - low) / (max(high, 0.0) - min(low, 0.0)) / 2


def constants_of(testbed: Testbed, instance: Instance) -> Any:
    return (ClassConstants if instance.algorithm == "Eluder" else LinearConstants)(testbed, instance)

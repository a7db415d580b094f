"""UPAC-OFUL (He, Zhou and Gu, 2021): OFUL with levels, which makes it Uniform-PAC. One stage.

Level l = 1, 2, ... has its own regression (V_l, w_l) of the rounds stored there. In every round

    play   argmax_x min_l <x, w_l> + beta_l |x| in V_l^{-1}       over the levels in use and one more
    store  the round in the first level with |x| in V_l^{-1} > 2^-l

Assumes mean rewards that are linear in the features, any contexts. With beta_l as for OFUL at confidence delta / (l (l
+ 1)) the number of rounds that lose more than epsilon is O~(d^2 / epsilon^2) for all epsilon at once, hence regret O~(d
sqrt(T)). Smaller beta_l make it worse than useless: the minimum over levels is then no longer optimistic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fpi.baselines import _ridge
from fpi.baselines.access import FloatArray, Online, View
from fpi.baselines.method import Method, Policy, greedy
from fpi.baselines.oful import SIGMA


class _Level:
    def __init__(self, dim: int, number: int) -> None:
        self.number = number
        self.inverse, self.w = np.eye(dim), np.zeros(dim)
        self.log_det = 0.0

    def score(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, widths = np.empty(len(rows)), np.empty(len(rows))
        _ridge.score(self.inverse, self.w, rows, values, widths)
        return values, widths


@dataclass
class UPACOFUL(Method):
    """UPAC-OFUL; `theta_bound` bounds |theta|."""

    access = Online
    needs = frozenset({"linear", "one stage"})
    requires = frozenset({"one stage"})
    constants = "theory"

    delta: float = 0.05
    theta_bound: float = 1.0
    seed: int = 0

    def run(self, access: Online) -> Iterator[Policy]:
        self.levels = [_Level(access.dim, 1)]  # the last one is empty
        while True:
            view = access.reset()
            action = greedy(self.upper(view.features))
            reward, _ = access.step(action)
            self.store(view.features[action], reward)
            self.numbers = sum(level.inverse.size + level.w.size for level in self.levels)
            yield self.policy

    def beta(self, level: _Level) -> float:
        confidence = math.log(level.number * (level.number + 1) / self.delta)
        return SIGMA * math.sqrt(2 * confidence + level.log_det) + self.theta_bound

    def upper(self, rows: FloatArray) -> FloatArray:
        bounds = []
        for level in self.levels:
            values, widths = level.score(rows)
            bounds.append(values + self.beta(level) * widths)
        smallest: FloatArray = np.min(bounds, axis=0)
        return smallest

    def store(self, row: FloatArray, reward: float) -> None:
        for level in self.levels:
            if level.score(row[None])[1][0] > 2.0**-level.number:
                level.log_det += _ridge.append(level.inverse, level.w, row, reward)
                if level is self.levels[-1]:
                    self.levels.append(_Level(len(row), level.number + 1))
                return

    def policy(self, view: View) -> int:
        """The best estimate of the level that knows the action best."""
        scores = [level.score(view.features) for level in self.levels]
        values, widths = (np.array(each) for each in zip(*scores, strict=True))
        return greedy(values[widths.argmin(axis=0), np.arange(len(view.features))])

"""Testbeds as some agents meet them: states described by the built-in features, rewards of any range.

Features are worked out here once more, without `fpi.features`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fpi.envs import RewardRange
from fpi.features import FeatureMap, Fourier, OneHot, TileCoding
from fpi.testbeds.base import FloatArray, IntArray, Policy, State, Value
from fpi.testbeds.candidates import TableBandit, TableHubs
from fpi.testbeds.env import TestbedEnv
from fpi.testbeds.wrappers import Changed


@dataclass
class Described(Changed):
    """Every state is one number, and every action has a block for what describes it: "one-hot", two "tilings" of tiles
    that are two numbers wide, or "cosines". Each can tell all numbers apart, so Q^pi stays linear."""

    base: TableBandit | TableHubs
    by: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self._size = self.base.highest[1] + 1
        numbers = self.horizon * self._size
        self.lowest, self.highest = (0,), (numbers,)
        self._table = _tables(numbers)[self.by]
        self.dim = self.actions * self._table.shape[1]
        stages = self._table.reshape(self.horizon, self._size, -1)
        self._inverses = [np.linalg.pinv(rows) for rows in stages]

    @property
    def features(self) -> Any:
        return _maps(self.highest[0], self.actions)[self.by]

    def observation(self, state: State | None) -> IntArray:
        return np.array([self.highest[0] if state is None else state[0] * self._size + state[1]], np.int64)

    def state(self, observation: Any) -> State:
        return divmod(int(observation[0]), self._size)

    def phi(self, state: State) -> FloatArray:
        return np.kron(np.eye(self.actions), self._table[state[0] * self._size + state[1]])

    def weights(self, stage: int, value: Value) -> FloatArray:
        return self._solve(stage, self.base.weights(stage, value))

    def theta(self, stage: int, policy: Policy) -> FloatArray:
        return self._solve(stage, self.base.theta(stage, policy))

    def _solve(self, stage: int, values: FloatArray) -> FloatArray:
        """theta for these values of all states and actions."""
        return (self._inverses[stage] @ values.reshape(self._size, -1)).T.ravel()

    @cached_property
    def theta_bound(self) -> float:
        """Of all candidates for Q^pi, which are more than there are policies."""
        norms = [np.linalg.norm(self._solve(h, table[h])) for table in self.base.tables for h in range(self.horizon)]
        return float(max(norms))


def _tables(numbers: int) -> dict[str, FloatArray]:
    """What describes each number."""
    number, tiles = np.arange(numbers), np.eye(numbers // 2 + 1)
    angles = np.pi * np.outer(number, number) / (numbers - 1)
    return {
        "one-hot": np.eye(numbers),
        "tilings": np.hstack([tiles[number // 2], tiles[(number + 1) // 2]]) / math.sqrt(2),
        "cosines": np.cos(angles) / math.sqrt(numbers),
    }


def _maps(numbers: int, actions: int) -> dict[str, FeatureMap]:
    """The same, as agents have it."""
    return {
        "one-hot": OneHot(numbers, actions),
        "tilings": TileCoding(-0.5, numbers - 0.5, tiles=numbers // 2, tilings=2, actions=actions),
        "cosines": Fourier(0, numbers - 1, order=numbers - 1, actions=actions),
    }


@dataclass
class Paid(Changed):
    """Rewards of 0 become `zero` and those of 1 become `one`. The environment pays that; means and values are divided
    by the span of rewards, as the theory has them.

    `zero` other than 0 adds to Q^pi what is linear only with an intercept, so there must be one, and one stage.
    """

    base: Any
    zero: float
    one: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rewards = RewardRange(min(self.zero, self.one), max(self.zero, self.one))
        self._shift, self._factor = self.zero / self.rewards.span, (self.one - self.zero) / self.rewards.span
        self._intercept: FloatArray = np.zeros(self.dim)
        if self._shift:
            rows = np.vstack([self.phi(state) for state in self.held_out(self.dim)])
            self._intercept = np.linalg.lstsq(rows, np.ones(len(rows)))[0].astype(np.float64)

    def env(self, noise: str = "bernoulli") -> TestbedEnv:
        return _PaidEnv(self, noise)

    def mean(self, state: State, action: int) -> float:
        return self._shift + self._factor * float(self.base.mean(state, action))

    def weights(self, stage: int, value: Value) -> FloatArray:
        weights: FloatArray = self.base.weights(stage, lambda state: value(state) / self._factor)
        return self._factor * weights + self._shift * self._intercept

    def theta(self, stage: int, policy: Policy) -> FloatArray:
        theta: FloatArray = self.base.theta(stage, policy)
        return self._factor * theta + self._shift * self._intercept

    @cached_property
    def theta_bound(self) -> float:
        if not self._shift:
            return abs(self._factor) * float(self.base.theta_bound)
        return float(np.linalg.norm(self.weights(0, lambda state: 0.0)))  # one stage: nothing comes after it

    @property
    def tables(self) -> FloatArray:
        """The candidates for Q^pi."""
        tables: FloatArray = self.base.tables
        return self._factor * tables + self._shift


class _PaidEnv(TestbedEnv):
    def __init__(self, testbed: Paid, noise: str) -> None:
        super().__init__(testbed.base, noise)
        self._zero, self._one = testbed.zero, testbed.one

    def step(self, action: np.int64) -> tuple[IntArray, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, self._zero + (self._one - self._zero) * reward, terminated, truncated, info

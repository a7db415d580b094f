"""Families whose Q^pi is one of a list of candidate functions, or a monotone function of a linear one.

`tables`, or `arms` and `radius`, are what a learner may know: a class of functions that holds Q^pi for every policy pi.
Which of them is the true one it must find out.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fpi.errors import InputError
from fpi.testbeds import _hash
from fpi.testbeds.base import Features, FloatArray, State, Testbed, Value, check_number, check_sizes
from fpi.testbeds.contextual import Contextual

MOST_FUNCTIONS = 100_000


class _Listed(Testbed):
    """Finitely many states in each stage. Several hypotheses say what the mean rewards are; one of them is true."""

    complete = True
    contexts: int
    seed: int

    def _lay_out(self, actions: int, sizes: tuple[int, ...], hypotheses: int) -> None:
        self.actions, self.horizon, self._sizes = int(actions), len(sizes), sizes
        self.dim = max(sizes) * self.actions  # a feature of its own for every state and action
        self.lowest, self.highest = (0, 0), (self.horizon, max(sizes) - 1)
        self._true = int(_hash.below(self.seed, _hash.CANDIDATE, (0,), 0, hypotheses))
        self._means = [self._hypothesis(self._true, stage) for stage in range(self.horizon)]

    def _hypothesis(self, number: int, stage: int) -> FloatArray:
        """The mean rewards of one hypothesis, (states, actions)."""
        states, actions = range(self._sizes[stage]), range(self.actions)
        draws = [[_hash.signed(self.seed, _hash.ARM, (number, stage, s), a) for a in actions] for s in states]
        return (1 + np.array(draws)) / 2

    def mean(self, state: State, action: int) -> float:
        return float(self._means[state[0]][state[1], action])

    def phi(self, state: State) -> FloatArray:
        rows = np.zeros((self.actions, self.dim))
        rows[:, state[1] * self.actions : (state[1] + 1) * self.actions] = np.eye(self.actions)
        return rows

    def weights(self, stage: int, value: Value) -> FloatArray:
        theta = np.zeros(self.dim)
        for number in range(self._sizes[stage]):
            theta[number * self.actions : (number + 1) * self.actions] = self.backup((stage, number), value)
        return theta

    def draw(self, rng: np.random.Generator) -> State:
        return 0, int(rng.integers(self.contexts))


@dataclass
class TableBandit(_Listed):
    """One stage: `contexts` with `K` actions, and `N` random tables of mean rewards, of which one is true.

    A state is (stage, context).
    """

    contexts: int = 20
    K: int = 4
    N: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        check_sizes(self, contexts=1, K=2, N=1, seed=0)
        _check_functions(self.N)
        self._lay_out(self.K, (int(self.contexts),), int(self.N))

    def next(self, state: State, action: int) -> None:
        return None

    @cached_property
    def tables(self) -> FloatArray:
        """The candidates for Q^pi, (functions, stages, states, actions)."""
        return np.array([[self._hypothesis(number, 0)] for number in range(self.N)])


@dataclass
class TableHubs(_Listed):
    """One of `contexts`, then one of `m` hubs; which, everybody knows. One of `R` hypotheses about means is true.

    Q^pi of a context depends on what pi does at the hubs: a candidate is a hypothesis together with a choice of action
    at every hub, `R` * `K`^`m` of them. A state is (stage, context or hub).
    """

    contexts: int = 20
    m: int = 2
    K: int = 3
    R: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        check_sizes(self, contexts=1, m=1, K=2, R=1, seed=0)
        _check_functions(self.R * self.K**self.m)
        self._lay_out(self.K, (int(self.contexts), int(self.m)), int(self.R))

    def next(self, state: State, action: int) -> State | None:
        return (1, self._hub(state[1], action)) if state[0] == 0 else None

    def _hub(self, context: int, action: int) -> int:
        return int(_hash.below(self.seed, _hash.GOAL, (0, context), action, self.m))

    @cached_property
    def tables(self) -> FloatArray:
        """The candidates for Q^pi, (functions, stages, states, actions); 0 for states that do not exist."""
        policies = np.array(list(itertools.product(range(self.K), repeat=self.m)))
        tables = np.zeros((self.R, len(policies), 2, max(self._sizes), self.K))
        hubs = np.array([[self._hub(c, a) for a in range(self.K)] for c in range(self.contexts)])
        for number in range(self.R):
            first, second = self._hypothesis(number, 0), self._hypothesis(number, 1)
            worth = second[np.arange(self.m), policies]  # (policies, hubs)
            tables[number, :, 0, : self.contexts] = first + worth[:, hubs]
            tables[number, :, 1, : self.m] = second
        return tables.reshape(-1, *tables.shape[2:])


@dataclass
class LogitBandit(Contextual):
    """One stage: `K` arms u on the unit sphere of R^`d`, means 1 / (1 + exp(-radius <u, w>)) with a hidden unit w.

    `arms` are the features u: with them the means are a logistic function of <u, theta>, |theta| = `radius`. The
    features (1, u) / sqrt(2) of the testbed itself are for linear agents; the chord of the logistic function is
    `misspecification` away from it.
    """

    d: int = 3
    K: int = 5
    radius: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_sizes(self, d=1, K=2, seed=0)
        check_number("radius", self.radius, 20)
        if self.radius == 0:
            raise InputError("radius=0 would make all arms alike: pass a number above 0, for example 2.")
        self._lay_out(self.K, 1, (self.d + 1, 0, 0, 0), np.array([math.sqrt(0.5), 0, 0, 0]))
        self.slope = _logistic(self.radius) - 0.5  # of the chord, for arms along w
        slope = self.slope / self.radius
        furthest = (1 + math.sqrt(1 - 4 * slope)) / 2  # where the logistic function has the slope of the chord
        self.misspecification = furthest - 0.5 - slope * math.log(furthest / (1 - furthest))

    def mean(self, state: State, action: int) -> float:
        return _logistic(self.radius * self._arm(state, action))

    @property
    def arms(self) -> Arms:
        """The features u of norm 1."""
        return Arms(self)


class Arms(Features):
    """The arms of a testbed, without the constant feature."""

    def __init__(self, testbed: LogitBandit) -> None:
        super().__init__(testbed)
        self.dim = testbed.d

    def __call__(self, observation: Any, stage: int) -> FloatArray:
        return super().__call__(observation, stage)[:, 1:] / math.sqrt(0.5)


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _check_functions(count: int) -> None:
    if count > MOST_FUNCTIONS:
        raise InputError(f"that makes {count:,} candidate functions, more than {MOST_FUNCTIONS:,}: ask for fewer.")

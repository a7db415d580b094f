"""Two families with random transitions, for what the theory of FPI excludes. Q^pi is linear all the same.

Values are computed backwards over the states, since a policy has no single path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fpi.errors import InputError
from fpi.testbeds.base import FloatArray, Policy, State, Testbed, Value, check_number, check_sizes
from fpi.testbeds.contextual import HubNet


class Stochastic(Testbed):
    """A testbed whose family says where an action may lead (`outcomes`) instead of where it leads."""

    deterministic = False

    def outcomes(self, state: State, action: int) -> list[tuple[float, State | None]]:
        raise NotImplementedError

    def next(self, state: State, action: int) -> State | None:
        raise InputError(f"{self} has random transitions: ask for `outcomes`, or for `draw_next` with a generator.")

    def draw_next(self, state: State, action: int, rng: np.random.Generator) -> State | None:
        chances, states = zip(*self.outcomes(state, action), strict=True)
        after: State | None = states[rng.choice(len(states), p=chances)]
        return after

    def backup(self, state: State, value: Value) -> FloatArray:
        return np.array([self.mean(state, a) + self._expected(state, a, value) for a in range(self.actions)])

    def _expected(self, state: State, action: int, value: Value) -> float:
        return sum(chance * value(after) for chance, after in self.outcomes(state, action) if after is not None)

    def earned(self, state: State, action: int, after: State | None) -> float:
        luck = 0.0 if after is None else self.optimal_value(after)
        return self.mean(state, action) + self._expected(state, action, self.optimal_value) - luck

    def values(self, policy: Policy) -> Value:
        known: dict[State, float] = {}

        def value(state: State) -> float:
            if state not in known:
                action = policy(state)
                known[state] = self.mean(state, action) + self._expected(state, action, value)
            return known[state]

        return value

    def value(self, state: State, policy: Policy) -> float:
        return self.values(policy)(state)

    def optimal_value(self, state: State) -> float:
        known = self._optimal.get(state)
        if known is None:
            known = float(self.backup(state, self.optimal_value).max())
            if self.recurs(state):
                self._optimal[state] = known
        return known

    def path(self, state: State, policy: Policy) -> Iterator[tuple[State, int]]:
        raise InputError(
            f"{self} has random transitions, so a policy has no one path; `values` gives what it is worth."
        )

    def regret(self, start: State, actions: Sequence[int]) -> float:
        raise InputError(f"{self} has random transitions: actions alone do not tell what an episode lost.")


@dataclass
class Gate(Stochastic):
    """Two stages that fool whoever keeps the returns of lucky paths only.

    At the start, one of `K` actions, 0, pays nothing and leads to A or B with equal chances, any other pays 0.3 and
    ends. A pays nothing and has no features; at B every action pays 1 and has a feature of its own. So action 0 is
    worth 0.5. FPI stores its return only when nothing later was new: from A, never from a B it does not know yet. A
    state is (stage, 0 for the start and A, 1 for B).
    """

    K: int = 4

    complete = True
    fixed_start = True
    sure: ClassVar[float] = 0.3

    def __post_init__(self) -> None:
        check_sizes(self, K=2)
        self.actions, self.horizon, self.dim = int(self.K), 2, int(self.K)
        self.lowest, self.highest = (0, 0), (2, 1)

    def outcomes(self, state: State, action: int) -> list[tuple[float, State | None]]:
        return [(0.5, (1, 0)), (0.5, (1, 1))] if state[0] == 0 and action == 0 else [(1.0, None)]

    def mean(self, state: State, action: int) -> float:
        if state[0] == 0:
            return 0.0 if action == 0 else self.sure
        return float(state[1])

    def phi(self, state: State) -> FloatArray:
        return np.zeros((self.K, self.K)) if state == (1, 0) else np.eye(self.K)

    def weights(self, stage: int, value: Value) -> FloatArray:
        if stage == 1:
            return np.ones(self.K)
        return np.append(0.5 * value((1, 0)) + 0.5 * value((1, 1)), np.full(self.K - 1, self.sure))

    def draw(self, rng: np.random.Generator) -> State:
        return 0, 0


@dataclass
class Slip(Stochastic, HubNet):
    """`HubNet(B, m, K, p)` whose actions miss: with probability `slip` the next hub is any. Still a linear MDP."""

    slip: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("slip", self.slip)
        self.deterministic = self.slip == 0

    def outcomes(self, state: State, action: int) -> list[tuple[float, State | None]]:
        if state[0] == self.B:
            return [(1.0, None)]
        goal, missed = self._goal(state, action), self.slip / self.m
        return [(missed + (1 - self.slip) * (hub == goal), (state[0] + 1, hub)) for hub in range(self.m)]

    def phi(self, state: State) -> FloatArray:
        rows = super().phi(state)
        if state[0] < self.B:
            goals = rows[:, self.p + 1 :]
            goals *= 1 - self.slip
            goals += self.slip / self.m * self._scales[2]
        return rows

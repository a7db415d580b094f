"""Families whose start states are contexts that never come back.

An arm is a point u(s, a) of the unit sphere, hidden in the features beside a constant 1; the mean reward of an action
is affine in it. Hubs are the only states after stage 0 with a choice, because a deterministic MDP with linear Q^pi has
at most as many such states in a stage as features in the stage before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fpi.errors import InputError
from fpi.testbeds import _hash
from fpi.testbeds.base import CONTEXTS, FloatArray, State, Testbed, Value, check_sizes

CANDIDATES = 16


class Contextual(Testbed):
    """Stage 0 is a context; feature blocks are [arm | side | goal | junk], some of them empty.

    Unless a family says otherwise it is the only stage, and a state is (stage, number of the context or hub).
    """

    finite = False
    slope = 0.4
    seed: int
    _widths: tuple[int, int, int, int]
    _scales: tuple[float, float, float, float]
    _arm_weights: list[FloatArray]

    def _lay_out(self, actions: int, horizon: int, widths: tuple[int, int, int, int], scales: FloatArray) -> None:
        self.actions, self.horizon, self._widths = int(actions), horizon, widths
        self._scales = tuple(scales.tolist())
        self.dim = sum(widths)
        self.lowest, self.highest = (0, 0), (self.horizon, CONTEXTS - 1)
        self._arm_weights = [
            _hash.direction(self.seed, _hash.ARM_WEIGHT, (stage,), 0, widths[0] - 1) for stage in range(horizon)
        ]

    def phi(self, state: State) -> FloatArray:
        last = state[0] == self.horizon - 1
        rows: FloatArray = _hash.choice_rows(self.seed, state, self.actions, self._widths, self._scales, last)
        return rows

    def next(self, state: State, action: int) -> State | None:
        return None

    def mean(self, state: State, action: int) -> float:
        return 0.5 + self.slope * self._arm(state, action)

    def _arm(self, state: State, action: int) -> float:
        """<u, w> of a hidden unit vector w."""
        along: float = _hash.along(self.seed, _hash.ARM, state, action, self._arm_weights[state[0]])
        return along

    def weights(self, stage: int, value: Value) -> FloatArray:
        return np.append(0.5, self.slope * self._arm_weights[stage]) / self._scales[0]

    def _goal(self, state: State, action: int) -> int:
        return int(_hash.below(self.seed, _hash.GOAL, state, action, self._widths[2]))

    def draw(self, rng: np.random.Generator) -> State:
        return 0, int(rng.integers(CONTEXTS))

    def recurs(self, state: State) -> bool:
        return state[0] > 0


@dataclass
class LinBandit(Contextual):
    """One stage: `K` arms on the unit sphere of R^(`d` - 1), means (1 + <u, w>) / 2 with a hidden unit vector w.

    With `order="drifting"` an adversary chooses the contexts: in phases of doubling length the best arms lie along one
    axis after another, so the past says little about what comes.
    """

    d: int = 6
    K: int = 10
    order: str = "random"
    seed: int = 0

    slope = 0.5
    complete = True

    def __post_init__(self) -> None:
        check_sizes(self, d=2, K=2, seed=0)
        if not isinstance(self.order, str) or self.order not in ("random", "drifting"):
            raise InputError(f'order is {self.order!r}; choose "random" or "drifting".')
        self.ordered = self.order == "drifting"
        self._lay_out(self.K, 1, (int(self.d), 0, 0, 0), np.array([math.sqrt(0.5), 0, 0, 0]))

    def start(self, rng: np.random.Generator, episode: int) -> State:
        if not self.ordered:
            return self.draw(rng)
        axis = ((episode + 1).bit_length() - 1) % (self.d - 1)
        drawn: list[State] = [
            (0, int(_hash.below(self.seed, _hash.CANDIDATE, (episode, number), 0, CONTEXTS)))
            for number in range(CANDIDATES)
        ]
        return max(drawn, key=lambda state: abs(self.phi(state)[self.optimal_action(state), 1 + axis]))


@dataclass
class HubNet(Contextual):
    """A context, then `B` stages of `m` hubs: each of `K` actions has a reward and leads to a hub of the next stage.

    A deterministic linear MDP, hence Bellman complete: the benign control. Arms live in R^`p`.
    """

    B: int = 3
    m: int = 4
    K: int = 6
    p: int = 3
    seed: int = 0

    complete = True

    def __post_init__(self) -> None:
        check_sizes(self, B=1, m=1, K=2, p=1, seed=0)
        self._lay_out(self.K, 1 + self.B, (self.p + 1, 0, int(self.m), 0), np.array([0.5, 0, 0.7, 0]))

    def next(self, state: State, action: int) -> State | None:
        return None if state[0] == self.B else (state[0] + 1, self._goal(state, action))

    def weights(self, stage: int, value: Value) -> FloatArray:
        hubs = np.array([value((stage + 1, hub)) if stage < self.B else 0.0 for hub in range(self.m)])
        return np.concatenate([super().weights(stage, value), hubs / self._scales[2]])


@dataclass
class HubCorridor(Contextual):
    """A context, then `B` times a corridor of two states and one of `m` hubs: linear Q^pi without Bellman completeness.

    Each of `K` actions of a context or hub pays for its arm in R^`p` and enters a corridor with a side y in R^`q` and a
    goal. There the first action a pays rho(y, a), the second one, whatever it is, c(y) - rho(y, a): every way through
    is worth c(y). The features do not tell the first actions apart, so targets made with a theta that is off cannot be
    fitted there. `junk` random features, whose weight is 0, add a second reason. A state is (stage, number of the
    context or hub, action that entered the corridor, action inside it), with -1 for what has not happened.
    """

    B: int = 2
    m: int = 3
    K: int = 4
    p: int = 3
    q: int = 3
    junk: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_sizes(self, B=1, m=1, K=2, p=1, q=1, junk=0, seed=0)
        widths = (self.p + 1, self.q + 1, int(self.m), int(self.junk))
        self._lay_out(self.K, 1 + 3 * self.B, widths, np.array([0.3, 0.3, 0.7, 0.35]))
        self._side_weights = [
            _hash.direction(self.seed, _hash.SIDE_WEIGHT, (stage,), 0, self.q) for stage in range(self.horizon)
        ]
        self.lowest, self.highest = (0, 0, -1, -1), (self.horizon, CONTEXTS - 1, self.K - 1, self.K - 1)

    def next(self, state: State, action: int) -> State | None:
        stage, number, entered, passed = state
        if stage == self.horizon - 1:
            return None
        if entered < 0:
            return stage + 1, number, action, -1
        if passed < 0:
            return stage + 1, number, entered, action
        return stage + 1, self._goal((stage - 2, number, -1, -1), entered), -1, -1

    def mean(self, state: State, action: int) -> float:
        stage, number, entered, passed = state
        if entered < 0:
            return super().mean(state, action)
        if passed < 0:
            return self._middle_mean((stage - 1, number, entered, -1), action)
        origin = (stage - 2, number, -1, -1)
        side: float = _hash.along(self.seed, _hash.SIDE, origin, entered, self._side_weights[stage - 2])
        return 0.75 + 0.15 * side - self._middle_mean((stage - 2, number, entered, -1), passed)

    def _middle_mean(self, entrance: State, action: int) -> float:
        """rho(y, a); `entrance` names where the corridor began and by which action."""
        arm: float = _hash.along(self.seed, _hash.MIDDLE, entrance, action, self._arm_weights[entrance[0] + 1])
        return 0.25 + 0.2 * arm

    def phi(self, state: State) -> FloatArray:
        stage, number, entered, passed = state
        if entered < 0:
            return super().phi(state)
        origin = (stage - 1 if passed < 0 else stage - 2, number, -1, -1)
        rows: FloatArray = _hash.corridor_rows(
            self.seed, state, origin, entered, self.actions, self._widths, self._scales
        )
        return rows

    def weights(self, stage: int, value: Value) -> FloatArray:
        theta = np.zeros(self.dim)
        arm, side, goals, _ = self._widths
        place = stage % 3  # in a hub or context, first in a corridor, second in a corridor
        if place == 0:
            theta[:arm] = super().weights(stage, value)
        elif place == 2:
            theta[:arm] = -np.append(0.25, 0.2 * self._arm_weights[stage - 1]) / self._scales[0]
        if stage < self.horizon - 1:
            theta[arm : arm + side] = np.append(0.75, 0.15 * self._side_weights[stage - place]) / self._scales[1]
            hubs = [value((stage - place + 3, hub, -1, -1)) for hub in range(self.m)]
            theta[arm + side : arm + side + goals] = np.array(hubs) / self._scales[2]
        return theta

    def draw(self, rng: np.random.Generator) -> State:
        return 0, int(rng.integers(CONTEXTS)), -1, -1

    def recurs(self, state: State) -> bool:
        return state[0] >= 3

    def choices(self, state: State) -> range:
        return range(self.actions if state[2] < 0 else 1)

"""Families with finitely many states."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fpi.errors import InputError
from fpi.testbeds import _hash
from fpi.testbeds.base import FloatArray, State, Testbed, Value, check_number, check_sizes


@dataclass
class Diamond(Testbed):
    """The paper's Figure 1, with `n` ways instead of two: way i pays u_i, then 1 - u_i. All policies are optimal.

    Q^pi = 1 at the start whatever pi does, so one feature serves all actions there; targets made with a wrong theta
    differ between the ways, and that one feature cannot fit them. A state is (stage, way).
    """

    n: int = 2

    def __post_init__(self) -> None:
        check_sizes(self, n=2)
        self.actions, self.horizon, self.dim = int(self.n), 2, self.n + 1
        self.fixed_start = True
        self.lowest, self.highest = (0, 0), (2, self.n - 1)

    def next(self, state: State, action: int) -> State | None:
        return (1, action) if state[0] == 0 else None

    def mean(self, state: State, action: int) -> float:
        return self._first(action) if state[0] == 0 else 1 - self._first(state[1])

    def _first(self, way: int) -> float:
        return 0.2 * (way + 1) / self.n  # for two ways the 0.1 and 0.2 of the figure

    def phi(self, state: State) -> FloatArray:
        rows = np.zeros((self.actions, self.dim))
        rows[:, 0 if state[0] == 0 else 1 + state[1]] = 1.0
        return rows

    def weights(self, stage: int, value: Value) -> FloatArray:
        theta = np.zeros(self.dim)
        if stage == 0:
            theta[0] = 1.0
        else:
            theta[1:] = [1 - self._first(way) for way in range(self.n)]
        return theta

    def draw(self, rng: np.random.Generator) -> State:
        return 0, 0


@dataclass
class DeepSea(Testbed):
    """`N` stages, one long way to a treasure of 1: always right. Which action means right is a hash of the cell.

    `cost` = 0: only cells of the diagonal, from where the treasure can still be reached, have a choice, and two
    features are enough; leaving it pays `distract` once. All other features are 0, or `junk` random ones of weight 0.
    `cost` > 0: a step right costs cost / N; adding that to all steps puts rewards into [0, 1]. Every cell has a choice,
    and the features name the next column and the direction.

    Starts are drawn from the first `starts` columns; the treasure lies on the diagonal of the last of these, and is out
    of reach from the others. A state is (stage, column).
    """

    N: int = 8
    cost: float = 0.0
    distract: float = 0.1
    starts: int = 1
    junk: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_sizes(self, N=1, starts=1, junk=0, seed=0)
        check_number("cost", self.cost)
        check_number("distract", self.distract)
        if self.junk > 0 and self.cost > 0:
            raise InputError("junk features stand where all others are 0, which they are not with cost > 0: use one.")
        self.actions, self.horizon = 2, int(self.N)
        self.complete, self.fixed_start = self.junk == 0, self.starts == 1
        self.columns = self.N + self.starts - 1
        self.dim = self.columns + 2 if self.cost > 0 else 2 + self.junk
        self.lowest, self.highest = (0, 0), (self.N, self.columns - 1)

    def next(self, state: State, action: int) -> State | None:
        stage, column = state
        if stage == self.N - 1:
            return None
        return stage + 1, column + 1 if self._is_right(state, action) else max(column - 1, 0)

    def mean(self, state: State, action: int) -> float:
        if not self._on_diagonal(state):
            return 0.0 if self._is_right(state, action) else self.cost / self.N
        if self._is_right(state, action):
            return float(state[0] == self.N - 1)
        return self.cost / self.N if self.cost > 0 else self.distract

    def phi(self, state: State) -> FloatArray:
        rows = np.zeros((2, self.dim))
        for action in range(2):
            right = self._is_right(state, action)
            if self.cost > 0:
                after = self.next(state, action)
                if after is not None:
                    rows[action, after[1]] = math.sqrt(0.5)
                elif right and self._on_diagonal(state):
                    rows[action, self.columns - 1] = math.sqrt(0.5)
                rows[action, self.columns + right] = math.sqrt(0.5)
            elif self._on_diagonal(state):
                rows[action, 0 if right else 1] = 1.0
            elif self.junk > 0:
                rows[action, 2:] = _hash.direction(self.seed, _hash.JUNK, state, action, self.junk)
        return rows

    def weights(self, stage: int, value: Value) -> FloatArray:
        theta = np.zeros(self.dim)
        last = stage == self.N - 1
        diagonal = stage + self.starts  # of the next stage, the rightmost column that can be reached
        if self.cost > 0:
            for column in range(diagonal + 1 if not last else 0):
                theta[column] = value((stage + 1, column))
            if last:
                theta[self.columns - 1] = 1.0
            theta[self.columns] = self.cost / self.N
            return theta / math.sqrt(0.5)
        theta[:2] = 1.0 if last else value((stage + 1, diagonal)), self.distract
        return theta

    def draw(self, rng: np.random.Generator) -> State:
        return 0, int(rng.integers(self.starts)) if self.starts > 1 else 0

    def _on_diagonal(self, state: State) -> bool:
        return state[1] - state[0] == self.starts - 1

    def _is_right(self, state: State, action: int) -> bool:
        return bool(action ^ _hash.below(self.seed, _hash.SWAP, state, 0, 2))


@dataclass
class Trap(Testbed):
    """Linear Q^pi that does not even depend on pi, and yet optimism spreads through it with the wrong sign.

    At start j < `M`, action 0 pays 0.5 and ends; any other (`K` - 1 of them) enters corridor j: `Lc` stages of reward 0
    with features of their own. At the last start, action 0 pays 0.5 and any other, the good one, 0.9. The features of
    the good action are those of the paying one minus `w` times those of all corridors: whoever overrates corridors
    underrates it.
    With `phase` the first `phase` episodes go round the starts j < M and all later ones begin at the last; else that
    is drawn with probability `p`. A state is (stage, number of the start).

    The features of corridors have weight 0: `bare=True` leaves them out, and the testbed is Bellman complete.
    """

    M: int = 4
    Lc: int = 2
    w: float = 1.0
    phase: int | None = None
    p: float = 0.2
    K: int = 2
    bare: bool = field(default=False, repr=False)

    pays: ClassVar[float] = 0.5
    safe: ClassVar[float] = 0.5
    good: ClassVar[float] = 0.9

    def __post_init__(self) -> None:
        check_sizes(self, M=1, Lc=1, K=2, **({} if self.phase is None else {"phase": 0}))
        check_number("p", self.p)
        check_number("w", self.w, 100)
        self.actions, self.horizon, self.ordered = int(self.K), 1 + self.Lc, self.phase is not None
        self.complete = self.bare
        self.dim = max(self.M + 2, self.M * self.K)
        self.lowest, self.highest = (0, 0), (self.horizon, self.M)
        self._ratio = self.good / self.pays
        self._scale = 1 / math.hypot(self._ratio, self.w * math.sqrt(self.M))

    def next(self, state: State, action: int) -> State | None:
        stage, number = state
        ends = stage == self.Lc or (stage == 0 and (action == 0 or number == self.M))
        return None if ends else (stage + 1, number)

    def mean(self, state: State, action: int) -> float:
        stage, number = state
        if stage > 0:
            return 0.0
        if number < self.M:
            return self.pays if action == 0 else 0.0
        return self.safe if action == 0 else self.good

    def phi(self, state: State) -> FloatArray:
        stage, number = state
        rows = np.zeros((self.actions, self.dim))
        if stage > 0 and self.bare:
            return rows
        if stage > 0:
            rows[:, number * self.actions : (number + 1) * self.actions] = np.eye(self.actions)
        elif number < self.M:
            rows[0, 0] = self._scale
            rows[1:, 1 + number] = self._scale
        else:
            rows[0, self.M + 1] = self._scale
            rows[1:, 0] = self._scale * self._ratio
            rows[1:, 1 : self.M + 1] = -self._scale * self.w
        return rows

    def weights(self, stage: int, value: Value) -> FloatArray:
        theta = np.zeros(self.dim)
        if stage == 0:
            theta[0], theta[self.M + 1] = self.pays / self._scale, self.safe / self._scale
        return theta

    def draw(self, rng: np.random.Generator) -> State:
        return 0, self.M if rng.random() < self.p else int(rng.integers(self.M))

    def start(self, rng: np.random.Generator, episode: int) -> State:
        if self.phase is None:
            return self.draw(rng)
        return 0, episode % self.M if episode < self.phase else self.M

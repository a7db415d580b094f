"""Section 5: what is stored per level, and what stays as it is. Numbers of lemmas are those of the paper's appendix."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi.algorithms.levels import LevelState
from fpi.algorithms.regret import Regret
from fpi.testbeds.base import State, Testbed
from fpi.training import Episode
from fpi.verify.exact import LevelStates, pool
from fpi.verify.monitors import Monitor, Noise, Stored, noise_only

Cell = tuple[int, int]
"""(stage, level)"""
DEEPEST = 6  # levels after which nothing is full in any run here


class _LevelData(Monitor[Regret]):
    """Keeps, for every stage and level, the pairs that the agent has stored."""

    def __init__(self, testbed: Testbed, agent: Regret, *claims: str) -> None:
        super().__init__(testbed, agent, *claims)
        self.data: defaultdict[Cell, list[Stored]] = defaultdict(list)
        self._stored = 0

    def see(self, episode: Episode) -> None:
        if self.agent.data_stored == self._stored:
            return
        self._stored = self.agent.data_stored
        levels = {level for level in self.agent.played if level <= self.agent.levels}
        for stage in range(self.agent.horizon):
            for level in levels:
                if self.agent.datasets.size(stage, level) > len(self.data[stage, level]):
                    self.data[stage, level].append(self.stored(episode, stage))


class LevelSizes(Monitor[Regret]):
    """Lemma 8: a stage stores at most D_l data of level l. Counts once there were more than D_l episodes."""

    def __init__(self, testbed: Testbed, agent: Regret) -> None:
        super().__init__(testbed, agent, "Lemma 8")
        self._cells = [(h, level) for h in range(agent.horizon) for level in range(1, min(DEEPEST, agent.levels) + 1)]
        self._rows: list[list[int]] = []
        self._before = 0

    def see(self, episode: Episode) -> None:
        self._rows.append([self.agent.datasets.size(*cell) for cell in self._cells])

    def check(self) -> None:
        bounds = [self.agent.theory.dataset_bound(2.0**-level) for _, level in self._cells]
        episodes = self._before + np.arange(1, len(self._rows) + 1)
        self.counts[0].add(np.array(self._rows), bounds, episodes[:, None])
        self._before += len(self._rows)
        self._rows.clear()


class LevelNoise(_LevelData):
    """Lemma 13: Lemma 3 for every level, with a union bound over levels."""

    def __init__(self, testbed: Testbed, agent: Regret) -> None:
        super().__init__(testbed, agent, "Lemma 13")
        self._noise: defaultdict[Cell, Noise] = defaultdict(lambda: Noise(testbed.dim, agent.ridge))

    def check(self) -> None:
        theory = noise_only(self.agent.theory)
        for (stage, level), stored in self.data.items():
            noise = self._noise[stage, level]
            if noise.size == len(stored):
                continue
            dataset = self.agent.dataset(stage, level)
            for k in range(noise.size, len(stored)):
                noise.append(dataset.features[k], float(dataset.targets[k]), stored[k])
                noise.check(self.counts[0], theory, level)


class LevelOnPolicy(_LevelData):
    """Lemma 10: the current pi^(l) reproduces every suffix stored at level l.

    A state that levels 1 to l do not cover any more counts as a change. Non-vacuous if the suffix is not empty.
    """

    def __init__(self, testbed: Testbed, agent: Regret) -> None:
        super().__init__(testbed, agent, "Lemma 10")

    def check(self) -> None:
        at = LevelStates(self.testbed, self.agent)
        changed, can_change = [], []
        for (_, level), stored in self.data.items():
            for datum in stored:
                changed.append(any(at.action(state, level) != action for state, action in datum.suffix))
                can_change.append(len(datum.suffix) > 0)
        self.counts[0].add(np.array(changed, float), 0.0, np.array(can_change, float))


@dataclass(frozen=True)
class _Frozen:
    level_state: LevelState
    data: int
    """How many this and all lower levels of the stage had."""


class StaysTheSame(Monitor[Regret]):
    """Lemma 9: once levels 1 to l cover a state, k, Q, pi and the surviving actions of level l never change.

    Looks at the same states whenever there are a tenth more data. Counts if one of these levels has more data than when
    the state was first seen frozen.
    """

    def __init__(self, testbed: Testbed, agent: Regret, *, walks: int = 40) -> None:
        super().__init__(testbed, agent, "Lemma 9")
        self._states = [state for states in pool(testbed, walks) for state in states]
        self._frozen: dict[tuple[State, int], _Frozen] = {}
        self._looked_at = 0

    def see(self, episode: Episode) -> None:
        if self.agent.data_stored > 1.1 * self._looked_at:
            self._looked_at = self.agent.data_stored
            self._look()

    def _look(self) -> None:
        changed, can_change = [], []
        for state in self._states:
            level_states = self.agent.level_states(self.testbed.observation(state), state[0])
            data = 0
            for level in range(1, self.agent.levels + 1):
                data += self.agent.datasets.size(state[0], level)
                now = level_states[level - 1] if level <= len(level_states) else None
                first = self._frozen.get((state, level))
                if first is not None:
                    changed.append(now is None or not _same(now, first.level_state))
                    can_change.append(data > first.data)
                elif now is not None and now.covered is not None:
                    self._frozen[state, level] = _Frozen(now, data)
                else:
                    break
        self.counts[0].add(np.array(changed, float), 0.0, np.array(can_change, float))


def _same(one: LevelState, other: LevelState) -> bool:
    """To the last bit; values of actions that are not allowed are NaN."""
    return (
        (one.covered, one.action) == (other.covered, other.action)
        and _equal(one.values, other.values)
        and _equal(one.allowed, other.allowed)
        and _equal(one.survives, other.survives)
    )


def _equal(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    return one is not None and other is not None and np.array_equal(one, other, equal_nan=True)


class LevelCounts(Monitor[Regret]):
    """Lemma 22: at most H (D_1 + ... + D_k) episodes have a step at level k or below, for every k.

    Counts once there were more episodes than the bound.
    """

    def __init__(self, testbed: Testbed, agent: Regret) -> None:
        super().__init__(testbed, agent, "Lemma 22")
        self._lowest: list[int] = []
        self._before = np.zeros(min(DEEPEST, agent.levels), np.int64)
        self._episodes = 0

    def see(self, episode: Episode) -> None:
        self._lowest.append(min(self.agent.played))

    def check(self) -> None:
        levels = np.arange(1, len(self._before) + 1)
        counts = self._before + np.cumsum(np.array(self._lowest)[:, None] <= levels, axis=0)
        episodes = self._episodes + np.arange(1, len(counts) + 1)
        bounds = np.cumsum([self.agent.theory.level_episodes(level) for level in levels.tolist()])
        self.counts[0].add(counts, bounds, episodes[:, None])
        self._before = counts[-1]
        self._episodes += len(counts)
        self._lowest.clear()

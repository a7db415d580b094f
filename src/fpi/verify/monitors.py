"""Monitors: they watch a run on an exact testbed and check one claim of the paper each.

A monitor is told of every episode when it is over (`see`), and from time to time to check what is costly (`check`). It
knows exact values, of which the agent knows nothing, and looks at the agent as anyone can from outside.
After episode t the datasets are D_{t+1}, and the policy under test is pi_{t+1}; see `exact.played_policy`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from fpi.algorithms.agent import Agent
from fpi.algorithms.pac import PAC
from fpi.algorithms.theory import Constants
from fpi.testbeds.base import FloatArray, State, Testbed
from fpi.training import Episode
from fpi.verify.counts import CheckCounts
from fpi.verify.exact import lowest_value, played_policy

A = TypeVar("A", bound=Agent)


class Monitor(Generic[A]):
    """Watches one agent on one testbed; `counts` has a row for every claim it checks."""

    def __init__(self, testbed: Testbed, agent: A, *claims: str) -> None:
        self.testbed = testbed
        self.agent = agent
        self.counts = [CheckCounts(claim) for claim in claims]

    def see(self, episode: Episode) -> None:
        """An episode is over."""

    def check(self) -> None:
        """Check what is not checked after every episode."""

    def sizes(self) -> list[int]:
        return [self.agent.datasets.size(stage) for stage in range(self.agent.horizon)]

    def stored(self, episode: Episode, stage: int) -> Stored:
        """The step of the episode at this stage, as a datum."""
        (state, action), *suffix = zip(
            (self.testbed.state(seen) for seen in episode.observations[stage:]),
            episode.actions[stage:].tolist(),
            strict=True,
        )
        value = math.fsum(self.testbed.mean(*step) for step in ((state, action), *suffix))
        return Stored(stage, state, action, tuple(suffix), value)


@dataclass(frozen=True)
class Stored:
    """A stored pair, and what was played after it."""

    stage: int
    state: State
    action: int
    suffix: tuple[tuple[State, int], ...]
    value: float
    """Q^{pi_t}(s, a): the means of the rewards from there on."""


class DatasetSize(Monitor[PAC]):
    """Lemma 1: |D_h| <= D at every stage after every episode. Counts once there were more than D episodes."""

    def __init__(self, testbed: Testbed, agent: PAC) -> None:
        super().__init__(testbed, agent, "Lemma 1")
        self._rows: list[list[int]] = []
        self._before = 0

    def see(self, episode: Episode) -> None:
        self._rows.append(self.sizes())

    def check(self) -> None:
        n = len(self._rows)
        episodes = np.arange(self._before + 1, self._before + n + 1)
        self.counts[0].add(np.array(self._rows).reshape(n, -1), self.agent.dataset_bound, episodes[:, None])
        self._before += n
        self._rows.clear()


class _Data(Monitor[PAC]):
    """Keeps, for every stage, the pairs that the agent has stored."""

    def __init__(self, testbed: Testbed, agent: PAC, *claims: str) -> None:
        super().__init__(testbed, agent, *claims)
        self.data: list[list[Stored]] = [[] for _ in range(agent.horizon)]

    def see(self, episode: Episode) -> None:
        for stage, size in enumerate(self.sizes()):
            if size > len(self.data[stage]):
                self.data[stage].append(self.stored(episode, stage))


class OnPolicy(_Data):
    """Lemma 2: the current policy reproduces every stored suffix. Non-vacuous if the suffix is not empty."""

    def __init__(self, testbed: Testbed, agent: PAC) -> None:
        super().__init__(testbed, agent, "Lemma 2")

    def check(self) -> None:
        policy = played_policy(self.testbed, self.agent)
        decided: dict[State, int] = {}
        changed, can_change = [], []
        for stage in self.data:
            for datum in stage:
                for state, _ in datum.suffix:
                    if state not in decided:
                        decided[state] = policy(state)
                changed.append(any(decided[state] != action for state, action in datum.suffix))
                can_change.append(len(datum.suffix) > 0)
        self.counts[0].add(np.array(changed, float), 0.0, np.array(can_change, float))


class Noise:
    """|sum_i phi_i xi_i|^2 in Sigma_k^{-1} of a growing dataset, xi_i being the noise of its targets."""

    def __init__(self, dim: int, ridge: float) -> None:
        self.size = 0
        self.log_det = 0.0
        self.most = 0.0
        """The sum of the largest possible xi_i^2, which the norm cannot exceed."""
        self._inverse = np.eye(dim) / ridge
        self._sum = np.zeros(dim)

    def append(self, phi: FloatArray, target: float, datum: Stored) -> None:
        image = self._inverse @ phi
        growth = 1 + phi @ image
        self._inverse -= np.outer(image, image) / growth
        self._sum += (target - datum.value) * phi
        self.size += 1
        self.log_det += math.log(growth)
        self.most += max(datum.value, 1 + len(datum.suffix) - datum.value) ** 2

    def check(self, counts: CheckCounts, noise: Constants, level: int | None = None) -> None:
        """`noise` has no other part of alpha: its square is the bound. Counts where that is below `most`."""
        bound = noise.alpha(self.size, self.log_det, level) ** 2
        counts.add(self._sum @ self._inverse @ self._sum, bound, self.most)


def noise_only(theory: Constants) -> Constants:
    return replace(theory, misspecification=0.0, theta_bound=0.0, scale=1.0)


class Concentration(_Data):
    """Lemma 3: |sum_i phi_i xi_i|^2 in Sigma_k^{-1} is small for every k, where xi_i = q_i - Q^{pi}(s_i, a_i)."""

    def __init__(self, testbed: Testbed, agent: PAC) -> None:
        super().__init__(testbed, agent, "Lemma 3")
        self._noise = [Noise(testbed.dim, agent.settings.ridge) for _ in range(agent.horizon)]

    def check(self) -> None:
        theory = noise_only(self.agent.theory)
        for stage, stored in enumerate(self.data):
            dataset, noise = self.agent.dataset(stage), self._noise[stage]
            for k in range(noise.size, len(stored)):
                noise.append(dataset.features[k], float(dataset.targets[k]), stored[k])
                noise.check(self.counts[0], theory)


class BadEpisodes(Monitor[PAC]):
    """Theorem 1: at most H D episodes lose more than eps-bar = 2H (alpha eps + kappa).

    Counts once more than H D episodes could have lost so much, had they been played by the worst policy.
    """

    def __init__(self, testbed: Testbed, agent: PAC) -> None:
        super().__init__(testbed, agent, "Theorem 1")
        self._lowest = lowest_value(testbed)
        self._bad = 0
        self._could_be_bad = 0
        self._rows: list[tuple[int, int]] = []
        self._gap = agent.theory.gap(agent.settings.epsilon)

    def see(self, episode: Episode) -> None:
        start = self.testbed.state(episode.observations[0])
        gap = self.testbed.regret(start, episode.actions.tolist())
        self._bad += gap > self._gap
        self._could_be_bad += self.testbed.optimal_value(start) - self._lowest(start) > self._gap
        self._rows.append((self._bad, self._could_be_bad))

    def check(self) -> None:
        rows = np.array(self._rows).reshape(-1, 2)
        bound = self.agent.theory.episodes_bound(self.agent.settings.epsilon)
        self.counts[0].add(rows[:, 0], bound, rows[:, 1])
        self._rows.clear()

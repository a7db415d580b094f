"""Monitors: they watch a run on an exact testbed and check claims of the paper.

A monitor is told of every episode when it is over (`see`), and from time to time to check what is costly (`check`). It
knows exact values, of which the agent knows nothing, and looks at the agent as anyone can from outside. After episode t
the datasets are D_{t+1}, and the policy under test is pi_{t+1}; see `exact.played_policy`.

FPI-PAC is an agent with one level, so the lemmas on what is stored are the same for all agents, under other numbers:
those of this file. Numbers of lemmas are those of the paper.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi.algorithms.levels import LeveledAgent, LevelState
from fpi.testbeds.base import State, Testbed
from fpi.training import Episode
from fpi.verify.constants import constants_of
from fpi.verify.counts import CheckCounts
from fpi.verify.exact import LevelStates, played_policy, pool
from fpi.verify.instances import DELTA, Instance
from fpi.verify.literal import Ridge

Cell = tuple[int, ...]
"""What names a dataset: (stage,) for PAC, (stage, level) for agents with levels."""
DEEPEST = 6  # levels after which nothing is full in any run here


class Monitor:
    """Watches one agent on one testbed; `counts` has a row for every claim it checks."""

    sizes: NDArray[np.int64]
    """Data per level (rows) and stage after the episode that it is to see."""
    grown: list[tuple[int, int]]
    """Stage and level of the datasets that got one in it."""
    apart = False
    """Whether an agent with scaled constants owes none of the claims: they then have other names."""

    def __init__(self, testbed: Testbed, agent: Any, instance: Instance, *claims: str) -> None:
        self.testbed = testbed
        self.agent = agent
        self.instance = instance
        self.claims = claims
        self.leveled = isinstance(agent, LeveledAgent)
        self.span = agent.rewards.span
        """What the agent says of values is divided by it: testbeds have them in spans of rewards."""
        self.counts = [CheckCounts(self.scaled(claim) if self.apart else claim) for claim in claims]
        self.begin()

    @cached_property
    def constants(self) -> Any:
        """What the paper says of the instance."""
        return constants_of(self.testbed, self.instance)

    def begin(self) -> None:
        """Nothing is learned yet."""

    def see(self, episode: Episode) -> None:
        """An episode is over."""

    def check(self) -> None:
        """Check what is not checked after every episode."""

    def last_episodes(self, n: int) -> NDArray[np.int64]:
        """The numbers of the last n episodes, from 1 on."""
        return np.arange(self.agent.episodes - n, self.agent.episodes) + 1

    def scaled(self, claim: str) -> str:
        """The name of a claim with the constants of the instance."""
        symbol = "β" if self.instance.algorithm == "Eluder" else "α"
        return claim if self.instance.scale == 1 else f"{claim}, {symbol} × {self.instance.scale:g}"


class DatasetSizes(Monitor):
    """Lemmas 1, 8 and 24: a stage stores at most D data, of level l at most D_l.

    Looks after every episode. Counts once there were more than D episodes; with hindsight, where one may store any
    number of data, at once.
    """

    def begin(self) -> None:
        first, last = (self.agent.first_level, min(DEEPEST, self.agent.levels)) if self.leveled else (0, 0)
        levels = [(level,) for level in range(first, last + 1)] if self.leveled else [()]
        self._cells: list[Cell] = [(stage, *level) for stage in range(self.agent.horizon) for level in levels]
        self._rows: list[NDArray[np.int64]] = []

    def see(self, episode: Episode) -> None:
        self._rows.append(self.sizes)

    def check(self) -> None:
        accuracies = [2.0 ** -cell[1] if self.leveled else self.instance.epsilon for cell in self._cells]
        bounds = [self.agent.theory.dataset_bound(accuracy) for accuracy in accuracies]
        stages, levels = np.array([(stage, *level, 1)[:2] for stage, *level in self._cells]).T
        sizes, episodes = np.array(self._rows)[:, levels - 1, stages].T, self.last_episodes(len(self._rows))
        most = np.inf if self.instance.hindsight else episodes
        self.counts[0].add(sizes, np.array(bounds)[:, None], most, self._cells)
        self._rows.clear()


@dataclass(frozen=True)
class Stored:
    """A stored pair, and what was played after it."""

    state: State
    action: int
    suffix: tuple[tuple[State, int], ...]
    value: float
    """Q^{pi_t}(s, a): the means of the rewards from there on."""


class _Data(Monitor):
    """Keeps the pairs that the agent has stored."""

    def begin(self) -> None:
        self.data: defaultdict[Cell, list[Stored]] = defaultdict(list)
        self._played: defaultdict[int, dict[Stored, None]] = defaultdict(dict)  # with hindsight, each step once

    def see(self, episode: Episode) -> None:
        if self.instance.hindsight:
            for stage in range(episode.length):
                self._played[stage][self._step(episode, stage)] = None
        for stage, level in self.grown:
            new = self._look_back(stage) if self.instance.hindsight else [self._step(episode, stage)]
            self.data[(stage, level) if self.leveled else (stage,)] += new

    def _step(self, episode: Episode, stage: int) -> Stored:
        """The step of the episode at this stage, as a datum."""
        (state, action), *suffix = zip(
            (self.testbed.state(seen) for seen in episode.observations[stage:]),
            episode.actions[stage:].tolist(),
            strict=True,
        )
        value = math.fsum(self.testbed.mean(*step) for step in ((state, action), *suffix))
        return Stored(state, action, tuple(suffix), value)

    def _look_back(self, stage: int) -> list[Stored]:
        """The steps that new data of a stage are about, of all that was played. Where several had that return, one that
        the policy follows now if it follows any; a datum that nothing was played for gets any step.
        """
        said = self.agent.dataset(stage).times(1 / self.span)
        act = cache(played_policy(self.testbed, self.agent))

        def fits(k: int, step: Stored) -> int:
            paid = step.action == said.actions[k] and math.isclose(step.value, said.targets[k], abs_tol=1e-9)
            if not paid or not np.allclose(self.testbed.phi(step.state)[step.action], said.features[k]):
                return 0
            return 2 if all(act(state) == action for state, action in step.suffix) else 1

        new = range(len(self.data[(stage,)]), len(said))
        return [max(self._played[stage], key=partial(fits, k)) for k in new]


class OnPolicy(_Data):
    """Lemmas 2 and 10: the current policy, of a level its pi^(l), reproduces every stored suffix.

    A state that levels 1 to l do not cover any more counts as a change. Non-vacuous if the suffix is not empty.
    """

    def check(self) -> None:
        act: Callable[..., int | None] = (
            LevelStates(self.testbed, self.agent).action
            if self.leveled
            else cache(played_policy(self.testbed, self.agent))
        )
        changed, can_change, pairs = [], [], []
        for (stage, *level), stored in self.data.items():
            for number, datum in enumerate(stored):
                changed.append(any(act(state, *level) != action for state, action in datum.suffix))
                can_change.append(len(datum.suffix) > 0)
                pairs.append((stage, *level, number))
        self.counts[0].add(np.array(changed, float), 0.0, np.array(can_change, float), pairs)


SLOPES = np.array([-0.5, -0.2, -0.1, -0.05, -0.02, 0.02, 0.05, 0.1, 0.2, 0.5])


class Concentration(_Data):
    """Lemmas 3, 12 and 13: |sum_i phi_i xi_i|^2 in Sigma_k^{-1} is small for every k, with xi_i = q_i - Q^pi(s_i, a_i).

    With levels there is a union bound over them; Lemmas 3 and 12 have the determinant of Sigma_k, 13 a bound on it.
    Lemma 11: the xi_i are differences of a martingale and subGaussian, so that exp(s sum xi_i - s^2 sum sigma_i^2 / 2)
    has a mean of at most 1 for every s, and with probability 1 - delta an average over s never exceeds 1 / delta.
    """

    def begin(self) -> None:
        super().begin()
        self._total = self._variance = 0.0
        self._linear = replace(self.constants, kappa=0.0, theta_bound=0.0, scale=1.0)
        """With no other part of alpha than the noise, whose square is the bound."""
        self._noise: defaultdict[Cell, Ridge] = defaultdict(lambda: Ridge(self.testbed.dim, self.instance.ridge))
        """The data, with xi_i in the place of targets."""

    def check(self) -> None:
        for cell, stored in self.data.items():
            noise, n = self._noise[cell], len(self._noise[cell])
            if n == len(stored):
                continue
            dataset = self.agent.dataset(*cell).times(1 / self.span)
            for phi, target, datum in zip(dataset.features[n:], dataset.targets[n:], stored[n:], strict=True):
                noise.append(phi, float(target) - datum.value)
            self._total += sum(noise.targets[n:])
            self._variance += (len(stored) - n) * (self.agent.horizon - cell[0]) * self.agent.rewards.noise**2
            sums, inverses = np.array(noise.moments[n + 1 :]), np.array(noise.inverses[n + 1 :])
            norms = np.einsum("ij,ijk,ik->i", sums, inverses, sums)
            most = np.cumsum([self._largest(datum) ** 2 for datum in stored])[n:]
            for counts, known in zip(self.counts[-2:], (True, False), strict=False):  # Section 4 has one of them
                alphas = [
                    self._linear.alpha(k, noise.log_dets[k] if known else None, *cell[1:], stage=cell[0])
                    for k in range(n + 1, len(noise) + 1)
                ]
                counts.add(norms, np.square(alphas), most, [cell])
        if self.leveled:
            growth = np.exp(SLOPES * self._total - SLOPES**2 * self._variance / 2)
            self.counts[0].add(growth.mean(), 1 / DELTA, np.inf)

    def _largest(self, datum: Stored) -> float:
        """What xi_i cannot exceed."""
        low, high = self.agent.rewards.value_range(1 + len(datum.suffix))
        return float(max(datum.value - low, high - datum.value))


class TrueFunction(_Data):
    """Lemma 25: Q^pi is in F_k for every k, that is, at most sqrt(beta_k) away from f_k on the data.

    beta is that of the theory, whatever the scale of the agent. Counts where it is below the most that f_k, with values
    from `min_value` to `max_value`, could be away.
    """

    def begin(self) -> None:
        super().begin()
        self._checked: defaultdict[Cell, int] = defaultdict(int)

    def check(self) -> None:
        for (stage, level), stored in self.data.items():
            prefixes, rows = self.agent.datasets.prefixes(stage, level), self.agent.dataset(stage, level).features
            truth = np.array([datum.value for datum in stored])
            known = self.agent.function_class
            most = np.cumsum(np.maximum(truth - known.min_value, known.max_value - truth) ** 2)
            for k in range(self._checked[stage, level] + 1, len(stored) + 1):
                apart = np.sum((prefixes.estimates(rows[:k], k) - truth[:k]) ** 2)
                self.counts[0].add(
                    apart, self.agent.beta(level, k, stage) / self.instance.scale, most[k - 1], [(stage, level)]
                )
            self._checked[stage, level] = len(stored)


class StaysTheSame(Monitor):
    """Lemma 9: once all levels up to l cover a state, k, Q, pi and the surviving actions of level l never change.

    Looks at the same states whenever there are a tenth more data. Counts if one of these levels has more data than when
    the state was first seen frozen.
    """

    def begin(self) -> None:
        self._states = [state for states in pool(self.testbed, self.instance.walks) for state in states]
        self._frozen: dict[tuple[State, int], tuple[LevelState, int]] = {}
        """As first seen, and how many data this and all lower levels of the stage had."""
        self._looked_at = 0

    def see(self, episode: Episode) -> None:
        if self.agent.data_stored > 1.1 * self._looked_at:
            self._looked_at = self.agent.data_stored
            self._look()

    def _look(self) -> None:
        changed, can_change, frozen = [], [], []
        for state in self._states:
            said = self.agent.level_states(self.testbed.observation(state), state[0])
            level_states = {each.level: each for each in said}
            data = 0
            for level in range(self.agent.first_level, self.agent.levels + 1):
                data += self.agent.datasets.size(state[0], level)
                now = level_states.get(level)
                if (state, level) in self._frozen:
                    first, data_then = self._frozen[state, level]
                    changed.append(now is None or not _same(now, first))
                    can_change.append(data > data_then)
                    frozen.append((state, level))
                elif now is not None and now.covered is not None:
                    self._frozen[state, level] = now, data
                else:
                    break
        self.counts[0].add(np.array(changed, float), 0.0, np.array(can_change, float), frozen)


def _same(one: LevelState, other: LevelState) -> bool:
    """To the last bit; values of actions that are not allowed are NaN."""
    return (
        (one.covered, one.action) == (other.covered, other.action)
        and same_actions(one.allowed, other.allowed)
        and same_actions(one.survives, other.survives)
        and np.array_equal(one.values, other.values, equal_nan=True)
    )


def same_actions(one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None) -> bool:
    return one is other if one is None or other is None else bool(np.array_equal(one, other))

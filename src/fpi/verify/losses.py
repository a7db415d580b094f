"""What episodes lose in expectation, how many of them lose much, and how many still explore at a level."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fpi.testbeds.base import FloatArray
from fpi.training import Episode
from fpi.verify.counts import ROUNDING
from fpi.verify.exact import all_policies
from fpi.verify.monitors import DEEPEST, Monitor

THRESHOLDS = 8  # of Theorem 3


class BadEpisodes(Monitor):
    """Theorem 1: at most H D episodes lose more than eps-bar = 2H (alpha eps + kappa).

    Counts once more than H D episodes could have lost so much, had they been played by the worst policy.
    """

    def begin(self) -> None:
        self.policies = all_policies(self.testbed)
        self.thresholds, self.bounds = self.limits()
        self.rows: list[tuple[float, float]] = []
        """What every episode since the last check lost, and could have lost."""
        self._mistakes = np.zeros((2, len(self.thresholds)), np.int64)

    def limits(self) -> tuple[FloatArray, list[float]]:
        """Losses, and how many episodes may lose more."""
        theory, epsilon = self.agent.theory, self.instance.epsilon
        return np.array([theory.gap(epsilon)]), [theory.episodes_bound(epsilon)]

    def see(self, episode: Episode) -> None:
        states = map(self.testbed.state, episode.observations)
        means = [self.testbed.mean(*step) for step in zip(states, episode.actions.tolist(), strict=True)]
        lowest, best = self.policies.of(self.testbed.state(episode.observations[0]))
        self.rows.append((best - math.fsum(means), best - lowest))

    def check(self) -> None:
        lost_more = np.array(self.rows)[:, :, None] > self.thresholds + ROUNDING
        mistakes = self._mistakes + np.cumsum(lost_more, axis=0)
        self.counts[-1].add(mistakes[:, 0], self.bounds, mistakes[:, 1])
        self._mistakes = mistakes[-1]
        self.rows.clear()


class Losses(BadEpisodes):
    """What episodes lose, with levels.

    Lemma 21: from every stage of an episode on, at most the sum of 4 H Delta_{l-1} over its steps, and H for l = 1.
    Counts where some policy loses more.
    Theorems 2 and 4: the sum over all episodes so far. Counts where the worst policy would have lost more.
    Theorem 3, Uniform-PAC: N(eps) is at most its bound for all eps. The bound is constant between two values of
    4 H^2 Delta_l and N falls, so it is enough to look at these. Counts where more episodes could have lost eps.
    """

    apart = True

    def begin(self) -> None:
        self._theory = replace(self.agent.theory, max_level=self.agent.levels)
        super().begin()
        horizon, first = self.agent.horizon, self.agent.first_level
        self._step_losses = {first: float(horizon)} | {
            level + 1: 4 * horizon * self.agent.level_gap(level) for level in range(first, self.agent.levels + 1)
        }
        self._regret = np.zeros(2)
        self._steps: list[tuple[float, float, float]] = []
        self._episodes: list[int] = []

    def limits(self) -> tuple[FloatArray, list[float]]:
        first = self.agent.first_level
        levels = range(first, min(first + THRESHOLDS, self.agent.levels + 1))
        thresholds = [self._theory.level_loss(level + 1) for level in levels]
        return np.array(thresholds), [self._theory.mistakes_bound(epsilon) for epsilon in thresholds]

    def see(self, episode: Episode) -> None:
        """Losses and bounds of all stages, from the last to the first."""
        got = lowest = bound = 0.0
        for stage in reversed(range(episode.length)):
            state = self.testbed.state(episode.observations[stage])
            got += self.testbed.mean(state, int(episode.actions[stage]))
            lowest, best = self.policies.of(state)
            bound += self._step_losses[self.agent.played[stage]]
            self._steps.append((best - got, bound, best - lowest))
            self._episodes.append(episode.number)
        self.rows.append((best - got, best - lowest))

    def check(self) -> None:
        lost, bounds, most = np.array(self._steps).T
        self.counts[0].add(lost, bounds, most, self._episodes)
        self._steps.clear()
        self._episodes.clear()
        episodes = self.last_episodes(len(self.rows))
        regret = self._regret + np.cumsum(self.rows, axis=0)
        self.counts[1].add(regret[:, 0], self._theory.regret_bound(episodes), regret[:, 1])
        self._regret = regret[-1]
        super().check()


class LevelCounts(Monitor):
    """Lemma 22: at most H (D_1 + ... + D_k) episodes have a step at level k or below, for every k.

    Counts once there were more episodes than the bound.
    Lemmas 23 and 28: so the sum of 2^-l over the episodes, at every stage, is at most what such numbers allow. Counts
    where that is less than 1/2 for every episode, or the 2^-l of the first level.
    """

    def begin(self) -> None:
        self._lowest: list[int] = []
        self._levels = range(self.agent.first_level, min(DEEPEST, self.agent.levels) + 1)
        self._before = np.zeros(len(self._levels), np.int64)
        self._sums = [0.0] * self.agent.horizon

    def see(self, episode: Episode) -> None:
        played = self.agent.played
        self._lowest.append(min(played))
        for stage, level in enumerate(played):
            self._sums[stage] += 0.5**level

    def check(self) -> None:
        levels = np.array(self._levels)
        counts = self._before + np.cumsum(np.array(self._lowest)[:, None] <= levels, axis=0)
        bounds = np.cumsum([self.agent.theory.level_episodes(level) for level in levels.tolist()])
        self.counts[0].add(counts.T, bounds[:, None], self.last_episodes(len(counts)), levels.tolist())
        self._before = counts[-1]
        self._lowest.clear()
        self._check_sums()

    def _check_sums(self) -> None:
        """l_h <= k in at most N_k episodes, for every k: the sum is largest if levels fill up from the first."""
        episodes, first, last = self.agent.episodes, self.constants.first, self.constants.last
        filled = np.cumsum([self.constants.episodes_at(level) for level in range(first, last)])
        falls = 0.5 ** np.arange(first + 1, last + 1)  # 2^-k - 2^-(k+1)
        bound = episodes * 0.5**last + falls @ np.minimum(episodes, filled)
        self.counts[1].add(self._sums, bound, episodes * 0.5**first, [*range(self.agent.horizon)])

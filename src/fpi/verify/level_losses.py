"""Section 5: how far estimates and policies of a level may be off, what episodes may lose, and the two theorems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fpi.algorithms.levels import LevelState
from fpi.algorithms.regret import Regret
from fpi.testbeds.base import FloatArray, State, Testbed
from fpi.training import Episode
from fpi.verify.accuracy import scaled
from fpi.verify.counts import ROUNDING, CheckCounts
from fpi.verify.exact import Brackets, LevelStates, lowest_value, pool
from fpi.verify.monitors import Monitor

ACCURACY = ("Lemma 15", "Lemma 16", "Lemma 20a", "Lemma 20b")
LOSSES = ("Lemma 21", "Theorem 2", "Theorem 3")
DEEPEST = 8  # thresholds of Theorem 3


class LevelAccuracy(Monitor[Regret]):
    """Looks at fresh states every time, at all their levels up to the first that does not cover them.

    The policy of level l is pi^(l) where levels 1 to l cover a state. Elsewhere the lemmas hold whatever it does: the
    worst and the best that it could do there are checked, and all else lies between.

    Lemma 15: |Q~_k - Q^pi| <= alpha_k |phi| + kappa, with the data at the frozen prefix k; on all data where uncovered.
    Lemma 16: |Q^(l) - Q^pi| <= Delta_l where covered.
    Both count where the bound is below the number of stages left.
    Lemma 20a: Q* - Q^pi <= 2(H-h) Delta_l for allowed actions and V* - V^pi <= 2(H-h+1) Delta_l, which is what
    `explain` promises. Counts where some policy loses more.
    Lemma 20b: no action that is eliminated is optimal.

    An agent with scaled alpha owes only the first two, with the alpha of the theory; with its own alpha the last three
    have rows apart.
    """

    def __init__(self, testbed: Testbed, agent: Regret, *, walks: int = 40) -> None:
        scale = agent.settings.scale
        super().__init__(testbed, agent, "Lemma 15", "Lemma 16", *(scaled(claim, scale) for claim in ACCURACY[2:]))
        self._theory = replace(agent.theory, scale=1.0)
        self._scaled_row = [CheckCounts(scaled("Lemma 16", scale))] if scale != 1 else []
        self.counts[2:2] = self._scaled_row
        self._walks = walks
        self._lowest = lowest_value(testbed)
        self._checks = 0

    def check(self) -> None:
        self._checks += 1
        at = LevelStates(self.testbed, self.agent)
        brackets = Brackets(self.testbed, at)
        for stage, states in enumerate(pool(self.testbed, self._walks, seed=self._checks)):
            for state in states:
                best = self.testbed.optimal_action_values(state)
                room = best - self._lowest_of_actions(state)
                for level_state in at(state):
                    values = brackets.of_actions(state, level_state.level)
                    self._errors(stage, level_state, values)
                    if level_state.covered is not None:
                        self._losses(stage, level_state, values[0], best, room)

    def _lowest_of_actions(self, state: State) -> FloatArray:
        following = [self.testbed.next(state, action) for action in range(self.testbed.actions)]
        return np.array([self.testbed.mean(state, a) + self._lowest(after) for a, after in enumerate(following)])

    def _errors(self, stage: int, level_state: LevelState, values: FloatArray) -> None:
        level, allowed = level_state.level, level_state.allowed
        errors = np.abs(level_state.values - values)[:, allowed]
        left = self.agent.horizon - stage
        k = self.agent.datasets.size(stage, level) if level_state.covered is None else level_state.covered
        alpha = self._theory.alpha(k, self.agent.datasets.log_det(stage, k, level), level)
        self.counts[0].add(errors, alpha * level_state.widths[allowed] + self._theory.misspecification, left)
        if level_state.covered is not None:
            self.counts[1].add(errors, self._theory.level_gap(level), left)
            for counts in self._scaled_row:
                counts.add(errors, self.agent.level_gap(level), left)

    def _losses(
        self, stage: int, level_state: LevelState, lowest: FloatArray, best: FloatArray, room: FloatArray
    ) -> None:
        """`lowest` is Q^pi at its worst, `best` is Q*, `room` how far below it the worst policy is."""
        assert level_state.action is not None and level_state.survives is not None
        near, survival = self.counts[-2:]
        gap, left = self.agent.level_gap(level_state.level), self.agent.horizon - stage
        near.add((best - lowest)[level_state.allowed], 2 * (left - 1) * gap, room[level_state.allowed])
        near.add(best.max() - lowest[level_state.action], 2 * left * gap, best.max() - (best - room).min())
        gone = level_state.allowed & ~level_state.survives
        optimal = best >= best.max() - ROUNDING
        survival.add(optimal[gone].astype(float), 0.0, 1.0)


class Losses(Monitor[Regret]):
    """What episodes lose in expectation.

    Lemma 21: from every stage of an episode on, at most the sum of 4 H Delta_{l-1} over its steps, and H for l = 1.
    Counts where some policy loses more.
    Theorem 2: the sum over all episodes so far. Counts where the worst policy would have lost more.
    Theorem 3, Uniform-PAC: N(eps) is at most its bound for all eps. The bound is constant between two values of
    4 H^2 Delta_l and N falls, so it is enough to look at these. Counts where more episodes could have lost eps.
    """

    def __init__(self, testbed: Testbed, agent: Regret) -> None:
        super().__init__(testbed, agent, *(scaled(claim, agent.settings.scale) for claim in LOSSES))
        self._theory = replace(agent.theory, max_level=agent.levels)
        self._lowest = lowest_value(testbed)
        self._step_losses = [np.inf] + [self._step_loss(level) for level in range(1, agent.levels + 2)]
        deepest = min(DEEPEST, agent.levels)
        self._thresholds = np.array([self._theory.level_loss(level + 1) for level in range(1, deepest + 1)])
        self._episodes = 0
        self._regret = np.zeros(2)
        self._mistakes = np.zeros((2, deepest), np.int64)
        self._steps: list[tuple[float, float, float]] = []
        self._rows: list[tuple[float, float]] = []

    def _step_loss(self, level: int) -> float:
        return 4 * self.agent.horizon * self.agent.level_gap(level - 1) if level > 1 else self.agent.horizon

    def see(self, episode: Episode) -> None:
        """Losses and bounds of all stages, from the last to the first."""
        got = lowest = bound = 0.0
        for stage in reversed(range(episode.length)):
            state = self.testbed.state(episode.observations[stage])
            got += self.testbed.mean(state, int(episode.actions[stage]))
            best, lowest = self.testbed.optimal_value(state), self._lowest(state)
            bound += self._step_losses[self.agent.played[stage]]
            self._steps.append((best - got, bound, best - lowest))
        self._rows.append((best - got, best - lowest))

    def check(self) -> None:
        gap, theorem_2, theorem_3 = self.counts
        gap.add(*np.array(self._steps).T)
        rows = np.array(self._rows)
        episodes = self._episodes + np.arange(1, len(rows) + 1)
        regret = self._regret + np.cumsum(rows, axis=0)
        theorem_2.add(regret[:, 0], self._theory.regret_bound(episodes), regret[:, 1])
        mistakes = self._mistakes + np.cumsum(rows[:, :, None] > self._thresholds + ROUNDING, axis=0)
        bounds = [self._theory.mistakes_bound(epsilon) for epsilon in self._thresholds.tolist()]
        theorem_3.add(mistakes[:, 0], bounds, mistakes[:, 1])
        self._episodes, self._regret, self._mistakes = self._episodes + len(rows), regret[-1], mistakes[-1]
        self._steps.clear()
        self._rows.clear()

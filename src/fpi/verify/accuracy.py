"""How far estimates and policies may be off, against exact values at fresh states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np

from fpi.algorithms.levels import LevelState
from fpi.testbeds.base import FloatArray, State
from fpi.verify.counts import ROUNDING, CheckCounts
from fpi.verify.exact import Brackets, LevelStates, all_policies, greedy_policy, played_policy, pool
from fpi.verify.monitors import Monitor

PREFIXES = 12
STATES = 30  # per stage and check for Lemma 4, which looks at all prefixes


class _Fresh(Monitor):
    """Looks at fresh states every time."""

    def begin(self) -> None:
        self.policies = all_policies(self.testbed)
        self._checks = 0

    def fresh(self) -> list[list[State]]:
        self._checks += 1
        return pool(self.testbed, self.instance.walks, seed=self._checks)


class PrefixAccuracy(_Fresh):
    """Section 4, under two policies: pi_t and the greedy one.

    Lemma 4: |Q~_k - Q^pi| <= alpha |phi| + kappa for prefixes k, half of them spread evenly and half over magnitudes.
    Lemma 5: |Q_t - Q^pi| <= alpha eps + kappa at covered (s, a).
    Both count where the bound is below the number of stages left, since Q^pi is between 0 and that.
    Lemma 6: at covered starts V* - V^pi is at most the gap that `explain` promises. It is the lemma's 2H (alpha eps +
    kappa) or less, since the start's own width is known. Counts where some policy loses more.

    With a scale there are further rows with alpha times that, to see how much room there is where alpha says nothing.
    """

    def begin(self) -> None:
        super().begin()
        scales = dict.fromkeys((1.0, self.instance.scale))
        names = [dict.fromkeys((claim, self.scaled(claim))) for claim in self.claims]
        self._rows = [dict(zip(scales, map(CheckCounts, pair), strict=True)) for pair in names]
        self.counts = [counts for row in self._rows for counts in row.values()]

    def check(self) -> None:
        policies = [self.testbed.values(make(self.testbed, self.agent)) for make in (played_policy, greedy_policy)]
        for stage, states in enumerate(self.fresh()):
            prefixes = self._prefixes(stage)
            alphas = np.array([self.agent.alpha(stage, k) for k in prefixes])
            for number, state in enumerate(states):
                exact = np.array([self.testbed.backup(state, value) for value in policies])
                if number < STATES:
                    self._lemma_4(state, exact, prefixes, alphas)
                self._lemmas_5_and_6(state, exact, policies)

    def _prefixes(self, stage: int) -> list[int]:
        size = self.agent.datasets.size(stage)
        even = np.linspace(0, size, PREFIXES // 2)
        magnitudes = np.geomspace(1, size + 1, PREFIXES // 2) - 1
        return sorted({int(k) for k in np.concatenate([even, magnitudes]).round()})

    def _lemma_4(self, state: State, exact: FloatArray, prefixes: list[int], alphas: FloatArray) -> None:
        stage, kappa = state[0], self.agent.settings.misspecification
        observation = self.testbed.observation(state)
        estimates = np.array([self.agent.datasets.estimate(observation, stage, k) for k in prefixes])
        widths, values = estimates[:, 0], estimates[:, 1]  # prefixes × actions
        errors = np.abs(values - exact[:, None, :])
        for scale, counts in self._rows[0].items():
            counts.add(errors, scale * alphas[:, None] * widths + kappa, self.agent.horizon - stage, [state])

    def _lemmas_5_and_6(self, state: State, exact: FloatArray, policies: list[Callable[[State], float]]) -> None:
        stage, settings = state[0], self.agent.settings
        known = self.agent.explain(self.testbed.observation(state), stage)
        covered = known.widths <= settings.epsilon * (1 + ROUNDING)
        errors = np.abs(known.values / self.span - exact)[:, covered]
        alpha = self.agent.alpha(stage, known.prefix)
        for scale, counts in self._rows[1].items():
            bound = scale * alpha * settings.epsilon + settings.misspecification
            counts.add(errors, bound, self.agent.horizon - stage, [state])
        if stage == 0 and known.covered:
            lowest, best = self.policies.of(state)
            gaps = best - np.array([value(state) for value in policies])
            for scale, counts in self._rows[2].items():
                counts.add(gaps, scale * known.gap / self.span, best - lowest, [state])


class LevelAccuracy(_Fresh):
    """Looks at all levels of a state up to the first that does not cover it.

    The policy of level l is pi^(l) where levels 1 to l cover a state. Elsewhere the lemmas hold whatever it does: the
    worst and the best that it could do there are checked, and all else lies between.

    Lemmas 16 and 26: |Q^(l) - Q^pi| <= Delta_l where covered. Counts where that is below the number of stages left.
    Lemma 20a: Q* - Q^pi <= 2(H-h) Delta_l for allowed actions and V* - V^pi <= 2(H-h+1) Delta_l, which is what
    `explain` promises. Counts where some policy loses more.
    Lemma 20b: no action that is eliminated is optimal.

    An agent with scaled constants owes none of them: they have rows apart.
    """

    apart = True

    def check(self) -> None:
        at = LevelStates(self.testbed, self.agent)
        brackets = cache(lambda level: Brackets(self.testbed, partial(at.action, level=level)))
        for states in self.fresh():
            for state in states:
                lowest, best = self.policies.of_actions(state)
                for level_state in at.of(state):
                    values = brackets(level_state.level).of_actions(state)
                    errors = np.abs(level_state.values - values)[:, level_state.allowed]
                    self.check_errors(state, level_state, errors)
                    if level_state.covered is not None:
                        self._losses(state, level_state, values[0], best, best - lowest)

    def check_errors(self, state: State, level_state: LevelState, errors: FloatArray) -> None:
        if level_state.covered is not None:
            gap = self.agent.stage_gaps(level_state.level)[state[0]]
            self.counts[-3].add(errors, gap, self.agent.horizon - state[0], [state])

    def _losses(
        self, state: State, level_state: LevelState, lowest: FloatArray, best: FloatArray, room: FloatArray
    ) -> None:
        """`lowest` is Q^pi at its worst, `best` is Q*, `room` how far below it the worst policy is."""
        assert level_state.action is not None and level_state.survives is not None
        near, survival = self.counts[-2:]
        own, *later = 2 * self.agent.stage_gaps(level_state.level)[state[0] :]
        near.add((best - lowest)[level_state.allowed], sum(later), room[level_state.allowed], [state])
        loss = best.max() - lowest[level_state.action]
        near.add(loss, own + sum(later), best.max() - (best - room).min(), [state])
        gone = level_state.allowed & ~level_state.survives
        optimal = best >= best.max() - ROUNDING
        survival.add(optimal[gone].astype(float), 0.0, 1.0, [state])


class LinearLevelAccuracy(LevelAccuracy):
    """With features also Lemma 15: |Q~_k - Q^pi| <= alpha_k |phi| + kappa, at the frozen prefix k or on all data.

    Whatever its scale, an agent owes this and Lemma 16 with the constants of the theory.
    """

    def begin(self) -> None:
        super().begin()
        self._theory = replace(self.agent.theory, scale=1.0)
        estimates, frozen, *_ = self.claims
        self._sound = [CheckCounts(frozen)] if self.instance.scale != 1 else []
        self.counts[:1] = [CheckCounts(estimates), *self._sound]

    def check_errors(self, state: State, level_state: LevelState, errors: FloatArray) -> None:
        super().check_errors(state, level_state, errors)
        stage, level = state[0], level_state.level
        left = self.agent.horizon - stage
        k = self.agent.datasets.size(stage, level) if level_state.covered is None else level_state.covered
        alpha = self._theory.alpha(k, self.agent.datasets.log_det(stage, k, level), level, stage)
        bounds = alpha * level_state.widths[level_state.allowed] + self._theory.misspecification
        self.counts[0].add(errors, bounds, left, [state])
        if level_state.covered is not None:
            for counts in self._sound:
                counts.add(errors, self._theory.stage_gaps(2.0**-level, level)[stage], left, [state])

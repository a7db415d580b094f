"""Lemmas 4, 5 and 6: how far estimates and the policy may be off, against exact values."""

from __future__ import annotations

import numpy as np

from fpi.algorithms.pac import PAC
from fpi.testbeds.base import FloatArray, State, Testbed
from fpi.verify.counts import ROUNDING, CheckCounts
from fpi.verify.exact import Values, greedy_policy, lowest_value, played_policy, pool
from fpi.verify.monitors import Monitor

LEMMAS = frozenset({"Lemma 4", "Lemma 5", "Lemma 6"})
PREFIXES = 12
STATES = 30  # per stage and check for Lemma 4, which looks at all prefixes


class Accuracy(Monitor[PAC]):
    """Looks at fresh states every time, under two policies: pi_t and the greedy one.

    Lemma 4: |Q~_k - Q^pi| <= alpha |phi| + kappa for prefixes k, half of them spread evenly and half over magnitudes.
    Lemma 5: |Q_t - Q^pi| <= alpha eps + kappa at covered (s, a).
    Both count where the bound is below the number of stages left, since Q^pi is between 0 and that.
    Lemma 6: at covered starts V* - V^pi is at most the gap that `explain` promises. It is the lemma's 2H (alpha eps +
    kappa) or less, since the start's own width is known. Counts where some policy loses more.

    With `scale` there are further rows with alpha times that, to see how much room there is where alpha says nothing.
    """

    def __init__(self, testbed: Testbed, agent: PAC, *, walks: int = 40, scale: float | None = None) -> None:
        super().__init__(testbed, agent)
        self._scales = [1.0] if scale is None else [1.0, scale]
        self._rows = [[CheckCounts(scaled(lemma, s)) for s in self._scales] for lemma in sorted(LEMMAS)]
        self.counts = [counts for row in self._rows for counts in row]
        self._walks = walks
        self._lowest = lowest_value(testbed)
        self._checks = 0

    def check(self) -> None:
        self._checks += 1
        makers = (played_policy, greedy_policy)
        policies = [Values(self.testbed, make(self.testbed, self.agent)) for make in makers]
        for stage, states in enumerate(pool(self.testbed, self._walks, seed=self._checks)):
            prefixes = self._prefixes(stage)
            alphas = np.array([self.agent.alpha(stage, k) for k in prefixes])
            for number, state in enumerate(states):
                exact = np.array([values.of_actions(state) for values in policies])
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
        for scale, counts in zip(self._scales, self._rows[0], strict=True):
            counts.add(errors, scale * alphas[:, None] * widths + kappa, self.agent.horizon - stage)

    def _lemmas_5_and_6(self, state: State, exact: FloatArray, policies: list[Values]) -> None:
        stage, settings = state[0], self.agent.settings
        known = self.agent.explain(self.testbed.observation(state), stage)
        covered = known.widths <= settings.epsilon * (1 + ROUNDING)
        errors = np.abs(known.values - exact)[:, covered]
        alpha = self.agent.alpha(stage, known.prefix)
        for scale, counts in zip(self._scales, self._rows[1], strict=True):
            bound = scale * alpha * settings.epsilon + settings.misspecification
            counts.add(errors, bound, self.agent.horizon - stage)
        if stage == 0 and known.covered:
            best = self.testbed.optimal_value(state)
            gaps = best - np.array([values.of(state) for values in policies])
            for scale, counts in zip(self._scales, self._rows[2], strict=True):
                counts.add(gaps, scale * known.gap, best - self._lowest(state))


def scaled(claim: str, scale: float) -> str:
    return claim if scale == 1 else f"{claim}, α × {scale:g}"

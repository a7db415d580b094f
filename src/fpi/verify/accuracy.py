"""Lemmas 4, 5 and 6: how far estimates and the policy may be off, against exact values."""

from __future__ import annotations

import numpy as np

from fpi.algorithms.pac import PAC
from fpi.testbeds.core import State, Testbed
from fpi.verify.exact import Values, lowest_value, played_policy, pool, predicted_policy
from fpi.verify.monitors import Monitor

PREFIXES = 12
LEMMAS = ("Lemma 4", "Lemma 5", "Lemma 6")


class Accuracy(Monitor):
    """Looks at fresh states every time, under two policies: pi_t and the predicted one.

    Lemma 4: |Q~_k - Q^pi| <= alpha |phi| + kappa for prefixes k, half of them spread evenly and half over magnitudes.
    Lemma 5: |Q_t - Q^pi| <= alpha eps + kappa at covered (s, a).
    Both count where the bound is below the number of stages left, since Q^pi is between 0 and that.
    Lemma 6: at covered starts V* - V^pi is at most the gap that `explain` promises. It is the lemma's 2H (alpha eps +
    kappa) or less, since the start's own width is known. Counts where some policy loses more.

    `scale` multiplies alpha, to see how much room there is where the theory's constant says nothing.
    """

    def __init__(self, testbed: Testbed, agent: PAC, *, walks: int = 40, scale: float = 1.0) -> None:
        super().__init__(testbed, agent, *(scaled_name(lemma, scale) for lemma in LEMMAS))
        self._walks = walks
        self._checks = 0
        self._lowest = lowest_value(testbed)
        self._scale = scale

    def check(self) -> None:
        makers = (played_policy, predicted_policy)
        policies = [Values(self.testbed, make(self.testbed, self.agent)) for make in makers]
        self._checks += 1
        for stage, states in enumerate(pool(self.testbed, self._walks, seed=self._checks)):
            alphas = {k: self._scale * self.agent.alpha(stage, k) for k in self._prefixes(stage)}
            for state in states:
                exact = np.array([values.of_actions(state) for values in policies])
                self._lemma_4(state, exact, alphas)
                self._lemmas_5_and_6(state, exact, policies)

    def _prefixes(self, stage: int) -> list[int]:
        size = self.agent.datasets.size(stage)
        even = np.linspace(0, size, PREFIXES // 2)
        magnitudes = np.geomspace(1, size + 1, PREFIXES // 2) - 1
        return sorted({int(k) for k in np.concatenate([even, magnitudes]).round()})

    def _lemma_4(self, state: State, exact: np.ndarray, alphas: dict[int, float]) -> None:
        stage, kappa = state[0], self.agent.settings.misspecification
        observation = self.testbed.observation(state)
        for k, alpha in alphas.items():
            widths, values = self.agent.datasets.estimate(observation, stage, k)
            self.tallies[0].add(np.abs(values - exact), alpha * widths + kappa, self.agent.horizon - stage)

    def _lemmas_5_and_6(self, state: State, exact: np.ndarray, policies: list[Values]) -> None:
        stage, settings = state[0], self.agent.settings
        known = self.agent.explain(self.testbed.observation(state), stage)
        bound = self._scale * self.agent.alpha(stage, known.prefix) * settings.epsilon + settings.misspecification
        covered = known.widths <= self.agent.datasets.threshold
        self.tallies[1].add(np.abs(known.values - exact)[:, covered], bound, self.agent.horizon - stage)
        if stage == 0 and known.covered:
            best = self.testbed.optimal_value(state)
            gaps = best - np.array([values.of(state) for values in policies])
            self.tallies[2].add(gaps, self._scale * known.gap, best - self._lowest(state))


def scaled_name(claim: str, scale: float) -> str:
    return claim if scale == 1 else f"{claim}, α × {scale:g}"

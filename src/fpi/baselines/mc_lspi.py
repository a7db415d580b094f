"""Monte-Carlo least squares, online: ridge regression of the returns of all steps, and chance.

    w_h = (ridge I + sum x x')^{-1} sum x (rewards from stage h to the end)
    play argmax <phi, w_h>, but any action in one of ten steps

No cover, no freezing: what FPI-PAC is without its two ideas. Nothing is proved of it; returns of early policies stay in
the regression, and chance needs 2^N episodes to cross a deep sea.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fpi.baselines.access import FloatArray, Online, View
from fpi.baselines.method import Method, Policy, greedy


@dataclass
class MonteCarloLSPI(Method):
    """Ridge regression of returns with a `chance` of any action."""

    access = Online
    constants = "none"

    ridge: float = 0.1
    chance: float = 0.1
    seed: int = 0

    def run(self, access: Online) -> Iterator[Policy]:
        rng = np.random.default_rng((self.seed, 3))
        d = access.dim
        self.w = np.zeros((access.horizon, d))
        grams = np.tile(self.ridge * np.eye(d), (access.horizon, 1, 1))
        totals = np.zeros((access.horizon, d))
        self.numbers = 2 * totals.size + grams.size
        while True:
            played: list[tuple[int, FloatArray, float]] = []
            view: View | None = access.reset()
            while view is not None:
                action = int(rng.integers(access.actions)) if rng.random() < self.chance else self.policy(view)
                reward, after = access.step(action)
                played.append((view.stage, view.features[action], reward))
                view = after
            later = 0.0
            for stage, x, reward in reversed(played):
                later += reward
                grams[stage] += np.outer(x, x)
                totals[stage] += later * x
                self.w[stage] = np.linalg.solve(grams[stage], totals[stage])
            yield self.policy

    def policy(self, view: View) -> int:
        return greedy(view.features @ self.w[view.stage])

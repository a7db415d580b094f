"""OFUL, also called LinUCB: one regression of everything seen, and the action that could be best.

With V_t = lambda I + sum x x' over all rounds so far and theta_t their ridge regression,

    beta_t = sigma sqrt(2 ln(1 / delta) + ln det V_t / det(lambda I)) + sqrt(lambda) B
    a_t = argmax_a <x_a, theta_t> + beta_t |x_a| in V_t^{-1}

With probability 1 - delta the true theta is within beta_t of theta_t in every round, and the regret is O~(d sqrt(T)).
Rewards in [0, 1] are sigma = 1/2-subGaussian; B bounds |theta|. (Abbasi-Yadkori, Pál and Szepesvári, 2011)
"""

from __future__ import annotations

import math
from typing import Any

from fpi.baselines import _ridge
from fpi.baselines.base import LinearBandit
from fpi.data import Act
from fpi.training import TrainingState

SIGMA = 0.5


class OFUL(LinearBandit):
    """OFUL for environments of one stage. `scale` multiplies beta_t; 1.0 is the theory."""

    @property
    def beta(self) -> float:
        """The radius of the confidence ellipsoid, times `scale`."""
        noise = SIGMA * math.sqrt(2 * math.log(1 / self.delta) + self.log_dets[0])
        return self.scale * (noise + math.sqrt(self.ridge) * self.theta_bound)

    def begin_episode(self, training_state: TrainingState) -> Act:
        def act(observation: Any, stage: int) -> tuple[int, bool]:
            rows, inverses, thetas = self.look(observation, stage)
            action = int(_ridge.optimistic(inverses[0], thetas[0], rows, self.beta))
            self.keep(0, rows[action])
            return action, True  # every round is stored

        return act

    def predict(self, observation: Any, stage: int) -> int:
        """The best estimate."""
        rows, inverses, thetas = self.look(observation, stage)
        return int(_ridge.optimistic(inverses[0], thetas[0], rows, 0.0))

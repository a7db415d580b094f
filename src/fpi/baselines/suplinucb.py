"""SupLinUCB: levels of accuracy, each with a regression of its own rounds, and elimination between them.

Level s = 1, ..., S = ceil(log2 T) has V_s = I + sum x x' over the rounds stored there, and w_s(a) = beta |x_a| in
V_s^{-1} with beta = sqrt(ln(2 T K / delta) / 2) + B, where B bounds |theta|. In every round, with all actions allowed,
from level 1 upwards:

    all w_s <= 1 / sqrt(T): play the largest <x, theta_s> + w_s, store nothing
    all w_s <= 2^-s:        keep the actions whose <x, theta_s> + w_s is within 2^(1-s) of the largest, go on to s + 1
    else:                   play an allowed action with w_s > 2^-s, store the round in level s

What a level stores was chosen by widths, which do not depend on its rewards: these are independent, beta needs no
log determinant, and the regret is O~(sqrt(d T)). It has to know T. (Chu, Li, Reyzin and Schapire, 2011)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi._validation import check_whole
from fpi.baselines import _ridge
from fpi.baselines.base import LinearBandit
from fpi.data import Act
from fpi.errors import InputError
from fpi.features import FeatureMap
from fpi.training import TrainingState

EXPLORING = {"widest": _ridge.WIDEST, "optimistic": _ridge.OPTIMISTIC}


class SupLinUCB(LinearBandit):
    """SupLinUCB for `rounds` = T episodes of one stage. `scale` multiplies beta; 1.0 is the theory.

    `explore` says which of the wide actions to play: the "widest", or the most "optimistic", that is the one with the
    largest upper bound. The analysis covers both.
    """

    def __init__(
        self,
        features: FeatureMap | Callable[..., Any],
        *,
        actions: int,
        rounds: int,
        explore: str = "widest",
        scale: float = 1.0,
        delta: float = 0.05,
        theta_bound: float | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        check_whole("rounds", rounds, least=1)
        if explore not in EXPLORING:
            raise InputError(f"explore is {explore!r}; choose one of {', '.join(EXPLORING)}.")
        self.rounds = int(rounds)
        self.levels = max(1, math.ceil(math.log2(self.rounds)))
        self.explore = explore
        super().__init__(
            features, actions=actions, scale=scale, delta=delta, theta_bound=theta_bound, reward_range=reward_range
        )

    @property
    def beta(self) -> float:
        """The factor of the widths, times `scale`."""
        noise = math.sqrt(math.log(2 * self.rounds * self.actions / self.delta) / 2)
        return self.scale * (noise + self.theta_bound)

    def begin_episode(self, training_state: TrainingState) -> Act:
        if training_state.episodes >= self.rounds:
            raise InputError(
                f"this SupLinUCB was made for {self.rounds:,} episodes and has played them. Make a new one with more "
                "rounds."
            )

        def act(observation: Any, stage: int) -> tuple[int, bool]:
            rows, action, level, _ = self._round(observation, stage)
            self.keep(level, rows[action])
            return action, level >= 0

        return act

    def predict(self, observation: Any, stage: int) -> int:
        """The best estimate of the last level that this state passes, among the actions it allows."""
        return self._round(observation, stage)[3]

    def _round(self, observation: Any, stage: int) -> tuple[NDArray[np.float64], int, int, int]:
        rows, inverses, thetas = self.look(observation, stage)
        narrow = 1 / math.sqrt(self.rounds)
        return rows, *_ridge.layered(inverses, thetas, rows, self.beta, narrow, EXPLORING[self.explore])

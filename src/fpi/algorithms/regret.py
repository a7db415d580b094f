"""FPI-Regret, Algorithm 2 of the paper: many accuracy levels, regret of order sqrt(T), Uniform-PAC.

`levels` has the text of the algorithm, from its line 3 to what is stored; here is what the linear case fills in. With
phi_i the features of the data of a stage and level l, and

    Sigma_k^(l) = ridge * I + sum_{i <= k} phi_i phi_i'
    D_l         = a bound on the size of a dataset of level l
    alpha_l     = the factor between widths and errors of estimates on at most D_l data
    Delta_l     = alpha_l 2^-l + kappa
    L-bar       = floor(log2(sqrt(H) / kappa)) + 1

(s, a) is covered by the first k data of level l if |phi(s, a)| in the inverse of Sigma_k^(l) is at most 2^-l, and
Q^(l)(s, a) is the ridge estimate from them. Every action loses at most of the order of Delta_{l-1} where it is explored
at level l; levels fill up after H D_l episodes. Hence Theorem 2: with probability 1 - delta, for all T at once,

    Reg(T) = O~(sqrt(d^2 H^6 T) + sqrt(d) H^2 T kappa).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi.algorithms.agent import Summary, init_from_settings, linear_constants
from fpi.algorithms.levels import LeveledAgent
from fpi.algorithms.theory import Constants, levels
from fpi.datasets import Datasets
from fpi.errors import InputError
from fpi.features import FeatureMap, as_feature_map
from fpi.settings import RegretSettings, check_cells

MOST_LEVELS = 40  # 4^40 episodes would be needed to fill a level beyond


class Regret(LeveledAgent):
    """Frozen Policy Iteration for regret (Algorithm 2). It needs no accuracy and no number of episodes.

    >>> import fpi
    >>> from fpi import testbeds
    >>> testbed = testbeds.LinBandit(d=6, K=10)
    >>> agent = fpi.Regret(testbed.features, actions=10, horizon=1, theta_bound=testbed.theta_bound, scale=0.1)
    >>> history = agent.learn(testbed.env(), episodes=50, seed=0)
    >>> len(agent.dataset(stage=0, level=1)) > 0
    True

    `features` is as for `fpi.PAC`, `fpi.settings.RegretSettings` says what the other arguments mean, and ties are
    broken as there. With `scale=1`, the theory, action sets shrink only after very many episodes; practice needs less,
    and says so.
    """

    settings: RegretSettings
    datasets: Datasets

    @init_from_settings(RegretSettings)
    def __init__(self, features: FeatureMap | Callable[..., Any], settings: RegretSettings) -> None:
        self.ridge = 1 / int(settings.horizon) if settings.ridge is None else float(settings.ridge)
        possible = levels(settings.horizon, settings.misspecification) - 1
        self.levels = int(min(settings.max_level or MOST_LEVELS, MOST_LEVELS, possible))
        cells = settings.horizon * settings.actions * self.levels
        check_cells("horizon x actions x levels", cells, "Use a shorter horizon, or a smaller max_level.")
        if not isinstance(settings.first_level, str) and settings.first_level > self.levels:
            raise InputError(
                f"first_level is {settings.first_level}, but the last level is {self.levels}: begin earlier."
            )
        known = as_feature_map(features, settings.actions)
        epsilons = [2.0**-level for level in range(1, self.levels + 1)]
        super().__init__(settings, Datasets(known, settings.horizon, self.ridge, epsilons))
        self._gaps: dict[int, NDArray[np.float64]] = {}

    def summary(self) -> Summary:
        """How much of what was visited is covered, how many data it took, and whether `scale` made a difference yet."""
        settings = self.settings
        by_scale = self.eliminated is not False or settings.explore == "optimistic" or settings.first_level == "auto"
        note = (
            f"scale has not acted yet: no action is eliminated, so any scale from {settings.scale:g} on gives the same"
        )
        return replace(super().summary(), note="" if by_scale or not self.episodes else note)

    # --- the constants of the appendix on Section 5 ------------------------------------------------------------------

    @cached_property
    def theory(self) -> Constants:
        """The constants of the analysis for these settings; needs features that have shown their dimension."""
        constants = linear_constants(self, self.settings, self.ridge, scale=self.settings.scale, max_level=self.levels)
        first = self.settings.first_level
        return replace(constants, first_level=constants.first_promising_level() if first == "auto" else int(first))

    @property
    def first_level(self) -> int:  # type: ignore[override]
        """The level that the algorithm begins with."""
        return self.theory.first_level

    def stage_gaps(self, level: int) -> NDArray[np.float64]:
        """Delta_l = alpha_l 2^-l + kappa. It must not follow the data, or frozen action sets would change."""
        if level not in self._gaps:
            self._gaps[level] = self.theory.stage_gaps(2.0**-level, level)
        return self._gaps[level]

    def optimism(self, stage: int, level: int) -> float:
        """alpha_l, times `scale`."""
        return float(self.stage_gaps(level)[stage] - self.settings.misspecification) * 2.0**level

    def errors(self, stage: int, level: int, prefix: int) -> tuple[float, float]:
        """alpha from the data at hand: their number and log determinant at the frozen prefix, which stay."""
        alpha = self.theory.alpha(prefix, self.datasets.log_det(stage, prefix, level), level, stage)
        return alpha, self.settings.misspecification

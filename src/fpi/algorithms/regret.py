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
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fpi._validation import check_real, check_whole
from fpi.algorithms.agent import MOST_CELLS, Common, linear_constants
from fpi.algorithms.levels import MOST_LEVELS, LeveledAgent, check_elimination
from fpi.algorithms.theory import Constants, levels
from fpi.datasets import Datasets
from fpi.errors import InputError
from fpi.features import FeatureMap, as_feature_map
from fpi.regression import SMALLEST_RIDGE


@dataclass(frozen=True, kw_only=True)
class Settings(Common):
    """Everything that shapes a Regret agent beside its features."""

    explore: str = "greedy"
    scale: float = 1.0
    """Multiplies alpha_l: 1 is the theory, smaller values eliminate sooner than it allows."""
    ridge: float | None = None
    """lambda of the regressions; None is the paper's 1/H."""
    max_level: int | None = None
    """The last level to test and store; None is as many as the misspecification allows, and never more than 40."""
    elimination: str = "paper"
    """How far below the best an action may be and stay; see `levels.ELIMINATIONS`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real("scale", self.scale, "a number above 0; 1 is the theory", lambda x: x > 0)
        if self.ridge is not None:
            wanted = f"None for 1/H, or a finite number of at least {SMALLEST_RIDGE:g}"
            check_real("ridge", self.ridge, wanted, lambda x: x >= SMALLEST_RIDGE)
        if self.max_level is not None:
            check_whole("max_level", self.max_level, least=1)
        check_elimination(self.elimination)
        cells = self.horizon * self.actions * self.levels
        if cells > MOST_CELLS:
            raise InputError(
                f"horizon x actions x levels is {cells:,}; each has a dataset of its own, and {MOST_CELLS:,} are the "
                "most. Use a shorter horizon, or a smaller max_level."
            )

    @property
    def levels(self) -> int:
        """The last level that is tested and stored."""
        wanted = MOST_LEVELS if self.max_level is None else int(self.max_level)
        return int(min(wanted, MOST_LEVELS, levels(self.horizon, self.misspecification) - 1))


class Regret(LeveledAgent):
    """Frozen Policy Iteration for regret (Algorithm 2). It needs no accuracy and no number of episodes.

    >>> import fpi
    >>> from fpi import testbeds
    >>> testbed = testbeds.LinBandit(d=6, K=10)
    >>> agent = fpi.Regret(testbed.features, actions=10, horizon=1, theta_bound=testbed.theta_bound, scale=0.1)
    >>> history = agent.learn(testbed.env(), episodes=50, seed=0)
    >>> len(agent.dataset(stage=0, level=1)) > 0
    True

    `features` is as for `fpi.PAC`, `Settings` says what the other arguments mean, and ties are broken as there. With
    `scale=1`, the theory, action sets shrink only after very many episodes; practice needs less, and says so.
    """

    settings: Settings
    datasets: Datasets

    def __init__(
        self,
        features: FeatureMap | Callable[..., Any],
        *,
        actions: int,
        horizon: int,
        scale: float = 1.0,
        ridge: float | None = None,
        max_level: int | None = None,
        explore: str = "greedy",
        elimination: str = "paper",
        delta: float = 0.05,
        misspecification: float = 0.0,
        theta_bound: float | None = None,
        constants: str = "tight",
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        settings = Settings(
            actions=actions,
            horizon=horizon,
            scale=scale,
            ridge=ridge,
            max_level=max_level,
            explore=explore,
            elimination=elimination,
            delta=delta,
            misspecification=misspecification,
            theta_bound=theta_bound,
            constants=constants,
            reward_range=reward_range,
        )
        self.ridge = 1 / int(horizon) if ridge is None else float(ridge)
        self.levels = settings.levels
        known = as_feature_map(features, settings.actions)
        epsilons = [2.0**-level for level in range(1, self.levels + 1)]
        super().__init__(settings, Datasets(known, settings.horizon, self.ridge, epsilons))
        self._gaps: dict[int, float] = {}

    # --- the constants of the appendix on Section 5 ------------------------------------------------------------------

    @cached_property
    def theory(self) -> Constants:
        """The constants of the analysis for these settings; needs features that have shown their dimension."""
        return linear_constants(self, self.ridge, scale=self.settings.scale, max_level=self.levels)

    def level_gap(self, level: int) -> float:
        """Delta_l = alpha_l 2^-l + kappa. It must not follow the data, or frozen action sets would change."""
        if level not in self._gaps:
            self._gaps[level] = self.theory.level_gap(level)
        return self._gaps[level]

    def errors(self, stage: int, level: int, prefix: int) -> tuple[float, float]:
        """alpha from the data at hand: their number and log determinant at the frozen prefix, which stay."""
        alpha = self.theory.alpha(prefix, self.datasets.log_det(stage, prefix, level), level)
        return alpha, self.settings.misspecification

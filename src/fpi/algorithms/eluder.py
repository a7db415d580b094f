"""FPI for general function classes, the paper's last appendix: a class F of candidate functions instead of features.

The algorithm is Algorithm 2 (`levels`); coverage, estimates and bounds are those of a function class. With the data
(s_i, a_i, q_i) of a stage and level l in order,

    f_k     = argmin over f in F of sum_{i <= k} (f(s_i, a_i) - q_i)^2
    F_k     = {f in F: sum_{i <= k} (f(s_i, a_i) - f_k(s_i, a_i))^2 <= beta*_k(F, delta / 4Hl^2, 1 / T^2)}
    Delta_l = 2^-l
    L-bar   = floor(log2 T) + 1

(s, a) is covered by the first k data if it is 2^-l-dependent on them with respect to F, and the functions of F_k differ
by at most 2^-l there. Widths are not monotone in k, so k^(l)(s) is found by looking at every prefix; but once there is
one it stays the first, and all is frozen as before. Q^(l)(s, a) = f_k(s, a) at k = k^(l)(s).

With probability 1 - delta, Reg(T) = O(sqrt(H^6 T dim_E(F, 1/T) (log(HT / delta) + log N(F, 1/T^2)))), if Q^pi is in F
for every policy pi. T, the number of episodes, must be known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fpi.algorithms.agent import init_from_settings
from fpi.algorithms.levels import LeveledAgent
from fpi.algorithms.theory import LevelBounds
from fpi.envs import RewardRange
from fpi.errors import InputError
from fpi.function_classes import FunctionClass, beta, dataset_bound, level_delta
from fpi.function_classes.datasets import ClassDatasets
from fpi.settings import EluderSettings


class Eluder(LeveledAgent):
    """Frozen Policy Iteration for a class of functions, which must contain Q^pi for every policy pi.

    >>> import fpi
    >>> from fpi import function_classes, testbeds
    >>> testbed = testbeds.TableBandit()
    >>> candidates = function_classes.FiniteClass(testbed.tables, max_value=1.0)
    >>> agent = fpi.Eluder(candidates, actions=testbed.actions, horizon=1, episodes=500)
    >>> history = agent.learn(testbed.env(), episodes=500, seed=0)
    >>> len(history.returns)
    500

    `function_class` is one of `fpi.function_classes`, or your own; `fpi.settings.EluderSettings` says what the other
    arguments mean.
    """

    settings: EluderSettings
    datasets: ClassDatasets

    @init_from_settings(EluderSettings)
    def __init__(self, function_class: FunctionClass, settings: EluderSettings) -> None:
        actions, horizon = settings.actions, settings.horizon
        if not isinstance(function_class, FunctionClass):
            raise InputError(
                f"{function_class!r} is not a function class: it needs min_value, max_value, rows, log_covering and "
                "prefixes, as fpi.function_classes.FunctionClass says. For features there are fpi.PAC and fpi.Regret."
            )
        if function_class.actions != actions:
            raise InputError(f"actions is {actions}, but the function class has values for {function_class.actions}.")
        low, high = RewardRange(*settings.reward_range).value_range(horizon)
        if function_class.min_value > low + 1e-9 * horizon or function_class.max_value < high - 1e-9 * horizon:
            raise InputError(
                f"the functions go from {function_class.min_value:g} to {function_class.max_value:g}, but the rewards "
                f"of {horizon} stages, divided by their span, may add up to anything from {low:g} to {high:g}. Make "
                f"the class with min_value={low:g} and max_value={high:g}."
            )
        self.function_class = function_class
        self.levels = max(1, math.floor(math.log2(settings.episodes)))  # L-bar - 1
        super().__init__(settings, ClassDatasets(function_class, settings.horizon, self.levels, self.beta))

    def check_learns(self, episodes: int) -> None:
        """Raise InputError for more episodes, in all, than the agent was made for, T."""
        super().check_learns(episodes)
        if isinstance(episodes, int | np.integer) and self.episodes + episodes > self.settings.episodes:
            raise InputError(
                f"{self.episodes + episodes:,} episodes, but this agent was made for {self.settings.episodes:,}, and "
                f"its constants depend on that. {self.settings.episodes - self.episodes:,} are left; for more, make an "
                "agent with a larger `episodes`."
            )

    # --- the constants of the appendix --------------------------------------------------------------------------------

    def beta(self, level: int, k: int, stage: int = 0) -> float:
        """beta*_k(F, delta / 4Hl^2, 1 / T^2), the radius of F_k, times `scale`. Later stages have less noise."""
        alpha = self.settings.episodes**-2.0
        share = level_delta(self.settings.delta, self.horizon, level)
        covering = self.function_class.log_covering(alpha)
        apart = self.function_class.max_value - self.function_class.min_value
        mode, noise = self.settings.constants, self.rewards.noise * math.sqrt(1 - stage / self.horizon)
        radius = beta(k, covering, self.horizon, share, alpha, mode=mode, noise=noise, apart=apart)
        return self.settings.scale * radius

    def stage_gaps(self, level: int) -> NDArray[np.float64]:
        """Delta_l = 2^-l."""
        return np.full(self.horizon, 2.0**-level)

    def dataset_bound(self, level: int) -> int:
        """D_l: no stage stores more data of this level."""
        return dataset_bound(self.function_class, 2.0**-level, lambda k: self.beta(level, k), self.settings.episodes)

    def optimism(self, stage: int, level: int) -> float:
        """Widths are errors."""
        return 1.0

    def errors(self, stage: int, level: int, prefix: int) -> tuple[float, float]:
        """If the width of F_k is w, then |f_k - Q^pi| <= w: the true function is in F_k."""
        return 1.0, 0.0

    @property
    def theory(self) -> ClassConstants:
        """What the appendix promises of the regret, with its constants."""
        return ClassConstants(self, self.horizon, self.levels)


@dataclass(frozen=True)
class ClassConstants(LevelBounds):
    """D_l and Delta_l of an agent, and what follows from them: Theorem 4 is `regret_bound`."""

    agent: Eluder
    horizon: int
    max_level: int

    misspecification = 0.0

    def levels(self) -> float:
        """L-bar."""
        return self.max_level + 1

    def dataset_bound(self, epsilon: float) -> float:
        """D_l, for epsilon = 2^-l."""
        return self.agent.dataset_bound(round(-math.log2(epsilon)))

    def level_gap(self, level: int) -> float:
        """Delta_l = 2^-l; level 0 promises nothing."""
        return self.agent.level_gap(level) if level > 0 else math.inf

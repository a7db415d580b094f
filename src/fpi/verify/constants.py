"""The constants of an instance by `formulas`, and the monitor that compares what the library says with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fpi.testbeds.base import Testbed
from fpi.verify import formulas
from fpi.verify.exact import pool
from fpi.verify.instances import DELTA, Instance
from fpi.verify.monitors import Monitor

EQUAL = 1e-7  # relative; two ways of finding D differ by less
PREFIXES = 5
HIGHEST = 40  # the last level of any agent


class Constants:
    """What the paper says of an instance."""

    def __init__(self, testbed: Testbed, instance: Instance) -> None:
        self.horizon, self.instance = testbed.horizon, instance
        self.leveled = instance.algorithm != "PAC"

    @property
    def accuracies(self) -> list[float]:
        """epsilon, or 2^-l of all levels that are tested."""
        return [0.5**level for level in range(1, self.last)] if self.leveled else [self.instance.epsilon]

    last: int
    """L-bar, or one beyond the last level that is tested."""

    def level_gap(self, level: int) -> float:
        raise NotImplementedError

    def most_data(self, level: int) -> float:
        """D_l."""
        raise NotImplementedError

    def errors(self, level: int, k: int, log_det: float | None) -> tuple[float, float]:
        """Factor and bias of the errors of estimates at a prefix, in widths."""
        raise NotImplementedError

    def radius(self, level: int) -> Callable[[int], float]:
        """beta of a level."""
        raise NotImplementedError

    def margins(self, stage: int, level: int, k: int, log_det: float | None) -> tuple[float, float, float]:
        """Eq. (7) by three rules: factor and bias of errors at the state itself, and a slack."""
        left, gap = self.horizon - stage, self.level_gap(level)
        if self.instance.elimination == "paper":
            return 0.0, 0.0, 2 * self.horizon * gap
        if self.instance.elimination == "stage":
            return 0.0, 0.0, 2 * left * gap
        return *self.errors(level, k, log_det), 2 * (left - 1) * gap

    @property
    def levels(self) -> formulas.Levels:
        return formulas.Levels(self.horizon, self.most_data, self.level_gap, self.last)


class LinearConstants(Constants):
    def __init__(self, testbed: Testbed, instance: Instance) -> None:
        super().__init__(testbed, instance)
        self.linear = formulas.Linear(
            self.horizon,
            testbed.dim,
            instance.ridge,
            DELTA,
            testbed.misspecification,
            testbed.theta_bound,
            instance.constants,
            instance.scale if self.leveled else 1.0,
        )
        self.last = int(min(HIGHEST + 1, self.linear.last_level()))

    def level_gap(self, level: int) -> float:
        return self.linear.level_gap(level)

    def most_data(self, level: int) -> float:
        return self.linear.most_data(0.5**level)

    def errors(self, level: int, k: int, log_det: float | None) -> tuple[float, float]:
        return self.linear.alpha(k, log_det, level), self.linear.kappa


class ClassConstants(Constants):
    def __init__(self, testbed: Any, instance: Instance) -> None:
        super().__init__(testbed, instance)
        self.last = max(1, math.floor(math.log2(instance.episodes))) + 1
        self._testbed = testbed
        covering = self._log_covering(instance.episodes**-2.0)
        self.known = formulas.Class(
            self.horizon, DELTA, instance.episodes, covering, instance.constants, instance.scale
        )

    def _ball(self) -> tuple[int, float, tuple[float, float]]:
        """Dimension and radius of the parameters, and the slopes of the link: logistic, or none."""
        if hasattr(self._testbed, "arms"):
            e = math.exp(-self._testbed.radius)
            return self._testbed.arms.dim, self._testbed.radius, (e / (1 + e) ** 2, 0.25)
        return self._testbed.dim, self._testbed.theta_bound, (1.0, 1.0)

    def _log_covering(self, radius: float) -> float:
        if hasattr(self._testbed, "tables"):
            return math.log(len(self._testbed.tables))
        dim, bound, (_, slope) = self._ball()
        return dim * math.log(1 + 2 * slope * bound / radius)

    def level_gap(self, level: int) -> float:
        return 0.5**level

    def most_data(self, level: int) -> float:
        epsilon = 0.5**level
        if not hasattr(self._testbed, "tables"):
            return self.known.most_data(level, formulas.most_in_ball(*self._ball(), epsilon))
        size, _, states, actions = self._testbed.tables.shape
        growth = math.floor(formulas.most_growth(size - 1, 0.5, size * self.horizon**2 / (2 * epsilon**2)))
        dim = min(size * (size - 1) // 2, states * actions, growth)
        return self.known.most_data(level, formulas.most_dependent(dim, epsilon))

    def errors(self, level: int, k: int, log_det: float | None) -> tuple[float, float]:
        return 1.0, 0.0

    def radius(self, level: int) -> Callable[[int], float]:
        return lambda k: self.known.beta(level, k)


def constants_of(testbed: Testbed, instance: Instance) -> Any:
    return (ClassConstants if instance.algorithm == "Eluder" else LinearConstants)(testbed, instance)


class Formulas(Monitor):
    """Every constant that decides or promises something, against `formulas`, beyond rounding."""

    def begin(self) -> None:
        self.constants = constants_of(self.testbed, self.instance)
        self._once = True

    def compare(self, name: object, said: Any, typed: Any) -> None:
        said, typed = np.asarray(said, np.float64), np.asarray(typed, np.float64)
        with np.errstate(invalid="ignore"):
            apart = np.where(said == typed, 0.0, np.abs(said - typed) / (1 + np.abs(typed)))
        self.counts[0].add(np.nan_to_num(apart, nan=np.inf), EQUAL, np.inf, [name])

    def check(self) -> None:
        if self._once:
            self._once = False
            (self._bounds_of_levels if self.constants.leveled else self._bounds)()
        if self.instance.algorithm == "Eluder":
            for level in range(1, self.constants.last):
                for k in (0, 1, 10, self.instance.episodes):
                    self.compare(("beta", level, k), self.agent.beta(level, k), self.constants.known.beta(level, k))
        for states in pool(self.testbed, PREFIXES, seed=self.agent.episodes):
            for state in states:
                known = self.agent.explain(self.testbed.observation(state), state[0])
                (self._promise_of_level if self.constants.leveled else self._promise)(state[0], known)

    def _bounds(self) -> None:
        linear, epsilon, theory = self.constants.linear, self.instance.epsilon, self.agent.theory
        self.compare("D", self.agent.dataset_bound, linear.most_data(epsilon))
        self.compare("gap", theory.gap(epsilon), linear.gap(epsilon))
        self.compare("episodes", theory.episodes_bound(epsilon), self.testbed.horizon * linear.most_data(epsilon))

    def _alpha(self, stage: int, k: int) -> float:
        """Of Section 4: "paper" has one for all datasets."""
        linear = self.constants.linear
        if self.instance.constants == "paper":
            return float(linear.alpha(linear.most_data(self.instance.epsilon)))
        features = self.agent.dataset(stage).features[:k]
        sigma = np.eye(self.testbed.dim) + features.T @ features / self.instance.ridge
        return float(linear.alpha(k, np.linalg.slogdet(sigma)[1]))

    def _promise(self, stage: int, known: Any) -> None:
        """Lemmas 4 and 6, from this stage on."""
        kappa, horizon = self.constants.linear.kappa, self.testbed.horizon
        errors = self._alpha(stage, known.prefix) * known.widths + kappa
        self.compare(("error", stage), known.value_error, errors)
        if known.covered:
            later = max(self._alpha(h, len(self.agent.dataset(h).targets)) for h in range(stage, horizon))
            worst = later * self.instance.epsilon + kappa
            self.compare(("promise", stage), known.gap, 2 * errors.max() + 2 * (horizon - stage - 1) * worst)

    def _bounds_of_levels(self) -> None:
        constants, theory = self.constants, self.agent.theory
        self.compare("levels", self.agent.levels, constants.last - 1)
        for level in range(1, constants.last):
            self.compare(("D", level), theory.dataset_bound(0.5**level), constants.most_data(level))
            self.compare(("Delta", level), self.agent.level_gap(level), constants.level_gap(level))
            self.compare(("loss", level), theory.level_loss(level), constants.levels.loss(level))
            self.compare(("mistakes", level), theory.mistakes_bound(0.5**level), constants.levels.mistakes(0.5**level))
        for episodes in 10 ** np.arange(1, 8):
            self.compare(("regret", episodes), theory.regret_bound(episodes), constants.levels.regret(episodes))

    def _promise_of_level(self, stage: int, known: Any) -> None:
        """Lemma 20 from this stage on, and eq. (7) at every level."""
        left = self.testbed.horizon - stage
        gap = min(left, 2 * left * self.constants.level_gap(known.level)) if known.level else left
        self.compare(("promise", stage, known.level), known.gap, gap)
        for each in known.level_states[: known.level]:
            log_det = None
            if self.instance.algorithm == "Regret":
                features = self.agent.dataset(stage, each.level).features[: each.covered]
                log_det = np.linalg.slogdet(np.eye(self.testbed.dim) + features.T @ features / self.instance.ridge)[1]
            factor, bias, slack = self.constants.margins(stage, each.level, each.covered, log_det)
            lower = np.where(each.allowed, each.values - factor * each.widths - bias, -np.inf)
            self.compare(("threshold", stage, each.level), each.threshold, lower.max() - slack)

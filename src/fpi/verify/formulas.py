"""The constants of the paper once more, typed from its formulas: this file imports nothing from fpi.

A constant that is a little too small breaks no bound that anybody could see in a run, since all of them have room. So
what the library says is compared with this. "paper" is the paper to the letter; "tight" differs in `Linear.most_in`, in
`variance`, which falls with the stages left (so errors are those of a stage, and losses sum them), and in
`Linear.log_det`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

HIGHEST = 40  # the last level of any agent


def variance(horizon: int, stage: int, mode: str, noise: float) -> float:
    """A return from a stage on is subGaussian with the square root of this, a reward with `noise`."""
    return horizon if mode == "paper" else (horizon - stage) * noise**2


def largest(holds: Callable[[float], bool], above: float) -> float:
    """The largest n <= above at which `holds` is true, if it is true up to some n and false from there on."""
    below = 0.0
    for _ in range(200):
        middle = (below + above) / 2
        below, above = (middle, above) if holds(middle) else (below, middle)
    return below


class Levels:
    """What follows from D_l, Delta_l and L-bar: eq. (7), Lemmas 21 and 22, Theorems 2 to 4."""

    horizon: int
    first: int
    """The first level that is tested."""
    last: int
    """The level that stores nothing: L-bar, or one beyond the last that is tested."""

    def most_data(self, level: int) -> float:
        """D_l."""
        raise NotImplementedError

    def stage_gap(self, stage: int, level: int) -> float:
        """Delta_l."""
        raise NotImplementedError

    def errors(self, stage: int, level: int, k: int, log_det: float | None) -> tuple[float, float]:
        """Factor and bias of the errors of estimates at a prefix, in widths."""
        raise NotImplementedError

    def level_gap(self, level: int) -> float:
        """Where it is largest."""
        return max(self.stage_gap(stage, level) for stage in range(self.horizon))

    def later(self, stage: int, level: int) -> float:
        """The sum from a stage on."""
        return sum(self.stage_gap(each, level) for each in range(stage, self.horizon))

    def margins(self, rule: str, stage: int, level: int, k: int, log_det: float | None) -> tuple[float, float, float]:
        """Eq. (7) by three rules: factor and bias of errors at the state itself, and a slack."""
        if rule == "paper":
            return 0.0, 0.0, 2 * self.horizon * self.level_gap(level)
        if rule == "stage":
            return 0.0, 0.0, 2 * self.later(stage, level)
        return *self.errors(stage, level, k, log_det), 2 * self.later(stage + 1, level)

    def loss(self, level: int) -> float:
        """Of an episode whose lowest level is this; below the first nothing is promised, and 4 H Delta_0 is H."""
        if level <= self.first:
            return self.horizon
        gaps = [self.level_gap(each - 1) for each in range(min(level, self.last), self.last + 1)]
        return min(self.horizon, 4 * self.horizon**2 * max(gaps))

    def episodes_at(self, level: int) -> float:
        return self.horizon * self.most_data(level) + 1 if level < self.last else math.inf

    def regret(self, episodes: float) -> float:
        """Theorem 2: levels fill up from the first."""
        total, level = 0.0, self.first
        while episodes > 0:
            here = min(episodes, self.episodes_at(level))
            total, episodes, level = total + here * self.loss(level), episodes - here, level + 1
        return total

    def mistakes(self, epsilon: float) -> float:
        """Theorem 3: episodes that may lose more than this."""
        total, level = 0.0, self.first
        while total < math.inf and self.loss(level) > epsilon:
            total, level = total + self.episodes_at(level), level + 1
        return total


@dataclass(frozen=True)
class Linear(Levels):
    """Sections 4 and 5, for features of norm at most 1."""

    horizon: int
    dim: int
    ridge: float
    delta: float
    kappa: float
    theta_bound: float
    mode: str
    scale: float = 1.0
    noise: float = 0.5
    first_level: int | str = 1

    @cached_property
    def first(self) -> int:  # type: ignore[override]
        """As given, or where 2 H Delta_l < H, or 1."""
        if self.first_level != "auto":
            return int(self.first_level)
        return next((level for level in range(1, self.last) if 2 * self.level_gap(level) < 1), 1)

    @cached_property
    def last(self) -> int:  # type: ignore[override]
        """L-bar with log2 for ln, or one beyond the last level of any agent."""
        if self.kappa == 0:
            return HIGHEST + 1
        return min(HIGHEST + 1, max(2, math.floor(math.log2(math.sqrt(self.horizon) / self.kappa)) + 1))

    def most_in(self, epsilon: float) -> float:
        """D, eq. (5), where epsilon > 1 counts as 1; or what ln det has room for."""
        if self.mode == "tight":
            return most_growth(self.dim, epsilon**2, 1 / self.ridge)
        epsilon = min(1.0, epsilon)
        return 2 * self.dim / epsilon**2 * math.log(1 + 4 / (epsilon**4 * self.ridge**2))

    def log_det(self, n: float, known: float | None = None) -> float:
        """The paper bounds what n data make of ln det; "tight" takes what it is, if it is known."""
        most = self.dim * math.log(1 + n / (self.ridge * self.dim))
        return most if self.mode == "paper" or known is None else known

    def alpha(self, n: float, known: float | None = None, level: int | None = None, stage: int = 0) -> float:
        """alpha of Section 4, and alpha_l."""
        events = self.horizon if level is None else 2 * self.horizon * level * level
        spread = variance(self.horizon, stage, self.mode, self.noise)
        noise = math.sqrt(2 * spread * (self.log_det(n, known) / 2 + math.log(events / self.delta)))
        return self.scale * (noise + math.sqrt(n) * self.kappa + math.sqrt(self.ridge) * self.theta_bound)

    def error(self, stage: int, epsilon: float, level: int | None = None) -> float:
        """alpha eps + kappa, whatever the data."""
        return self.alpha(self.most_in(epsilon), level=level, stage=stage) * epsilon + self.kappa

    def gap(self, epsilon: float) -> float:
        """eps-bar of Theorem 1."""
        return 2 * sum(self.error(stage, epsilon) for stage in range(self.horizon))

    def most_data(self, level: int) -> float:
        return self.most_in(0.5**level)

    def stage_gap(self, stage: int, level: int) -> float:
        return self.error(stage, 0.5**level, level)

    def errors(self, stage: int, level: int, k: int, log_det: float | None) -> tuple[float, float]:
        return self.alpha(k, log_det, level, stage), self.kappa


@dataclass(frozen=True)
class Class(Levels):
    """The last appendix, for a class of functions; `log_covering` is ln N(F, 1/T^2)."""

    horizon: int
    delta: float
    episodes: int
    log_covering: float
    mode: str
    most_of: Callable[[float], Callable[[float], float]]
    """How many data of an accuracy there can be, from the radius of the last confidence set."""
    scale: float = 1.0
    noise: float = 0.5

    first = 1

    @property
    def last(self) -> int:  # type: ignore[override]
        return max(1, math.floor(math.log2(self.episodes))) + 1

    def beta(self, level: int, k: int, stage: int = 0) -> float:
        """beta*_k(F, delta / 4Hl^2, 1 / T^2)."""
        share, radius, noise = (
            self.delta / (4 * self.horizon * level**2),
            self.episodes**-2,
            variance(self.horizon, stage, self.mode, self.noise),
        )
        later = 2 * radius * k * (8 * self.horizon + math.sqrt(8 * noise * math.log(4 * k * k / share))) if k else 0.0
        return self.scale * (8 * noise * (self.log_covering + math.log(1 / share)) + later)

    def most_data(self, level: int) -> float:
        """The bound on data for a radius is put into itself until nothing changes, from T on."""
        n, bound = self.episodes, self.most_of(0.5**level)
        while n > 0 and (fewer := math.floor(bound(self.beta(level, n)))) < n:
            n = fewer
        return n

    def stage_gap(self, stage: int, level: int) -> float:
        return 0.5**level

    def errors(self, stage: int, level: int, k: int, log_det: float | None) -> tuple[float, float]:
        return 1.0, 0.0


def most_dependent(dim: float, epsilon: float) -> Callable[[float], float]:
    """Lemma 24: (1 + 4 beta / epsilon^2) dim_E + dim_E."""
    return lambda beta: (2 + 4 * beta / epsilon**2) * dim


@cache
def most_growth(dim: int, gain: float, ratio: float) -> int:
    """How often det(I + sum v v') can grow by 1 + gain, for |v|^2 <= ratio in R^dim: det <= (trace / dim)^dim."""
    if math.log1p(gain) >= ratio:
        return 0
    above = 1.0
    while above * math.log1p(gain) <= dim * math.log(1 + ratio * above / dim):
        above *= 2
    n = largest(lambda n: n * math.log1p(gain) <= dim * math.log(1 + ratio * n / dim), above)
    return math.floor(n * (1 + 1e-12))


def most_in_ball(dim: int, radius: float, slopes: tuple[float, float], epsilon: float) -> Callable[[float], float]:
    """Data of ridge width 2 sqrt(2 beta) |phi| above epsilon, for a ball of parameters and a link with these slopes."""
    low, high = slopes

    def most(beta: float) -> float:
        wide = most_growth(dim, (epsilon * low / high) ** 2 / (8 * beta), (radius * low) ** 2 / beta)
        if 4 * beta >= epsilon**2:
            return wide
        return wide + most_growth(dim, (low / high) ** 2 / 2, (2 * radius * low / epsilon) ** 2)

    return most

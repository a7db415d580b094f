"""The constants of the paper's analysis: nearly as they stand there ("paper"), or smaller by the same proofs ("tight").

Names follow the paper; losses are in spans of rewards. Both modes are valid. "paper" leaves it in three places: the
bound on theta is an input, D takes epsilon > 1 for 1, and L-bar has log2 for ln (D2, D12 and D15 in docs/paper.md). The
bounds of Theorems 2 and 3 are ours in both, since the paper has them up to a factor. "tight" differs in these:
- rewards in [0, 1] are 1/2-subGaussian, so a return from stage h on is sqrt(H-h+1)/2-subGaussian where the paper says
  sqrt(H). Errors then depend on the stage, and what is lost from there on sums those of the stages left;
- every datum multiplies det Sigma by more than 1 + eps^2, so a dataset has at most the largest n with
  n ln(1 + eps^2) <= d ln(1 + n / (ridge d)), where the paper has a closed form;
- where the log determinant of a dataset is known, it takes the place of its bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fpi.errors import InputError
from fpi.function_classes import most_gains

SMALLEST_EPSILON = 1e-6  # of the search in `epsilon_for`


class LevelBounds:
    """What episodes can lose, from the accuracy and the size of every level."""

    horizon: int
    misspecification: float
    max_level: int
    """No level beyond it is tested and stored."""
    first_level: int = 1
    """Nor one before it: there all actions are allowed."""

    def levels(self) -> float:
        """L-bar."""
        raise NotImplementedError

    def dataset_bound(self, epsilon: float) -> float:
        """D_l, for epsilon = 2^-l."""
        raise NotImplementedError

    def level_gap(self, level: int) -> float:
        """Delta_l, of the stage where it is largest; infinite for level 0."""
        raise NotImplementedError

    def level_loss(self, level: int) -> float:
        """min(H, 4 H^2 Delta_{l-1}), H at the first: no episode whose smallest level is l loses more (Lemma 21).

        Its other steps are on levels up to the last, and with a large ridge some of these may have a larger Delta.
        """
        last = int(min(self.levels(), self.max_level + 1))
        if min(level, last) <= self.first_level:
            return self.horizon
        worst = max(self.level_gap(each - 1) for each in range(min(level, last), last + 1))
        return min(self.horizon, 4 * self.horizon**2 * worst)

    def level_episodes(self, level: int) -> float:
        """H D_l + 1: no more episodes have l as their smallest level (Lemma 22). They store a datum there, but for the
        one that tests no further level and may find everything covered, episode t = l - first_level + 1.

        Infinite for the last level, which stores nothing.
        """
        if level > self.max_level or level >= self.levels():
            return math.inf
        return self.horizon * self.dataset_bound(2.0**-level) + 1

    def regret_bound(self, episodes: ArrayLike) -> NDArray[np.float64]:
        """Theorem 2 with its constants: no more is lost in this many episodes, even if levels fill up in order."""
        left = np.array(episodes, np.float64)
        bound = np.zeros_like(left)
        level = self.first_level
        while np.any(left > 0):
            here = np.minimum(left, self.level_episodes(level))
            bound += self.level_loss(level) * here
            left -= here
            level += 1
        return bound

    def trivial_episodes(self) -> float:
        """Up to here `regret_bound` is H T: so many episodes may belong to levels that may lose H."""
        return self.mistakes_bound(self.horizon * (1 - 1e-12))

    def mistakes_bound(self, epsilon: float) -> float:
        """Uniform-PAC: at most so many episodes lose more than epsilon; infinite if the last level may do so."""
        episodes, level = 0.0, self.first_level
        while math.isfinite(episodes) and self.level_loss(level) > epsilon:
            episodes += self.level_episodes(level)
            level += 1
        return episodes


@dataclass(frozen=True)
class Constants(LevelBounds):
    """D, alpha, Delta_l and what follows from them, for one problem."""

    horizon: int
    """H"""
    dim: int
    """d"""
    ridge: float
    """lambda"""
    delta: float
    misspecification: float
    """kappa"""
    theta_bound: float | tuple[float, ...]
    """B, a bound on |theta^pi|, or one for each stage; the paper has sqrt(d) H"""
    mode: str = "tight"
    noise: float = 0.5
    """Rewards, divided by their span, are subGaussian with this."""
    scale: float = 1.0
    """Multiplies alpha; 1 is the theory."""
    max_level: int = 40
    """FPI-Regret tests and stores no level beyond it."""
    first_level: int = 1
    """Nor one before it."""

    def dataset_bound(self, epsilon: float) -> float:
        """D, eq. (5): no stage stores more data (Lemma 1)."""
        if self.mode == "tight":
            return most_gains(self.dim, epsilon**2, 1 / self.ridge)
        inverse = max(1.0, epsilon**-2)  # the paper's proof needs epsilon <= 1
        return 2 * self.dim * inverse * math.log1p(4 * inverse**2 / self.ridge**2)

    def log_det_bound(self, n: float) -> float:
        """log det Sigma_n - log det Sigma_0 <= d ln(1 + n / (lambda d)) for features of norm at most 1."""
        return self.dim * math.log1p(n / (self.ridge * self.dim))

    def alpha(self, n: float, log_det: float | None = None, level: int | None = None, stage: int = 0) -> float:
        """|Q~_k - Q^pi| <= alpha |phi| + kappa (Lemma 4) for datasets of at most n data.

        `log_det` is the log determinant of the dataset if it is known. `level` is that of FPI-Regret, whose union bound
        is over levels too.
        """
        if log_det is None or self.mode == "paper":
            log_det = self.log_det_bound(n)
        noise = self.deviation(stage) * math.sqrt(log_det + 2 * math.log(self.union(level)))
        return self.scale * (noise + math.sqrt(n) * self.misspecification + self.bias(stage))

    def union(self, level: int | None) -> float:
        """How many events a union bound is over, divided by delta."""
        return self.horizon / self.delta if level is None else 2 * self.horizon * level**2 / self.delta

    def deviation(self, stage: int) -> float:
        """A return from a stage on is subGaussian with this."""
        return math.sqrt(self.horizon) if self.mode == "paper" else math.sqrt(self.horizon - stage) * self.noise

    def bias(self, stage: int) -> float:
        """What the ridge adds to alpha."""
        bound = self.theta_bound[stage] if isinstance(self.theta_bound, tuple) else self.theta_bound
        return math.sqrt(self.ridge) * bound

    def stage_gaps(self, epsilon: float, level: int | None = None) -> NDArray[np.float64]:
        """alpha eps + kappa of every stage: how far estimates may be off at covered states, whatever the data."""
        n = self.dataset_bound(epsilon)
        alphas = [self.alpha(n, level=level, stage=stage) for stage in range(self.horizon)]
        return np.array(alphas) * epsilon + self.misspecification

    def gap(self, epsilon: float) -> float:
        """eps-bar = 2H (alpha eps + kappa), summed over the stages: no more is lost where all actions of the start are
        covered (Lemma 6)."""
        return 2 * float(self.stage_gaps(epsilon).sum())

    def episodes_bound(self, epsilon: float) -> float:
        """H D: at most so many episodes lose more than `gap(epsilon)` (Theorem 1)."""
        return self.horizon * self.dataset_bound(epsilon)

    def epsilon_for(self, target: float) -> float:
        """The largest epsilon <= 1 with gap(epsilon) <= target.

        With misspecification the gap has a minimum above 0, and smaller targets cannot be met: an InputError says so.
        """
        if not (math.isfinite(target) and target > 0):
            raise InputError(f"target is {target!r}; pass the loss per episode to aim at, a finite number above 0.")
        return _epsilon_for(self, target)

    def levels(self) -> float:
        """L-bar of FPI-Regret."""
        return levels(self.horizon, self.misspecification)

    def level_gap(self, level: int) -> float:
        """Delta_l = alpha_l 2^-l + kappa, the accuracy of level l; level 0 promises nothing."""
        return math.inf if level == 0 else float(self.stage_gaps(2.0**-level, level).max())

    def first_promising_level(self) -> int:
        """The first below L-bar whose policy is promised to lose less than H, 2 H Delta_l < H; 1 if there is none."""
        tested = range(1, int(min(self.levels() - 1, self.max_level)) + 1)
        return next((level for level in tested if 2 * self.level_gap(level) < 1), 1)


def levels(horizon: int, misspecification: float) -> float:
    """L-bar of FPI-Regret: floor(log2(sqrt(H) / kappa)) + 1, at least 2; infinite without misspecification.

    The paper writes ln, but its regret lemma needs 2^-L-bar <= kappa / sqrt(H).
    """
    if misspecification == 0:
        return math.inf
    return max(2, math.floor(math.log2(math.sqrt(horizon) / misspecification)) + 1)


def covering_data(dim: int, ridge: float, epsilon: float, overlapping: bool) -> float:
    """About how many data of a stage cover every state it may have; they come one an episode. No bound, see below.

    A direction that meets no other takes 1/eps^2 data. Features that overlap took about one more for each dimension
    when random states were covered (tile coding; cosines and bumps half as many again). `Constants.dataset_bound` holds
    for any features in any order, and is several times as large.
    """
    if ridge * epsilon**2 >= 1:  # features of norm at most 1 are covered before any data
        return 0.0
    return dim * (1 + epsilon**-2 if overlapping else max(1.0, epsilon**-2))


_GRID = [math.pow(SMALLEST_EPSILON, i / 400) for i in range(401)]  # from 1 downwards


@lru_cache(maxsize=64)  # agents ask again and again, also where no epsilon will do
def _most_promising(constants: Constants) -> float:
    return min(_GRID, key=constants.gap)


@lru_cache(maxsize=64)
def _epsilon_for(constants: Constants, target: float) -> float:
    grid, best = _GRID, _most_promising(constants)
    if constants.gap(best) > target:
        raise InputError(
            f"no epsilon gives a gap of {target:g}: the smallest that the theory can promise here is "
            f"{constants.gap(best):.4g}, at epsilon = {best:.3g}. Aim at more, or use features that fit better."
        )
    first = next(i for i, epsilon in enumerate(grid) if constants.gap(epsilon) <= target)
    if first == 0:
        return 1.0
    above, below = grid[first - 1], grid[first]
    for _ in range(60):  # gap(below) <= target < gap(above)
        middle = math.sqrt(above * below)
        above, below = (above, middle) if constants.gap(middle) <= target else (middle, below)
    return below

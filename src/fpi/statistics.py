"""Statistics over runs: intervals over seeds, paired differences, regret, its growth, and N(eps).

Bootstrap intervals are 95% percentiles over resampled seeds, the same in every call. With five seeds they are too
narrow to decide anything by: of normal numbers they hold the true mean in 85 of 100 cases. Student's interval keeps its
word for few seeds too.

>>> import fpi.baselines, fpi.callbacks, fpi.testbeds
>>> world = fpi.testbeds.LinBandit(d=6, K=10)
>>> log = fpi.callbacks.GapLog(world)
>>> learner = fpi.baselines.OFUL(world.features, actions=10, theta_bound=world.theta_bound)
>>> history = learner.learn(world.env(), episodes=500, seed=0, callback=log)
>>> float(regret(log.gaps)[-1]) < 500 * 0.3  # uniform actions lose 0.33 an episode
True
>>> mistakes(log.gaps)([0.1, 0.5]).shape  # episodes that lost more than 0.1, and more than 0.5
(2,)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fpi._validation import shown
from fpi.errors import InputError

Floats = NDArray[np.float64]
T = TypeVar("T", bound=np.generic)
Mistakes = Callable[[ArrayLike], NDArray[np.int64]]

RESAMPLES = 10_000
CURVE_RESAMPLES = 2_000  # where every point of a curve has its interval


class Interval(NamedTuple):
    """An estimate with its 95% interval; numbers, or arrays of equal shape."""

    estimate: Any
    low: Any
    high: Any

    def __str__(self) -> str:
        n = _digits(*self)
        return f"{self.estimate:.{n}f} ({self.low:.{n}f} to {self.high:.{n}f})"


def _digits(*numbers: float) -> int:
    """Digits after the point that show two figures of the largest number, and one at least."""
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    return max(1, 1 - math.floor(math.log10(largest))) if largest > 0 else 1


def over_seeds(interval: Interval, values: ArrayLike) -> str:
    """An interval as text, and no interval where all seeds gave one number: such seeds tell nothing about spread.

    `values`: what every seed gave.
    """
    numbers = np.asarray(values, np.float64)
    if np.ptp(numbers) > 0:
        return str(interval)
    return f"{interval.estimate:.{_digits(interval.estimate)}f} in {_all_seeds(numbers.size)}"


def _all_seeds(number: int) -> str:
    return "one seed" if number == 1 else f"all {number} seeds"


def student_interval(values: ArrayLike) -> Interval:
    """The mean over seeds (rows) with Student's interval, which is infinite for one."""
    rows = np.asarray(values, np.float64)
    n, middle = len(rows), np.mean(rows, axis=0)
    if n < 2:
        half = np.full_like(middle, math.inf)
    else:
        from scipy.special import stdtrit

        half = stdtrit(n - 1, 0.975) * np.std(rows, axis=0, ddof=1) / math.sqrt(n)
    return Interval(middle, middle - half, middle + half)


def bootstrap_interval(
    values: ArrayLike, statistic: Callable[..., Any] = np.mean, resamples: int = RESAMPLES
) -> Interval:
    """A statistic over seeds (rows), which takes an `axis` as `np.mean` does, with its bootstrap interval.

    `statistic` is taken of every one of `resamples` draws with replacement.
    """
    try:
        rows = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"values are {shown(values)}, and not numbers, one or one row for each seed.") from error
    if rows.ndim == 0 or not rows.size:
        raise InputError(f"values are {shown(values)}; give a number, or a row of them, for each seed.")
    draws = np.random.default_rng(0).integers(len(rows), size=(resamples, len(rows)))
    low, high = np.quantile(statistic(rows[draws], axis=1), (0.025, 0.975), axis=0)
    return Interval(statistic(rows, axis=0), low, high)


def interquartile_mean(values: ArrayLike, axis: int = 0) -> Any:
    """The mean of the middle half.

    `axis`: the one to average over.
    """
    from scipy.stats import trim_mean

    return trim_mean(values, 0.25, axis=axis)


@dataclass(frozen=True)
class Difference:
    """One setting minus another, seed by seed."""

    gaps: Floats

    @property
    def interval(self) -> Interval:
        """Of the mean difference, by Student's t."""
        return student_interval(self.gaps)

    def __str__(self) -> str:
        seeds, (mean, low, high) = len(self.gaps), self.interval
        if seeds > 1 and not self.gaps.any():
            return f"equal in {_all_seeds(seeds)}"
        if seeds > 1 and np.ptp(self.gaps) == 0:
            return f"{mean:+.{_digits(mean)}f} in {_all_seeds(seeds)}"
        n = _digits(mean, low, high)
        likely = f"95% CI {low:+.{n}f} to {high:+.{n}f}" if seeds > 1 else "no CI from one seed"
        side, count = ("below", self.gaps < 0) if mean < 0 else ("above", self.gaps > 0)
        return f"{mean:+.{n}f}, {likely}, {np.count_nonzero(count)} of {seeds} seeds {side} 0"


def last_tenth(values: NDArray[T]) -> NDArray[T]:
    """The last tenth of all episodes, one at least; of several runs, one run per row."""
    return values[..., -max(1, round(values.shape[-1] / 10)) :]


def regret(gaps: ArrayLike) -> Floats:
    """Reg(1), Reg(2), ...: the sum of all gaps up to each episode; of several runs, one run per row."""
    return np.cumsum(np.asarray(gaps, np.float64), axis=-1)


def mistakes(gaps: ArrayLike) -> Mistakes:
    """N(eps) of one run for all eps: how many episodes lost more than that; what Uniform-PAC bounds at every eps."""
    lost = np.sort(np.asarray(gaps, np.float64))
    return lambda epsilon: len(lost) - np.searchsorted(lost, np.asarray(epsilon, np.float64), side="right")


def slope(episodes: ArrayLike, regrets: ArrayLike) -> Interval:
    """The exponent p of Reg(T) ~ T^p: least squares of the log of the mean regret over seeds against log T.

    `regrets` has one row per seed and one column per entry of `episodes`. The interval is a bootstrap over seeds: it
    tells how the exponent varies between runs, not whether a power law fits.
    """
    x = np.log(np.asarray(episodes, np.float64))
    rows = np.atleast_2d(np.asarray(regrets, np.float64))
    if len(x) < 2 or rows.shape[1] != len(x) or not rows.min() > 0:
        raise InputError(
            f"a slope takes two or more numbers of episodes and as many regrets above 0 of every run; given are "
            f"{len(x)} and regrets of the shape {rows.shape}, the smallest {rows.min():g}. Begin later, or play longer."
        )
    centred = x - x.mean()

    def exponent(sample: Floats, axis: int) -> Any:
        return np.log(sample.mean(axis=axis)) @ centred / (centred @ centred)

    return bootstrap_interval(rows, exponent, CURVE_RESAMPLES)

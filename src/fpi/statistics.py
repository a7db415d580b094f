"""What a run lost, from exact values: regret, and N(eps) for all eps at once.

>>> import fpi.baselines, fpi.testbeds
>>> world = fpi.testbeds.LinBandit(d=6, K=10)
>>> log = GapLog(world)
>>> learner = fpi.baselines.OFUL(world.features, actions=10, theta_bound=world.theta_bound)
>>> history = learner.learn(world.env(), episodes=500, seed=0, callback=log)
>>> float(regret(log.gaps)[-1]) < 500 * 0.3  # uniform actions lose 0.33 an episode
True
>>> mistakes(log.gaps)([0.1, 0.5]).shape  # episodes that lost more than 0.1, and more than 0.5
(2,)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fpi.errors import InputError
from fpi.testbeds import Testbed
from fpi.training import Episode

Floats = NDArray[np.float64]

ROUNDING = 1e-12  # gaps below are sums in another order
RESAMPLES = 2_000


class GapLog:
    """A callback for `learn`: what every episode lost in expectation, V* of its start minus its mean rewards."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self._gaps: list[float] = []

    def __call__(self, episode: Episode) -> None:
        start = self.testbed.state(episode.observations[0])
        gap = self.testbed.regret(start, episode.actions.tolist())
        self._gaps.append(gap if gap > ROUNDING else 0.0)

    @property
    def gaps(self) -> Floats:
        """One number per episode so far."""
        return np.array(self._gaps)


def regret(gaps: ArrayLike) -> Floats:
    """Reg(1), Reg(2), ...: the sum of all gaps up to each episode; of several runs, one run per row."""
    return np.cumsum(np.asarray(gaps, np.float64), axis=-1)


@dataclass(frozen=True)
class Mistakes:
    """N(eps), the number of episodes that lost more than eps: a step function that falls at the gaps."""

    breakpoints: Floats
    """Where it falls, in increasing order: the gaps that occurred."""
    counts: Floats
    """Its value from each breakpoint up to the next; the last one is 0."""
    episodes: int
    """Its value below the first breakpoint."""

    def __call__(self, epsilon: ArrayLike) -> Floats:
        """N at one eps or many."""
        steps = np.concatenate([[self.episodes], self.counts])
        found: Floats = steps[np.searchsorted(self.breakpoints, np.asarray(epsilon, np.float64), side="right")]
        return found


def mistakes(gaps: ArrayLike) -> Mistakes:
    """N(eps) for all eps from one run; what a Uniform-PAC guarantee bounds at every eps together."""
    values, times = np.unique(np.asarray(gaps, np.float64), return_counts=True)
    total = int(times.sum())
    return Mistakes(values, total - np.cumsum(times).astype(np.float64), total)


class Interval(NamedTuple):
    """An estimate with its 95% interval; numbers, or arrays of equal shape."""

    estimate: Floats
    low: Floats
    high: Floats


def mean(values: ArrayLike) -> Interval:
    """The mean over seeds (rows) with Student's interval, which is honest about few seeds; infinite for one."""
    rows = np.asarray(values, np.float64)
    n, middle = len(rows), np.mean(rows, axis=0)
    if n < 2:
        half = np.full_like(middle, math.inf)
    else:
        from scipy.special import stdtrit

        half = stdtrit(n - 1, 0.975) * np.std(rows, axis=0, ddof=1) / math.sqrt(n)
    return Interval(middle, middle - half, middle + half)


def slope(episodes: ArrayLike, regrets: ArrayLike, rng: np.random.Generator) -> Interval:
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
    draws = rng.integers(len(rows), size=(RESAMPLES, len(rows)))
    means = np.concatenate([rows.mean(axis=0)[None], rows[draws].mean(axis=1)])
    slopes = np.log(means) @ centred / (centred @ centred)
    low, high = np.quantile(slopes[1:], (0.025, 0.975))
    return Interval(slopes[0], low, high)

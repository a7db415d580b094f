"""The range of every observation entry: known, declared, or measured."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from fpi.envs import Env, FloatArray, observation_box, reset, rollout
from fpi.errors import EnvironmentMismatch

MEASURED_STEPS = 1_000
_INFINITE = 1e30  # some environments declare the largest float where they mean infinity

# The standard tasks that leave entries unbounded, by name and number of entries: ±value or (low, high).
# Joint limits (which are soft) and healthy ranges are those of the models, velocities what strong random
# control reaches.
_THIGH_LEG_FOOT = ((-2.6, 0.2), (-2.6, 0.2), 1.0)
_KNOWN_RANGES: dict[tuple[str, int], tuple[float | tuple[float, float], ...]] = {
    ("CartPole", 4): (4.8, 10, 0.418, 10),
    ("InvertedPendulum", 4): (1, math.pi / 2, 10, 10),
    ("InvertedDoublePendulum", 9): (1,) * 5 + (10,) * 4,
    ("InvertedDoublePendulum", 11): (1,) * 5 + (10,) * 6,
    ("Reacher", 10): (1, 1, 1, 1, 0.2, 0.2, 50, 50, 0.4, 0.4),
    ("Reacher", 11): (1, 1, 1, 1, 0.2, 0.2, 50, 50, 0.4, 0.4, 0.4),
    ("Swimmer", 8): (math.pi, 1.75, 1.75, 4, 4, 4, 8, 8),
    ("Hopper", 11): ((0.7, 1.6), 0.2, *_THIGH_LEG_FOOT) + (10,) * 6,
    ("HalfCheetah", 17): (1, math.pi) + (1.1,) * 6 + (10, 5, 10) + (30,) * 6,
    ("Walker2d", 17): ((0.8, 2), 1, *_THIGH_LEG_FOOT * 2) + (10,) * 9,
}


def observation_range(env: Env) -> tuple[FloatArray, FloatArray]:
    """The lowest and highest value of each observation entry, for maps that need a finite range.

    Known values for the classic-control and MuJoCo tasks, else the bounds that the environment declares.
    Where it declares none they are measured in a short random roll-out, doubled, and a warning tells
    them. The environment's generator is put back afterwards; its episode is not: reset it before use.
    """
    space = observation_box(env)
    spec = env.spec
    if spec is not None and spec.namespace is None and space is env.unwrapped.observation_space:
        known = _KNOWN_RANGES.get((spec.name, space.low.size))
        if known is not None:
            pairs = [each if isinstance(each, tuple) else (-each, each) for each in known]
            return np.array(pairs)[:, 0], np.array(pairs)[:, 1]
    low, high = space.low.astype(np.float64).ravel(), space.high.astype(np.float64).ravel()
    no_low, no_high = ~(low > -_INFINITE), ~(high < _INFINITE)
    if (no_low | no_high).any():
        measured_low, measured_high = _measured_range(env)
        low, high = np.where(no_low, measured_low, low), np.where(no_high, measured_high, high)
        entries = ", ".join(f"[{j}] {low[j]:.4g} … {high[j]:.4g}" for j in np.flatnonzero(no_low | no_high)[:20])
        warnings.warn(
            "the environment declares no bounds for some observation entries; ranges measured in "
            f"{MEASURED_STEPS} random steps, and doubled, are used: {entries}. If you know better ones, pass "
            "low and high yourself.",
            stacklevel=3,
        )
    constant = ~(low < high)
    return low - 0.5 * constant, high + 0.5 * constant


def _measured_range(env: Env) -> tuple[FloatArray, FloatArray]:
    generator = env.unwrapped.np_random
    try:
        observations = itertools.islice(_random_observations(env), MEASURED_STEPS)
        seen = [np.array(observation, dtype=np.float64).ravel() for observation in observations]
    finally:
        env.unwrapped.np_random = generator
    lowest, highest = np.min(seen, axis=0), np.max(seen, axis=0)
    broken = np.flatnonzero(~(np.isfinite(lowest) & np.isfinite(highest)))
    if broken.size:
        raise EnvironmentMismatch(
            f"observation[{broken[0]}] was not finite in a random roll-out, so its range cannot be measured. "
            "Repair the environment, or leave that entry out."
        )
    margin = (highest - lowest) / 2
    return lowest - margin, highest + margin


def _random_observations(env: Env) -> Iterator[Any]:
    """Observations of random actions, episode after episode without end; the same at every call."""
    actions = copy.deepcopy(env.action_space)
    actions.seed(0)
    start = reset(env, seed=0)
    while True:
        yield start
        for observation, *_ in rollout(env, start, lambda *_: actions.sample(), MEASURED_STEPS):
            yield observation
        start = reset(env)

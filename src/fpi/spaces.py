"""What the spaces of a Gymnasium environment mean for features: how many actions, which observations."""

from __future__ import annotations

import copy
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fpi.errors import EnvironmentMismatch

if TYPE_CHECKING:
    import gymnasium

FloatArray = npt.NDArray[np.float64]

MEASURED_STEPS = 1_000
_INFINITE = 1e30  # some environments declare the largest float where they mean infinity

# The standard tasks that leave entries unbounded, by name and number of entries: ±value or (low, high).
# Joint limits (which are soft) and healthy ranges are those of the models, velocities what strong random
# control reaches.
_THIGH_LEG_FOOT = ((-2.6, 0.2), (-2.6, 0.2), 1.0)
_HIP_AND_ANKLE, _HIP_AND_BACK_ANKLE = (0.7, (0.4, 1.4)), (0.7, (-1.4, -0.4))
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
    ("Ant", 27): ((0.2, 1), 1, 1, 1, 1, *_HIP_AND_ANKLE, *_HIP_AND_BACK_ANKLE * 2, *_HIP_AND_ANKLE)
    + (4, 4, 4, 8, 8, 8)
    + (16,) * 8,
}


def observation_range(env: gymnasium.Env[Any, Any]) -> tuple[FloatArray, FloatArray]:
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


def _measured_range(env: gymnasium.Env[Any, Any]) -> tuple[FloatArray, FloatArray]:
    actions = copy.deepcopy(env.action_space)
    actions.seed(0)
    generator = env.unwrapped.np_random
    seen = []
    try:
        observation, ended = env.reset(seed=0)[0], False
        for _ in range(MEASURED_STEPS):
            seen.append(np.array(observation, dtype=np.float64).ravel())
            if ended:
                observation, ended = env.reset()[0], False
            else:
                observation, _, terminated, truncated, _ = env.step(actions.sample())
                ended = terminated or truncated
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


def action_count(env: gymnasium.Env[Any, Any]) -> int:
    """The number of actions of an environment that has a finite list of them."""
    from gymnasium.spaces import Box, Discrete

    space = env.action_space
    if isinstance(space, Discrete):
        return int(space.n)
    if isinstance(space, Box):
        advice = "Choose among a few of its actions: wrap it as fpi.ActionGrid(env, n)."
    else:
        advice = "Make them Discrete, for example with gymnasium.wrappers.TransformAction."
    raise EnvironmentMismatch(f"features need numbered actions, the environment has {space}. {advice}")


def observation_box(env: gymnasium.Env[Any, Any]) -> gymnasium.spaces.Box:
    """The observation space of an environment whose observations are arrays of numbers."""
    from gymnasium.spaces import Box, Discrete

    space = env.observation_space
    if isinstance(space, Box):
        return space
    if isinstance(space, Discrete):
        advice = f"State numbers need no tiles: use fpi.features.OneHot(states={space.n}, actions=…)."
    else:
        advice = "Make them one vector: gymnasium.wrappers.FlattenObservation(env)."
    raise EnvironmentMismatch(f"observations must be vectors (Box), the environment has {space}. {advice}")

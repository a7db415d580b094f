"""Gymnasium environments: what FPI asks of them, and how to make them fit.

Steps count from 1: step 0 is the reset, step h is the h-th call of `env.step`.
"""

from __future__ import annotations

import difflib
import importlib
import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from fpi._validation import shown
from fpi.errors import EnvironmentMismatch, InputError, MissingExtra, importing

Env: TypeAlias = gym.Env[Any, Any]
FloatArray: TypeAlias = NDArray[np.float64]

LARGEST_GRID = 100_000
LARGEST_SMALL_GRID = 9


@dataclass(frozen=True)
class RewardRange:
    """The smallest and the largest reward of one step. Divided by `span`, no H of them add up to more than H."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (self.low < self.high and math.isfinite(self.high - self.low) and math.isfinite(self.low)):
            raise InputError(
                f"reward_range=({self.low}, {self.high}) is not a range: it takes two finite numbers, the "
                "smaller first. Give the smallest and the largest reward of a single step."
            )
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))

    @property
    def span(self) -> float:
        """From the smallest to the largest reward or 0, which every stage after an early end pays."""
        return max(self.high, 0.0) - min(self.low, 0.0)

    @property
    def noise(self) -> float:
        """Rewards, divided by the span, are subGaussian with this (Hoeffding's lemma): 1/2 or less."""
        return (self.high - self.low) / (2 * self.span)

    def value_range(self, stages: int) -> tuple[float, float]:
        """Between what the rewards of so many stages, divided by the span, add up to, early ends included."""
        return stages * min(self.low, 0.0) / self.span, stages * max(self.high, 0.0) / self.span

    def check(self, reward: float, step: int) -> None:
        """Raise EnvironmentMismatch when the reward of this step is not in the range."""
        slack = 1e-9 * (self.high - self.low)
        if self.low - slack <= reward <= self.high + slack:
            return
        advice = (
            f"Pass a wider one: {range_to_pass(min(self.low, reward), max(self.high, reward))} contains it."
            if math.isfinite(reward)
            else "The environment computes something undefined there: repair it before learning."
        )
        raise EnvironmentMismatch(
            f"the reward of step {step} is {reward}, not in reward_range=({self.low}, {self.high}). {advice}"
        )


def range_to_pass(low: float, high: float) -> str:
    """The argument to suggest where rewards from `low` to `high` were seen: two digits, rounded outwards."""
    low, high = min(low, 0.0), max(high, 0.0)
    unit = 10.0 ** (math.floor(math.log10(max(high, -low))) - 1)
    return f"reward_range=({math.floor(low / unit) * unit:g}, {math.ceil(high / unit) * unit:g})"


class ActionGrid(gym.ActionWrapper[Any, np.int64, NDArray[Any]], gym.utils.RecordConstructorArgs):
    """Make finitely many actions of a continuous (Box) action space.

    `points` is the number of equally spaced values per dimension, both bounds included (every combination
    is an action, the last dimension changes fastest), or the actions themselves, one per row.
    """

    def __init__(self, env: Env, points: int | ArrayLike) -> None:
        box = env.action_space
        if not isinstance(box, spaces.Box):
            raise EnvironmentMismatch(
                f"ActionGrid divides a Box action space, but this environment has {box}. "
                "A Discrete action space needs no grid."
            )
        self.grid = _spaced(box, points) if isinstance(points, int | np.integer) else _listed(box, points)
        gym.utils.RecordConstructorArgs.__init__(self, points=self.grid.tolist())
        gym.ActionWrapper.__init__(self, env)
        self.action_space = spaces.Discrete(len(self.grid))

    def action(self, action: np.int64) -> NDArray[Any]:
        chosen: NDArray[Any] = self.grid[action].copy()  # an environment may write into its action
        return chosen


def _spaced(box: spaces.Box, points: int | np.integer[Any]) -> NDArray[Any]:
    if isinstance(points, bool) or points < 2:
        raise InputError(f"points={points}: a grid with both bounds has at least 2 values per dimension.")
    listing = "Give the actions themselves, one per row: ActionGrid(env, points=[...])."
    if not box.is_bounded():
        raise EnvironmentMismatch(
            f"the action space {box} has infinite bounds, so no spaced values reach its ends. {listing}"
        )
    dimensions = math.prod(box.shape)
    if int(points) ** dimensions > LARGEST_GRID:
        raise EnvironmentMismatch(
            f"points={points} in {dimensions} dimensions makes {points}^{dimensions} actions, more than "
            f"{LARGEST_GRID:,}. {listing}"
        )
    values = np.linspace(box.low.ravel(), box.high.ravel(), int(points))
    return np.array(list(itertools.product(*values.T)), dtype=box.dtype).reshape(-1, *box.shape)


def _listed(box: spaces.Box, points: ArrayLike) -> NDArray[Any]:
    try:
        actions = np.array(points, dtype=box.dtype)
        actions = actions.reshape(len(actions), *box.shape)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"points are not a list of actions of shape {box.shape}: {error}. Give one action per row."
        ) from error
    if len(actions) == 0:
        raise InputError("points is empty: ActionGrid needs at least one action.")
    for row, action in enumerate(actions):
        if not (np.isfinite(action).all() and box.contains(action)):
            raise InputError(f"points[{row}] = {action} is not in the action space {box}.")
    return actions


def small_grid(env: Env) -> NDArray[Any]:
    """A few actions of a continuous action space: three values per dimension; with many, one dimension at a time."""
    box = env.action_space
    if not isinstance(box, spaces.Box) or not box.is_bounded():
        action_count(env)  # raises, saying what to do
    assert isinstance(box, spaces.Box)
    dimensions = math.prod(box.shape)
    if 3**dimensions <= LARGEST_SMALL_GRID:
        return _spaced(box, 3)
    middle = (box.low.astype(np.float64) + box.high) / 2
    rows = [middle.ravel()]
    for j, end in itertools.product(range(dimensions), (box.low, box.high)):
        rows.append(np.where(np.arange(dimensions) == j, end.ravel(), middle.ravel()))
    return np.array(rows, box.dtype).reshape(-1, *box.shape)


def action_count(env: Env) -> int:
    """The number of actions, which must be Discrete."""
    check_is_environment(env)
    space = env.action_space
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    advice = (
        "fpi.ActionGrid(env, points=5) for 5 values per dimension, or points=[...] for your own list."
        if isinstance(space, spaces.Box)
        else "a gymnasium.ActionWrapper with action_space=Discrete(n), whose action(i) returns the i-th "
        f"{type(space).__name__} action you allow."
    )
    raise EnvironmentMismatch(
        f"the action space is {space}, but FPI needs a Discrete action space. Wrap the environment: {advice}"
    )


def check_actions(env: Env, actions: int) -> int:
    """Check that `env` has this number of actions; returns what `env` calls action 0."""
    count = action_count(env)
    if count != actions:
        raise EnvironmentMismatch(
            f"the environment has {count} actions, the agent {actions}. Build the agent and its features "
            f"with actions={count}, or use the environment they were built for."
        )
    return int(getattr(env.action_space, "start", 0))


def check_observations(env: Env) -> None:
    """Raise EnvironmentMismatch unless observations are arrays (or numbers)."""
    space = env.observation_space
    if space.shape is None:
        advice = (
            "gymnasium.wrappers.FlattenObservation(env). A plain function as features gets observations as they are."
            if space.is_np_flattenable
            else "a gymnasium.ObservationWrapper that returns an array of fixed shape."
        )
        raise EnvironmentMismatch(
            f"the observation space is {space}, but features read an array. Wrap the environment: {advice}"
        )


def check_is_environment(env: object) -> None:
    """Raise EnvironmentMismatch for a name, a class or anything else that somebody may take for an environment."""
    if not isinstance(env, gym.Env):
        raise EnvironmentMismatch(
            f"the environment is a {type(env).__name__}, not a gymnasium.Env. Make one: gymnasium.make(id)."
        )


def check_spaces(env: Env, actions: int, structured: bool = False) -> int:
    """`check_actions` and `check_observations` in one, for anything a user may take for an environment.

    Observations may be dictionaries and tuples of arrays if `structured`.
    """
    check_is_environment(env)
    if not (structured and env.observation_space.is_np_flattenable):
        check_observations(env)
    return check_actions(env, actions)


def time_limit(env: Env) -> int | None:
    """The steps after which a TimeLimit wrapper ends the episode, or None without such a wrapper."""
    return min((wrapper._max_episode_steps for wrapper in time_limits(env)), default=None)


def time_limits(env: Env) -> list[gym.wrappers.TimeLimit[Any, Any]]:
    """Its TimeLimit wrappers."""
    found = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.TimeLimit):
            found.append(env)
        env = env.env
    return found


def check_horizon(env: Env, horizon: int) -> None:
    """Raise EnvironmentMismatch when the environment's time limit ends every episode before the horizon."""
    limit = time_limit(env)
    if limit is not None and horizon > limit:
        raise EnvironmentMismatch(
            f"horizon={horizon} is longer than the environment's time limit of {limit} steps, so its last "
            f"stages are never reached. Use horizon={limit} or less, or make a longer environment: "
            f"gymnasium.make(id, max_episode_steps={horizon})."
        )


def observation_box(env: Env) -> spaces.Box:
    """The observation space of an environment whose observations are arrays of numbers."""
    check_is_environment(env)
    space = env.observation_space
    if isinstance(space, spaces.Box):
        return space
    if isinstance(space, spaces.Discrete):
        advice = f"State numbers need no tiles: use fpi.features.OneHot(states={space.n}, actions=…)."
    else:
        advice = "Make them one vector: gymnasium.wrappers.FlattenObservation(env)."
    raise EnvironmentMismatch(f"observations must be vectors (Box), the environment has {space}. {advice}")


def reset(env: Env, seed: int | None = None) -> Any:
    """The first observation of an episode; what is not as Gymnasium has it is an EnvironmentMismatch."""
    answer = env.reset(seed=seed)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise EnvironmentMismatch(
            f"reset of the environment gave {shown(answer)}, and not a pair (observation, info) as Gymnasium's. "
            "Repair it, or wrap an environment of the older kind."
        )
    return answer[0]


def wrong_step(answer: Any) -> EnvironmentMismatch:
    """What to raise where a step did not give five things."""
    return EnvironmentMismatch(
        f"step of the environment gave {shown(answer)}, and not (observation, reward, terminated, truncated, info) "
        "as Gymnasium's. Repair it, or wrap an environment of the older kind."
    )


def checked_end(terminated: Any, truncated: Any) -> tuple[bool, bool]:
    """The two flags of a step, which must be true or false: a text is always true."""
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool | np.bool_ | int | np.integer):
            raise EnvironmentMismatch(f"{name} is {shown(value)}; let the environment return True or False.")
    return bool(terminated), bool(truncated)


def checked_reward(reward: Any, step: int) -> float:
    """The reward of a step as a float; an EnvironmentMismatch if it is no number."""
    try:
        return float(reward)
    except (TypeError, ValueError, OverflowError):
        raise EnvironmentMismatch(
            f"the reward at step {step} is {shown(reward)}, which is not a number. Let the environment return floats."
        ) from None


def rollout(
    env: Env, observation: Any, act: Callable[[Any, int], Any], steps: int
) -> Iterator[tuple[Any, float, bool, bool]]:
    """Play on from `observation` with `act(observation, stage)`, until the episode ends, for at most `steps` steps.

    Yields what `env.step` returns at each of them, without `info`.
    """
    for stage in range(steps):
        answer = env.step(act(observation, stage))
        if not (isinstance(answer, tuple) and len(answer) == 5):
            raise wrong_step(answer)
        observation, reward, *flags, _ = answer
        terminated, truncated = checked_end(*flags)
        yield observation, checked_reward(reward, stage + 1), terminated, truncated
        if terminated or truncated:
            return


def make_environment(
    name: str, args: dict[str, Any], action_grid: int | list[Any] | None, render_mode: str | None = None
) -> Env:
    """`gymnasium.make` with errors that say what to do, and an `ActionGrid` if asked for.

    `args` are keyword arguments of `gymnasium.make`, `render_mode` too.
    """
    extra = {} if render_mode is None else {"render_mode": render_mode}
    registering = "fpi.testbeds:" if name.startswith("fpi/") else ""  # Gymnasium imports what stands before a colon
    if name.startswith("ALE/"):
        with importing("atari", f"{name} needs ale-py"):
            importlib.import_module("ale_py")
    try:
        with extras_named(name):
            env = make_quietly(f"{registering}{name}", **{**args, **extra})
    except MissingExtra:
        raise
    except gym.error.UnregisteredEnv as error:
        raise InputError(f"There is no environment {name}. {_advice(name)}") from error
    except Exception as error:  # whatever the environment's own code raises
        settings = "".join(f" --env-arg {key}={json.dumps(value)}" for key, value in args.items())
        raise InputError(f"{name}{settings} could not be made: {_one_line(error)}") from error
    return env if action_grid is None else ActionGrid(env, action_grid)


def make_quietly(name: str, **args: Any) -> Env:
    """`gymnasium.make`, but the paper's InvertedPendulum-v4 is meant: that there is a later one need not be told."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*InvertedPendulum-v4 is out of date")
        return gym.make(name, **args)


@contextmanager
def extras_named(environment: str) -> Iterator[None]:
    """Say which package an environment misses."""
    try:
        yield
    except gym.error.DependencyNotInstalled as error:
        if "mujoco" in str(error).lower():
            raise MissingExtra(
                f"{environment} needs MuJoCo, which is not installed. It is an extra: "
                'pip install "frozen-policy-iteration[mujoco]".'
            ) from error
        raise MissingExtra(f"{environment} needs a package that is not installed: {_one_line(error)}") from error


def _advice(name: str) -> str:
    known = {each.lower(): each for each in gym.registry}
    close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.7)
    if close:
        return f"Did you mean {', '.join(known[each] for each in close)}?"
    return (
        "Gymnasium's own are listed at https://gymnasium.farama.org; for one from another package install that package "
        "and name its module too, as in package:Name-v0."
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

"""Gymnasium environments: what FPI asks of them, and how to make them fit.

Steps count from 1: step 0 is the reset, step h is the h-th call of `env.step`.

FPI needs deterministic transitions; rewards and start states may be random. Determinism is judged by
replaying whole action sequences from the same start, with the environment's generator exchanged after the
reset so that noise drawn from it shows too. Copying an environment or stepping again from an observation
would mislead: a copy of a MuJoCo environment diverges at once, and CartPole shows float32 observations of
its float64 state.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from fpi.errors import EnvironmentMismatch, InputError

Env: TypeAlias = gym.Env[Any, Any]
GeneratorState: TypeAlias = dict[str, Any]
Reward = TypeVar("Reward", float, NDArray[np.float64])

LARGEST_GRID = 100_000
LAST_POSITION = {"pos": 624, "buffer_pos": 4}  # of MT19937 and of Philox
BIT_GENERATORS: dict[str, type[np.random.BitGenerator]] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}


@dataclass(frozen=True)
class RewardRange:
    """The range of raw rewards, extended to contain 0, which every stage after an early end pays."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (self.low < self.high and math.isfinite(self.high - self.low) and math.isfinite(self.low)):
            raise InputError(
                f"reward_range=({self.low}, {self.high}) is not a range: it takes two finite numbers, the "
                "smaller first. Give the smallest and the largest reward of a single step."
            )
        object.__setattr__(self, "low", min(float(self.low), 0.0))
        object.__setattr__(self, "high", max(float(self.high), 0.0))

    def to_unit(self, reward: Reward) -> Reward:
        """The reward mapped from [low, high] to [0, 1]."""
        return (reward - self.low) / (self.high - self.low)

    @property
    def absorbing(self) -> float:
        """The mapped reward of a stage after an early end."""
        return self.to_unit(0.0)

    def check(self, reward: float, step: int) -> None:
        """Raise EnvironmentMismatch when the reward of this step is not in the range."""
        slack = 1e-9 * (self.high - self.low)
        if self.low - slack <= reward <= self.high + slack:
            return
        advice = (
            f"Pass a wider one: ({min(self.low, reward)}, {max(self.high, reward)}) contains it."
            if math.isfinite(reward)
            else "The environment computes something undefined there: repair it before learning."
        )
        raise EnvironmentMismatch(
            f"the reward of step {step} is {reward}, not in reward_range=({self.low}, {self.high}). {advice}"
        )


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


def check_actions(env: Env, actions: int) -> int:
    """Check that an agent with so many actions can act in `env`; returns what `env` calls action 0."""
    space = env.action_space
    if not isinstance(space, spaces.Discrete):
        advice = (
            "fpi.ActionGrid(env, points=5) for 5 values per dimension, or points=[...] for your own list."
            if isinstance(space, spaces.Box)
            else "a gymnasium.ActionWrapper with action_space=Discrete(n), whose action(i) returns the i-th "
            f"{type(space).__name__} action you allow."
        )
        raise EnvironmentMismatch(
            f"the action space is {space}, but FPI plays numbered actions. Wrap the environment: {advice}"
        )
    count = int(space.n)
    if count != actions:
        raise EnvironmentMismatch(
            f"the environment has {count} actions, the agent {actions}. Build the agent and its features "
            f"with actions={count}, or use the environment they were built for."
        )
    return int(space.start)


def check_observations(env: Env) -> None:
    """Raise EnvironmentMismatch unless observations are arrays (or numbers)."""
    space = env.observation_space
    if space.shape is None:
        advice = (
            "gymnasium.wrappers.FlattenObservation(env)."
            if space.is_np_flattenable
            else "a gymnasium.ObservationWrapper that returns an array of fixed shape."
        )
        raise EnvironmentMismatch(
            f"the observation space is {space}, but features read an array. Wrap the environment: {advice}"
        )


def check_spaces(env: Env, actions: int) -> int:
    """`check_actions` and `check_observations` in one, for anything a user may take for an environment."""
    if not isinstance(env, gym.Env):
        raise EnvironmentMismatch(
            f"the environment is a {type(env).__name__}, not a gymnasium.Env. Make one: gymnasium.make(id)."
        )
    check_observations(env)
    return check_actions(env, actions)


def time_limit(env: Env) -> int | None:
    """The steps after which a TimeLimit wrapper ends the episode, or None without such a wrapper."""
    limits = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)


def check_horizon(env: Env, horizon: int) -> None:
    """Raise EnvironmentMismatch when the environment's time limit ends every episode before the horizon."""
    limit = time_limit(env)
    if limit is not None and horizon > limit:
        raise EnvironmentMismatch(
            f"horizon={horizon} is longer than the environment's time limit of {limit} steps, so its last "
            f"stages are never reached. Use horizon={limit} or less, or make a longer environment: "
            f"gymnasium.make(id, max_episode_steps={horizon})."
        )


def get_generator(env: Env) -> GeneratorState | None:
    """The state of the environment's numpy Generator in plain numbers and lists; None if it has none."""
    generator = getattr(env.unwrapped, "np_random", None)
    if not isinstance(generator, np.random.Generator):
        return None
    state: GeneratorState = _plain(generator.bit_generator.state)
    return state if state["bit_generator"] in BIT_GENERATORS else None


def set_generator(env: Env, state: GeneratorState | None) -> None:
    """Give the environment a new generator in this state; does nothing for None."""
    if state is not None:
        env.unwrapped.np_random = np.random.Generator(check_generator(state))


def check_generator(state: GeneratorState | None) -> np.random.BitGenerator:
    """A bit generator in this state, or any for None; raises InputError where it is no state."""
    if state is None:
        return np.random.PCG64(0)
    try:
        bits = BIT_GENERATORS[state["bit_generator"]](0)
        # numpy believes any position and any length, and would read outside its memory
        if not _same_form(state, _plain(bits.state)):
            raise ValueError("an entry is missing, of another length, or out of range")
        bits.state = state
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"this is not the state of a numpy bit generator: {error}. The environment's generator is "
            "unchanged. Use a state that get_generator returned."
        ) from error
    return bits


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("bit_generator") == "PCG64":  # Gymnasium's own kind holds plain numbers only
            return value
        return {name: _plain(entry) for name, entry in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _same_form(state: Any, fresh: Any, name: str = "") -> bool:
    if type(state) is not type(fresh):
        return False
    if isinstance(state, dict):
        return state.keys() == fresh.keys() and all(_same_form(state[key], fresh[key], key) for key in fresh)
    if isinstance(state, list):
        return len(state) == len(fresh) and all(map(_same_form, state, fresh))
    return isinstance(state, str) or 0 <= state <= LAST_POSITION.get(name, 2**128 - 1)


@dataclass(frozen=True)
class ReplayReport:
    """What a replay showed: the step of the first difference (None: all agree), its size and its kind."""

    step: int | None
    difference: float
    reason: str
    stochastic_rewards: bool

    @property
    def agrees(self) -> bool:
        return self.step is None


def replay(
    env: Env,
    start_state: GeneratorState | None,
    actions: Sequence[Any],
    observations: Sequence[ArrayLike],
    *,
    rewards: Sequence[float] | None = None,
    end: tuple[bool, bool] | None = None,
) -> ReplayReport | None:
    """Play recorded actions again from the same start and compare bit for bit.

    `start_state` is the generator's state before the recorded reset; `actions` are as given to `env.step`;
    `observations` begin with that of the reset, and the last one may be missing; `end` is (terminated,
    truncated) after the last action. Rewards may differ, which the report mentions. Returns None where the
    start itself does not come back, so that nothing can be said. The generator is left as it was found.
    """
    found = get_generator(env)
    stochastic = False
    try:
        set_generator(env, start_state)
        observation, _ = env.reset()
        if _difference(observation, observations[0]) is not None:
            return None
        _exchange_numbers(env)
        for step, action in enumerate(actions, start=1):
            observation, reward, terminated, truncated, _ = env.step(action)
            if rewards is not None and _difference(float(reward), rewards[step - 1]) is not None:
                stochastic = True
            if step < len(observations):
                size = _difference(observation, observations[step])
                if size is not None:
                    return ReplayReport(step, size, f"the observation differs by {size:.3g}", stochastic)
            ended = bool(terminated), bool(truncated)
            recorded = (False, False) if step < len(actions) else end
            if recorded is not None and ended != recorded:
                reason = f"(terminated, truncated) is {ended} instead of {recorded}"
                return ReplayReport(step, math.inf, reason, stochastic)
        return ReplayReport(None, 0.0, "", stochastic)
    finally:
        set_generator(env, found)


def _exchange_numbers(env: Env) -> None:
    """Let the generator go on with unrelated numbers; in place, since `env` may know it by two names."""
    if get_generator(env) is not None:
        bits = env.unwrapped.np_random.bit_generator
        bits.state = type(bits)(np.random.SeedSequence(0, spawn_key=(1,))).state


def _difference(observed: ArrayLike, recorded: ArrayLike) -> float | None:
    """None when all bits agree (NaN with NaN too), else the largest absolute difference."""
    expected = np.asarray(recorded)
    array = np.asarray(observed).astype(expected.dtype)
    if array.shape != expected.shape:
        return math.inf
    if array.tobytes() == expected.tobytes():
        return None
    a, b = array.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.nan_to_num(gaps, nan=math.inf, posinf=math.inf).max())

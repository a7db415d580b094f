"""What a compiled environment is, and how to see that it agrees with the one it stands for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Space
from numpy.typing import ArrayLike, NDArray

from fpi._interrupts import held
from fpi._validation import check_whole, shown
from fpi.envs import ActionGrid, Env, action_count, make_quietly, time_limit
from fpi.errors import EnvironmentMismatch, InputError
from fpi.generators import get_generator, set_generator
from fpi.training import environment_name

# Wrappers of gymnasium.make that look on; a time limit at or beyond the horizon changes nothing either.
ONLOOKERS = (gym.wrappers.OrderEnforcing, gym.wrappers.PassiveEnvChecker, gym.wrappers.TimeLimit)
DRAWING = ("render", "screen", "width", "height")  # attributes that change pictures only
LOOK = 100  # steps of the environment itself, to see that it is the one it says it is
ALIKE = 1e-6  # largest difference on the way


@dataclass(frozen=True)
class CompiledEnv:
    """A deterministic environment as two functions compiled by numba.

    Both work on arrays of doubles that they fill: the state, which is theirs alone, and the observation, which must be
    what the environment hands out, rounded as it is there.
    """

    name: str
    """What Gymnasium calls the environment, `env.spec.id`."""
    reset: Callable[..., Any]
    """reset(rng, state, observation) begins an episode; it draws from `rng` what the environment draws, in order."""
    step: Callable[..., Any]
    """step(state, action, observation) -> (reward, terminated)"""
    state: int
    """How many numbers the state has."""
    observations: Space[Any]
    """The environment's observation space."""
    env_actions: Any
    """The actions, one per row, as `step` gets them; kept as an array of doubles."""
    time_limit: int | None = None
    """Steps after which Gymnasium ends an episode."""
    agrees_for: int | None = None
    """Steps for which its episodes are the environment's; None if they are to the end."""

    def __post_init__(self) -> None:
        for role in ("reset", "step"):
            if not hasattr(getattr(self, role), "get_compile_result"):
                raise InputError(
                    f"{role} of the compiled environment {self.name!r} is not compiled: decorate it with numba.njit."
                )
        if self.observations.shape is None:
            raise InputError(
                f"the compiled environment {self.name!r} has observations {self.observations}; features read arrays."
            )
        try:
            env_actions = np.array(self.env_actions, np.float64)
            env_actions = np.ascontiguousarray(env_actions.reshape(len(env_actions), -1 if env_actions.size else 1))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the actions of the compiled environment {self.name!r} are no list of actions: {error}."
            ) from error
        if not env_actions.size or not np.isfinite(env_actions).all():
            raise InputError(
                f"the compiled environment {self.name!r} needs at least one action, and finite numbers in each."
            )
        object.__setattr__(self, "env_actions", env_actions)

    @property
    def environment(self) -> str:
        """How an agent remembers what it learned on: the same as for the environment itself."""
        return f"{self.name} with observations {self.observations}"

    def begin(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Arrays for the state and the observation."""
        return np.zeros(self.state), np.zeros(max(1, math.prod(self.observations.shape or ())))


_KNOWN: dict[str, CompiledEnv] = {}


def register(compiled_env: CompiledEnv) -> CompiledEnv:
    """Let `get` know a compiled environment of your own."""
    _KNOWN[compiled_env.name] = compiled_env
    return compiled_env


def known() -> list[str]:
    """The environments that have a compiled environment."""
    return sorted(_KNOWN)


def get(name: str, action_grid: ArrayLike | None = None) -> CompiledEnv:
    """The compiled version of a Gymnasium environment; `action_grid` as in `fpi.ActionGrid(env, action_grid)`."""
    if not isinstance(name, str) or name not in _KNOWN:
        raise InputError(
            f"{shown(name)} has no compiled environment; there are {', '.join(known())}. Use Gymnasium's own, or write "
            'one and register it: "Compiled environments" in the documentation shows how.'
        )
    if action_grid is None:
        return _KNOWN[name]
    single = np.asarray(action_grid, np.float32)  # Gymnasium's boxes of actions hold single precision
    return replace(_KNOWN[name], env_actions=single.astype(np.float64))


def compiled_env_of(env: Env) -> CompiledEnv:
    """The compiled version of an environment object, which must be as `gymnasium.make` makes it, or in an `ActionGrid`.

    Both are played for a moment and compared. The generator of `env` is left as it was found.
    """
    advice = 'Leave it out, or use engine="gymnasium", which steps the environment that it is given.'
    grid, layer = None, env
    while isinstance(layer, gym.Wrapper):
        if type(layer) is ActionGrid:
            grid = layer.grid
        elif type(layer) not in ONLOOKERS:
            raise InputError(f"compiled episodes would pass over the wrapper {type(layer).__name__}. {advice}")
        layer = layer.env
    if env.render_mode == "human":
        raise InputError(f'compiled episodes show nothing, and the environment has render_mode="human". {advice}')
    if env.spec is None:
        raise InputError(
            f"compiled episodes are found by name, and this {type(layer).__name__} has none. Make it by "
            'gymnasium.make(name), or use engine="gymnasium".'
        )
    compiled_env = replace(get(env.spec.id, grid), time_limit=time_limit(env))
    name = environment_name(env)
    if compiled_env.environment != name:
        raise InputError(
            f"compiled episodes are those of {compiled_env.environment}, and this is {name}. Make it by "
            f'gymnasium.make("{compiled_env.name}") alone, or use engine="gymnasium".'
        )
    plain = _constants(compiled_env.name)
    changed = sorted(name for name, value in plain.items() if vars(layer).get(name) != value)
    if changed:
        raise InputError(
            f'compiled episodes are those of gymnasium.make("{compiled_env.name}"), and here {", ".join(changed)} was '
            'changed. Use engine="gymnasium", which steps it as it is.'
        )
    found = get_generator(env)
    try:
        limit = min(LOOK, compiled_env.time_limit or LOOK)
        seen = compare(replace(compiled_env, time_limit=limit), gym.wrappers.TimeLimit(env, limit), episodes=1)
    finally:
        set_generator(env, found)
    if not seen.difference <= ALIKE or seen.returns:
        raise InputError(
            f"this environment calls itself {compiled_env.name} and plays otherwise than its compiled version: over "
            f"{seen.steps} steps of the same actions observations differed by up to {seen.difference:.3g}"
            f"{', and returns too' if seen.returns else ''}. Something in it was changed, so use "
            'engine="gymnasium", which steps it as it is.'
        )
    return compiled_env


def _constants(name: str) -> dict[str, float]:
    """The numbers among the attributes of a new environment that playing does not change."""

    def numbers() -> dict[str, float]:
        found = vars(env.unwrapped).items()
        return {name: value for name, value in found if isinstance(value, int | float) and not name.startswith(DRAWING)}

    env = make_quietly(name)
    before = numbers()
    env.reset(seed=0)
    env.step(env.action_space.sample())
    after = numbers()
    env.close()
    return {name: value for name, value in before.items() if after.get(name) == value}


@dataclass(frozen=True)
class Comparison:
    """How far a compiled environment was from its environment over many episodes."""

    episodes: int
    steps: int
    difference: float
    """Largest difference in any observation; 0 means the same bits."""
    returns: int
    """Episodes with another return or length."""


def compare(
    compiled_env: CompiledEnv, env: Env, episodes: int, seed: int = 0, policy: Callable[[Any, int], int] | None = None
) -> Comparison:
    """Play the same actions in both, from the same generator. They are random unless a policy (observation, stage)
    -> action is given, which sees the observations of `env`.
    """
    check_whole("episodes", episodes)
    check_whole("seed", seed)
    count = len(compiled_env.env_actions)
    if action_count(env) != count:
        raise EnvironmentMismatch(
            f"the environment has {action_count(env)} actions, its compiled version {count}. "
            "Give both the same, by fpi.ActionGrid and fpi.compiled.get(name, action_grid=...)."
        )
    first = int(getattr(env.action_space, "start", 0))
    choices = np.random.default_rng([seed, 1])
    rng = np.random.Generator(np.random.PCG64(seed))
    env.reset(seed=0)  # makes a generator that can be replaced
    set_generator(env, dict(rng.bit_generator.state))
    state, seen = compiled_env.begin()
    steps = others = 0
    largest = 0.0
    with held:  # numba takes over the generator by Python code, which expects no Ctrl-C
        for _ in range(episodes):
            observation, _ = env.reset()
            compiled_env.reset(rng, state, seen)
            returns = [0.0, 0.0]
            length = 0
            ended = False
            while not ended:
                held.safe_point()
                largest = max(largest, _difference(observation, seen))
                action = int(choices.integers(count)) if policy is None else policy(observation, length)
                observation, reward, terminated, truncated, _ = env.step(np.int64(first + action))
                compiled_reward, compiled_terminated = compiled_env.step(state, compiled_env.env_actions[action], seen)
                length += 1
                returns[0] += float(reward)
                returns[1] += compiled_reward
                ended = terminated or truncated
                if ended != (compiled_terminated or length == compiled_env.time_limit):
                    returns[1] = math.nan
                    break
            else:
                largest = max(largest, _difference(observation, seen))
            others += returns[0] != returns[1]
            steps += length
    return Comparison(episodes, steps, largest, others)


def _difference(observation: Any, seen: NDArray[np.float64]) -> float:
    gap = np.abs(np.ravel(observation).astype(np.float64) - seen)
    return float(np.nan_to_num(gap, nan=math.inf).max())

"""What a compiled environment is, and how to see that it agrees with the one it stands for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import ArrayLike, NDArray

from fpi.control import Env, set_generator
from fpi.errors import EnvironmentMismatch, InputError
from fpi.learning import check_count


@dataclass(frozen=True)
class Twin:
    """A deterministic environment as two functions compiled by numba.

    Both work on arrays of doubles that they fill: the state, which is theirs alone, and the observation, which must be
    what the environment hands out, rounded as it is there.
    """

    name: str
    """What Gymnasium calls the environment, `env.spec.id`."""
    reset: Callable[..., Any]
    """reset(rng, state, observation) begins an episode; it draws from `rng` what the environment draws, in order."""
    step: Callable[..., Any]
    """step(state, move, observation) -> (reward, terminated)"""
    state: int
    """How many numbers the state has."""
    observations: Space[Any]
    """The environment's observation space."""
    moves: Any
    """The actions, one per row, as `step` gets them; kept as an array of doubles."""
    time_limit: int | None = None
    """Steps after which Gymnasium ends an episode."""

    def __post_init__(self) -> None:
        for role in ("reset", "step"):
            if not hasattr(getattr(self, role), "get_compile_result"):
                raise InputError(f"{role} of the twin {self.name!r} is not compiled: decorate it with numba.njit.")
        if self.observations.shape is None:
            raise InputError(f"the twin {self.name!r} has observations {self.observations}; features read arrays.")
        try:
            moves = np.array(self.moves, np.float64)
            moves = np.ascontiguousarray(moves.reshape(len(moves), -1 if moves.size else 1))
        except (TypeError, ValueError) as error:
            raise InputError(f"the moves of the twin {self.name!r} are no list of actions: {error}.") from error
        if not moves.size or not np.isfinite(moves).all():
            raise InputError(f"the twin {self.name!r} needs at least one move, and finite numbers in each.")
        object.__setattr__(self, "moves", moves)

    @property
    def environment(self) -> str:
        """How an agent remembers what it learned on: the same as for the environment itself."""
        return f"{self.name} with observations {self.observations}"

    def begin(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Arrays for the state and the observation."""
        return np.zeros(self.state), np.zeros(max(1, math.prod(self.observations.shape or ())))


_KNOWN: dict[str, Twin] = {}


def register(twin: Twin) -> Twin:
    """Let `find` know a twin of your own."""
    _KNOWN[twin.name] = twin
    return twin


def known() -> list[str]:
    """The environments that have a twin."""
    return sorted(_KNOWN)


def find(name: str, action_grid: ArrayLike | None = None) -> Twin:
    """The twin of a Gymnasium environment; `action_grid` lists its actions as in `fpi.ActionGrid(env, action_grid)`."""
    if name not in _KNOWN:
        raise InputError(
            f"{name!r} has no compiled twin; there are {', '.join(known())}. Use Gymnasium's own environment, or write "
            "a twin and register it: docs/compiled.md shows how."
        )
    if action_grid is None:
        return _KNOWN[name]
    single = np.asarray(action_grid, np.float32)  # Gymnasium's boxes of actions hold single precision
    return replace(_KNOWN[name], moves=single.astype(np.float64))


@dataclass(frozen=True)
class Comparison:
    """How far a twin was from its environment over many episodes."""

    episodes: int
    steps: int
    difference: float
    """Largest difference in any observation; 0 means the same bits."""
    returns: int
    """Episodes with another return or length."""


def compare(
    twin: Twin, env: Env, episodes: int, seed: int = 0, policy: Callable[[Any, int], int] | None = None
) -> Comparison:
    """Play the same actions in both, from the same generator. They are random unless a policy (observation, stage)
    -> action is given, which sees the observations of `env`.
    """
    check_count("episodes", episodes)
    check_count("seed", seed)
    if not hasattr(env.action_space, "n") or env.action_space.n != len(twin.moves):
        raise EnvironmentMismatch(
            f"the environment has the actions {env.action_space}, its twin {len(twin.moves)} moves. Give both the "
            "same, by fpi.ActionGrid and fpi.compiled.find(name, action_grid=...)."
        )
    first = getattr(env.action_space, "start", 0)
    choices = np.random.default_rng([seed, 1])
    rng = np.random.Generator(np.random.PCG64(seed))
    env.reset(seed=0)  # makes a generator that can be replaced
    set_generator(env, dict(rng.bit_generator.state))
    state, seen = twin.begin()
    steps = others = 0
    largest = 0.0
    for _ in range(episodes):
        observation, _ = env.reset()
        twin.reset(rng, state, seen)
        returns = [0.0, 0.0]
        length = 0
        ended = False
        while not ended:
            largest = max(largest, _difference(observation, seen))
            action = int(choices.integers(len(twin.moves))) if policy is None else policy(observation, length)
            observation, reward, terminated, truncated, _ = env.step(np.int64(first + action))
            twin_reward, twin_terminated = twin.step(state, twin.moves[action], seen)
            length += 1
            returns[0] += float(reward)
            returns[1] += twin_reward
            ended = terminated or truncated
            if ended != (twin_terminated or length == twin.time_limit):
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

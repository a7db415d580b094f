"""Testbeds and Gymnasium environments as worlds that access objects stand before."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from fpi.baselines.access import FloatArray
from fpi.envs import Env, action_count, time_limit, time_limits
from fpi.errors import EnvironmentMismatch, InputError
from fpi.generators import get_generator, set_generator
from fpi.testbeds import State, Testbed, draw_reward, pool_of

POOL = 500  # states of a stage that generative access shows, where there are more
REPLAYED = 30  # steps


class TestbedWorld:
    """A testbed. Starts and noise have generators of their own, so every method of a seed meets the same contexts.

    With ordered starts (`phase` of Trap) the order is for those who live through it; planners, who may go back in time,
    draw from the distribution on which policies are judged.

    Without `online` a planner asks: starts are drawn, and losses of episodes are not counted.
    """

    def __init__(self, testbed: Testbed, seed: int, noise: str = "bernoulli", online: bool = True) -> None:
        self.testbed, self.noise, self.online = testbed, noise, online
        self.actions, self.horizon, self.dim = testbed.actions, testbed.horizon, testbed.dim
        self._seed = seed
        self._starts, self._noise = (np.random.default_rng((seed, purpose)) for purpose in range(2))
        self._pool: list[list[State]] = []
        self._probes: dict[int, tuple[FloatArray, FloatArray]] = {}
        self.losses: list[float] = []
        """What each episode lost in expectation, V* of its start minus what it earned; of online methods only."""

    def start(self, episode: int) -> State:
        """The state in which the episode of this number begins."""
        if not self.online:
            return self.testbed.draw(self._starts)
        state = self.testbed.start(self._starts, episode)
        self.losses.append(self.testbed.optimal_value(state))
        return state

    def features(self, state: State) -> FloatArray:
        """Shape (actions, d)."""
        rows = self.testbed.phi(state)
        rows.flags.writeable = False
        return rows

    def step(self, state: State, action: int) -> tuple[float, State | None]:
        """Reward and next state, None at the end."""
        mean = self.testbed.mean(state, action)
        after = self.testbed.draw_next(state, action, self._noise)
        if self.online:
            self.losses[-1] -= self.testbed.earned(state, action, after)
        return draw_reward(mean, self.noise, self._noise), after

    def states(self, stage: int) -> list[State]:
        """States of this stage: all of them, or a sample where there are infinitely many."""
        if not self._pool:
            self._pool = pool_of(self.testbed, POOL, np.random.default_rng((self._seed, 2)), self._seed + 1)
        return self._pool[stage]

    def range(self, state: State) -> float:
        """The largest difference between two actions under any values in [0, V*] of what comes later.

        theta is affine in these values, so unit vectors tell it all.
        """
        stage = state[0]
        if stage not in self._probes:
            asked: dict[State, None] = {}
            base = self.testbed.weights(stage, lambda later: asked.setdefault(later, None) or 0.0)
            columns = [
                self.testbed.optimal_value(one) * (self.testbed.weights(stage, _indicator(one)) - base) for one in asked
            ]
            self._probes[stage] = base, np.array(columns).reshape(-1, self.dim)
        base, columns_ = self._probes[stage]
        rows = self.testbed.phi(state)
        differences = (rows[:, None] - rows[None]).reshape(-1, self.dim)
        slopes = differences @ columns_.T
        return float((differences @ base + np.maximum(slopes, 0.0).sum(axis=1)).max())


def _indicator(one: State) -> Callable[[State], float]:
    return lambda state: float(state == one)


class _Moment(NamedTuple):
    """A state of a Gymnasium environment: what was observed, and how to come back, if that is possible."""

    stage: int
    observation: Any
    snapshot: Any


class GymWorld:
    """A Gymnasium environment with features. With `restorable=True` its state is saved at every step.

    That is possible where the state is known to be one attribute (classic control and toy text) or MuJoCo's full
    state, and a replay from a restored state has given the same bits.
    """

    def __init__(
        self,
        env: Env,
        features: Callable[[Any, int], FloatArray],
        seed: int,
        *,
        horizon: int | None = None,
        restorable: bool = False,
    ) -> None:
        steps = horizon or time_limit(env)
        if steps is None:
            raise EnvironmentMismatch("the environment has no time limit: give the horizon.")
        self.env, self._map, self.horizon, self.actions = env, features, steps, action_count(env)
        observation, _ = env.reset(seed=seed)
        self.dim = int(np.shape(features(observation, 0))[1])
        self._restorable = restorable
        self._current: _Moment | None = None
        if restorable:
            self._check_by_replay()
            env.reset(seed=seed)

    def start(self, episode: int) -> _Moment:
        """The state in which the episode of this number begins; episodes come in order."""
        observation, _ = self.env.reset()
        return self._moment(observation, 0)

    def features(self, state: _Moment) -> FloatArray:
        """Shape (actions, d)."""
        rows = np.asarray(self._map(state.observation, state.stage), np.float64)
        rows.flags.writeable = False
        return rows

    def step(self, state: _Moment, action: int) -> tuple[float, _Moment | None]:
        """Reward and next state, None at the end."""
        if state is not self._current:
            _put_back(self.env, state.snapshot)
        observation, reward, terminated, truncated, _ = self.env.step(np.int64(action))
        after = self._moment(observation, state.stage + 1)
        return float(reward), None if terminated or truncated or after.stage == self.horizon else after

    def _moment(self, observation: Any, stage: int) -> _Moment:
        self._current = _Moment(stage, np.array(observation), _save(self.env) if self._restorable else None)
        return self._current

    def _check_by_replay(self) -> None:
        """Play on from a saved state twice, with the same random numbers: all bits must agree."""
        moment = self.start(0)
        actions = np.random.default_rng(0).integers(self.actions, size=REPLAYED).tolist()
        generator, runs = get_generator(self.env), []
        for _ in range(2):
            set_generator(self.env, generator)
            here: _Moment | None = moment
            seen = []
            for action in actions:
                if here is None:
                    break
                reward, here = self.step(here, action)
                seen.append((reward, None if here is None else here.observation.tobytes()))
            runs.append(seen)
        if runs[0] != runs[1]:
            raise EnvironmentMismatch(
                "a replay from a restored state went elsewhere, so this environment cannot be restored exactly. Use "
                "it online only."
            )


def _save(env: Env) -> Any:
    """The state of an environment, and the steps that its time limit has counted."""
    inner: Any = env.unwrapped
    elapsed = [wrapper._elapsed_steps for wrapper in time_limits(env)]
    if hasattr(inner, "model") and hasattr(inner, "data"):
        mujoco: Any = sys.modules["mujoco"]  # whoever made the environment has imported it
        state = np.empty(mujoco.mj_stateSize(inner.model, mujoco.mjtState.mjSTATE_INTEGRATION))
        mujoco.mj_getState(inner.model, inner.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
        return state, elapsed
    return {name: deepcopy(getattr(inner, name)) for name in _attributes(inner)}, elapsed


def _put_back(env: Env, snapshot: Any) -> None:
    if snapshot is None:
        raise InputError("this environment was not opened to be restored: make the world with restorable=True.")
    inner: Any = env.unwrapped
    state, elapsed = snapshot
    for wrapper, steps in zip(time_limits(env), elapsed, strict=True):
        wrapper._elapsed_steps = steps
    if not isinstance(state, dict):
        mujoco: Any = sys.modules["mujoco"]
        mujoco.mj_setState(inner.model, inner.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
        mujoco.mj_forward(inner.model, inner.data)
        return
    for name, value in state.items():
        setattr(inner, name, deepcopy(value))


def _attributes(inner: Any) -> list[str]:
    """What makes up the state in classic control ("state") and toy text ("s")."""
    found = [name for name in ("state", "steps_beyond_terminated", "s", "lastaction") if hasattr(inner, name)]
    if not {"state", "s"} & set(found):
        raise InputError(
            f"how to save the state of {type(inner).__name__} is not known: classic control, toy text and MuJoCo can "
            "be restored. Use it online only."
        )
    return found

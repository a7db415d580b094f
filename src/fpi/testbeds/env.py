"""Testbeds as Gymnasium environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from fpi.errors import InputError

if TYPE_CHECKING:
    from fpi.testbeds.base import State, Testbed

NOISES = ("bernoulli", "uniform", "none")


class TestbedEnv(gym.Env[NDArray[np.int64], np.int64]):
    """Plays a testbed. Observations are its states in numbers; only the evaluator, `testbed`, knows means and values.

    Rewards are 0 or 1 ("bernoulli"), uniform in the widest interval around the mean that [0, 1] allows ("uniform"), or
    the means themselves ("none"). In a testbed with ordered starts episodes count from 0 at every `reset(seed=...)`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it as a variable of instances

    def __init__(self, testbed: Testbed, noise: str = "bernoulli") -> None:
        if noise not in NOISES:
            raise InputError(f"noise is {noise!r}; choose one of {', '.join(NOISES)}.")
        self.testbed = testbed
        self.noise = noise
        self.action_space = spaces.Discrete(testbed.actions)
        low, high = np.array(testbed.lowest, np.int64), np.array(testbed.highest, np.int64)
        self.observation_space = spaces.Box(low, high, dtype=np.int64)
        self.state: State | None = None
        self.episode = -1
        self._began_with: Any = None  # state of the generator when the episode began, if starts are ordered

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        super().reset(seed=seed)
        if self.testbed.ordered:
            self._count(restart=seed is not None)
        self.state = self.testbed.start(self.np_random, self.episode)
        return self.testbed.observation(self.state), {}

    def _count(self, restart: bool) -> None:
        """Number the episode. A generator put back to where the last one began asks for the same episode again."""
        begins_with = self.np_random.bit_generator.state
        if restart:
            self.episode = 0
        elif begins_with != self._began_with:
            self.episode += 1
        self._began_with = begins_with
        self.np_random.random()  # so that no two episodes begin alike

    def step(self, action: np.int64) -> tuple[NDArray[np.int64], float, bool, bool, dict[str, Any]]:
        chosen = int(action)
        if self.state is None:
            raise InputError("no episode is running: call reset() first.")
        if not 0 <= chosen < self.testbed.actions:
            raise InputError(f"action {action} is not one of 0 to {self.testbed.actions - 1}.")
        mean = self.testbed.mean(self.state, chosen)
        self.state = self.testbed.draw_next(self.state, chosen, self.np_random)
        reward = draw_reward(mean, self.noise, self.np_random)
        return self.testbed.observation(self.state), reward, self.state is None, False, {}


def draw_reward(mean: float, noise: str, rng: np.random.Generator) -> float:
    """A reward around its mean."""
    if noise == "bernoulli":
        return float(rng.random() < mean)
    if noise == "uniform":
        return mean + min(mean, 1 - mean) * (2 * rng.random() - 1)
    return mean

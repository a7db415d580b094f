"""An environment of your own, for Gymnasium and compiled: the same episodes to the bit, many times faster.

A drone that can rise or fall earns 1 minus its distance from height 1, and crashes at 0 and at 2.

Run it: python examples/own_environment.py [episodes]
"""

import sys

import gymnasium as gym
import numba
import numpy as np

import fpi
from fpi import compiled

HORIZON = 60


class Drone(gym.Env):
    observation_space = gym.spaces.Box(np.array([0.0, -2.0]), np.array([2.0, 2.0]), dtype=np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height, self.speed = self.np_random.uniform(0.6, 1.4), 0.0
        return np.array([self.height, self.speed]), {}

    def step(self, action):
        self.speed += 0.08 if action == 1 else -0.05
        self.height += 0.2 * self.speed
        crashed = not 0.0 < self.height < 2.0
        self.height = min(max(self.height, 0.0), 2.0)
        reward = 0.0 if crashed else 1.0 - abs(self.height - 1.0)
        return np.array([self.height, self.speed]), reward, crashed, False, {}


@numba.njit(cache=True)
def reset(rng, state, observation):
    state[0] = rng.uniform(0.6, 1.4)
    state[1] = 0.0
    observation[:] = state


@numba.njit(cache=True)
def step(state, action, observation):
    height, speed = state
    speed += 0.08 if action[0] == 1 else -0.05
    height += 0.2 * speed
    crashed = not (0.0 < height < 2.0)
    height = min(max(height, 0.0), 2.0)
    state[0], state[1] = height, speed
    observation[:] = state
    return 0.0 if crashed else 1.0 - abs(height - 1.0), crashed


gym.register("Drone-v0", entry_point=Drone, max_episode_steps=HORIZON)
compiled.register(
    compiled.CompiledEnv(
        "Drone-v0", reset, step, state=2, observations=Drone.observation_space, env_actions=[0, 1], time_limit=HORIZON
    )
)


def main(episodes=12_000):
    env = gym.make("Drone-v0")
    comparison = compiled.compare(compiled.get("Drone-v0"), env, episodes=50, seed=0)
    print(comparison)
    features = fpi.TileCoding.for_env(env, tiles=6, tilings=4)
    agent = fpi.PAC(features, actions=2, horizon=HORIZON, epsilon=1.0, ridge=1e-3)
    history = agent.learn(env, episodes=episodes, seed=0, engine="compiled")
    print(history)
    return comparison, history


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

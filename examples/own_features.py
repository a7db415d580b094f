"""Features of your own, and a look at whether they fit.

A trolley on a rail earns 1 for every step that it ends at one place. A polynomial of the place does not fit its
Q-functions, one feature per place does. Transitions and rewards are deterministic, so what a linear fit of the stored
returns leaves over is misfit and nothing else.

Run it: python examples/own_features.py
"""

import gymnasium as gym
import numpy as np

import fpi

PLACES, GOAL, HORIZON = 16, 11, 8


class Trolley(gym.Env):
    observation_space = gym.spaces.Discrete(PLACES)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = int(self.np_random.integers(PLACES)), 0
        return self.place, {}

    def step(self, action):
        self.place = min(max(self.place + int(action) - 1, 0), PLACES - 1)
        self.steps += 1
        return self.place, float(self.place == GOAL), self.steps == HORIZON, False, {}


def polynomial(observation):
    """1, x and x² of the place, in a block for every action; norms are at most 1."""
    x = observation / PLACES
    return np.kron(np.eye(3), [1.0, x, x * x]) / np.sqrt(3)


def misfit(agent):
    """What linear fits of the stored returns leave over, root mean square, at the worst stage."""
    return max(agent.dataset(stage).misfit for stage in range(HORIZON))


def main():
    env, misfits = Trolley(), {}
    for name, features in (("polynomial", polynomial), ("one per place", fpi.OneHot(PLACES, 3))):
        agent = fpi.PAC(features, actions=3, horizon=HORIZON, epsilon=0.5, ridge=1e-3)
        agent.learn(env, episodes=2_000, seed=0)
        played, misfits[name] = fpi.evaluate(agent, env, episodes=100, seed=1), misfit(agent)
        print(f"{name}: earns {played.mean:.2f}, misfit of the data {misfits[name]:.2g}")
    return misfits


if __name__ == "__main__":
    main()

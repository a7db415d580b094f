"""A control task in a handful of episodes: ModelFPI drives a weak car up a hill.

The agent learns the dynamics from every transition and plans in them; no features, no settings, no guarantee.

Run it: python examples/control.py [episodes]
"""

import sys

import gymnasium as gym

import fpi


def main(episodes=3):
    env = gym.make("MountainCar-v0")
    agent = fpi.ModelFPI.for_env(env)
    for number in range(episodes):
        history = agent.learn(env, episodes=1, seed=1 if number == 0 else None)
        print(f"episode {number + 1}: {-history.returns[0]:.0f} steps")
    print(agent.report())
    played = fpi.evaluate(agent, env, episodes=3, seed=1)
    print(f"learned policy: {-played.mean:.0f} steps on average; the time limit is 200")
    return played


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

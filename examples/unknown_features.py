"""No features are known: all there is is a list of candidate functions.

A kiosk on wheels. The morning shows the weather; what you buy decides to which of two squares you go, and there you
set a price. Each step brings a sale or none. Twelve people claim to know the chances, and one of them is right.

FPI needs a class of functions that holds Q^pi for every policy pi: what a first step is worth depends on what one does
afterwards. So a candidate is one person's claim together with one price for each square: 12 * 3^2 = 108 functions.

Run it: python examples/unknown_features.py
"""

import itertools

import gymnasium as gym
import numpy as np

import fpi
from fpi.function_classes import FiniteClass

EPISODES = 2_000
rng = np.random.default_rng(1)
CLAIMS = rng.uniform(size=(12, 2, 5, 3))  # chances of a sale: person, step, weather or square, action
SQUARE = rng.integers(2, size=(5, 3))  # where one goes: weather, goods; everybody knows
TRUTH = CLAIMS[7]


class Kiosk(gym.Env):
    observation_space = gym.spaces.Discrete(5)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_number, self.at = 0, int(self.np_random.integers(5))
        return self.at, {}

    def step(self, action):
        sold = self.np_random.random() < TRUTH[self.step_number, self.at, action]
        last = self.step_number == 1
        if not last:
            self.step_number, self.at = 1, int(SQUARE[self.at, action])
        return self.at, float(sold), last, False, {}


def candidate(claim, prices):
    """Sales to come by this claim, for every action, if these prices are asked at the squares."""
    worth = claim[1, range(2), prices]

    def sales(observation, stage):
        return claim[0, observation] + worth[SQUARE[observation]] if stage == 0 else claim[1, observation]

    return sales


plans = itertools.product(range(3), repeat=2)
candidates = [candidate(claim, prices) for prices in plans for claim in CLAIMS]
functions = FiniteClass(candidates, max_value=2.0, actions=3, key=lambda observation, stage: int(observation))

agent = fpi.Eluder(functions, actions=3, horizon=2, episodes=EPISODES)  # the constants of the theory
history = agent.learn(Kiosk(), episodes=EPISODES, seed=0)

worth = TRUTH[1].max(axis=1)  # of a square at its best price
best = np.array([(TRUTH[0, weather] + worth[SQUARE[weather]]).max() for weather in range(5)])
goods = [agent.predict(weather, 0) for weather in range(5)]
chosen = [agent.predict(square, 1) for square in range(2)]
found = [TRUTH[0, w, goods[w]] + TRUTH[1, SQUARE[w, goods[w]], chosen[SQUARE[w, goods[w]]]] for w in range(5)]

tenth = EPISODES // 10
print(f"{len(candidates)} candidates, {EPISODES:,} days, {agent.data_stored:,} of them stored")
print(f"sales a day: {history.returns[:tenth].mean():.2f} at first, {history.returns[-tenth:].mean():.2f} at the end")
print(f"expected of the learned policy: {np.mean(found):.3f}, of the best one: {best.mean():.3f}")
print("why, when the sun shines:")
print(agent.explain(0, stage=0))

"""Regret and Uniform-PAC from one run, beside random play, on a linear bandit whose every value is known.

Run it: python examples/regret.py [episodes]
"""

import sys

import fpi
from fpi import statistics, testbeds
from fpi.baselines import Uniform
from fpi.callbacks import GapLog


def main(episodes=3_000):
    world = testbeds.LinBandit(d=3, K=5)
    common = {"actions": world.actions, "horizon": world.horizon}
    learners = {
        "Regret, constants of the theory": fpi.Regret(world.features, **common, theta_bound=world.theta_bound),
        "Regret, a tenth of them": fpi.Regret(world.features, **common, theta_bound=world.theta_bound, scale=0.1),
        "random play": Uniform(**common),
    }
    lost = {}
    for name, learner in learners.items():
        log = GapLog(world)
        learner.learn(world.env(), episodes=episodes, seed=0, callback=log)
        lost[name] = float(statistics.regret(log.gaps)[-1])
        mistakes = statistics.mistakes(log.gaps)
        print(f"{name}: regret {lost[name]:.0f}, {mistakes(0.1):,} episodes lost more than 0.1")
    return lost


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

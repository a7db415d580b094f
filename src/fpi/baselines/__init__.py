"""Other people's methods, to compare with. They learn and predict as agents do, but cannot be saved or explained.

>>> import fpi.baselines, fpi.testbeds
>>> world = fpi.testbeds.LinBandit(d=6, K=10)
>>> oful = fpi.baselines.OFUL(world.features, actions=10, theta_bound=world.theta_bound)
>>> history = oful.learn(world.env(), episodes=100, seed=0)
>>> len(history)
100
"""

from fpi.baselines.oful import OFUL
from fpi.baselines.suplinucb import SupLinUCB
from fpi.baselines.uniform import Uniform

__all__ = ["OFUL", "SupLinUCB", "Uniform"]

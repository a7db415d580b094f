"""Environments in compiled code, and `learn` for them: whole episodes without Python in between.

>>> import fpi
>>> from fpi import compiled
>>> env = compiled.get("CartPole-v1")
>>> features = fpi.TileCoding([-4.8, -10, -0.418, -10], [4.8, 10, 0.418, 10], tiles=4, tilings=4, actions=2)
>>> agent = fpi.PAC(features, actions=2, horizon=500, epsilon=1.0, ridge=1e-3)
>>> history = compiled.learn(agent, env, episodes=50, seed=0)  # as agent.learn(gymnasium.make("CartPole-v1"), ...)

`agent.learn(env, ..., engine="compiled")` finds the compiled environment by itself.
"""

from fpi.compiled import tasks
from fpi.compiled.engine import compiled_env_for, learn
from fpi.compiled.env import Comparison, CompiledEnv, compare, get, known, register
from fpi.compiled.stale import StaleLog

__all__ = ["Comparison", "CompiledEnv", "StaleLog", "compare", "compiled_env_for", "get", "known", "learn", "register"]

for _env in (tasks.CARTPOLE, tasks.INVERTED_PENDULUM):
    register(_env)

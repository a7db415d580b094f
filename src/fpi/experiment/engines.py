"""Two ways to play: Gymnasium's environments, or whole episodes inside one compiled loop. Their returns are equal."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from fpi import compiled
from fpi.algorithms import Agent
from fpi.compiled import CompiledEnv, StaleLog
from fpi.compiled.engine import check_agent
from fpi.errors import InputError
from fpi.history import History
from fpi.run_config import RunConfig

ENGINES = ("gymnasium", "compiled")

Learn = Callable[[Agent, int, int | None, StaleLog | None], History]
"""Agent, episodes, the seed at the beginning of a run, and the log of stale data."""


def make_engine(name: str, setting: RunConfig) -> Learn:
    """How agents of a complete setting learn; an InputError if the engine cannot serve it."""
    if name == "gymnasium":
        env = setting.make_env()
        return lambda agent, episodes, seed, log: agent.learn(env, episodes, seed, callback=log)
    if name != "compiled":
        raise InputError(f"there is no engine {name!r}; choose one of {', '.join(ENGINES)}.")
    compiled_env = find_compiled_env(setting)
    check_agent(setting.make_agent())  # an InputError if compiled code does not know such agents
    return lambda agent, episodes, seed, log: compiled.learn(agent, compiled_env, episodes, seed, log=log)


def find_compiled_env(setting: RunConfig) -> CompiledEnv:
    if setting.env_args:
        raise InputError(f"{setting.env} with env_args has no compiled environment. Use the engine gymnasium.")
    module, _, name = setting.env.rpartition(":")  # as gymnasium.make reads it
    if module:
        importlib.import_module(module)
    return compiled.get(name, setting.action_grid)


def make_log(agent: Agent) -> StaleLog | None:
    """None for agents whose stale data nobody can count."""
    try:
        return StaleLog(agent)
    except InputError:
        return None

"""Two ways to play: Gymnasium's environments, or whole episodes inside one compiled loop. Their returns are equal."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from fpi import compiled
from fpi.algorithms import Agent
from fpi.callbacks import GapLog
from fpi.compiled import StaleLog
from fpi.compiled.engine import check_agent
from fpi.errors import InputError
from fpi.history import History
from fpi.run_config import RunConfig
from fpi.training import Callback, Episode, find_engine

Learn = Callable[[Agent, int, int | None, StaleLog | None, GapLog | None], History]
"""Agent, episodes, the seed at the beginning of a run, and the logs of stale data and of losses."""


def make_engine(name: str, setting: RunConfig) -> Learn:
    """How agents of a complete setting learn; an InputError if the engine cannot serve it."""
    find_engine(name)
    if name == "gymnasium":
        env = setting.make_env()
        return lambda agent, episodes, seed, *logs: agent.learn(env, episodes, seed, callback=_together(*logs))
    if setting.env_args:
        raise InputError(f"{setting.env} with env_args has no compiled environment. Use the engine gymnasium.")
    module, _, env_name = setting.env.rpartition(":")  # as gymnasium.make reads it
    if module:
        importlib.import_module(module)
    compiled_env = compiled.get(env_name, setting.action_grid)
    check_agent(setting.make_agent())  # an InputError if compiled code does not know such agents
    return lambda agent, episodes, seed, log, _: compiled.learn(agent, compiled_env, episodes, seed, log=log)


def _together(*logs: Callback | None) -> Callback | None:
    known = [log for log in logs if log is not None]

    def call(episode: Episode) -> None:
        for log in known:
            log(episode)

    return call if known else None


def make_log(agent: Agent) -> StaleLog | None:
    """None for agents whose stale data nobody can count."""
    try:
        return StaleLog(agent)
    except InputError:
        return None

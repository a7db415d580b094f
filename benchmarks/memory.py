"""Agents that are gone leave nothing behind: made, taught and dropped again and again."""

import ctypes
import gc
import resource
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numba
import numpy as np
from numba.core.runtime import _nrt_python, rtsys  # type: ignore[attr-defined]
from rich.table import Table

import fpi
import fpi.training
from fpi import compiled

TIMES = 50, 100, 200
EPISODES, HORIZON = 10, 20


@numba.njit
def begin(rng, state, observation):  # type: ignore[no-untyped-def]
    state[0] = observation[0] = np.floor(rng.uniform(0.0, 9.0))


@numba.njit
def walk(state, action, observation):  # type: ignore[no-untyped-def]
    state[0] = observation[0] = max(state[0] + 2.0 * action[0] - 1.0, 0.0)
    return 1.0, state[0] == 9.0


WALK = compiled.CompiledEnv("Walk", begin, walk, 1, gym.spaces.Discrete(10), [0, 1])


def run() -> Iterator[Table | str]:
    heads = "MB after {}, {} and {} times".format(*TIMES), "arrays of compiled code before and after"
    table = Table("features", "agent", "engine", *heads, title=f"Make, learn {EPISODES} episodes, drop")
    _nrt_python.memsys_enable_stats()
    others = _arrays()  # of benchmarks before this one
    cartpole, lake = gym.make("CartPole-v1"), gym.make("FrozenLake-v1", is_slippery=False)
    tiles, fourier = fpi.TileCoding.for_env(cartpole, tiles=4, tilings=2), fpi.Fourier.for_env(cartpole, order=2)
    rows: tuple[tuple[str, Any, int, Any], ...] = (
        ("tiles", tiles, 2, cartpole),
        ("tiles", tiles, 2, compiled.get("CartPole-v1")),
        ("one-hot", fpi.OneHot(16, 4), 4, lake),
        ("one-hot", fpi.OneHot(10, 2), 2, WALK),
        ("Fourier", fourier, 2, cartpole),
        ("RBF", fpi.RBF(np.eye(4), 0.5, actions=2), 2, cartpole),
        ("function", _function, 2, cartpole),
    )
    for name, features, actions, env in rows:
        engine = "compiled" if isinstance(env, compiled.CompiledEnv) else "gymnasium"
        for agent, make in (("PAC", partial(fpi.PAC, epsilon=1.0)), ("Regret", fpi.Regret)):
            cells = _measure(partial(make, features, actions=actions, horizon=HORIZON), env, others)
            table.add_row(name, agent, engine, *cells)
    yield table


def _function(observation: Any, stage: int) -> Any:
    return np.multiply.outer([0.5, -0.5], np.tanh(observation))


def _measure(make: Callable[[], Any], env: Any, others: int) -> tuple[str, str]:
    """Resident memory, as Linux tells it, and the arrays that compiled code holds.

    What is free is given back first: the C library would keep it for the next agent.
    """
    learn = compiled.learn if isinstance(env, compiled.CompiledEnv) else fpi.training.learn
    held, before = [], 0
    for number in range(1, TIMES[-1] + 1):
        learn(make(), env, EPISODES, seed=0)
        if number == 1:  # what is compiled stays
            before = _arrays() - others
        if number in TIMES:
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            held.append(f"{pages * resource.getpagesize() / 1e6:.1f}")
    return ", ".join(held), f"{before:,}, {_arrays() - others:,}"


def _arrays() -> int:
    gc.collect()
    stats = rtsys.get_allocation_stats()  # type: ignore[no-untyped-call]
    return int(stats.mi_alloc - stats.mi_free)

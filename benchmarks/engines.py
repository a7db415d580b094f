"""Steps per second of both engines, beside the bare environments."""

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from numba import njit, types
from rich.table import Table

import fpi
from fpi import compiled
from fpi.compiled import loop
from fpi.kernels.objects import VECTOR

EPISODES = 2_000
REGRET = 1_000
LONG = 55_000
FREEZE: tuple[Any, ...] = ("exact", 20, "never")

INTEGERS = types.Array(types.int64, 1, "C")
FUNCTIONS = types.FunctionType(loop.RESET), types.FunctionType(loop.STEP)
MOVES = types.Array(types.float64, 2, "C")


@njit([types.void(*FUNCTIONS, types.npy_rng, MOVES, INTEGERS, INTEGERS, VECTOR, VECTOR)])
def bare(reset, step, rng, env_actions, actions, lengths, state, observation):  # type: ignore[no-untyped-def]
    at = 0
    for length in lengths:
        reset(rng, state, observation)
        for _ in range(length):
            step(state, env_actions[actions[at]], observation)
            at += 1


def run() -> Iterator[Table | str]:
    table = Table("processor time, best of 3", "CartPole-v1", "InvertedPendulum-v4", title="steps per second per core")
    columns = [list(_speeds(*_world(name))) for name in ("CartPole-v1", "InvertedPendulum-v4")]
    for (what, cartpole), (_, pendulum) in zip(*columns, strict=True):
        table.add_row(what, cartpole, pendulum)
    yield table

    yield from _regret()

    table = Table(
        "environment", "freeze", "seconds", "steps", "µs a step", "data", title=f"{LONG:,} episodes, compiled"
    )
    for name in ("CartPole-v1", "InvertedPendulum-v4"):
        make, _, compiled_env = _world(name)
        for freeze in FREEZE:
            agent = make(freeze)
            seconds = _time(partial(compiled.learn, agent, compiled_env, LONG, seed=0))
            steps = int(agent.training_state.visits.sum(axis=1)[0])
            figures = f"{seconds:.1f}", f"{steps:,}", f"{seconds / steps * 1e6:.2f}", f"{agent.data_stored:,}"
            table.add_row(name, str(freeze), *figures)
    yield table


def _regret() -> Iterator[Table | str]:
    """FPI-Regret in both engines, by elimination and exploring rule."""
    table = Table("FPI-Regret, CartPole-v1", "steps", "gymnasium, µs a step", "compiled, µs a step", "ratio")
    _, env, compiled_env = _world("CartPole-v1")
    features = fpi.TileCoding.for_env(env, tiles=4, tilings=2)
    for elimination, explore in (("paper", "greedy"), ("interval", "optimistic")):

        def make(elimination: Any = elimination, explore: Any = explore) -> fpi.Regret:
            return fpi.Regret(features, actions=2, horizon=50, elimination=elimination, explore=explore)

        compiled.learn(make(), compiled_env, 10, seed=0)  # compiles
        steps = int(make().learn(env, REGRET, seed=0).lengths.sum())
        ours = min(_time(lambda: make().learn(env, REGRET, seed=0)) for _ in range(2))
        quick = min(_time(lambda: compiled.learn(make(), compiled_env, REGRET, seed=0)) for _ in range(2))
        figures = f"{ours / steps * 1e6:.2f}", f"{quick / steps * 1e6:.2f}", f"{ours / quick:.1f}"
        table.add_row(f"{elimination}, {explore}", f"{steps:,}", *figures)
    yield table


def _world(name: str) -> tuple[Callable[[Any], Any], gym.Env[Any, Any], compiled.CompiledEnv]:
    """The setting of Figure 2."""
    if name == "CartPole-v1":
        env: Any = gym.make(name)
        high, actions, horizon = [4.8, 10, 0.418, 10], 2, 500
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium recommends v5; the paper has v4
            env = fpi.ActionGrid(gym.make(name), [-3, -1, 1, 3])
        high, actions, horizon = [1, np.pi / 2, 10, 10], 4, 60
    features = fpi.TileCoding(np.negative(high), high, tiles=4, tilings=4, actions=actions)

    def make(freeze: Any) -> fpi.PAC:
        return fpi.PAC(features, actions=actions, horizon=horizon, epsilon=1.0, ridge=1e-3, freeze=freeze)

    return make, env, compiled.get(name)


def _speeds(make: Callable[[Any], Any], env: gym.Env[Any, Any], compiled_env: compiled.CompiledEnv) -> Any:
    """Four loops over the same episodes, taken in turns so that all see the same machine."""
    recorded: list[Any] = []
    lengths = make("exact").learn(env, EPISODES, seed=0, callback=lambda e: recorded.append(e.actions)).lengths
    actions = np.concatenate(recorded)
    lists = [list(each) for each in recorded]
    arrays = compiled_env.env_actions, actions, lengths, *compiled_env.begin()
    compiled.learn(make("exact"), compiled_env, 10, seed=0)  # compiles
    loops = {
        "bare Gymnasium loop": lambda: _replay(env, lists),
        "learn with Gymnasium": lambda: make("exact").learn(env, EPISODES, seed=0),
        "bare compiled environment": lambda: bare(
            compiled_env.reset, compiled_env.step, np.random.default_rng(0), *arrays
        ),
        "learn compiled": lambda: compiled.learn(make("exact"), compiled_env, EPISODES, seed=0),
    }
    best = dict.fromkeys(loops, np.inf)
    for _ in range(3):
        for what, play in loops.items():
            best[what] = min(best[what], _time(play))
    for what, seconds in best.items():
        yield what, f"{len(actions) / seconds:,.0f}"


def _replay(env: gym.Env[Any, Any], recorded: list[list[Any]]) -> None:
    env.reset(seed=0)
    for number, actions in enumerate(recorded):
        if number:
            env.reset()
        for action in actions:
            env.step(action)


def _time(act: Callable[[], Any]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began

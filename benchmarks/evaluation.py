"""A model plays what was learned: the evaluated return beside that of the last training episodes, and random play."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from rich.table import Table

import fpi
from fpi import compiled
from fpi.algorithms import Agent
from fpi.baselines import Uniform
from fpi.statistics import student_interval

SEEDS = range(5)
EVALUATED = 200


class Task(NamedTuple):
    name: str
    make: Callable[[], Any]
    features: Callable[[Any], Any]
    horizon: int
    episodes: int
    grid: Any = None
    """Actions of the compiled counterpart; the task is learned by Gymnasium if there is none."""


def _cartpole_features(env: Any) -> fpi.TileCoding:
    return fpi.TileCoding.for_env(env, tiles=4, tilings=4)


def _pendulum() -> Any:
    return fpi.ActionGrid(gym.make("InvertedPendulum-v4"), 4)


def _pendulum_features(env: Any) -> fpi.TileCoding:
    return fpi.TileCoding([-1, -np.pi / 2, -10, -10], [1, np.pi / 2, 10, 10], tiles=4, tilings=4, actions=4)


def _lake() -> Any:
    return gym.make("FrozenLake-v1", is_slippery=False)


TASKS = (
    Task("CartPole-v1", lambda: gym.make("CartPole-v1"), _cartpole_features, 500, 10_000),
    Task("CartPole-v1", lambda: gym.make("CartPole-v1"), _cartpole_features, 500, 55_000),
    Task("InvertedPendulum-v4", _pendulum, _pendulum_features, 60, 20_000, [[-3.0], [-1.0], [1.0], [3.0]]),
    Task("FrozenLake-v1", _lake, lambda env: fpi.OneHot(16, 4), 20, 2_000),
)


def run() -> Iterator[Table | str]:
    heads = (
        "task",
        "episodes",
        "last training episodes",
        "evaluated",
        "difference",
        "explore=False",
        "random",
        "covered",
    )
    table = Table(*heads, title=f"means over {len(SEEDS)} seeds, {EVALUATED} evaluated episodes each, 95% intervals")
    for task in TASKS:
        env = task.make()
        rows = np.array([_measure(task, env, seed) for seed in SEEDS])
        trained, evaluated, greedy, random, covered = rows.T
        table.add_row(
            task.name,
            f"{task.episodes:,}",
            _interval(trained),
            _interval(evaluated),
            _interval(evaluated - trained),
            f"{greedy.mean():.1f}",
            f"{random.mean():.1f}",
            f"{covered.mean():.0%}",
        )
    yield table


def _measure(task: Task, env: Any, seed: int) -> tuple[float, ...]:
    agent = fpi.PAC(task.features(env), actions=env.action_space.n, horizon=task.horizon, epsilon=1.0, ridge=1e-3)
    if task.name in compiled.known():
        history = compiled.learn(agent, compiled.get(task.name, task.grid), task.episodes, seed=seed)
    else:
        history = agent.learn(env, task.episodes, seed=seed)
    last = history.returns[-max(task.episodes // 100, EVALUATED) :]
    played = fpi.evaluate(agent, env, EVALUATED, seed=seed)
    uniform = Uniform(actions=agent.actions, horizon=agent.horizon)
    others = [fpi.evaluate(other, env, EVALUATED, seed=seed) for other in (_Greedy(agent), uniform)]
    return last.mean(), played.returns.mean(), *(other.returns.mean() for other in others), played.covered_share


class _Greedy:
    """An agent that only has `predict`, the best estimate everywhere."""

    def __init__(self, agent: Agent) -> None:
        self.actions, self.horizon, self.predict = agent.actions, agent.horizon, agent.greedy


def _interval(numbers: Any) -> str:
    mean, _, high = student_interval(numbers)
    return f"{mean:.1f} ± {high - mean:.1f}"

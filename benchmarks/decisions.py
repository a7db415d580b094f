"""What one decision costs as data grow, and how much memory they take."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from rich.table import Table

import fpi
from fpi.data import ExploringStep
from fpi.datasets import Datasets
from fpi.kernels.cover import first_cover

SIZES = (100, 1_000, 10_000)
TAUGHT, ASKED = 2_000, 100  # episodes before, and those whose states are asked about


def run() -> Iterator[Table | str]:
    table = Table("query", *(f"n = {n:,}" for n in SIZES), "n × 100 costs", title="µs a decision")
    tiles, one_hot = ([_seen(features, n) for n in SIZES] for features in (_tiles(), fpi.OneHot(500, 2)))
    dense = {d: [_dense(d, n) for n in SIZES] for d in (64, 256)}
    for name, found in (
        ("tile coding, state seen before", tiles),
        ("one-hot, state seen before", one_hot),
        *((f"dense, no key, d = {d}", found) for d, found in dense.items()),
    ):
        costs = [cost for cost, _ in found]
        table.add_row(name, *(f"{cost:.2f}" for cost in costs), f"{costs[-1] / costs[0]:.2f} times")
    ratios = [one / tile for (one, _), (tile, _) in zip(one_hot, tiles, strict=True)]
    table.add_row("one-hot / tile coding (target: at most 2)", *(f"{ratio:.2f}" for ratio in ratios), "")
    yield table
    yield from _policy()

    table = Table(
        "features", *(f"n = {n:,}" for n in SIZES), title="bytes held, as a multiple of 8·n·d (target: at most 3)"
    )
    for d, found in dense.items():
        table.add_row(
            f"dense, d = {d}", *(f"{size / (8 * n * d):.2f}" for n, (_, size) in zip(SIZES, found, strict=True))
        )
    sizes = (f"{size / (8 * n * 2500):.3f}" for n, (_, size) in zip(SIZES, tiles, strict=True))
    table.add_row("tiles, 4 active of d = 2,500 a block", *sizes)
    yield table


def _policy() -> Iterator[Table | str]:
    """The learned policy asked from outside, beside the learner's own decisions, at states that it has met."""
    env = gym.make("CartPole-v1")
    agent = fpi.PAC(fpi.TileCoding.for_env(env, tiles=4, tilings=4), actions=2, horizon=500, epsilon=1.0, ridge=1e-3)
    met: list[tuple[Any, int]] = []
    agent.learn(env, TAUGHT, seed=0)
    agent.learn(
        env, ASKED, callback=lambda episode: met.extend((episode.observations[t], t) for t in range(episode.length))
    )
    own = agent.begin_episode(agent.training_state)
    decided, predicted = (_best(partial(_each, ask, met), 1) / len(met) for ask in (own, agent.predict))
    learned, evaluated = _steps(agent, env)
    table = Table("tile coding, after 2,000 episodes of CartPole-v1", "µs", "ratio", "target")
    table.add_row(f"the learner's own decision, {len(met):,} states it met", f"{decided:.2f}", "1", "")
    table.add_row("`predict` there", f"{predicted:.2f}", f"{predicted / decided:.2f}", "at most 3")
    table.add_row(f"`learn`, a step of the next {ASKED} episodes", f"{learned:.2f}", "1", "")
    table.add_row(
        f"`evaluate`, a step of {ASKED} episodes", f"{evaluated:.2f}", f"{evaluated / learned:.2f}", "at most 1.3"
    )
    yield table


def _each(ask: Callable[[Any, int], Any], met: list[tuple[Any, int]]) -> None:
    for observation, stage in met:
        ask(observation, stage)


def _steps(agent: fpi.PAC, env: Any) -> Any:
    """µs a step of `learn` and of `evaluate`, the medians of runs in turns."""
    taken = []
    for _ in range(5):
        began = time.process_time()
        history = agent.learn(env, ASKED)
        learned = time.process_time()
        evaluation = fpi.evaluate(agent, env, ASKED)
        ended = time.process_time()
        taken.append([(learned - began) / history.lengths.sum(), (ended - learned) / evaluation.lengths.sum()])
    return np.median(taken, axis=0) * 1e6


def _tiles() -> fpi.TileCoding:
    return fpi.TileCoding([-1] * 4, [1] * 4, tiles=4, tilings=4, actions=2)


def _best(act: Callable[[], Any], number: int) -> float:
    """Best of five, in µs."""
    act()
    times = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(number):
            act()
        times.append((time.process_time() - began) / number * 1e6)
    return min(times)


def _seen(features: Any, n: int) -> tuple[float, int]:
    """n data in one stage, then the decision at a state that was decided before; and the bytes of all."""
    rng = np.random.default_rng(0)
    data = Datasets(features, 1, 1e-3, [1.0])
    tiles = isinstance(features, fpi.TileCoding)

    def observe() -> Any:
        return rng.uniform(-1, 1, 4) if tiles else int(rng.integers(500))

    state = observe()
    for i in range(n):
        indices, values = data.rows(observe() if i > 1 else state, 0)  # both actions of `state` come first
        data.append(ExploringStep(indices[0], values[0], None), 0, i % 2, rng.random(), i)
    decide = data.begin_episode(2**62, "first", 0, n)
    _, explores = decide(state, 0)
    assert not explores
    return _best(lambda: decide(state, 0), 2_000), data.nbytes


def _dense(d: int, n: int) -> tuple[float, int]:
    """A fresh covered query, asked with no memory of earlier ones: cost and memory."""
    rng = np.random.default_rng(0)
    ridge = fpi.PrefixRidge(d, 1e-3)
    for _ in range(n):
        phi = rng.normal(size=d)
        ridge.append(phi / np.linalg.norm(phi), rng.random())
    phi = rng.normal(size=(1, d))
    phi /= np.linalg.norm(phi)
    epsilon = float(ridge.widths(phi)[n // 3, 0])  # covered after a third of the data

    def act() -> Any:
        return first_cover(ridge._store, 0, np.empty(0, np.int32), phi[0], epsilon * 1.001)

    assert act() > 0
    return _best(act, 20), ridge.nbytes

"""FPI for function classes: a thousand candidate functions on one core, and a linear class beside FPI-Regret."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from fpi import Eluder, Regret
from fpi.baselines import Uniform
from fpi.callbacks import GapLog
from fpi.function_classes import FiniteClass, LinearBall
from fpi.testbeds import HubCorridor, LinBandit, TableHubs, Testbed

EPISODES = 2_000
SEEDS = range(3)
SCALES = (1.0, 0.1, 0.03)  # of alpha; beta is of the order of its square
WORLDS: dict[str, Callable[[int], Testbed]] = {
    "LinBandit(d=3, K=5)": lambda seed: LinBandit(d=3, K=5, seed=seed),
    "HubCorridor(B=1, m=2, K=3)": lambda seed: HubCorridor(B=1, m=2, K=3, seed=seed),
}

Maker = Callable[[Testbed, int, float], Any]


class Run(NamedTuple):
    regret: float
    loss: float
    """Per episode, over the last tenth."""
    data: int
    level: int
    """The highest that stored anything."""
    seconds: float


def finite(testbed: Any, episodes: int, scale: float) -> Eluder:
    candidates = FiniteClass(testbed.tables, max_value=testbed.horizon)
    return Eluder(candidates, actions=testbed.actions, horizon=testbed.horizon, episodes=episodes, scale=scale)


def ball(testbed: Testbed, episodes: int, scale: float) -> Eluder:
    functions = LinearBall(testbed.features, radius=testbed.theta_bound, max_value=testbed.horizon)
    return Eluder(functions, actions=testbed.actions, horizon=testbed.horizon, episodes=episodes, scale=scale**2)


def regret(testbed: Testbed, episodes: int, scale: float) -> Regret:
    bound = testbed.theta_bound
    return Regret(
        testbed.features, actions=testbed.actions, horizon=testbed.horizon, theta_bound=bound, scale=scale, max_level=10
    )


def uniform(testbed: Testbed, episodes: int, scale: float) -> Uniform:
    return Uniform(actions=testbed.actions, horizon=testbed.horizon)


def learn(make: Maker, testbed: Testbed, scale: float, seed: int) -> Run:
    make(testbed, EPISODES, scale).learn(testbed.env(), 30, seed=seed)  # compiles
    agent = make(testbed, EPISODES, scale)
    began = time.process_time()
    history = GapLog(testbed)
    agent.learn(testbed.env(), EPISODES, seed=seed, callback=history)
    seconds = time.process_time() - began
    sizes = agent.datasets.sizes() if hasattr(agent, "datasets") else np.zeros((1, 1))
    level = max(np.flatnonzero(sizes.any(axis=1)) + 1, default=0)
    return Run(history.gaps.sum(), history.gaps[-EPISODES // 10 :].mean(), int(sizes.sum()), int(level), seconds)


def run() -> Iterator[Table | str]:
    yield from thousand()
    yield from side_by_side()


def thousand() -> Iterator[Table | str]:
    testbed = TableHubs(contexts=20, m=3, K=2, R=125)
    title = f"{math.prod((125, 2**3)):,} candidate functions, two stages, {EPISODES:,} episodes"
    table = Table("scale of beta", "regret", "loss at the end", "data", "level", "seconds", "target", title=title)
    for scale in (1.0, 0.02):
        found = learn(finite, testbed, scale, seed=0)
        numbers = f"{found.regret:.0f}", f"{found.loss:.4f}", f"{found.data:,}", str(found.level)
        table.add_row(f"{scale:g}", *numbers, f"{found.seconds:.1f}", "less than 60 s")
    yield table


def side_by_side() -> Iterator[Table | str]:
    """Means over seeds; of the regret also the smallest and the largest."""
    for name, world in WORLDS.items():
        title = f"{name}: {EPISODES:,} episodes, seeds 0 to {SEEDS[-1]}"
        table = Table("agent", "scale", "regret", "loss at the end", "level", "µs an episode", "/ Regret", title=title)
        rows: list[tuple[str, Maker, float, str]] = [("Uniform", uniform, 1.0, "")]
        for scale in SCALES:
            rows.append(("Regret", regret, scale, f"α × {scale:g}"))
            rows.append(("Eluder, LinearBall", ball, scale, f"β × {scale**2:g}"))
        usual = 0.0
        for agent, make, scale, shown in rows:
            runs = [learn(make, world(seed), scale, seed) for seed in SEEDS]
            regrets = [each.regret for each in runs]
            loss, level, seconds = (np.mean([getattr(each, x) for each in runs]) for x in ("loss", "level", "seconds"))
            usual = seconds if agent == "Regret" else usual
            spread = f"{np.mean(regrets):.0f} ({min(regrets):.0f} to {max(regrets):.0f})"
            cost = f"{seconds / EPISODES * 1e6:,.0f}", f"{seconds / usual:.1f}" if usual else ""
            table.add_row(agent, shown, spread, f"{loss:.4f}", f"{level:.1f}", *cost)
        yield table

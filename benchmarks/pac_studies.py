"""FPI-PAC on exact testbeds: what learning costs in data and episodes, and what is left to lose afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from benchmarks import tables
from fpi.testbeds.base import State, Testbed, random_policy
from fpi.training import Episode
from fpi.verify.exact import pool
from fpi.verify.instances import Instance
from fpi.verify.run import run_all

Result = TypeVar("Result")

SOLVED = 0.05  # a loss of at most this share of V*
UNIFORM = 10_000  # episodes of uniform exploration that are really played
SEEDS = 5

_LONG = Instance("DeepSea (a), N=64, no noise", "DeepSea", {"N": 64}, ridge=1e-3)
_COSTLY = Instance("DeepSea (b), N=32, Bernoulli", "DeepSea", {"N": 32, "cost": 0.01}, ridge=1e-3)
SEAS = (
    replace(_LONG, noise="none", epsilon=1.0, episodes=300),
    replace(_LONG, name="DeepSea (a), N=64, Bernoulli", epsilon=0.3, episodes=3_000),
    replace(_COSTLY, epsilon=1.0, episodes=1_500),
    replace(_COSTLY, epsilon=0.5, episodes=4_000),
)

_FAMILIES = (
    Instance("LinBandit", "LinBandit", {"d": 6, "K": 10, "seed": 1}, ridge=1.0),
    Instance("HubNet", "HubNet", {"B": 3, "m": 4, "K": 6, "seed": 1}, ridge=1 / 4),
    Instance("HubCorridor", "HubCorridor", {"B": 2, "m": 3, "K": 4, "junk": 2, "seed": 1}, ridge=1 / 7),
)
GROWTHS = tuple(replace(family, epsilon=epsilon) for family in _FAMILIES for epsilon in (0.3, 0.2, 0.15, 0.1))


def layers(testbed: Testbed) -> list[list[State]]:
    """All states of every stage of a finite testbed; of another one many."""
    if not testbed.finite:
        return pool(testbed, 300)
    reached = [dict.fromkeys(testbed.held_out(100))]
    for _ in range(testbed.horizon - 1):
        env_actions = ((state, action) for state in reached[-1] for action in range(testbed.actions))
        following = (testbed.next(state, action) for state, action in env_actions)
        reached.append(dict.fromkeys(state for state in following if state is not None))
    return [list(states) for states in reached]


def ranks(testbed: Testbed) -> list[int]:
    """Independent feature directions of every stage: whoever knows nothing needs a datum in each of them."""
    return [
        int(np.linalg.matrix_rank(np.concatenate([testbed.phi(state) for state in states])))
        for states in layers(testbed)
    ]


@dataclass(frozen=True)
class Sea:
    """One run on a DeepSea."""

    name: str
    seed: int
    solved: int | None
    """Episodes until the greedy policy was good and stayed so, to within 0.5%; None if it is not at the end."""
    last_datum: int
    """Episodes until nothing was left to explore on the way."""
    data: int
    uniform: int | None
    """Episodes until uniform exploration found the treasure, or None within `UNIFORM`."""


def solve_sea(instance: Instance, seed: int) -> Sea:
    testbed = instance.testbed()
    agent = instance.agent(testbed)
    start = testbed.held_out(1)[0]
    best = testbed.optimal_value(start)
    good_since: int | None = None
    last_datum = looked = 0

    def look(episode: Episode) -> None:
        nonlocal good_since, last_datum, looked
        n = episode.number + 1
        if episode.stored_stage >= 0:
            last_datum = n
        if looked >= last_datum or n <= looked + looked // 200:
            return  # nothing has changed, or not much
        looked = n
        good = testbed.gap(start, testbed.policy(agent.greedy)) <= SOLVED * best
        good_since = (good_since or n) if good else None

    agent.learn(testbed.env(instance.noise), instance.episodes, seed=seed, callback=look)
    return Sea(instance.name, seed, good_since, last_datum, agent.data_stored, _uniform(testbed, start, seed))


def _uniform(testbed: Testbed, start: State, seed: int) -> int | None:
    """Episodes until uniform actions, new ones in every episode, earn half of V* in expectation."""
    best = testbed.optimal_value(start)
    for number in range(UNIFORM):
        policy = random_policy(testbed.actions, seed * UNIFORM + number)
        if testbed.value(start, policy) >= best / 2:
            return number + 1
    return None


@dataclass(frozen=True)
class Growth:
    """One run with contexts: data against rank / eps^2, and the gap that remains."""

    name: str
    epsilon: float
    seed: int
    episodes: int
    sizes: list[int]
    ranks: list[int]
    bound: float
    """D of Lemma 1."""
    gap: float
    """Mean loss of the greedy policy at 300 held-out starts."""
    random_gap: float
    """The same of a random policy."""

    @property
    def ratios(self) -> list[float]:
        """|D_h| in units of rank_h / eps^2."""
        return [size / (rank / self.epsilon**2) for size, rank in zip(self.sizes, self.ranks, strict=True)]


def grow(instance: Instance, seed: int) -> Growth:
    testbed = instance.testbed()
    agent = instance.agent(testbed)
    independent = ranks(testbed)
    episodes = int(1.5 * sum(independent) / instance.epsilon**2)
    agent.learn(testbed.env(instance.noise), episodes, seed=seed)
    starts = testbed.held_out(300)
    return Growth(
        instance.name,
        instance.epsilon,
        seed,
        episodes,
        [len(agent.dataset(stage)) for stage in range(agent.horizon)],
        independent,
        agent.dataset_bound,
        float(testbed.gaps(starts, testbed.policy(agent.greedy)).mean()),
        float(testbed.gaps(starts, random_policy(testbed.actions, seed)).mean()),
    )


def sea_table() -> Iterator[str]:
    yield from tables.head(
        "DeepSea",
        "ε",
        "solved",
        "episodes",
        "data",
        "lower bound",
        "uniform actions: expected",
        f"found in {UNIFORM:,} episodes",
    )
    for instance in SEAS:
        yield sea_row(instance, measured(solve_sea, instance))


def sea_row(instance: Instance, runs: Sequence[Sea]) -> str:
    testbed = instance.testbed()
    solved = [run.solved for run in runs if run.solved is not None]
    return tables.row(
        instance.name,
        f"{instance.epsilon:g}",
        f"{len(solved)} of {len(runs)}",
        _spread(solved) if solved else "",
        f"{np.mean([run.data for run in runs]):,.0f}",
        f"{sum(ranks(testbed)):,}",
        f"2^{testbed.horizon} = {2.0**testbed.horizon:.1e} episodes",
        f"{sum(run.uniform is not None for run in runs)} of {len(runs)}",
    )


def growth_table() -> Iterator[str]:
    yield from tables.head(
        "testbed", "ε", "episodes", "data", "\\|𝒟_h\\| · ε² / rank", "D / max \\|𝒟_h\\|", "loss", "random"
    )
    for instance in GROWTHS:
        yield growth_row(measured(grow, instance))


def growth_row(runs: Sequence[Growth]) -> str:
    """Means, with the smallest and largest of all runs and stages."""
    first = runs[0]
    return tables.row(
        first.name,
        f"{first.epsilon:g}",
        f"{first.episodes:,}",
        f"{np.mean([sum(run.sizes) for run in runs]):,.0f}",
        _spread([ratio for run in runs for ratio in run.ratios], ".2f"),
        f"{first.bound / np.mean([max(run.sizes) for run in runs]):.0f}",
        _spread([run.gap for run in runs], ".3f"),
        f"{np.mean([run.random_gap for run in runs]):.2f}",
    )


def measured(work: Callable[[Instance, int], Result], instance: Instance, seeds: int = SEEDS) -> list[Result]:
    """The runs of all seeds, in as many processes as there are cores."""
    return list(run_all([(instance, seed) for seed in range(seeds)], work, None))


def _spread(numbers: Sequence[float], form: str = ",.0f") -> str:
    """Mean, smallest and largest."""
    return f"{np.mean(numbers):{form}} ({min(numbers):{form}}–{max(numbers):{form}})"

"""What the pictures of `fpi verify` show, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fpi.training import Episode
from fpi.verify.instances import Instance
from fpi.verify.show import layers, ranks

SEEDS = 5
LEARNING = Instance("LinBandit, d = 3, K = 5, ε = 0.1", "LinBandit", {"d": 3, "K": 5}, episodes=12_000)
GROWING = Instance(
    "HubCorridor, H = 7, ε = 0.2", "HubCorridor", {"B": 2, "m": 3, "K": 4, "junk": 2}, epsilon=0.2, episodes=3_000
)
FREEZING = (
    Instance("cost = 0, ε = 0.5", "DeepSea", {"N": 20}, epsilon=0.5, ridge=1e-3, episodes=250),
    Instance("cost = 0.01, ε = 0.5", "DeepSea", {"N": 20, "cost": 0.01}, epsilon=0.5, ridge=1e-3, episodes=1_500),
)


@dataclass(frozen=True)
class Curves:
    """One run, episode by episode."""

    name: str
    seed: int
    gaps: NDArray[np.float64]
    """What each episode lost in expectation."""
    sizes: NDArray[np.int64]
    """|D_h| after each episode: episodes × stages."""
    ranks: list[int]
    epsilon: float
    dataset_bound: float
    """D of Lemma 1."""
    gap_bound: float
    """eps-bar of Theorem 1."""
    episodes_bound: float
    """H D of Theorem 1: episodes that may lose more than eps-bar."""


def trace(instance: Instance, seed: int) -> Curves:
    testbed = instance.testbed()
    agent = instance.agent(testbed)
    gaps, sizes = [], []

    def keep(episode: Episode) -> None:
        gaps.append(testbed.regret(testbed.state(episode.observations[0]), episode.actions.tolist()))
        sizes.append([agent.datasets.size(stage) for stage in range(agent.horizon)])

    agent.learn(testbed.env(instance.noise), instance.episodes, seed=seed, callback=keep)
    return Curves(
        instance.name,
        seed,
        np.array(gaps),
        np.array(sizes),
        ranks(testbed),
        instance.epsilon,
        agent.dataset_bound,
        agent.theory.gap(instance.epsilon),
        agent.theory.episodes_bound(instance.epsilon),
    )


@dataclass(frozen=True)
class FreezeMap:
    """After how many episodes each cell of a DeepSea was frozen: stages × columns; infinite if it was not."""

    name: str
    episodes: NDArray[np.float64]


def map_freezing(instance: Instance, seed: int) -> FreezeMap:
    testbed = instance.testbed()
    agent = instance.agent(testbed)
    cells = [state for states in layers(testbed) for state in states]
    frozen = np.full((testbed.horizon, max(column for _, column in cells) + 1), np.nan)
    waiting = dict.fromkeys(cells)

    def look(after: int) -> None:
        for stage, column in list(waiting):
            if agent.datasets.consult(testbed.observation((stage, column)), stage).covered_at is not None:
                frozen[stage, column] = after
                del waiting[stage, column]

    def learned(episode: Episode) -> None:
        if episode.stored_stage >= 0:
            look(episode.number + 1)

    look(0)
    agent.learn(testbed.env(instance.noise), instance.episodes, seed=seed, callback=learned)
    for stage, column in waiting:
        frozen[stage, column] = np.inf
    return FreezeMap(instance.name, frozen)

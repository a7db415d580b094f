"""Running the suite: one task for every instance and seed, over several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from fpi.training import Episode
from fpi.verify.accuracy import LevelAccuracy, LinearLevelAccuracy, PrefixAccuracy
from fpi.verify.counts import CheckCounts
from fpi.verify.instances import CLAIMS, Instance
from fpi.verify.losses import BadEpisodes, LevelCounts, Losses
from fpi.verify.monitors import Concentration, DatasetSizes, Monitor, OnPolicy, StaysTheSame, TrueFunction

MONITORS: dict[str, tuple[tuple[type[Monitor], tuple[str, ...]], ...]] = {
    "PAC": (
        (DatasetSizes, ("Lemma 1",)),
        (OnPolicy, ("Lemma 2",)),
        (Concentration, ("Lemma 3",)),
        (PrefixAccuracy, ("Lemma 4", "Lemma 5", "Lemma 6")),
        (BadEpisodes, ("Theorem 1",)),
    ),
    "Regret": (
        (DatasetSizes, ("Lemma 8",)),
        (StaysTheSame, ("Lemma 9",)),
        (OnPolicy, ("Lemma 10",)),
        (Concentration, ("Lemma 13",)),
        (LinearLevelAccuracy, ("Lemma 15", "Lemma 16", "Lemma 20a", "Lemma 20b")),
        (Losses, ("Lemma 21", "Theorem 2", "Theorem 3")),
        (LevelCounts, ("Lemma 22",)),
    ),
    # The algorithm is that of Section 5, and so are most claims. The paper says that Lemmas 20 and 21 still hold; 9, 10
    # and 22 do not speak of features. And Theorem 3 follows from them, though the appendix does not say so.
    "Eluder": (
        (DatasetSizes, ("Lemma 24",)),
        (TrueFunction, ("Lemma 25",)),
        (StaysTheSame, ("Lemma 9 for F",)),
        (OnPolicy, ("Lemma 10 for F",)),
        (LevelAccuracy, ("Lemma 26", "Lemma 20a for F", "Lemma 20b for F")),
        (Losses, ("Lemma 21 for F", "Theorem 4", "Theorem 3 for F")),
        (LevelCounts, ("Lemma 22 for F",)),
    ),
}
"""What watches an agent, and the claims it checks."""


@dataclass(frozen=True)
class Run:
    """What the monitors found in one run."""

    instance: str
    seed: int
    counts: list[CheckCounts]


def watch(monitors: Sequence[Monitor], episodes: int) -> Callable[[Episode], None]:
    """A callback for `learn`: costly checks come after 8, 16, 32, ... episodes and after the last."""

    def callback(episode: Episode) -> None:
        for monitor in monitors:
            monitor.see(episode)
        n = episode.number + 1
        if n == episodes or (n >= 8 and n & (n - 1) == 0):
            for monitor in monitors:
                monitor.check()

    return callback


def run(instance: Instance, seed: int, claims: Collection[str] | None = None, kind: Any = None) -> Run:
    """Learn once and check the claims. The same instance and seed give the same numbers anywhere."""
    testbed = instance.testbed()
    agent = instance.agent(testbed, kind)
    asked = set(CLAIMS[instance.algorithm] if claims is None else claims)
    monitors = [
        monitor(testbed, agent, instance, *checked)
        for monitor, checked in MONITORS[instance.algorithm]
        if not asked.isdisjoint(checked)
    ]
    env = testbed.env(instance.noise)
    agent.learn(env, instance.episodes, seed=seed, callback=watch(monitors, instance.episodes))
    return Run(instance.name, seed, [counts for monitor in monitors for counts in monitor.counts])


def run_all(
    tasks: Sequence[tuple[Any, ...]], work: Callable[..., Any] = run, workers: int | None = None
) -> Iterator[Any]:
    """Results in the order of the tasks, whatever the number of processes."""
    workers = min(workers or os.cpu_count() or 1, len(tasks))
    if workers <= 1:
        yield from (work(*task) for task in tasks)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as processes:
        yield from processes.map(work, *zip(*tasks, strict=True))

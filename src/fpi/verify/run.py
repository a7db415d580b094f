"""Running the suite: one task for every instance and seed, over several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from fpi.algorithms.eluder import Eluder
from fpi.algorithms.pac import PAC
from fpi.algorithms.regret import Regret
from fpi.testbeds import Testbed
from fpi.training import Episode
from fpi.verify.accuracy import LEMMAS, Accuracy
from fpi.verify.class_instances import ClassInstance
from fpi.verify.classes import make_class_monitors
from fpi.verify.counts import CheckCounts
from fpi.verify.instances import Instance
from fpi.verify.level_instances import LevelInstance
from fpi.verify.level_losses import ACCURACY, LOSSES, LevelAccuracy, Losses
from fpi.verify.levels import LevelCounts, LevelNoise, LevelOnPolicy, LevelSizes, StaysTheSame
from fpi.verify.monitors import BadEpisodes, Concentration, DatasetSize, Monitor, OnPolicy


@dataclass(frozen=True)
class Run:
    """What the monitors found in one run."""

    instance: str
    seed: int
    counts: list[CheckCounts]


def watch(monitors: Sequence[Monitor[Any]], episodes: int) -> Callable[[Episode], None]:
    """A callback for `learn`: costly checks come after 8, 16, 32, ... episodes and after the last."""

    def callback(episode: Episode) -> None:
        for monitor in monitors:
            monitor.see(episode)
        n = episode.number + 1
        if n == episodes or (n >= 8 and n & (n - 1) == 0):
            for monitor in monitors:
                monitor.check()

    return callback


def make_monitors(testbed: Testbed, agent: PAC, claims: Collection[str], instance: Instance) -> list[Monitor[PAC]]:
    """Those that these claims of Section 4 need."""
    monitors: list[Monitor[PAC]] = []
    if "Lemma 1" in claims:
        monitors.append(DatasetSize(testbed, agent))
    if "Lemma 2" in claims:
        monitors.append(OnPolicy(testbed, agent))
    if "Lemma 3" in claims:
        monitors.append(Concentration(testbed, agent))
    if not LEMMAS.isdisjoint(claims):
        monitors.append(Accuracy(testbed, agent, walks=instance.walks, scale=instance.scale))
    if "Theorem 1" in claims:
        monitors.append(BadEpisodes(testbed, agent))
    return monitors


def make_level_monitors(testbed: Testbed, agent: Regret, claims: Collection[str], walks: int) -> list[Monitor[Regret]]:
    """Those that these claims of Section 5 need."""
    monitors: list[Monitor[Regret]] = []
    if "Lemma 8" in claims:
        monitors.append(LevelSizes(testbed, agent))
    if "Lemma 9" in claims:
        monitors.append(StaysTheSame(testbed, agent, walks=walks))
    if "Lemma 10" in claims:
        monitors.append(LevelOnPolicy(testbed, agent))
    if "Lemma 13" in claims:
        monitors.append(LevelNoise(testbed, agent))
    if not set(ACCURACY).isdisjoint(claims):
        monitors.append(LevelAccuracy(testbed, agent, walks=walks))
    if not set(LOSSES).isdisjoint(claims):
        monitors.append(Losses(testbed, agent))
    if "Lemma 22" in claims:
        monitors.append(LevelCounts(testbed, agent))
    return monitors


def run(
    instance: Instance | LevelInstance | ClassInstance,
    seed: int,
    claims: Collection[str] | None = None,
    kind: Any = None,
) -> Run:
    """Learn once and check the claims. The same instance and seed give the same numbers anywhere."""
    testbed = instance.testbed()
    claims = instance.claims if claims is None else claims
    monitors: Sequence[Monitor[Any]]
    agent: PAC | Regret | Eluder
    if isinstance(instance, ClassInstance):
        agent = instance.agent(testbed, kind or Eluder)
        monitors = make_class_monitors(testbed, agent, claims, instance.walks)
    elif isinstance(instance, LevelInstance):
        agent = instance.agent(testbed, kind or Regret)
        monitors = make_level_monitors(testbed, agent, claims, instance.walks)
    else:
        agent = instance.agent(testbed, kind or PAC)
        monitors = make_monitors(testbed, agent, claims, instance)
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
        futures = [processes.submit(work, *task) for task in tasks]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            processes.shutdown(wait=False, cancel_futures=True)
            raise

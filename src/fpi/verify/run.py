"""Running the suite: one task for every instance and seed, over several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from fpi.algorithms.pac import PAC
from fpi.learning import Episode
from fpi.testbeds import Testbed
from fpi.verify.accuracy import Accuracy
from fpi.verify.monitors import BadEpisodes, Concentration, DatasetSize, Monitor, OnPolicy
from fpi.verify.suite import Instance
from fpi.verify.tally import Tally


@dataclass(frozen=True)
class Run:
    """What the monitors found in one run."""

    instance: str
    seed: int
    tallies: list[Tally]


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


def make_monitors(testbed: Testbed, agent: PAC, walks: int, scale: float | None = None) -> list[Monitor]:
    """One for every claim."""
    kinds: tuple[type[DatasetSize | OnPolicy | Concentration | BadEpisodes], ...]
    kinds = (DatasetSize, OnPolicy, Concentration, BadEpisodes)
    return [*(kind(testbed, agent) for kind in kinds), Accuracy(testbed, agent, walks=walks, scale=scale)]


def run(instance: Instance, seed: int, kind: type[PAC] = PAC) -> Run:
    """Learn once and check every claim. The same instance and seed give the same numbers anywhere."""
    testbed = instance.testbed()
    agent = instance.agent(testbed, kind)
    monitors = make_monitors(testbed, agent, instance.walks, instance.scale)
    env = testbed.env(instance.noise)
    agent.learn(env, instance.episodes, seed=seed, callback=watch(monitors, instance.episodes))
    return Run(instance.name, seed, [tally for monitor in monitors for tally in monitor.tallies])


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

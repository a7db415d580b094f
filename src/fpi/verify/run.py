"""The claims, and running the suite: one task for every instance and seed, over several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from fpi.testbeds import TestbedEnv, WorstStarts
from fpi.training import Episode
from fpi.verify.accuracy import LevelAccuracy, LinearLevelAccuracy, PrefixAccuracy
from fpi.verify.counts import CheckCounts
from fpi.verify.definitions import Definitions, Dependence, Formulas
from fpi.verify.instances import DELTA, Instance
from fpi.verify.losses import BadEpisodes, LevelCounts, Losses
from fpi.verify.monitors import Concentration, DatasetSizes, Monitor, OnPolicy, StaysTheSame, TrueFunction


class Claim(NamedTuple):
    """What is said of an algorithm, and what checks it: a monitor of one or several claims."""

    algorithm: str
    monitor: type[Monitor]
    name: str
    says: str
    delta: float | None = None
    """The probability with which it may fail; None if it holds always."""
    exact: bool = False
    """Yes or no: there is no bound to be near to."""
    too_long: str = ""
    """Why the quick suite has nothing to say of it, if it need not."""


_FORMULAS = "every constant is what the paper's formula gives"
_STEPS = "every step, its level and the datum stored are as written there"
_REPORTS = "coverage, freezing indices, values and action sets are as defined"
_LATE = "its bound is below what is trivially true after some 6,000 episodes, which quick runs do not have"

CHECKED = (
    Claim("PAC", Formulas, "Constants 4", _FORMULAS, exact=True),
    Claim("PAC", Definitions, "Algorithm 1", _STEPS, exact=True),
    Claim("PAC", Definitions, "Equations 1-3", _REPORTS, exact=True),
    Claim("PAC", DatasetSizes, "Lemma 1", "a stage stores at most D data"),
    Claim("PAC", OnPolicy, "Lemma 2", "stored pairs stay on-policy", exact=True),
    Claim("PAC", Concentration, "Lemma 3", "the noise of stored returns concentrates", DELTA),
    Claim("PAC", PrefixAccuracy, "Lemma 4", "error of estimates from every prefix", DELTA),
    Claim("PAC", PrefixAccuracy, "Lemma 5", "error of frozen values", DELTA),
    Claim("PAC", PrefixAccuracy, "Lemma 6", "loss of the policy where covered", DELTA),
    Claim("PAC", BadEpisodes, "Theorem 1", "at most H·D episodes lose more than ε̄", DELTA),
    Claim("Regret", Formulas, "Constants 5", _FORMULAS, exact=True),
    Claim("Regret", Definitions, "Algorithm 2", _STEPS, exact=True),
    Claim("Regret", Definitions, "Equations 6-8", _REPORTS, exact=True),
    Claim("Regret", Definitions, "Lemma 7", "a stored pair was wider than 2^-l"),
    Claim("Regret", Definitions, "Lemma 19", "what was played after a stored pair was covered", exact=True),
    Claim("Regret", Dependence, "Lemma 14", "what linear functions miss adds up to at most n κ²"),
    Claim("Regret", Dependence, "Lemma 17", "covered features are combinations of the data"),
    Claim("Regret", Dependence, "Lemma 18", "where no stored return came through, actions are worth the same"),
    Claim("Regret", DatasetSizes, "Lemma 8", "a stage stores at most D_l data of level l"),
    Claim("Regret", StaysTheSame, "Lemma 9", "what is frozen at a level stays the same", exact=True),
    Claim("Regret", OnPolicy, "Lemma 10", "pairs stored at a level stay on its policy", exact=True),
    Claim("Regret", Concentration, "Lemma 11", "the noise of returns has mean 0 and is subGaussian", DELTA),
    Claim("Regret", Concentration, "Lemma 12", "it concentrates, by the determinant of the data", DELTA),
    Claim("Regret", Concentration, "Lemma 13", "the noise of stored returns concentrates, all levels", DELTA),
    Claim("Regret", LinearLevelAccuracy, "Lemma 15", "error of estimates at the frozen prefix of a level", DELTA),
    Claim("Regret", LinearLevelAccuracy, "Lemma 16", "error of frozen values is at most Δ_l", DELTA),
    Claim("Regret", LinearLevelAccuracy, "Lemma 20a", "loss of the policy of a level where covered", DELTA),
    Claim("Regret", LinearLevelAccuracy, "Lemma 20b", "optimal actions survive elimination", DELTA, exact=True),
    Claim("Regret", Losses, "Lemma 21", "an episode loses at most 4H Σ Δ_{l-1}", DELTA),
    Claim("Regret", Losses, "Theorem 2", "regret after every episode", DELTA, too_long=_LATE),
    Claim("Regret", Losses, "Theorem 3", "Uniform-PAC: N(ε) for all ε, after every episode", DELTA, too_long=_LATE),
    Claim("Regret", LevelCounts, "Lemma 22", "at most H·ΣD_l episodes have a step at level k or below"),
    Claim("Regret", LevelCounts, "Lemma 23", "the sum of 2^-l over all episodes, at every stage"),
    # The algorithm is that of Section 5, and so are most claims. The paper says that Lemmas 20 and 21 still hold; 9, 10
    # and 22 do not speak of features. And Theorem 3 follows from them, though the appendix does not say so.
    Claim("Eluder", Formulas, "Constants for F", _FORMULAS, exact=True),
    Claim("Eluder", Definitions, "Algorithm 2 for F", _STEPS, exact=True),
    Claim("Eluder", Definitions, "Equations 6-8 for F", _REPORTS, exact=True),
    Claim("Eluder", Dependence, "Lemma 27", "where no stored return came through, actions are worth the same"),
    Claim("Eluder", DatasetSizes, "Lemma 24", "a stage stores at most D_l data of level l, for a class F"),
    Claim("Eluder", TrueFunction, "Lemma 25", "Q^π is in the confidence sets F_k of all levels", DELTA),
    Claim("Eluder", StaysTheSame, "Lemma 9 for F", "what is frozen at a level stays the same", exact=True),
    Claim("Eluder", OnPolicy, "Lemma 10 for F", "pairs stored at a level stay on its policy", exact=True),
    Claim("Eluder", LevelAccuracy, "Lemma 26", "error of frozen values is at most 2^-l", DELTA),
    Claim("Eluder", LevelAccuracy, "Lemma 20a for F", "loss of the policy of a level where covered", DELTA),
    Claim("Eluder", LevelAccuracy, "Lemma 20b for F", "optimal actions survive elimination", DELTA, exact=True),
    Claim("Eluder", Losses, "Lemma 21 for F", "an episode loses at most 4H Σ 2^(1-l)", DELTA),
    Claim("Eluder", Losses, "Theorem 4", "regret after every episode, for a class F", DELTA),
    Claim("Eluder", Losses, "Theorem 3 for F", "Uniform-PAC, which follows from Lemmas 21 and 22 here too", DELTA),
    Claim("Eluder", LevelCounts, "Lemma 22 for F", "at most H·ΣD_l episodes have a step at level k or below"),
    Claim("Eluder", LevelCounts, "Lemma 28", "the sum of 2^-l over all episodes, at every stage, for a class F"),
)


@dataclass(frozen=True)
class Run:
    """What the monitors found in one run."""

    instance: str
    seed: int
    counts: list[CheckCounts]


def watch(monitors: Sequence[Monitor], episodes: int) -> Callable[[Episode], None]:
    """A callback for `learn`: costly checks come after 32, 64, 128, ... episodes and after the last."""

    sizes: Any = 0

    def callback(episode: Episode) -> None:
        nonlocal sizes
        before, sizes = sizes, episode.agent.datasets.sizes()
        levels, stages = np.nonzero(sizes > before)
        grown = list(zip(stages.tolist(), (levels + 1).tolist(), strict=True))
        for monitor in monitors:
            monitor.sizes, monitor.grown = sizes, grown
            monitor.see(episode)
        n = episode.number + 1
        if n == episodes or (n >= 32 and n & (n - 1) == 0):
            for monitor in monitors:
                monitor.check()

    return callback


def prepare(
    instance: Instance, claims: Collection[str] | None = None, kind: Any = None
) -> tuple[Any, TestbedEnv, list[Monitor]]:
    """An agent that has learned nothing yet, where it is to learn, and the monitors of the claims."""
    testbed = instance.testbed()
    agent = instance.agent(testbed, kind)
    if isinstance(testbed, WorstStarts):
        testbed.loss = lambda start: testbed.gap(start, testbed.policy(agent.greedy))
    made = [claim for claim in CHECKED if claim.algorithm == instance.algorithm]
    checked = {kind: [claim.name for claim in rows] for kind, rows in groupby(made, lambda claim: claim.monitor)}
    monitors = [
        monitor(testbed, agent, instance, *names)
        for monitor, names in checked.items()
        if not any(chosen and set(chosen).isdisjoint(names) for chosen in (claims, instance.only))
    ]
    return agent, testbed.env(instance.noise), monitors


def run(instance: Instance, seed: int, claims: Collection[str] | None = None) -> Run:
    """Learn once and check the claims. The same instance and seed give the same numbers anywhere."""
    agent, env, monitors = prepare(instance, claims)
    agent.learn(env, instance.episodes, seed=seed, callback=watch(monitors, instance.episodes))
    found = [counts for monitor in monitors for counts in monitor.counts]
    for counts in found:
        counts.seen.clear()  # other processes need only their number
    return Run(instance.name, seed, found)


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

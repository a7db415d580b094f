"""Episodes until control tasks are solved by `fpi.ModelFPI`, with controls: `python -m benchmarks control --help`.

Judged after every training episode on 10 starts; where these reach the threshold, on 100, and where these do, once on
100 others: solved are runs that reach it on both. A run that fails on the last hundred is not solved. Every run is
saved after every episode, so that the same command goes on where it was stopped; results are lines of JSON, one a run.

Variants are paired: with the same seed they meet the same starts.
"""

import argparse
import copy
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import scipy.stats

import fpi
from fpi.modelling.model import SmoothModel
from fpi.modelling.planners import FrozenStages, Plan, Window, bare_plan

MANY = 100
FEW = 10
FIRST = "nothing by hand"


@dataclass(frozen=True)
class Task:
    threshold: float
    cap: int
    """Episodes after which a run is given up."""


TASKS = {
    "CartPole-v1": Task(475.0, 30),
    "MountainCar-v0": Task(-110.0, 20),
    "InvertedPendulum-v5": Task(950.0, 25),
    "Pendulum-v1": Task(-200.0, 40),
    "Acrobot-v1": Task(-100.0, 100),
}


@dataclass(frozen=True)
class Forgetful(FrozenStages):
    """No window is kept: the best one is chosen anew at every decision."""

    def choose(self, plan: Plan, z: Any, kept: Any, seed: int, episode: int, decision: int) -> Window:
        return super().choose(plan, z, kept[:0], seed, episode, decision)


@dataclass(frozen=True)
class Unfrozen(FrozenStages):
    """Policy iteration without freezing: in every round, all stages are made anew from those of the round before."""

    rounds: int = 2

    def _sweep(self, plan: Plan) -> Plan:
        for _ in range(self.rounds):
            before = plan.stages._replace(weights=plan.stages.weights.copy(), means=plan.stages.means.copy())
            plan = self._fill(plan, before)
        return plan


@dataclass(frozen=True)
class SearchAlone(FrozenStages):
    """The search with nothing to guide it but the returns so far: no stages behind it."""

    def prepare(self, model: SmoothModel, horizon: int, pessimism: float) -> Plan:
        return bare_plan(model, horizon, pessimism, model.cover, self)


def _with(planner: Any) -> Callable[[fpi.ModelFPI], None]:
    def exchange(agent: fpi.ModelFPI) -> None:
        agent.planner = planner

    return exchange


VARIANTS: dict[str, tuple[dict[str, Any], Callable[[fpi.ModelFPI], None] | None]] = {
    FIRST: ({}, None),
    "presets": ({"preset": True}, None),
    "CEM": ({"planner": "cem"}, None),
    "random shooting": ({"planner": "shooting"}, None),
    "stationary Q": ({"planner": "stationary"}, None),
    "no search": ({}, _with(FrozenStages(width=0, width_kept=0, every=1))),
    "search alone": ({}, _with(SearchAlone())),
    "no incumbent": ({}, _with(Forgetful())),
    "not frozen": ({}, _with(Unfrozen())),
    **{f"optimism {1 - pessimism:g}": ({"pessimism": pessimism}, None) for pessimism in (0.0, 0.25, 0.75, 1.0)},
}


START: dict[str, Any] = {"seconds": 0.0, "wall": 0.0, "means": []}  # of learning; with judging; means of few starts


def judge(agent: fpi.ModelFPI, env: Any, threshold: float, many: int) -> tuple[float, bool | None]:
    """The mean of few starts, and whether the run is solved; None if the few or the first many did not pass."""
    mean = fpi.evaluate(agent, env, FEW, seed=1).mean
    if mean < threshold or fpi.evaluate(agent, env, many, seed=2).mean < threshold:
        return mean, None
    return mean, bool(fpi.evaluate(agent, env, many, seed=3).mean >= threshold)


def play(task: str, variant: str, seed: int, folder: Path, most_seconds: float, many: int) -> dict[str, Any]:
    """One run, from where it was stopped; what came out. Learning may take so many seconds of processor time."""
    settings, exchange = VARIANTS[variant]
    env, judged, known = gym.make(task), gym.make(task), TASKS[task]
    name = f"{task} {variant} {seed}".replace(" ", "_")
    path, notes = folder / f"{name}.fpi", folder / f"{name}.json"
    agent: Any = fpi.load(path) if path.exists() else fpi.ModelFPI.for_env(env, **settings)
    so_far: dict[str, Any] = json.loads(notes.read_text()) if path.exists() else copy.deepcopy(START)
    if exchange is not None:
        exchange(agent)
    solved: bool | None = None
    while agent.episodes < known.cap and solved is None and so_far["seconds"] < most_seconds:
        began, wall = time.process_time(), time.perf_counter()
        agent.learn(env, 1, seed=None if agent.episodes else seed)
        _ = agent.plan  # belongs to learning, not to judging
        so_far["seconds"] += time.process_time() - began
        mean, solved = judge(agent, judged, known.threshold, many)
        so_far["wall"] += time.perf_counter() - wall
        so_far["means"].append(mean)
        agent.save(path)
        notes.write_text(json.dumps(so_far))
        print(f"{task}, {variant}, seed {seed}: episode {agent.episodes}, mean {mean:.1f}", flush=True)
    return {
        "task": task,
        "variant": variant,
        "seed": seed,
        "solved": bool(solved),
        "episodes": agent.episodes,
        "steps": agent.data_stored,
        "starts": many,
        **so_far,
    }


HEADS = ("solved (95% interval)", "episodes, median (range)", "steps, median")


def outcome(runs: list[dict[str, Any]]) -> tuple[str, ...]:
    """Cells below `HEADS`: solved runs, the median of all runs' episodes, that of the steps of those solved."""
    solved = [row for row in runs if row["solved"]]
    likely = scipy.stats.binomtest(len(solved), len(runs)).proportion_ci(method="exact")
    return (
        f"{len(solved)} of {len(runs)} ({likely.low:.0%} to {likely.high:.0%})",
        _spread([_episodes(row) for row in runs]),
        f"{np.median([row['steps'] for row in solved]):,.0f}" if solved else "",
    )


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of Markdown: how the runs came out, and the pairs with the first variant."""
    heads = ("task (threshold)", "variant", *HEADS)
    more = ("best mean of 10, median", "seconds of learning, of all", f"fewer / as many / more than {FIRST}")
    yield f"| {' | '.join((*heads, *more))} |"
    yield "|---" * (len(heads) + len(more)) + "|"
    for task, known in TASKS.items():
        first = {row["seed"]: _episodes(row) for row in rows if (row["task"], row["variant"]) == (task, FIRST)}
        for variant in VARIANTS:
            runs = [row for row in rows if (row["task"], row["variant"]) == (task, variant)]
            if not runs:
                continue
            signs = [np.sign(_episodes(row) - first[row["seed"]]) for row in runs if row["seed"] in first]
            pairs = " / ".join(str(signs.count(sign)) for sign in (-1, 0, 1)) if variant != FIRST else ""
            cells = (
                f"{task} ({known.threshold:g})",
                variant,
                *outcome(runs),
                f"{np.median([max(row['means']) for row in runs]):.1f}",
                f"{np.median([row['seconds'] for row in runs]):.0f}, {np.median([row['wall'] for row in runs]):.0f}",
                pairs,
            )
            yield f"| {' | '.join(cells)} |"


def draw(rows: list[dict[str, Any]], peers: list[dict[str, Any]], path: Path) -> None:
    """The learning curves of the first variant, and of peers: the mean of few starts, a line a run."""
    from matplotlib.lines import Line2D

    from fpi.report.figures import BLUE, GREY, RED, _panels, save

    shown = [task for task in TASKS if any((row["task"], row["variant"]) == (task, FIRST) for row in rows)]
    figure, panels = _panels(len(shown), columns=3, width=4.0)
    for task, panel in zip(shown, panels, strict=True):
        runs = [row for row in rows if (row["task"], row["variant"]) == (task, FIRST)]
        for row in runs:
            panel.plot(range(1, len(row["means"]) + 1), row["means"], color=BLUE, alpha=0.5)
        beside = [row for row in peers if row["task"] == task]
        for row in beside:
            panel.plot(row["judged_after"], row["means"], color=RED, alpha=0.5)
        if not beside:
            panel.xaxis.get_major_locator().set_params(integer=True)
        else:
            panel.set_xscale("log")
            names = sorted({row["variant"] for row in beside})
            handles = [Line2D([], [], color=color) for color in (BLUE, RED)]
            panel.legend(handles, ["ModelFPI", f"{', '.join(names)}, {len(beside)} seeds"], loc="center")
        panel.axhline(TASKS[task].threshold, color=GREY, linestyle="--")
        panel.set(title=f"{task}, {len(runs)} seeds", xlabel="training episodes", ylabel=f"mean return of {FEW} starts")
    save(figure, path)


def _episodes(row: dict[str, Any]) -> float:
    """Until it was solved; endless where it was not."""
    return float(row["episodes"]) if row["solved"] else np.inf


def _spread(counts: list[float]) -> str:
    """Median and range of all runs, those that were not solved counted as the longest."""

    def shown(count: float) -> str:
        return "not solved" if np.isinf(count) else f"{count:g}"

    return f"{shown(float(np.median(counts)))} ({shown(min(counts))} – {shown(max(counts))})"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks control", description=__doc__)
    parser.add_argument("folder", type=Path, help="where results are kept; the same folder goes on")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=[FIRST, "presets"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0, help="of processor time that a run may learn for")
    parser.add_argument("--starts", type=int, default=MANY, help="of the two judgements after the first 10")
    parser.add_argument("--peers", type=Path, help="results of `peers`, to be drawn beside")
    parser.add_argument("--picture", type=Path, help="draw learning curves into this file")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    results = options.folder / "results.jsonl"
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    done = {(row["task"], row["variant"], row["seed"]) for row in rows}
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for task, seed, variant in itertools.product(options.tasks, seeds, options.variants):
        if (task, variant, seed) not in done:
            rows.append(play(task, variant, seed, options.folder, options.seconds, options.starts))
            with results.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    print("\n".join(table(rows)))
    if options.picture is not None:
        peers = options.peers.read_text().splitlines() if options.peers else []
        draw(rows, [json.loads(line) for line in peers], options.picture)

"""Episodes until control tasks are solved by `fpi.ModelFPI`, with controls: `python -m benchmarks.control --help`.

Judged after every training episode on 10 starts; where these reach the threshold, on 100, and where these do, once on
100 others: solved are runs that reach it on both. A run that fails on the last hundred is not solved. Every run is
saved after every episode, so that the same command goes on where it was stopped; results are lines of JSON.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import fpi
from fpi.modelling.planners import FrozenStages, Plan, Window

MANY = 100
FEW = 10


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


def _with(planner: Any) -> Callable[[fpi.ModelFPI], None]:
    def exchange(agent: fpi.ModelFPI) -> None:
        agent.planner = planner

    return exchange


VARIANTS: dict[str, tuple[dict[str, Any], Callable[[fpi.ModelFPI], None] | None]] = {
    "nothing by hand": ({}, None),
    "presets": ({"preset": True}, None),
    "CEM": ({"planner": "cem"}, None),
    "random shooting": ({"planner": "shooting"}, None),
    "stationary Q": ({"planner": "stationary"}, None),
    "one action, no prefixes": ({}, _with(FrozenStages(prefix=1))),
    "no incumbent": ({}, _with(Forgetful())),
    "pessimism 0": ({"pessimism": 0.0}, None),
    "pessimism 1": ({"pessimism": 1.0}, None),
}


def judge(agent: fpi.ModelFPI, env: Any, threshold: float) -> tuple[float, bool | None]:
    """The mean of few starts, and whether the run is solved; None if the few or the first hundred did not pass."""
    mean = fpi.evaluate(agent, env, FEW, seed=1).mean
    if mean < threshold or fpi.evaluate(agent, env, MANY, seed=2).mean < threshold:
        return mean, None
    return mean, bool(fpi.evaluate(agent, env, MANY, seed=3).mean >= threshold)


def play(task: str, variant: str, seed: int, folder: Path) -> dict[str, Any]:
    """One run, from where it was stopped; what came out."""
    settings, exchange = VARIANTS[variant]
    env, judged, known = gym.make(task), gym.make(task), TASKS[task]
    name = f"{task} {variant} {seed}".replace(" ", "_")
    path, notes = folder / f"{name}.fpi", folder / f"{name}.json"
    agent: Any = fpi.load(path) if path.exists() else fpi.ModelFPI.for_env(env, **settings)
    so_far: dict[str, Any] = json.loads(notes.read_text()) if path.exists() else {"seconds": 0.0, "best": None}
    if exchange is not None:
        exchange(agent)
    solved: bool | None = None
    while agent.episodes < known.cap and solved is None:
        began = time.process_time()
        agent.learn(env, 1, seed=None if agent.episodes else seed)
        _ = agent.plan  # belongs to learning, not to judging
        so_far["seconds"] += time.process_time() - began
        mean, solved = judge(agent, judged, known.threshold)
        so_far["best"] = mean if so_far["best"] is None else max(mean, so_far["best"])
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
        **so_far,
    }


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of Markdown: solved runs, and the median and range of their episodes."""
    heads = ("task (threshold)", "variant", "solved", "episodes, median (range)", "steps, median")
    yield f"| {' | '.join((*heads, 'best mean of 10, median', 'seconds a run'))} |"
    yield "|---" * 7 + "|"
    for task, known in TASKS.items():
        for variant in VARIANTS:
            runs = [row for row in rows if (row["task"], row["variant"]) == (task, variant)]
            if not runs:
                continue
            solved = [row["episodes"] for row in runs if row["solved"]]
            steps = [row["steps"] for row in runs if row["solved"]]
            counted = f"{np.median(solved):.0f} ({min(solved)}–{max(solved)})" if solved else "not solved"
            yield (
                f"| {task} ({known.threshold:g}) | {variant} | {len(solved)} of {len(runs)} | {counted} "
                f"| {np.median(steps) if steps else np.nan:.0f} | {np.median([row['best'] for row in runs]):.1f} "
                f"| {np.median([row['seconds'] for row in runs]):.0f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where results are kept; the same folder goes on")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["nothing by hand", "presets"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    results = options.folder / "results.jsonl"
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    done = {(row["task"], row["variant"], row["seed"]) for row in rows}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for task in options.tasks:
            for variant in options.variants:
                if (task, variant, seed) in done:
                    continue
                rows.append(play(task, variant, seed, options.folder))
                with results.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()

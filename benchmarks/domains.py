"""The kinds of domain that the paper names, each learned by `fpi.ModelFPI`: `python -m benchmarks domains --help`.

A run is solved at the first training episode after which the mean of 10 fixed starts reaches the threshold, Gymnasium's
own where it has one. Where that never happens, the best of these means stands in the table. Random play is beside it.
Control tasks by the stricter rule: `python -m benchmarks control`; deep_sea: `deep-sea`; bandits: docs/bandit.md.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import fpi
from fpi.baselines import Uniform

STARTS = 10


@dataclass(frozen=True)
class Domain:
    kind: str
    threshold: float
    cap: int
    """Episodes after which a run is given up."""
    every: int = 1
    """Episodes between two judgements."""
    arguments: dict[str, Any] = field(default_factory=dict)
    peers: str = ""
    """Episodes to the threshold with Stable-Baselines3, settings tuned per task, measured once elsewhere."""


DOMAINS = {
    "FrozenLake-v1": Domain("toy text", 1.0, 200, 5, {"is_slippery": False}),
    "CliffWalking-v1": Domain("toy text", -13.0, 200, 5, {"max_episode_steps": 50}),
    "Taxi-v4": Domain("toy text", 7.0, 2_000, 50),
    "CartPole-v1": Domain("classic control", 475.0, 30, peers="PPO 123–181, DQN 372–451"),
    "MountainCar-v0": Domain("classic control", -110.0, 20, peers="DQN 330–560, PPO 2,108–4,033"),
    "Pendulum-v1": Domain("classic control", -200.0, 40, peers="SAC and DQN 15–25, PPO 100–120"),
    "Acrobot-v1": Domain("classic control", -100.0, 100, peers="PPO 16–153, DQN 90–130"),
    "InvertedPendulum-v5": Domain("MuJoCo", 950.0, 25, peers="PPO 144–291, DQN 800–1,102"),
    "InvertedDoublePendulum-v5": Domain("MuJoCo", 9_100.0, 20),
    "Reacher-v5": Domain("MuJoCo", -3.75, 10),
    "Swimmer-v5": Domain("MuJoCo", 360.0, 3),
}


def play(name: str, seed: int, most_seconds: float) -> dict[str, Any]:
    """One run, until it is solved, has all its episodes, or has learned for so many seconds of processor time."""
    domain = DOMAINS[name]
    env, judged = gym.make(name, **domain.arguments), gym.make(name, **domain.arguments)
    agent = fpi.ModelFPI.for_env(env)
    best, seconds = -np.inf, 0.0
    while agent.episodes < domain.cap and best < domain.threshold and seconds < most_seconds:
        began = time.process_time()
        agent.learn(env, domain.every, seed=None if agent.episodes else seed)
        _ = agent.plan  # belongs to learning, not to judging
        seconds += time.process_time() - began
        best = max(best, float(fpi.evaluate(agent, judged, STARTS, seed=1).mean))
        print(f"{name}, seed {seed}: episode {agent.episodes}, best mean {best:.1f}", flush=True)
    return {
        "domain": name,
        "seed": seed,
        "solved": best >= domain.threshold,
        "episodes": agent.episodes,
        "steps": agent.data_stored,
        "best": best,
        "seconds": seconds,
    }


def random_play(name: str) -> float:
    """The mean of 100 episodes of uniformly random actions, of the same small grid where these are continuous."""
    env = gym.make(name, **DOMAINS[name].arguments)
    agent = fpi.ModelFPI.for_env(env)
    if agent.action_grid is not None:
        env = fpi.envs.ActionGrid(env, agent.action_grid)
    return float(fpi.evaluate(Uniform(actions=agent.actions, horizon=agent.horizon), env, 100, seed=1).mean)


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    heads = ("domain (threshold)", "solved", "episodes, median (range)", "steps, median", "best mean of 10, median")
    yield f"| {' | '.join((*heads, 'random play', 'seconds, median', 'peers, episodes'))} |"
    yield "|---" * 8 + "|"
    for name, domain in DOMAINS.items():
        runs = [row for row in rows if row["domain"] == name]
        if not runs:
            continue
        solved = [row for row in runs if row["solved"]]
        counts = [row["episodes"] for row in solved]
        cells = (
            f"{name} ({domain.threshold:g}), {domain.kind}",
            f"{len(solved)} of {len(runs)}",
            f"{np.median(counts):g} ({min(counts)}–{max(counts)})" if solved else "not solved",
            f"{np.median([row['steps'] for row in runs]):,.0f}",
            f"{np.median([row['best'] for row in runs]):.1f}",
            f"{random_play(name):.1f}",
            f"{np.median([row['seconds'] for row in runs]):.1f}",
            domain.peers or "not measured",
        )
        yield f"| {' | '.join(cells)} |"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks domains", description=__doc__)
    parser.add_argument("results", type=Path, help="a file of JSON lines, which is added to")
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=list(DOMAINS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300.0, help="of processor time that a run may learn for")
    options = parser.parse_args(arguments)
    lines = options.results.read_text().splitlines() if options.results.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    done = {(row["domain"], row["seed"]) for row in rows}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for name in options.domains:
            if (name, seed) not in done:
                rows.append(play(name, seed, options.seconds))
                with options.results.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print("\n".join(table(rows)))

"""bsuite's deep_sea: episodes until the treasure is found for good, `python -m benchmarks deep-sea --help`.

N rows; only always going right, which costs 0.01 / N a step, ends at the treasure of 1. Which action means right is
drawn for every cell from a mapping seed, as bsuite draws it; with bsuite installed, its own environment is stepped
beside this one, and every difference is an error. Solved = the treasure in each of the last 20 episodes of at most N²;
these 20 are counted.
"""

import argparse
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import fpi

LAST = 20
MOVE_COST = 0.01


class DeepSea(gym.Env[Any, Any]):
    """bsuite's rules with the cell's number for an observation."""

    def __init__(self, size: int, mapping_seed: int) -> None:
        self.size = size
        self.observation_space, self.action_space = gym.spaces.Discrete(size * size), gym.spaces.Discrete(2)
        self.right = np.random.RandomState(mapping_seed).binomial(1, 0.5, [size, size])  # bsuite's generator
        self.row = self.column = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.row = self.column = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        right = action == self.right[self.row, self.column]
        reward = float(right and self.column == self.size - 1) - MOVE_COST / self.size * right
        self.column = min(self.column + 1, self.size - 1) if right else max(self.column - 1, 0)
        self.row += 1
        ended = self.row == self.size
        return (0 if ended else self.row * self.size + self.column), reward, bool(ended), False, {}


def compare_with_bsuite(size: int, mapping_seed: int) -> None:
    """Both environments, stepped with the same actions: right all the way, and by chance."""
    from bsuite.environments.deep_sea import DeepSea as Theirs

    ours, theirs = DeepSea(size, mapping_seed), Theirs(size, mapping_seed=mapping_seed)
    chance = np.random.default_rng(mapping_seed)
    for way in ("right", "chance", "chance"):
        ours.reset()
        theirs.reset()
        for _ in range(size):
            action = int(ours.right[ours.row, ours.column] if way == "right" else chance.integers(2))
            cell, reward, ended, _, _ = ours.step(action)
            seen = theirs.step(action)
            same = seen.last() if ended else int(np.argmax(seen.observation)) == cell
            if not (same and np.isclose(seen.reward, reward, rtol=0, atol=1e-12)):
                raise SystemExit(f"bsuite's deep_sea differs at N = {size}, mapping seed {mapping_seed}.")


def make_agent(name: str, size: int) -> Any:
    common: dict[str, Any] = {"actions": 2, "horizon": size}
    if name == "ModelFPI":
        return fpi.ModelFPI.for_env(DeepSea(size, 0), horizon=size)
    return fpi.PAC(
        fpi.OneHot(size * size, 2),
        epsilon=0.9,
        ridge=1e-3,
        explore="first",
        reward_range=(-1, 1),
        hindsight=name == "PAC, hindsight",
        **common,
    )


def play(name: str, size: int, mapping_seed: int) -> dict[str, Any]:
    """Up to N² episodes, or until five times as many in a row as need to have found the treasure."""
    began, env, agent = time.process_time(), DeepSea(size, mapping_seed), make_agent(name, size)
    found: list[bool] = []

    def note(episode: Any) -> bool:
        found.append(episode.total_reward > 0.5)
        return len(found) >= 5 * LAST and all(found[-5 * LAST :])

    agent.learn(env, size * size, seed=mapping_seed, callback=note)
    missed = np.flatnonzero(~np.array(found))
    return {
        "agent": name,
        "N": size,
        "seed": mapping_seed,
        "solved": all(found[-LAST:]),
        "episodes": int(missed[-1]) + 1 + LAST if missed.size else LAST,
        "seconds": time.process_time() - began,
    }


AGENTS = ("PAC, hindsight", "PAC", "ModelFPI")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks deep-sea", description=__doc__)
    parser.add_argument("results", type=Path, help="a file of JSON lines, which is added to")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 20, 30, 40, 50])
    parser.add_argument("--seeds", type=int, default=20, help="of the mapping, counted from 0")
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=["PAC, hindsight"])
    options = parser.parse_args(arguments)
    lines = options.results.read_text().splitlines() if options.results.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    done = {(row["agent"], row["N"], row["seed"]) for row in rows}
    beside = importlib.util.find_spec("bsuite") is not None
    print("bsuite's own environment is stepped beside ours." if beside else "bsuite is not installed: its rules only.")
    for name in options.agents:
        for size in options.sizes:
            for seed in range(options.seeds):
                if (name, size, seed) in done:
                    continue
                if beside:
                    compare_with_bsuite(size, seed)
                rows.append(play(name, size, seed))
                with options.results.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print("| agent | N | solved in N² episodes | episodes, median (range) | seconds a run, median |")
    print("|---" * 5 + "|")
    for name, size in sorted({(row["agent"], row["N"]) for row in rows}):
        runs = [row for row in rows if (row["agent"], row["N"]) == (name, size)]
        counts = [row["episodes"] for row in runs if row["solved"]]
        spread = f"{np.median(counts):g} ({min(counts)}–{max(counts)})" if counts else "not solved"
        seconds = np.median([row["seconds"] for row in runs])
        print(f"| {name} | {size} | {len(counts)} of {len(runs)} | {spread} | {seconds:.1f} |")

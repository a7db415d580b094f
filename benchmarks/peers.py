"""The peers of docs/model.md: PPO, DQN and SAC of Stable-Baselines3 until control tasks are solved, judged as
`python -m benchmarks control` judges `fpi.ModelFPI`.

Hyper-parameters are those that RL Zoo publishes for these tasks. After a training episode (of any of the parallel
environments), if the policy has changed, it is judged without noise on 10 starts; where these reach the threshold, on
100, and where these do, once on 100 others: solved are runs that reach it on both. Training episodes and steps are
summed over parallel environments. Results are lines of JSON, one a run; the same command goes on with the runs that are
missing, and begins a run that was stopped anew.

Stable-Baselines3 is not part of fpi. `pip install stable-baselines3` brings it, with torch; for InvertedPendulum-v5,
`pip install "gymnasium[mujoco]"`, too.

    python -m benchmarks peers peers.jsonl --tasks CartPole-v1 --methods PPO --seeds 5
"""

import argparse
import json
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.control import HEADS, MANY, TASKS, judge, outcome

NETWORK = {"net_arch": [256, 256]}
FALLING = "falling "  # before a rate that falls to 0 over the run, linearly

# Steps at most, environments in parallel, whether observations and rewards are normalised, and arguments.
PEERS: dict[tuple[str, str], tuple[int, int, bool, dict[str, Any]]] = {
    ("CartPole-v1", "PPO"): (
        100_000,
        8,
        False,
        {
            "n_steps": 32,
            "batch_size": 256,
            "gae_lambda": 0.8,
            "gamma": 0.98,
            "n_epochs": 20,
            "ent_coef": 0.0,
            "learning_rate": FALLING + "0.001",
            "clip_range": FALLING + "0.2",
        },
    ),
    ("CartPole-v1", "DQN"): (
        50_000,
        1,
        False,
        {
            "learning_rate": 2.3e-3,
            "batch_size": 64,
            "buffer_size": 100_000,
            "learning_starts": 1_000,
            "gamma": 0.99,
            "target_update_interval": 10,
            "train_freq": 256,
            "gradient_steps": 128,
            "exploration_fraction": 0.16,
            "exploration_final_eps": 0.04,
            "policy_kwargs": NETWORK,
        },
    ),
    ("MountainCar-v0", "PPO"): (
        1_000_000,
        16,
        True,
        {"n_steps": 16, "gae_lambda": 0.98, "gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
    ),
    ("MountainCar-v0", "DQN"): (
        120_000,
        1,
        False,
        {
            "learning_rate": 4e-3,
            "batch_size": 128,
            "buffer_size": 10_000,
            "learning_starts": 1_000,
            "gamma": 0.98,
            "target_update_interval": 600,
            "train_freq": 16,
            "gradient_steps": 8,
            "exploration_fraction": 0.2,
            "exploration_final_eps": 0.07,
            "policy_kwargs": NETWORK,
        },
    ),
    ("InvertedPendulum-v5", "PPO"): (
        1_000_000,
        1,
        True,
        {
            "batch_size": 64,
            "n_steps": 32,
            "gamma": 0.999,
            "learning_rate": 0.000222425,
            "ent_coef": 1.37976e-07,
            "clip_range": 0.4,
            "n_epochs": 5,
            "gae_lambda": 0.9,
            "max_grad_norm": 0.3,
            "vf_coef": 0.19816,
        },
    ),
    ("Pendulum-v1", "PPO"): (
        100_000,
        4,
        False,
        {
            "n_steps": 1024,
            "gae_lambda": 0.95,
            "gamma": 0.9,
            "n_epochs": 10,
            "ent_coef": 0.0,
            "learning_rate": 1e-3,
            "clip_range": 0.2,
            "use_sde": True,
            "sde_sample_freq": 4,
        },
    ),
    ("Pendulum-v1", "SAC"): (20_000, 1, False, {"learning_rate": 1e-3}),
    ("Acrobot-v1", "PPO"): (
        1_000_000,
        16,
        True,
        {"n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
    ),
    ("Acrobot-v1", "DQN"): (
        100_000,
        1,
        False,
        {
            "learning_rate": 6.3e-4,
            "batch_size": 128,
            "buffer_size": 50_000,
            "learning_starts": 0,
            "gamma": 0.99,
            "target_update_interval": 250,
            "train_freq": 4,
            "gradient_steps": -1,
            "exploration_fraction": 0.12,
            "exploration_final_eps": 0.1,
            "policy_kwargs": NETWORK,
        },
    ),
}


class Player(gym.ActionWrapper[Any, Any, Any]):
    """A peer as `fpi.evaluate` asks for it. It chooses one action, "what the peer says", which may be continuous."""

    actions = 1

    def __init__(self, env: Any, model: Any, normalise: Any) -> None:
        super().__init__(env)
        self.action_space = gym.spaces.Discrete(1)
        self.model, self.normalise = model, normalise
        self.horizon = env.spec.max_episode_steps

    def predict(self, observation: Any, stage: int) -> int:
        self.chosen, _ = self.model.predict(self.normalise(observation), deterministic=True)
        return 0

    def action(self, action: Any) -> Any:
        return self.chosen


def library() -> Any:
    """Stable-Baselines3, or what to do where it is not there."""
    try:
        return import_module("stable_baselines3")
    except ImportError as error:
        raise SystemExit(
            f"this needs Stable-Baselines3, which is not part of fpi ({error}). Install it beside fpi: "
            "pip install stable-baselines3"
        ) from error


def arguments_of(task: str, method: str) -> dict[str, Any]:
    """The hyper-parameters, with rates that fall as the functions that Stable-Baselines3 takes."""
    return {
        name: _falling(float(value.removeprefix(FALLING))) if isinstance(value, str) else value
        for name, value in PEERS[task, method][3].items()
    }


def _falling(first: float) -> Any:
    return lambda left: first * left


def play(task: str, method: str, seed: int, many: int, most: int | None) -> dict[str, Any]:
    """One run; what came out."""
    sb3 = library()
    vectors, callbacks = (import_module(f"stable_baselines3.common.{name}") for name in ("env_util", "callbacks"))
    steps, count, normalised, hyper = PEERS[task, method]
    envs = vectors.make_vec_env(task, n_envs=count, seed=seed)
    if normalised:
        normalise = import_module("stable_baselines3.common.vec_env").VecNormalize
        envs = normalise(envs, gamma=hyper["gamma"])  # rewards by discounted returns: the algorithm's, as in RL Zoo
    model = getattr(sb3, method)("MlpPolicy", envs, seed=seed, device="cpu", **arguments_of(task, method))
    player = Player(gym.make(task), model, envs.normalize_obs if normalised else np.asarray)
    row: dict[str, Any] = {"task": task, "variant": method, "seed": seed, "solved": False, "starts": many}
    row |= {"episodes": 0, "steps": 0, "seconds": 0.0, "wall": 0.0, "judged_after": [], "means": []}
    began, wall = time.process_time(), time.perf_counter()
    judged = {"updates": -1, "seconds": 0.0}

    class Judging(callbacks.BaseCallback):  # type: ignore[misc, name-defined]
        def _on_step(self) -> bool:
            row["episodes"] += int(self.locals["dones"].sum())
            row["steps"] = self.num_timesteps
            if not self.locals["dones"].any() or model._n_updates == judged["updates"]:
                return True
            asked = time.process_time()
            mean, solved = judge(player, player, TASKS[task].threshold, many)  # type: ignore[arg-type]
            judged["updates"] = model._n_updates
            judged["seconds"] += time.process_time() - asked
            row["judged_after"].append(row["episodes"])
            row["means"].append(mean)
            row["solved"] = bool(solved)
            print(f"{task}, {method}, seed {seed}: episode {row['episodes']}, mean {mean:.1f}", flush=True)
            return solved is None

    model.learn(min(steps, most or steps), callback=Judging())
    row["seconds"] = time.process_time() - began - judged["seconds"]
    row["wall"] = time.perf_counter() - wall
    return row


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of Markdown, a line for each task and method."""
    heads = ("task (threshold)", "method", *HEADS)
    yield f"| {' | '.join((*heads, 'seconds of learning, median'))} |"
    yield "|---" * (len(heads) + 1) + "|"
    for task, method in PEERS:
        runs = [row for row in rows if (row["task"], row["variant"]) == (task, method)]
        if runs:
            cells = (
                f"{task} ({TASKS[task].threshold:g})",
                method,
                *outcome(runs),
                f"{np.median([row['seconds'] for row in runs]):.0f}",
            )
            yield f"| {' | '.join(cells)} |"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="lines of JSON; the same file goes on")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--methods", nargs="+", choices=("PPO", "DQN", "SAC"), default=["PPO", "DQN", "SAC"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="of training at most; those of RL Zoo if left out")
    parser.add_argument("--starts", type=int, default=MANY, help="of the two judgements after the first 10")
    options = parser.parse_args(arguments)
    results: Path = options.results
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    done = {(row["task"], row["variant"], row["seed"]) for row in rows}
    for task, method in PEERS:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            wanted = task in options.tasks and method in options.methods
            if wanted and (task, method, seed) not in done:
                rows.append(play(task, method, seed, options.starts, options.steps))
                with results.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print("\n".join(table(rows)))

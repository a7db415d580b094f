"""Rows that `versions` times; run with one version of fpi, it waits for their names and answers with times.

Like tests/support/scenarios.py it runs with earlier versions, too: names that changed since are looked up below.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import numpy as np

import fpi
from fpi import compiled

warnings.simplefilter("ignore")


def named(owner: Any, *names: str) -> Any:
    """The first of these attributes that there is."""
    return getattr(owner, next(name for name in names if hasattr(owner, name)))


Timed = tuple[float, int, str]
"""Processor seconds, for so many steps or calls, and a digest of what came out."""
CARTPOLE = gym.make("CartPole-v1")


def tiles(tilings: int) -> Any:
    return fpi.TileCoding.for_env(CARTPOLE, tiles=4, tilings=tilings)


def fourier() -> Any:
    high = [4.8, 10.0, 0.418, 10.0]
    return fpi.Fourier(np.negative(high), high, order=2, actions=2)


def pac(features: Any, horizon: int = 500) -> Any:
    return fpi.PAC(features, actions=2, horizon=horizon, epsilon=1.0, ridge=1e-3)


def regret(features: Any, elimination: Any) -> Any:
    return fpi.Regret(features, actions=2, horizon=50, elimination=elimination)


def learning(make: Callable[[], Any], episodes: int) -> Timed:
    agent = make()
    return _history(lambda: agent.learn(CARTPOLE, episodes, seed=0))


def compiled_learning(make: Callable[[], Any], episodes: int) -> Timed:
    agent, env = make(), named(compiled, "get", "find")("CartPole-v1")
    return _history(lambda: compiled.learn(agent, env, episodes, seed=0))


def _history(learn: Callable[[], Any]) -> Timed:
    began = time.process_time()
    history = learn()
    return time.process_time() - began, int(history.lengths.sum()), _digest(history.returns, history.lengths)


@cache
def _taught() -> tuple[Any, list[tuple[Any, int]]]:
    """An agent after 2,000 episodes, and covered states of 100 more: at others `predict` was once told otherwise."""
    agent = pac(tiles(4))
    met: list[tuple[Any, int]] = []
    agent.learn(CARTPOLE, 2_000, seed=0)
    agent.learn(CARTPOLE, 100, callback=lambda e: met.extend((e.observations[t], t) for t in range(e.length)))
    return agent, [state for state in met if agent.explain(*state).covered]


def predicting() -> Timed:
    agent, met = _taught()
    began = time.process_time()
    actions = [agent.predict(observation, stage) for observation, stage in met]
    return time.process_time() - began, len(met), _digest(np.array(actions, np.int64))


def reproducing(seeds: int, episodes: int) -> Timed:
    """The whole command with its worker, from its start to its report."""
    with TemporaryDirectory() as folder:
        size = ["--seeds", str(seeds), "--episodes", str(episodes), "--workers", "1"]
        asked = ["reproduce", "figure2", "--engine", "compiled", *size, "--out", "out"]
        command = [sys.executable, "-c", "from fpi.cli import main; main()", *asked]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        manifests = [json.loads(path.read_text()) for path in sorted(Path(folder).rglob("manifest.json"))]
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    steps = [each["steps"] for each in manifests]
    return spent, sum(steps), _digest(np.array(steps, np.int64))


def _digest(*arrays: Any) -> str:
    digest = blake2b(digest_size=8)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


ROWS: dict[str, tuple[Callable[[], Timed], Callable[[], Timed], int]] = {
    # what is timed, the same in small, which compiles it, and how often
    "`compiled.learn`, 4 tilings, 20,000 episodes": (
        partial(compiled_learning, lambda: pac(tiles(4)), 20_000),
        partial(compiled_learning, lambda: pac(tiles(4)), 20),
        5,
    ),
    "`compiled.learn`, 4 tilings, 55,000 episodes": (
        partial(compiled_learning, lambda: pac(tiles(4)), 55_000),
        partial(compiled_learning, lambda: pac(tiles(4)), 20),
        3,
    ),
    "`fpi reproduce figure2 --engine compiled`, 2 seeds × 55,000 episodes": (
        partial(reproducing, 2, 55_000),
        partial(reproducing, 1, 20),
        3,
    ),
    "`learn`, 2 tilings, 3,000 episodes": (
        partial(learning, lambda: pac(tiles(2)), 3_000),
        partial(learning, lambda: pac(tiles(2)), 20),
        3,
    ),
    "`learn`, Fourier features of order 2, 300 episodes": (
        partial(learning, lambda: pac(fourier()), 300),
        partial(learning, lambda: pac(fourier()), 20),
        3,
    ),
}
for elimination in ("paper", "interval"):
    for name, features in (("2 tilings", partial(tiles, 2)), ("Fourier features of order 2", fourier)):
        make = partial(lambda features, rule: regret(features(), rule), features, elimination)
        ROWS[f"`learn` of Regret, {elimination}, {name}, 500 episodes"] = (
            partial(learning, make, 500),
            partial(learning, make, 20),
            3,
        )
ROWS["`predict` at covered states that were visited, 4 tilings"] = predicting, predicting, 5


def main() -> None:
    source = Path(sys.argv[1])
    assert Path(fpi.__file__).is_relative_to(source), f"{fpi.__file__} is not of {source}"
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # what else is printed must not be taken for an answer
    os.dup2(2, 1)
    for line in _asked():
        what, small, _ = ROWS[line[1:]]
        print(json.dumps((small if line[0] == "-" else what)()), file=answers)


def _asked() -> Iterator[str]:
    for line in sys.stdin:
        yield line.rstrip("\n")


if __name__ == "__main__":
    main()

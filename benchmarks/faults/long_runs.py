"""Long runs: a million data in one regression, ten million compiled episodes."""

import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

import fpi
from benchmarks.faults.outcome import Outcome
from fpi import compiled

COLUMNS, QUERIES, CHUNK = 64, 4, 10_000
RIDGES = (1e-6, 1e-3)
ACCURACY = 1e-8  # of widths, relative
MOST_BYTES = 3.0  # of the store, as a multiple of the data's own
PORTIONS = 10
SLOWER = 2.0  # a portion of episodes, at most, than the second one; the machine is uneven, so
JUDGED = 1.0  # only portions of so many seconds are judged
GROWTH = 64  # MB of memory from the second portion on


def run(data: int, episodes: int) -> Iterator[Outcome]:
    """Regressions of so many data; so many compiled episodes, in ten portions."""
    yield regressions(data)
    yield many_episodes(episodes)


def regressions(data: int) -> Outcome:
    """Widths at a hundredth, a tenth and all of the data beside a QR factorisation of the same rows."""
    outcome = Outcome(f"Regressions of {data:,} data, d = {COLUMNS}")
    for ridge in RIDGES if data else ():
        rng = np.random.default_rng(0)
        queries = rng.normal(size=(QUERIES, COLUMNS)) / 10
        known = fpi.PrefixRidge(COLUMNS, ridge)
        triangle = np.sqrt(ridge) * np.eye(COLUMNS)
        stops = sorted({max(1, data // share) for share in (100, 10, 1)})
        exact: dict[int, NDArray[np.float64]] = {}
        for stop, begin in zip(stops, (0, *stops), strict=False):
            for first in range(begin, stop, CHUNK):
                rows = rng.normal(size=(min(CHUNK, stop - first), COLUMNS)) / np.arange(
                    1, COLUMNS + 1
                )  # ill-conditioned
                rows /= np.linalg.norm(rows, axis=1, keepdims=True)
                for row in rows:
                    known.append(row, 1.0)
                triangle = np.linalg.qr(np.vstack([triangle, rows]), mode="r")
            exact[stop] = np.linalg.norm(solve_triangular(triangle, queries.T, trans="T"), axis=0)
        widths = known.widths(queries)
        for stop, right in exact.items():
            error = float(np.max(np.abs(widths[stop] / right - 1)))
            outcome.note(
                None if error <= ACCURACY else f"ridge {ridge:g}, {stop:,} data: widths are off by {error:.1e}"
            )
        multiple = known.nbytes / (8 * data * COLUMNS)
        outcome.note(None if multiple <= MOST_BYTES or data < CHUNK else f"{multiple:.2f} times the bytes of the data")
    return outcome


def many_episodes(episodes: int) -> Outcome:
    """CartPole in compiled code: no portion slower, no memory lost, numbers that add up, a file that goes on."""
    outcome = Outcome(f"Portions of {episodes:,} compiled episodes")
    env = gym.make("CartPole-v1")
    features = fpi.TileCoding.for_env(env, tiles=3, tilings=2)
    agent = fpi.PAC(features, actions=2, horizon=12, epsilon=1.0, ridge=0.01)
    compiled_env = compiled.get("CartPole-v1")
    compiled.learn(agent, compiled_env, 1, 0)  # compiles
    seconds, memory = [], []
    for portion in range(PORTIONS if episodes else 0):
        began = time.perf_counter()
        history = compiled.learn(agent, compiled_env, episodes // PORTIONS)
        took = time.perf_counter() - began
        seconds.append(took / max(1, int(history.lengths.sum())))
        memory.append(
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
        )
        troubles = []
        if agent.episodes != 1 + (portion + 1) * (episodes // PORTIONS):
            troubles.append(f"{agent.episodes:,} episodes are counted")
        if agent.data_stored > agent.episodes or agent.data_stored != int(agent.summary().data.sum()):
            troubles.append(f"{agent.data_stored:,} data are counted")
        if portion > 1 and took > JUDGED and seconds[-1] > SLOWER * seconds[1]:
            troubles.append(f"{seconds[-1] * 1e9:.0f} ns a step, {seconds[1] * 1e9:.0f} in the second portion")
        if portion > 1 and memory[-1] > memory[1] + GROWTH:
            troubles.append(f"{memory[-1]:.0f} MB, {memory[1]:.0f} after the second portion")
        outcome.note(f"portion {portion + 1}: {', '.join(troubles)}" if troubles else None)
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder, "long.fpi"))
        again = fpi.load(Path(folder, "long.fpi"))
    one, other = (compiled.learn(each, compiled_env, 100).returns for each in (agent, again))
    outcome.note(None if np.array_equal(one, other) else "the saved agent goes on differently")
    return outcome

"""The standard suite of testbeds: that their features are exact, and what a step costs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks import tables
from fpi.testbeds import Testbed, standard

EPISODES = 2_000
HEADS = ("testbed", "H", "K", "d", "rank", "pairs", "Q^π fit", "closed form", "Bellman", "norm", "‖θ‖ ≤ bound (√d·H)")


def verification_table(pool: int = 700) -> Iterator[str]:
    """The figures of every testbed, on up to so many states per stage."""
    yield from tables.head(*HEADS)
    for name, testbed in standard().items():
        seen = testbed.verify(pool=pool)
        yield tables.row(
            f"{name}: `{testbed}`",
            seen.horizon,
            seen.actions,
            seen.dim,
            max(seen.ranks),
            seen.pairs,
            f"{seen.residual:.1e}",
            f"{seen.closed_form_residual:.1e}",
            f"{seen.bellman_residual:.1e}",
            f"{seen.norm:.3f}",
            f"{seen.theta:.1f} ≤ {seen.theta_bound:.1f} ({seen.theory_bound:.1f})",
        )
        for problem in seen.problems:
            yield f"PROBLEM with {name}: {problem}"


def time_table() -> Iterator[str]:
    """Microseconds of processor time per step, features of all actions included; best of five."""
    yield from tables.head("testbed", "µs per step", "of that features", "µs per V* of a start")
    for name, testbed in standard().items():
        costs = np.min([_measure(testbed) for _ in range(5)], axis=0)
        yield tables.row(name, *(f"{cost:.1f}" for cost in costs))


def _measure(testbed: Testbed) -> list[float]:
    """A step with the features and its share of the reset, the features alone, V* of a start."""
    env, features = testbed.env(), testbed.features
    env.reset(seed=0)
    moves = [np.int64(action) for action in np.random.default_rng(0).integers(testbed.actions, size=testbed.horizon)]
    starts, seen, steps = [], [], 0
    began = time.process_time()
    for _ in range(EPISODES):
        observation, _ = env.reset()
        starts.append(observation)
        for stage, action in enumerate(moves):
            features(observation, stage)
            seen.append((observation, stage))
            observation, _, ended, _, _ = env.step(action)
            steps += 1
            if ended:
                break
    played = time.process_time()
    for observation, stage in seen:
        features(observation, stage)
    asked = time.process_time()
    for observation in starts:
        testbed.optimal_value(testbed.state(observation))
    valued = time.process_time()
    return [(played - began) / steps * 1e6, (asked - played) / steps * 1e6, (valued - asked) / EPISODES * 1e6]

"""Observations as coordinates of comparable size: scales, pairs that lie on a circle, and how long a decision lasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi.modelling.experience import Experience
from fpi.settings import ModelSettings

Floats = NDArray[np.float64]

RANGE_SHARE = 0.2  # of what was visited: the scale of a coordinate
CIRCLE_SCALE = 0.4  # of a cosine and its sine
CIRCLE_ERROR = 1e-5  # observations come in single precision
SHORTEST_INTERVAL, LONGEST_INTERVAL = 2, 4
GOAL_INTERVAL = 3  # at least, where all steps cost the same: windows should reach the end of the episode
LONGEST_HOLD = 4
DECISIONS = 4  # that an episode of the first should have
FIRST_STEPS = 16  # that the interval is chosen from, and without which there is no model
TYPICAL_MOVE, SPEEDY = 0.5, 0.9  # in scaled units, what a decision should move by where things go fast: this quantile
LARGE_MOVE = 1.5  # of a single step: decisions last one then


@dataclass(frozen=True)
class Coordinates:
    """z = observation / scales."""

    scales: Floats
    circles: NDArray[np.int64]
    """(p, 2): pairs of entries with x² + y² = 1, the cosine and the sine of an angle."""
    interval: int
    """Steps of the environment that a decision lasts."""

    def __call__(self, observations: Any) -> Floats:
        scaled: Floats = np.asarray(observations, np.float64) / self.scales
        return scaled


def choose_coordinates(experience: Experience, settings: ModelSettings) -> Coordinates:
    """From all that was visited; the interval from the first steps only, since later decisions have that length."""
    seen = np.concatenate([each.observations for each in experience.episodes])
    circles = find_circles(seen) if settings.angles is None else np.array(settings.angles, np.int64).reshape(-1, 2)
    scales = _range_scales(seen, circles) if settings.scales is None else np.array(settings.scales)
    interval = settings.interval or _choose_interval(experience, circles)
    return Coordinates(scales, circles, interval)


def find_circles(observations: Floats) -> NDArray[np.int64]:
    """Pairs of entries that vary, and whose squares add up to one at all observations."""
    varying = np.flatnonzero(np.ptp(observations, axis=0) > 0)
    pairs: list[tuple[int, int]] = []
    for i in varying:
        for j in varying[varying > i]:
            free = not any(i in pair or j in pair for pair in pairs)
            if free and np.abs(observations[:, i] ** 2 + observations[:, j] ** 2 - 1.0).max() < CIRCLE_ERROR:
                pairs.append((int(i), int(j)))
    return np.array(pairs, np.int64).reshape(-1, 2)


def _range_scales(observations: Floats, circles: NDArray[np.int64]) -> Floats:
    scales = RANGE_SHARE * np.ptp(observations, axis=0)
    scales[circles.ravel()] = CIRCLE_SCALE
    return np.where(scales > 0, scales, 1.0)


def _choose_interval(experience: Experience, circles: NDArray[np.int64]) -> int:
    """The shortest decision that moves by a typical length, and of which even short episodes have some.

    One step where that is a long way already; at least `GOAL_INTERVAL` where every step costs the same.
    """
    first = []
    for each in experience.episodes:
        first.append(each)
        if sum(len(each.actions) for each in first) >= FIRST_STEPS:
            break
    scales = _range_scales(np.concatenate([each.observations for each in first]), circles)
    rewards = np.concatenate([each.rewards[: len(each.rewards) - each.terminated] for each in first])
    to_end = rewards.size and rewards.max() < 0.0 and rewards.min() == rewards.max()

    def moves(interval: int) -> float:
        seen = experience.decisions(interval, first)
        moved = np.sqrt((((seen.after - seen.before) / scales) ** 2).sum(axis=1))
        return float(np.quantile(moved, SPEEDY)) if len(moved) else 0.0

    longest = int(np.mean([len(each.actions) for each in first])) // DECISIONS
    longest = max(1, min(LONGEST_INTERVAL, longest))
    if not to_end and moves(1) >= LARGE_MOVE:
        return 1
    shortest = GOAL_INTERVAL if to_end else SHORTEST_INTERVAL
    return next((each for each in range(shortest, longest) if moves(each) >= TYPICAL_MOVE), longest)


def first_hold(experience: Experience) -> int:
    """Steps that an action lasts before there is a model: fewer where episodes end at once."""
    lengths = [len(each.actions) for each in experience.episodes]
    return max(1, min(LONGEST_HOLD, int(np.mean(lengths)) // DECISIONS)) if lengths else LONGEST_HOLD

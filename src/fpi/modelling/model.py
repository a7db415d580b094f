"""The learnt model of an environment with vectors for observations: coordinates, dynamics, ends, and what is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi.kernels.windows import Dynamics, Ends
from fpi.modelling.calls import decide
from fpi.modelling.coordinates import FIRST_STEPS, Coordinates, choose_coordinates
from fpi.modelling.dynamics import Actions, fit_dynamics, influences
from fpi.modelling.ends import fit_ends
from fpi.modelling.experience import Experience
from fpi.modelling.known import make_net
from fpi.settings import ModelSettings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_COVER = 220
LEAST_INFLUENCE = 0.25  # a coordinate that nothing depends on counts a quarter: where episodes end may


@dataclass(frozen=True)
class SmoothModel:
    """What follows each decision, where episodes end, and where this can be believed."""

    coordinates: Coordinates
    dynamics: Dynamics
    ends: Ends
    cover: Floats
    """Visited states, one per row, no two within the radius of each other; in the order of visits."""
    radius: float
    rewards: tuple[float, float]
    """Smallest and largest of one step; 0, which is paid after an end, included."""
    tried: tuple[Floats, ...]
    """For every action, states at which it was taken."""

    def step(self, observation: Any, action: int, unknown: float = np.nan) -> tuple[Floats, float, bool, bool]:
        """A decision: the observation after it, its reward, whether it ends the episode, whether it is known.

        `unknown`: the reward of a decision in the unknown, as plans doubt rewards of decisions that are far from data.
        """
        after = np.empty(len(self.coordinates.scales))
        z = self.coordinates(observation)
        reward, end, known = decide(self.dynamics, self.ends, unknown, z, action, after)
        return after * self.coordinates.scales, reward, end, known

    def least_tried(self, z: Floats) -> int:
        """The action whose data are farthest from z."""
        far = [((states - z) ** 2).sum(axis=1).min(initial=np.inf) for states in self.tried]
        return int(np.argmax(far))


def reward_bounds(experience: Experience, settings: ModelSettings) -> tuple[float, float]:
    """Of one step: as given, else as seen with the 0 after an end; and 1 where no reward above 0 was seen in a table.

    A table is explored until nothing untried can be better. Elsewhere the unknown is endless, and what was seen is
    all there is to go by.
    """
    if settings.reward_range is not None:
        return min(settings.reward_range[0], 0.0), max(settings.reward_range[1], 0.0)
    low = min(0.0, *(float(each.rewards.min()) for each in experience.episodes))
    high = max(0.0, *(float(each.rewards.max()) for each in experience.episodes))
    return (low, high) if high > 0 or (low < 0 and experience.features.states is None) else (low, 1.0)


def fit_model(experience: Experience, settings: ModelSettings) -> SmoothModel | None:
    """The model of all episodes; None while there are too few data."""
    if len(experience) < FIRST_STEPS:
        return None
    coordinates = choose_coordinates(experience, settings)
    kinds = Actions(settings.actions, len(coordinates.scales), settings.grid)
    seen, circles = experience.decisions(1), coordinates.circles
    z, after = coordinates(seen.before), coordinates(seen.after)
    if settings.scales is None:
        matters = np.maximum(influences(z, seen.actions, seen.rewards, after, circles, kinds), LEAST_INFLUENCE)
        coordinates = replace(coordinates, scales=coordinates.scales / matters)
        z, after = coordinates(seen.before), coordinates(seen.after)
    dynamics = fit_dynamics(z, seen.actions, seen.rewards, after, circles, kinds, seen.ends, coordinates.interval)
    ends = fit_ends(after[seen.ends], seen.rewards[seen.ends], np.concatenate([z, after[~seen.ends]]))
    visited = np.concatenate([coordinates(each.observations[:-1]) for each in experience.episodes])
    cover, radius = make_net(visited, settings.spacing, MOST_COVER)
    tried = tuple(z[seen.actions == action] for action in range(settings.actions))
    bounds = reward_bounds(experience, settings)
    return SmoothModel(coordinates, dynamics, ends, cover, radius, bounds, tried)

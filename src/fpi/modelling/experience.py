"""Everything that was seen: whole episodes, and the decisions cut out of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpi._validation import check_whole
from fpi.data import Trajectory, check_column
from fpi.errors import EnvironmentMismatch, InputError
from fpi.features.base import check_finite, vector

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Observations:
    """What observations are: vectors of `size` entries, or numbers of `states`."""

    def __init__(self, size: int | None = None, states: int | None = None) -> None:
        if (size is None) == (states is None):
            raise InputError("pass the size of observation vectors, or the number of states, and not both.")
        self.size = 1 if size is None else check_whole("size", size, least=1)
        self.states = None if states is None else check_whole("states", states, least=1)

    def __repr__(self) -> str:
        return (
            f"<Observations: {self.size} entries>" if self.states is None else f"<Observations: {self.states} states>"
        )

    def to_config(self) -> dict[str, Any]:
        return {"size": self.size} if self.states is None else {"states": self.states}

    def read(self, observation: Any) -> Floats:
        """A checked copy as a vector."""
        read = check_finite(vector(observation, self.size))
        if self.states is not None and not (0 <= read[0] < self.states and read[0] == int(read[0])):
            raise InputError(f"the observation is {observation!r}; there are states 0 to {self.states - 1}.")
        return read


class Decisions(NamedTuple):
    """Stretches of equal actions: where, what, the sum of rewards, and where to."""

    before: Floats
    actions: Ints
    rewards: Floats
    after: Floats
    ends: NDArray[np.bool_]
    """The episode ended with it; it may have been shorter then."""
    whole: NDArray[np.bool_]
    """All steps of a decision were played."""


class Experience:
    """All episodes in order; in the place of data of an `fpi.data.Estimator` for saving and loading."""

    def __init__(self, observations: Observations, stages: int, actions: int) -> None:
        self.features = observations
        self.stages = stages
        self.actions = actions
        self.episodes: list[Trajectory] = []

    def append(self, trajectory: Trajectory) -> None:
        """Add an episode, after checking that all of it are numbers."""
        try:
            read = np.array([self.features.read(each) for each in trajectory.observations])
        except InputError as error:
            raise EnvironmentMismatch(f"{error} The agent is as it was before this episode.") from error
        self.episodes.append(trajectory._replace(observations=read))

    def __len__(self) -> int:
        """Steps."""
        return sum(len(each.actions) for each in self.episodes)

    @property
    def last_episode(self) -> int:
        return len(self.episodes) - 1

    def sizes(self) -> Ints:
        """Steps per stage, in one row."""
        lengths = np.array([len(each.actions) for each in self.episodes], np.int64)
        sizes: Ints = (lengths[:, None] > np.arange(self.stages)).sum(axis=0, dtype=np.int64)[None]
        return sizes

    def decisions(self, interval: int, episodes: list[Trajectory] | None = None) -> Decisions:
        """Every stretch of `interval` equal actions, wherever it begins, and the shorter ones before an end."""
        parts: list[Decisions] = []
        for each in self.episodes if episodes is None else episodes:
            steps = len(each.actions)
            starts = np.arange(steps)
            stops = np.minimum(starts + interval, steps)
            changes = np.flatnonzero(np.diff(each.actions)) + 1
            next_change = np.append(changes, steps)[np.searchsorted(changes, starts, side="right")]
            whole = stops == starts + interval
            ends = (stops == steps) & each.terminated
            use = (whole | ends) & (next_change >= stops)
            sums = np.concatenate([[0.0], np.cumsum(each.rewards)])
            starts, stops = starts[use], stops[use]
            seen, rewards = each.observations, sums[stops] - sums[starts]
            parts.append(Decisions(seen[starts], each.actions[use], rewards, seen[stops], ends[use], whole[use]))
        if not parts:
            nothing = np.zeros((0, self.features.size))
            none = np.zeros(0, np.bool_)
            return Decisions(nothing, np.zeros(0, np.int64), np.zeros(0), nothing, none, none)
        return Decisions(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    # --- files --------------------------------------------------------------------------------------------------------

    @property
    def config(self) -> dict[str, Any]:
        return self.features.to_config()

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        if not self.episodes:
            return {}
        return {
            "observations": np.concatenate([each.observations for each in self.episodes]),
            "actions": np.concatenate([each.actions for each in self.episodes]),
            "rewards": np.concatenate([each.rewards for each in self.episodes]),
            "lengths": np.array([len(each.actions) for each in self.episodes], np.int64),
            "terminated": np.array([each.terminated for each in self.episodes]),
        }

    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        """What `to_tensors` gave, after checking every number of it; raises InputError."""
        if not tensors:
            return
        episodes = len(tensors["lengths"])
        check_column(tensors, "lengths", np.int64, (episodes,), (1, self.stages + 1))
        check_column(tensors, "terminated", np.bool_, (episodes,))
        lengths = tensors["lengths"]
        steps = int(lengths.sum())
        check_column(tensors, "actions", np.int64, (steps,), (0, self.actions))
        check_column(tensors, "rewards", np.float64, (steps,))
        check_column(tensors, "observations", np.float64, (steps + episodes, self.features.size))
        if not np.isfinite(tensors["rewards"]).all():
            raise InputError("it holds rewards that are not finite")
        ends = np.cumsum(lengths)
        parts = (np.split(tensors[name].copy(), ends[:-1]) for name in ("actions", "rewards"))
        seen = np.split(tensors["observations"].copy(), np.cumsum(lengths + 1)[:-1])
        for observations, actions, rewards, terminated in zip(seen, *parts, tensors["terminated"], strict=True):
            self.append(Trajectory(observations, actions, rewards, bool(terminated)))

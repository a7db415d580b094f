"""Stale data: stored returns of trajectories that the current policy would no longer follow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi.algorithms import PAC, Agent
from fpi.compiled.engine import check_agent
from fpi.errors import InputError
from fpi.kernels.objects import made
from fpi.kernels.suffixes import count_stale, get_data, no_suffixes, note_observations, suffixes_of
from fpi.training import Episode


class StaleLog:
    """Keeps how the episode of every stored datum went on, to see later which returns have gone stale.

    Made before learning, it is the callback of `agent.learn(env, ..., callback=log)`, or the log of
    `fpi.compiled.learn(agent, compiled environment, ..., log=log)`. Under exact freezing no datum ever goes stale.
    """

    def __init__(self, agent: Agent) -> None:
        known = check_agent(agent)
        if not isinstance(known, PAC) or known.settings.hindsight:
            raise InputError(f"stale data are counted for fpi.PAC without hindsight; this is {agent!r}.")
        self._agent = known
        self.suffixes = made(no_suffixes, agent.features.nnz)

    def __call__(self, episode: Episode) -> None:
        if episode.stored_stage < 0:
            return
        stage, actor = episode.stored_stage + 1, self._agent.datasets.actor
        later = np.array(episode.observations[stage:], np.float64).reshape(-1, len(actor.observation))
        note_observations(self.suffixes, actor.handle, later, episode.actions[stage:], stage)

    def __len__(self) -> int:
        """Data that are watched."""
        return int(get_data(self.suffixes))

    def share(self) -> float:
        """The share of the data whose suffix the agent's policy of today would not follow; 0 if there are none."""
        stale = count_stale(self.suffixes, self._agent.datasets.actor.handle, self._agent.settings.window)
        return float(stale / max(len(self), 1))

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """All that is kept, for `restore`."""
        return dict(zip(("pairs", "steps", "ends"), self.suffixes.arrays(), strict=True))

    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        """Take over what `to_tensors` gave, after checking it; raises InputError."""
        pairs, steps, ends = (tensors.get(name) for name in ("pairs", "steps", "ends"))
        columns = 2 + self._agent.features.nnz
        if (
            pairs is None
            or steps is None
            or ends is None
            or [pairs.dtype, steps.dtype, ends.dtype] != [np.dtype(kind) for kind in (np.int32, np.int32, np.int64)]
            or pairs.shape != (len(pairs), columns)
            or steps.ndim != 1
            or ends.ndim != 1
        ):
            raise InputError(f"this is no stale log: it takes pairs of {columns} columns, steps and ends.")
        limits = [self._agent.horizon, self._agent.actions, *[self._agent.features.dim] * (columns - 2)]
        if (
            np.any((pairs < 0) | (pairs >= limits))
            or np.any((steps < 0) | (steps >= len(pairs)))
            or np.any(np.diff(ends, prepend=0) < 0)
            or (ends[-1] if len(ends) else 0) != len(steps)
        ):
            raise InputError("this stale log was changed, or belongs to another agent: its numbers do not fit.")
        self.suffixes = made(suffixes_of, *map(np.ascontiguousarray, (pairs, steps, ends)))

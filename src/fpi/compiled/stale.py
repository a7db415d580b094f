"""Stale data: stored returns of trajectories that the current policy would no longer follow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi.algorithms import Agent
from fpi.compiled import loop
from fpi.compiled.engine import task_for
from fpi.errors import InputError
from fpi.training import Episode


class StaleLog:
    """Keeps how the episode of every stored datum went on, to see later which returns have gone stale.

    Made before learning, it is the callback of `agent.learn(env, ..., callback=log)`, or the log of
    `fpi.compiled.learn(agent, compiled environment, ..., log=log)`. Under exact freezing no datum ever goes stale.
    """

    def __init__(self, agent: Agent) -> None:
        self._task = task_for(agent)
        self._agent = agent
        self._fill(np.zeros((0, 2 + len(self._task.values)), np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64))

    def _fill(self, pairs: NDArray[np.int32], steps: NDArray[np.int32], ends: NDArray[np.int64]) -> None:
        used = np.array([len(pairs), len(steps), len(ends)], np.int64)
        self.view = loop.Suffixes(np.zeros(0, np.int32), pairs, steps, ends, used)
        self.make_room(self._agent.horizon)

    def make_room(self, steps: int) -> None:
        """Have room for one more suffix of so many steps."""
        view = self.view
        pairs, entries, data = view.used.tolist()
        fresh: dict[str, Any] = {}
        if pairs + steps > len(view.pairs):
            fresh["pairs"] = _grown(view.pairs, pairs + steps)
            fresh["table"] = np.zeros(2 ** int(np.ceil(np.log2(2 * len(fresh["pairs"])))), np.int32)
        if entries + steps > len(view.steps):
            fresh["steps"] = _grown(view.steps, entries + steps)
        if data == len(view.ends):
            fresh["ends"] = _grown(view.ends, data + 1)
        if not fresh:
            return
        self.view = view._replace(**fresh)
        if "table" in fresh:
            loop.enter_pairs(self.view)

    def __call__(self, episode: Episode) -> None:
        if episode.stored_stage < 0:
            return
        stage = episode.stored_stage + 1
        later = np.array(episode.observations[stage:], np.float64).reshape(-1, max(1, len(self._task.grid)))
        active = np.zeros((len(later), len(self._task.values)), np.int32)
        loop.features_of(later, self._task.grid, self._task.states, active)
        self.make_room(len(later))
        loop.note(self.view, active, episode.actions[stage:], stage, 0, len(later))

    def __len__(self) -> int:
        """Data that are watched."""
        return int(self.view.used[loop.DATA])

    def share(self) -> float:
        """The share of the data whose suffix the agent's policy of today would not follow; 0 if there are none."""
        follows = np.zeros(self.view.used[loop.PAIRS], np.bool_)
        bank, visited = self._agent.datasets.bank, self._agent.datasets._visited
        assert visited is not None
        done = 0
        while (done := loop.judge(bank.view, visited.view, self.view, self._task, follows, done)) < len(follows):
            visited.grow()
        return float(loop.count_stale(self.view, follows) / max(len(self), 1))

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """All that is kept, for `restore`."""
        pairs, steps, data = self.view.used
        return {
            "pairs": self.view.pairs[:pairs].copy(),
            "steps": self.view.steps[:steps].copy(),
            "ends": self.view.ends[:data].copy(),
        }

    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        """Take over what `to_tensors` gave, after checking it; raises InputError."""
        pairs, steps, ends = (tensors.get(name) for name in ("pairs", "steps", "ends"))
        columns = self.view.pairs.shape[1]
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
        self._fill(pairs.copy(), steps.copy(), ends.copy())


def _grown(array: NDArray[Any], least: int) -> NDArray[Any]:
    grown = np.zeros((max(1024, int(1.5 * least)), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown

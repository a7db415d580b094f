"""Questions about states to compiled code: an actor of `fpi.kernels.actor`, and the arrays that both sides share."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from fpi.data import Act, Coverage, ExploringStep
from fpi.features import OneHot, TileCoding
from fpi.kernels import actor as compiled
from fpi.kernels.objects import entry, made
from fpi.kernels.states import new_cache
from fpi.observations import copied

if TYPE_CHECKING:
    from fpi.datasets import Datasets

ROOM = 4096  # states to begin with

Rows = tuple[NDArray[np.int32], NDArray[np.float64]]
INT, FLAG = types.int64, types.boolean


class Actor:
    """A `kernels.actor.Actor` and its arrays: questions are written into them, answers read from them."""

    observation_size, states, grid = 0, 0, np.zeros((0, 4))

    def __init__(self, datasets: Datasets) -> None:
        features, methods = datasets.features, datasets.methods
        self.datasets = datasets
        actions, sparse = features.actions, datasets.sparse
        values = features.nnz if sparse and not isinstance(features, TileCoding | OneHot) else 0  # type: ignore[attr-defined]
        name = features.nnz if sparse else 1  # type: ignore[attr-defined]
        self.cache = made(new_cache, actions, name, values, ROOM)
        self.handle = made(
            compiled.new_actor,
            datasets.store,
            self.cache,
            np.array(datasets.thresholds),
            self.grid,
            self.states,
            self.observation_size,
            1 if features.separate else actions,
            0 if sparse else 1,
        )
        question, answer = made(compiled.get_question, self.handle), made(compiled.get_answer, self.handle)
        self.observation, self._single, self._name, self._indices, self._values, self._allowed = question
        self._uncovered, self._widths, self._estimates, self._kept_indices, self._kept_values = answer
        self._names: dict[Hashable, int] = {}  # of states by their keys
        self._sample: Any = None
        self._level = 1
        self._saved = methods.to_config is not None

    @cached_property  # compiled episodes never ask: it need not be compiled for them
    def _act(self) -> Any:
        return entry(compiled.act, compiled.ACTOR, INT, INT, INT, INT, INT, INT, FLAG, FLAG)

    @cached_property
    def _look(self) -> Any:
        return entry(compiled.look, compiled.ACTOR, INT, INT, FLAG, FLAG)

    def begin(self, window: int, rule: int, seed: int, episode: int, remember: bool) -> Act:
        """pi_t(s), and whether s is uncovered; new states are entered and exploring steps kept if `remember`."""
        raise NotImplementedError

    def look(
        self, rows: Rows, stage: int, level: int, allowed: NDArray[np.bool_] | None, key: Hashable | None
    ) -> Coverage:
        self._indices[:], self._values[:] = rows
        self._allowed[:] = True if allowed is None else allowed
        named = key is not None
        if named and len(self._name):
            self._name[0] = self._names.setdefault(key, len(self._names))
        k = self._look(self.handle, stage, level, named, named)
        self._allowed[:] = True
        return Coverage(k if k >= 0 else None, self._estimates.copy(), self._widths.copy(), self._uncovered.copy())

    def estimate(self, rows: Rows, stage: int, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Widths and values at prefix k."""
        self._indices[:], self._values[:] = rows
        compiled.estimate(self.handle, stage, 1, k)
        return self._widths.copy(), self._estimates.copy()

    @property
    def kept(self) -> ExploringStep:
        return ExploringStep(self._kept_indices.copy(), self._kept_values.copy(), self._sample, self._level)

    def keep(self, indices: NDArray[np.int32], values: NDArray[np.float64], observation: Any, level: int) -> None:
        self._kept_indices[:], self._kept_values[:] = indices, values
        self._sample = None if self._saved else copied(observation)
        self._level = level


class ObservationActor(Actor):
    """Tile coding and one-hot features: compiled code reads the observation itself."""

    def __init__(self, datasets: Datasets) -> None:
        features = datasets.features
        if isinstance(features, TileCoding):
            self.grid, self.observation_size, value = features.grid, len(features.grid), features.value
        else:
            assert isinstance(features, OneHot)
            self.states, self.observation_size, value = features.states, 1, 1.0
        super().__init__(datasets)
        self._values[:] = value
        self._source = compiled.FROM_DOUBLES
        self._place: Any = 0 if self.states else slice(None)
        self._buffer = self.observation.data  # takes observations of its own form, faster than numpy would

    def begin(self, window: int, rule: int, seed: int, episode: int, remember: bool) -> Act:
        answer, actor, place = self._act, self.handle, self._place

        def act(observation: Any, stage: int) -> tuple[int, bool]:
            try:
                self._buffer[place] = observation  # a copy, since environments may reuse theirs
            except (TypeError, ValueError, NotImplementedError):
                self._read(observation, stage)
            found: tuple[int, bool] = answer(actor, self._source, stage, window, rule, seed, episode, True, remember)
            if found[0] < 0:
                self.datasets.check_stage(stage)
                self.datasets.rows(observation, stage)  # raises, naming the entry that is not finite
            return found

        return act

    def _read(self, observation: Any, stage: int) -> None:
        """Any form of numbers; the next of the same form is quicker, if it is that of one of the arrays."""
        self.datasets.rows(observation, stage)  # raises if it does not fit, naming both sizes
        single = getattr(observation, "dtype", None) == np.float32
        into = self._single if single else self.observation
        self._source = compiled.FROM_SINGLES if single else compiled.FROM_DOUBLES
        self._buffer = into.data
        into[:] = np.ravel(observation)  # last: an interrupt may have come before


class RowsActor(Actor):
    """Features that Python computes; equal keys spare that."""

    def __init__(self, datasets: Datasets) -> None:
        super().__init__(datasets)
        self._key = None if datasets.sparse else datasets.methods.key
        self._recollect = entry(compiled.recollect, compiled.ACTOR, INT, INT)

    def begin(self, window: int, rule: int, seed: int, episode: int, remember: bool) -> Act:
        sparse, key_of, names = self.datasets.sparse, self._key, self._names

        def act(observation: Any, stage: int) -> tuple[int, bool]:
            self.datasets.check_stage(stage)
            named = sparse
            if key_of is not None:
                key = key_of(observation, stage)
                name = names.setdefault(key, len(names)) if remember else names.get(key)
                named = name is not None
                if named:
                    self._name[0] = name
                    action = self._recollect(self.handle, stage, window)
                    if action >= 0:
                        return action, False
            self._indices[:], self._values[:] = self.datasets.rows(observation, stage)
            found: tuple[int, bool] = self._act(
                self.handle, compiled.GIVEN, stage, window, rule, seed, episode, named, remember
            )
            if found[1] and remember and not self._saved:
                self._sample = copied(observation)
            return found

        return act

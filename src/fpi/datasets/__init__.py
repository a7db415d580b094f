"""The datasets of all stages and levels, and what the regressions on them say about a state.

Algorithms query it by observation; features, compiled loops and the memory of visited states stay inside.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi.data import Act, Coverage, Dataset, Estimator, ExploringStep, check_column, check_log
from fpi.datasets.actors import Actor, ObservationActor, Rows, RowsActor
from fpi.errors import InputError
from fpi.features import NORM_TOLERANCE, FeatureMap, OneHot, OptionalMethods, TileCoding, optional_methods
from fpi.kernels.append import append
from fpi.kernels.choose import EXPLORING
from fpi.kernels.numerics import largest_square
from fpi.kernels.objects import made
from fpi.kernels.ridge import RidgeStore, log_det_at, new_store
from fpi.regression import WIDTH_TIE


class Datasets(Estimator):
    """Ridge regression on features: one append-only regression per stage and level."""

    features: FeatureMap
    methods: OptionalMethods

    def __init__(self, features: FeatureMap, stages: int, ridge: float, epsilons: Sequence[float]) -> None:
        self.features = features
        self.stages = stages
        self.ridge = ridge
        self.thresholds = [epsilon * (1 + WIDTH_TIE) for epsilon in epsilons]  # of levels 1, 2, ...
        self.several = False
        """Whether an episode may store more than one datum."""
        self.largest_square = 1.0 if isinstance(features, TileCoding | OneHot) else 0.0
        """The largest squared norm of features: known from the start, or seen so far."""
        self.methods = optional_methods(features)
        self.sparse = features.separate and self.methods.active is not None
        self._store: RidgeStore | None = None  # made at first use: a plain function shows its dimension when called
        self._actor: Actor | None = None
        self._asked: tuple[Any, Act] | None = None  # what `decide` was asked last

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_actor": None, "_asked": None}  # what it knows follows from the data

    @property
    def store(self) -> RidgeStore:
        if self._store is None:
            if not self.features.dim:
                raise InputError(
                    "the feature function has not been called yet, so its dimension is unknown. Learn or predict first."
                )
            self._store = made(
                new_store,
                self._columns,
                self.ridge,
                regressions=self.stages * len(self.thresholds),
                blocks=self.features.actions if self.features.separate else 1,
                nnz=self.features.nnz if self.sparse else None,  # type: ignore[attr-defined]
            )
        return self._store

    @property
    def actor(self) -> Actor:
        """What asks and decides, in compiled code; features must have shown their dimension."""
        if self._actor is None:
            self._actor = (ObservationActor if isinstance(self.features, TileCoding | OneHot) else RowsActor)(self)
        return self._actor

    def __len__(self) -> int:
        return 0 if self._store is None else len(self._store)

    def check_stage(self, stage: int) -> None:
        if not 0 <= stage < self.stages:
            raise InputError(f"stage is {stage!r}; there are stages 0 to {self.stages - 1}.")

    def size(self, stage: int, level: int = 1) -> int:
        self.check_stage(stage)
        return 0 if self._store is None else self._store.size((level - 1) * self.stages + stage)

    def sizes(self) -> NDArray[np.int64]:
        shape = len(self.thresholds), self.stages
        return np.zeros(shape, np.int64) if self._store is None else self._store.sizes.reshape(shape)

    @property
    def nbytes(self) -> int:
        return (0 if self._store is None else self._store.nbytes) + (
            0 if self._actor is None else self._actor.cache.nbytes
        )

    def describe(self, observation: Any, stage: int) -> NDArray[np.float64]:
        return self.features(observation, stage)

    # --- asking -------------------------------------------------------------------------------------------------------

    def rows(self, observation: Any, stage: int) -> Rows:
        """The features of a state: one row that all blocks share, or a row per action."""
        if self.sparse:
            indices, values = self.methods.active(observation, stage)  # type: ignore[misc]
            indices, values = np.asarray(indices, np.int32)[None], np.asarray(values, np.float64)[None]
        else:
            values = np.ascontiguousarray(np.atleast_2d(self.methods.rows(observation, stage)), np.float64)
            indices = np.empty((len(values), 0), np.int32)
        square = largest_square(np.ascontiguousarray(values))
        if not square <= (1 + NORM_TOLERANCE) ** 2:
            raise InputError(
                f"the features at stage {stage} have a norm of {np.sqrt(square):.6g}; the theory needs finite "
                "features of norm at most 1. Divide them by a bound, as fpi.features.Function does with `scale`."
            )
        self.largest_square = max(self.largest_square, square)
        return indices, values

    def look(
        self,
        rows: Rows,
        stage: int,
        level: int = 1,
        allowed: NDArray[np.bool_] | None = None,
        key: Hashable | None = None,
    ) -> Coverage:
        """What a level says of the allowed actions, all if None. By its `key` a state that comes back is recognised."""
        self.check_stage(stage)
        return self.actor.look(rows, stage, level, allowed, key)

    def estimate(self, observation: Any, stage: int, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Widths and values of all actions from the first k data of the stage."""
        self.check_stage(stage)
        return self.actor.estimate(self.rows(observation, stage), stage, k)

    def log_det(self, stage: int, k: int, level: int = 1) -> float:
        """log det Sigma_k - log det Sigma_0."""
        self.check_stage(stage)
        return float(log_det_at(self.store, (level - 1) * self.stages + stage, k))

    # --- deciding -----------------------------------------------------------------------------------------------------

    def begin_episode(self, window: int, explore: str, seed: int, episode: int) -> Act:
        """pi_t, line 3 of Algorithm 1. What it finds of states is remembered, features of exploring steps are kept."""
        question = window, EXPLORING[explore], seed, episode, True
        if self.features.dim:
            return self.actor.begin(*question)
        return lambda observation, stage: self._actor_for(observation, stage).begin(*question)(observation, stage)

    def decide(
        self, observation: Any, stage: int, window: int, explore: str, seed: int, episode: int
    ) -> tuple[int, bool]:
        """The same at one state; it remembers nothing new."""
        question = window, EXPLORING[explore], seed, episode, False
        if self._asked is None or self._asked[0] != question:
            self._asked = question, self._actor_for(observation, stage).begin(*question)
        return self._asked[1](observation, stage)

    def _actor_for(self, observation: Any, stage: int) -> Actor:
        """The actor, also if it takes this observation to see how many features there are."""
        self.check_stage(stage)
        if not self.features.dim:
            self.features(observation, stage)
        return self.actor

    # --- storing ------------------------------------------------------------------------------------------------------

    @property
    def kept(self) -> ExploringStep:
        return self.actor.kept

    def keep(self, rows: Rows, observation: Any, action: int, level: int) -> None:
        row = 0 if self.features.separate else action
        self.actor.keep(rows[0][row], rows[1][row], observation, level)

    def append(self, kept: ExploringStep, stage: int, action: int, target: float, episode: int) -> None:
        self.check_stage(stage)
        regression, block = (kept.level - 1) * self.stages + stage, action if self.features.separate else 0
        append(self.store, regression, block, kept.indices, kept.values, target, action, episode)

    @property
    def last_episode(self) -> int:
        return -1 if self._store is None else self._store.last_episode

    def dataset(self, stage: int, level: int = 1) -> Dataset:
        self.check_stage(stage)
        if not len(self):
            none = np.zeros(0, np.int64)
            return Dataset(np.zeros((0, self.features.dim)), none, np.zeros(0), none.copy())
        data, indices, values = self.store.log()
        regression, columns = self._regressions(data), self._columns
        here = np.flatnonzero(regression == (level - 1) * self.stages + stage)
        actions = data["action"][here]
        features = np.zeros((len(here), self.features.dim))
        first = actions * columns if self.features.separate else np.zeros_like(actions)
        active = indices[here] if self.sparse else np.broadcast_to(np.arange(columns), (len(here), columns))
        np.put_along_axis(features, first[:, None] + active, values[here], axis=1)
        return Dataset(features, actions, data["target"][here], data["episode"][here])

    @property
    def _columns(self) -> int:
        return self.features.dim // self.features.actions if self.features.separate else self.features.dim

    def _regressions(self, data: NDArray[Any]) -> NDArray[np.int64]:
        """The number of the regression of every datum."""
        return data["cell"] // (self.features.actions if self.features.separate else 1)

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """The regressions are not saved: the same data give the same bits again."""
        if not len(self):
            return {}
        data, indices, values = self.store.log()
        regression = self._regressions(data)
        kept = {name: data[name].copy() for name in ("action", "episode", "target")}
        places = {"stage": regression % self.stages, "level": regression // self.stages + 1}
        return {**places, **kept, "indices": indices.copy(), "values": values.copy()}

    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        if not tensors:
            return
        _, indices, values = self.store.log()
        levels, columns = len(self.thresholds), values.shape[1]
        n = check_log(tensors, self.stages, levels, self.features.actions, columns, self.several)
        check_column(tensors, "indices", np.int32, (n, indices.shape[1]), (0, self._columns))
        if np.any(np.diff(np.sort(tensors["indices"], axis=1), axis=1) == 0):
            raise InputError("its indices repeat")
        if not np.all(np.square(tensors["values"]).sum(axis=1) <= (1 + NORM_TOLERANCE) ** 2):
            raise InputError("it holds features of a norm above 1")
        self._append_all(tensors, tensors["indices"])

"""The datasets of all stages and levels under a function class."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpi.data import Coverage, Dataset, Estimator, ExploringStep, check_log
from fpi.errors import InputError
from fpi.features import optional_methods
from fpi.function_classes.base import TOLERANCE, BoolArray, FloatArray, FunctionClass, Prefixes, first_cover

NO_INDICES = np.zeros(0, np.int32)


class Datum(NamedTuple):
    row: FloatArray
    action: int
    target: float
    episode: int


class ClassDatasets(Estimator):
    """What a class of functions makes of data; `beta(level, k, stage)` is the radius of confidence sets.

    The data are what counts, and come with one line of code. What the class makes of them may take long: an interrupt
    loses it, and it is made again.
    """

    def __init__(
        self, function_class: FunctionClass, stages: int, levels: int, beta: Callable[[int, int, int], float]
    ) -> None:
        self.features = function_class
        self.methods = optional_methods(function_class)
        self.stages = stages
        self.levels = levels
        self._beta = beta
        self._data: dict[tuple[int, int], list[Datum]] = {}
        self._prefixes: dict[tuple[int, int], Prefixes] = {}  # made when first asked: pairs of functions take room
        self._after: dict[tuple[int, int, Hashable], int] = {}  # the first prefix that a state was not asked about yet
        self._kept: ExploringStep | None = None

    def __len__(self) -> int:
        return sum(map(len, self._data.values()))

    def prefixes(self, stage: int, level: int) -> Prefixes:
        """What the class says of the data of one stage and level."""
        self._prefixes[stage, level] = prefixes = self._take(stage, level)
        return prefixes

    def _take(self, stage: int, level: int) -> Prefixes:
        """The same, to be put back when it is whole."""
        prefixes = self._prefixes.pop((stage, level), None)
        if prefixes is None:
            prefixes = self.features.prefixes(2.0**-level, lambda k: self._beta(level, k, stage))
        data = self._data.get((stage, level), [])
        for i in range(len(prefixes), len(data)):
            prefixes.append(data[i].row, data[i].target)
        return prefixes

    def size(self, stage: int, level: int) -> int:
        return len(self._data.get((stage, level), ()))

    def sizes(self) -> NDArray[np.int64]:
        sizes = np.zeros((self.levels, self.stages), np.int64)
        for (stage, level), data in self._data.items():
            sizes[level - 1, stage] = len(data)
        return sizes

    def describe(self, observation: Any, stage: int) -> FloatArray:
        return self.rows(observation, stage)

    # --- asking -------------------------------------------------------------------------------------------------------

    def rows(self, observation: Any, stage: int) -> FloatArray:
        rows = np.ascontiguousarray(self.features.rows(observation, stage), np.float64)
        if rows.ndim != 2 or len(rows) != self.features.actions or not np.isfinite(rows).all():
            raise InputError(
                f"the function class gave rows of the shape {rows.shape} at stage {stage}, or numbers that are not "
                f"finite; it takes one finite row for each of the {self.features.actions} actions."
            )
        return rows

    def look(
        self, rows: FloatArray, stage: int, level: int, allowed: BoolArray, key: Hashable | None = None
    ) -> Coverage:
        prefixes = self._take(stage, level)
        name = stage, level, key
        k = first_cover(prefixes, rows, allowed, 0 if key is None else self._after.get(name, 0))
        at = len(prefixes) if k is None else k
        values, widths, uncovered = *np.full((2, len(rows)), np.nan), np.zeros(len(rows), np.bool_)
        values[allowed] = prefixes.estimates(rows[allowed], at)
        widths[allowed] = prefixes.widths(rows[allowed], at)
        if k is None:
            uncovered[allowed] = widths[allowed] > prefixes.epsilon * (1 + TOLERANCE)
            narrow = allowed & ~uncovered
            if narrow.any():  # for the others there is no need to ask, which may take long
                uncovered[narrow] = ~prefixes.dependent(rows[narrow], at)
        self._prefixes[stage, level] = prefixes
        if key is not None and k is None:
            self._after[name] = len(prefixes) + 1
        return Coverage(k, values, widths, uncovered)

    # --- storing ------------------------------------------------------------------------------------------------------

    @property
    def kept(self) -> ExploringStep:
        assert self._kept is not None
        return self._kept

    def keep(self, rows: FloatArray, observation: Any, action: int, level: int) -> None:
        sample = None if self.config is not None else np.array(observation)[()]
        self._kept = ExploringStep(NO_INDICES, rows[action], sample, level)

    def append(self, kept: ExploringStep, stage: int, action: int, target: float, episode: int) -> None:
        self._data.setdefault((stage, kept.level), []).append(Datum(kept.values, action, target, episode))

    @property
    def last_episode(self) -> int:
        return max((data[-1].episode for data in self._data.values() if data), default=-1)

    def dataset(self, stage: int, level: int) -> Dataset:
        data = self._data.get((stage, level), [])
        columns = next((len(each[0].row) for each in self._data.values() if each), 0)
        return Dataset(
            np.array([each.row for each in data], np.float64).reshape(len(data), columns),
            np.array([each.action for each in data], np.int64),
            np.array([each.target for each in data], np.float64),
            np.array([each.episode for each in data], np.int64),
        )

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        log = [(datum, *cell) for cell, data in self._data.items() for datum in data]
        if not log:
            return {}
        data, stage, level = zip(*sorted(log, key=lambda each: each[0].episode), strict=True)
        rows, action, target, episode = zip(*data, strict=True)
        counts = {"stage": stage, "level": level, "action": action, "episode": episode}
        tensors = {name: np.array(column, np.int64) for name, column in counts.items()}
        return tensors | {"target": np.array(target, np.float64), "values": np.array(rows, np.float64)}

    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        if not tensors:
            return
        columns = tensors["values"].shape[-1] if "values" in tensors else 0
        n = check_log(tensors, self.stages, self.levels, self.features.actions, columns)
        self._append_all({**tensors, "values": tensors["values"].copy()}, np.zeros((n, 0), np.int32))
        for stage, level in self._data:
            self.prefixes(stage, level)

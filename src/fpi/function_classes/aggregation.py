"""Aggregation: functions that are constant on cells. All answers are exact."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fpi._validation import check_positive, check_whole
from fpi.errors import InputError
from fpi.features import with_stage
from fpi.function_classes.base import EXACT, BoolArray, FloatArray, OrderedData, check_values


class Aggregation:
    """F = all functions into [min_value, max_value] that are constant on each of the cells 0 .. cells - 1.

    `cell_of(observation)`, or of (observation, stage), gives the cell of every action.

    There is no `to_config`: `cell_of` is a function of your own, which a file cannot hold. A saved agent is loaded with
    the class again, `fpi.load(path, features=aggregation)`.

    `cells`: how many.
    """

    exact: ClassVar = EXACT

    def __init__(
        self,
        cell_of: Callable[..., npt.ArrayLike],
        *,
        cells: int,
        actions: int,
        max_value: float,
        min_value: float = 0.0,
    ) -> None:
        self._cell_of = with_stage(cell_of)
        self.cells = check_whole("cells", cells, least=1)
        self.actions = check_whole("actions", actions, least=1)
        self.min_value, self.max_value = check_values(min_value, max_value)

    def key(self, observation: Any, stage: int) -> Hashable:
        """The cells of all actions, as bytes."""
        return self.rows(observation, stage).tobytes()

    def rows(self, observation: Any, stage: int) -> FloatArray:
        """The number of the cell of each action, as a row of one entry."""
        cells = np.asarray(self._cell_of(observation, stage))
        numbers = cells.shape == (self.actions,) and cells.dtype.kind in "iu"
        if not (numbers and np.all((cells >= 0) & (cells < self.cells))):
            raise InputError(
                f"cell_of gave {cells!r} at stage {stage}, expected {self.actions} whole numbers, one per action, from "
                f"0 to {self.cells - 1}."
            )
        return cells[:, None].astype(np.float64)

    def log_covering(self, radius: float) -> float:
        """Every cell needs ceil((max_value - min_value) / (2 radius)) values."""
        apart = self.max_value - self.min_value
        return self.cells * math.log(math.ceil(apart / (2 * check_positive("radius", radius))))

    def eluder_bound(self, epsilon: float) -> float:
        """One element per cell."""
        return self.cells if epsilon < self.max_value - self.min_value else 0

    def prefixes(self, epsilon: float, beta: Callable[[int], float]) -> CellPrefixes:
        """An empty dataset; see `FunctionClass`."""
        return CellPrefixes(self.cells, self.min_value, self.max_value, epsilon, beta)


class CellPrefixes(OrderedData):
    """For every cell, which data fell into it and the sums of their targets."""

    def __init__(
        self, cells: int, min_value: float, max_value: float, epsilon: float, beta: Callable[[int], float]
    ) -> None:
        super().__init__(1, epsilon, beta)
        self._cells = cells
        self._low, self._high = min_value, max_value
        self._betas = [(max_value - min_value) ** 2]  # of no use where there are no data
        self._numbers: dict[int, list[int]] = {}
        self._sums: dict[int, list[float]] = {}

    def append(self, row: FloatArray, target: float) -> None:
        cells, q, radius = self.checked(row, target)
        cell = int(cells[0])
        if not 0 <= cell < self._cells:
            raise InputError(f"{cell} is not one of the {self._cells} cells.")
        self._betas.append(radius)
        self.length += 1
        sums = self._sums.setdefault(cell, [0.0])
        sums.append(sums[-1] + q)
        self._numbers.setdefault(cell, []).append(self.length)

    def theta(self, k: int) -> FloatArray:
        """The values of all cells in the least-squares function."""
        return self.estimates(np.arange(self._cells, dtype=np.float64)[:, None], k)

    def estimates(self, rows: FloatArray, k: int) -> FloatArray:
        """The mean of the cell; the middle of all values without data."""
        counts, means = self._fit(rows, k)
        return np.where(counts > 0, means, (self._low + self._high) / 2)

    def widths(self, rows: FloatArray, k: int) -> FloatArray:
        counts, means = self._fit(rows, k)
        reach = np.sqrt(self._betas[k] / np.maximum(counts, 1))
        width = np.minimum(means + reach, self._high) - np.maximum(means - reach, self._low)
        return np.where(counts > 0, width, self._high - self._low)

    def differences(self, rows: FloatArray, k: int) -> FloatArray:
        """At each row, how far functions of F can differ that are epsilon apart on the first k data."""
        counts, _ = self._fit(rows, k)
        apart = self._high - self._low
        return np.where(counts > 0, np.minimum(self.epsilon / np.sqrt(np.maximum(counts, 1)), apart), apart)

    def dependent(self, rows: FloatArray, k: int) -> BoolArray:
        return self.differences(rows, k) <= self.epsilon

    def _fit(self, rows: FloatArray, k: int) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """Data of the cell of each row among the first k, and their clipped mean."""
        k = self.prefix(k)
        cells = rows[:, 0].astype(int).tolist()
        counts = np.array([bisect_right(self._numbers.get(cell, []), k) for cell in cells])
        sums = np.array([self._sums.get(cell, [0.0])[count] for cell, count in zip(cells, counts, strict=True)])
        return counts, np.clip(sums / np.maximum(counts, 1), self._low, self._high)

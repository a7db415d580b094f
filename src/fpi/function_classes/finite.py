"""A finite class: any list of candidate functions. All its answers are exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fpi._validation import check_whole
from fpi.errors import InputError
from fpi.features import with_stage
from fpi.function_classes import _kernels
from fpi.function_classes.base import EXACT, TOLERANCE, BoolArray, FloatArray, OrderedData, check_values
from fpi.function_classes.confidence import most_gains

SAVED_NUMBERS = 100_000  # larger tables would swell the JSON of a model file: pass them again when loading


class FiniteClass:
    """Candidate functions, with one value per action, from `min_value` to `max_value` in spans of rewards.

    `functions` is a list of functions of (observation) or (observation, stage), or, which is much faster, an array of
    tables of shape (functions, states, actions) or (functions, stages, states, actions); then the last entry of an
    observation is the number of the state. For functions, `actions` says how many values they give, and an optional
    `key(observation, stage)` promises equal values for equal keys at a stage.
    """

    exact: ClassVar = EXACT

    def __init__(
        self,
        functions: Sequence[Callable[..., npt.ArrayLike]] | npt.NDArray[Any],
        *,
        max_value: float,
        min_value: float = 0.0,
        actions: int | None = None,
        key: Callable[..., Hashable] | None = None,
    ) -> None:
        self.min_value, self.max_value = check_values(min_value, max_value)
        self.size = len(functions)
        self._tables: FloatArray | None = None
        if isinstance(functions, np.ndarray):
            self._tables = self._arrange(functions, actions)
            self.actions = self._tables.shape[2]
            self.key = with_stage(key) if key else _state_number
            return
        if self.size == 0 or not all(map(callable, functions)):
            raise InputError("functions must be a list of at least one function of (observation, stage), or an array.")
        self._functions = [with_stage(function) for function in functions]
        self.actions = check_whole("actions", actions, least=1)
        if key is not None:  # learners look for the method: it must not exist without a key
            self.key = with_stage(key)

    def rows(self, observation: Any, stage: int) -> FloatArray:
        """The values of all functions, one row per action."""
        if self._tables is not None:
            return self._look_up(self._tables, observation, stage)
        values = [np.asarray(function(observation, stage), np.float64) for function in self._functions]
        wrong = next((i for i, value in enumerate(values) if value.shape != (self.actions,)), None)
        if wrong is not None:
            raise InputError(
                f"function {wrong} gave the shape {values[wrong].shape} at stage {stage}, expected ({self.actions},): "
                "one value per action."
            )
        rows = np.ascontiguousarray(np.array(values).T)
        self._check(rows)
        return rows

    def log_covering(self, radius: float) -> float:
        """ln |F|, at every radius."""
        return math.log(self.size)

    def eluder_bound(self, epsilon: float) -> float:
        """Every element of an eluder sequence uses up a pair of functions, and a state and action of the tables."""
        apart = self.max_value - self.min_value
        if epsilon >= apart:
            return 0
        pairs = self.size * (self.size - 1) // 2
        points = math.inf if self._tables is None else math.prod(self._tables.shape[1:3])
        # The class is linear in one-hot parameters, which lie sqrt(2) apart; centred rows have at most this length.
        length = apart * math.sqrt(self.size) / 2
        return min(pairs, points, most_gains(self.size - 1, 0.5, 2 * (length / epsilon) ** 2))

    def prefixes(self, epsilon: float, beta: Callable[[int], float]) -> FinitePrefixes:
        """An empty dataset; see `FunctionClass`."""
        return FinitePrefixes(self.size, epsilon, beta)

    def to_config(self) -> dict[str, Any] | None:
        """Small tables; None for functions and large tables, which must be passed again when loading."""
        if self._tables is None or self._tables.size > SAVED_NUMBERS:
            return None
        tables = np.moveaxis(self._tables, -1, 0).tolist()
        return {"type": "FiniteClass", "tables": tables, "min_value": self.min_value, "max_value": self.max_value}

    def _arrange(self, tables: npt.NDArray[Any], actions: int | None) -> FloatArray:
        """The tables with the functions last, so that a row is one piece of memory."""
        if tables.ndim not in (3, 4) or not tables.size or actions not in (None, tables.shape[-1]):
            raise InputError(
                f"tables have the shape {tables.shape}, expected (functions, states, actions) or (functions, stages, "
                "states, actions), and `actions` follows from it."
            )
        staged = tables if tables.ndim == 4 else tables[:, None]
        arranged: FloatArray = np.ascontiguousarray(np.moveaxis(staged, 0, -1), np.float64)
        arranged.setflags(write=False)
        self._check(arranged.reshape(-1, self.size))
        return arranged

    def _look_up(self, tables: FloatArray, observation: Any, stage: int) -> FloatArray:
        stages, states = tables.shape[:2]
        state = _state_number(observation, stage)
        if not 0 <= state < states or (stages > 1 and not 0 <= stage < stages):
            raise InputError(
                f"state {state} at stage {stage} is not in the tables, which have {states} states"
                + (f" at each of {stages} stages." if stages > 1 else ".")
            )
        rows: FloatArray = tables[stage if stages > 1 else 0, state]
        return rows

    def _check(self, rows: FloatArray) -> None:
        within = (rows >= self.min_value - TOLERANCE) & (rows <= self.max_value + TOLERANCE)
        if not within.all():  # comparisons with NaN are false
            row, function = np.argwhere(~within)[0]
            raise InputError(
                f"function {function} has the value {rows[row, function]}, which is not from "
                f"min_value={self.min_value:g} to max_value={self.max_value:g}. The functions are candidates for the "
                "sum of rewards to come, divided by their span: scale them, or widen the range."
            )


class FinitePrefixes(OrderedData):
    """For every pair of functions the first prefix that tells them apart; for every prefix the set F_k in bits."""

    def __init__(self, size: int, epsilon: float, beta: Callable[[int], float]) -> None:
        super().__init__(size, epsilon, beta)
        self._data = np.zeros((0, size))
        self._best = np.zeros(1, np.int64)
        self._masks = np.zeros((1, (size + 63) // 64), np.uint64)
        _kernels.mark_within(np.zeros(size), 0.0, self._masks[0])
        self._losses = np.zeros(size)
        self._distances: dict[int, tuple[int, FloatArray]] = {}  # data added, sums; from functions that were best once
        # Pairs are looked at when dependence is first asked for: until F_k is narrow nobody does.
        self._seen = 0
        self._sums = np.zeros(0)
        self._first = np.zeros(0, np.int32)

    def append(self, row: FloatArray, target: float) -> None:
        values, q, radius = self.checked(row, target)
        k = self.length + 1
        self.make_room("_data", "_best", "_masks")
        self._data[k - 1] = values
        self._losses += (values - q) ** 2
        best = int(self._losses.argmin())  # the first, if several are
        added, sums = self._distances.get(best, (0, np.zeros_like(self._losses)))
        _kernels.add_distances(self._data[added:k], best, sums)
        self._distances[best] = k, sums
        self._best[k] = best
        _kernels.mark_within(sums, radius, self._masks[k])
        self.length = k

    def estimates(self, rows: FloatArray, k: int) -> FloatArray:
        return rows[:, self._best[self.prefix(k)]]

    def widths(self, rows: FloatArray, k: int) -> FloatArray:
        words = self._masks[self.prefix(k)]
        return np.array([_kernels.spread(row, words, np.inf) for row in rows])

    def members(self, k: int) -> BoolArray:
        """Which functions are in F_k."""
        words = self._masks[self.prefix(k)]
        return np.unpackbits(words.view(np.uint8), count=len(self._losses), bitorder="little").astype(bool)

    def dependent(self, rows: FloatArray, k: int) -> BoolArray:
        return self._first_dependent(rows) <= self.prefix(k)

    def first_cover(self, rows: FloatArray, allowed: BoolArray, after: int = 0) -> int | None:
        asked = np.ascontiguousarray(rows[allowed])
        most, end = self.epsilon * (1 + TOLERANCE), self.length + 1
        k = _kernels.first_narrow(asked, self._masks, after, end, most)
        if k < end:  # dependence takes longer to ask for, and never ends
            since = int(self._first_dependent(asked).max(initial=0))
            k = _kernels.first_narrow(asked, self._masks, max(k, since), end, most)
        return int(k) if k < end else None

    def _first_dependent(self, rows: FloatArray) -> npt.NDArray[np.int64]:
        """The first prefix on which each row is dependent."""
        if self._first.size == 0:
            pairs = len(self._losses) * (len(self._losses) - 1) // 2
            self._sums, self._first = np.zeros(pairs), np.full(pairs, _kernels.NEVER)
        if self._seen < self.length:
            columns = np.ascontiguousarray(self._data[self._seen : self.length].T)
            _kernels.note_exceeding(columns, self._seen, self.epsilon**2, self._sums, self._first)
        self._seen = self.length
        most = self.epsilon * (1 + TOLERANCE)
        return np.array([_kernels.first_dependent(row, most, self._first) for row in rows], np.int64)


def _state_number(observation: Any, stage: int) -> int:
    entries = np.asarray(observation).reshape(-1)
    if entries.size == 0 or entries.dtype.kind not in "iuf" or not float(entries[-1]).is_integer():
        raise InputError(f"the last entry of {observation!r} must be the number of a state: a whole number.")
    return int(entries[-1])

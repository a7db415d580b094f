"""Data in order, as all classes keep them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fpi._validation import check_positive
from fpi.errors import InputError
from fpi.function_classes.base import FloatArray


class OrderedData:
    """Checks what is appended and asked; subclasses store rows, and answer."""

    def __init__(self, columns: int, epsilon: float, beta: Callable[[int], float]) -> None:
        self.epsilon = check_positive("epsilon", epsilon)
        self.length = 0
        self._columns = columns
        self._beta = beta

    def __len__(self) -> int:
        return self.length

    def checked(self, row: Any, target: Any) -> tuple[FloatArray, float, float]:
        """The next datum as it is stored: row, target, and beta of the prefix that ends with it."""
        array = np.asarray(row, np.float64)
        if array.shape != (self._columns,):
            raise InputError(
                f"a datum has the shape {array.shape}, expected ({self._columns},): pass one row of `rows`."
            )
        if not np.isfinite(array).all() or not math.isfinite(target):
            raise InputError(
                f"a datum must be finite; its target is {target!r}. Look where the reward or the row comes from."
            )
        k = self.length + 1
        radius = self._beta(k)
        if not 0 < radius < math.inf:
            raise InputError(f"beta({k}) is {radius!r}; it must be finite and above 0.")
        return array, float(target), float(radius)

    def make_room(self, *names: str) -> None:
        """Let arrays of these names have a row for the next datum; a longer one is half as long again."""
        for name in names:
            array = getattr(self, name)
            if len(array) <= self.length + 1:
                longer = np.zeros(
                    (max(self.length + 2, len(array) + len(array) // 2 + 8), *array.shape[1:]), array.dtype
                )
                longer[: len(array)] = array
                setattr(self, name, longer)

    def prefix(self, k: Any) -> int:
        if not 0 <= k <= self.length:
            raise InputError(
                f"prefix {k} does not exist: there are {self.length} data, so k goes from 0 to {self.length}."
            )
        return int(k)

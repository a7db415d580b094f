"""What all classes check alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fpi.errors import InputError
from fpi.function_classes.base import FloatArray


def radius_at(beta: Callable[[int], float], k: int) -> float:
    """beta(k), which must be a number that makes a confidence set."""
    value = beta(k)
    if not 0 < value < math.inf:
        raise InputError(f"beta({k}) is {value!r}; it must be finite and above 0.")
    return float(value)


def datum(row: Any, target: Any, columns: int) -> tuple[FloatArray, float]:
    """A row and its target, as they are stored."""
    array = np.asarray(row, np.float64)
    if array.shape != (columns,):
        raise InputError(f"a datum has the shape {array.shape}, expected ({columns},): pass one row of `rows`.")
    if not np.isfinite(array).all() or not math.isfinite(target):
        raise InputError(
            f"a datum must be finite; its target is {target!r}. Look where the reward or the row comes from."
        )
    return array, float(target)


def prefix(k: Any, length: int) -> int:
    if not 0 <= k <= length:
        raise InputError(f"prefix {k} does not exist: there are {length} data, so k goes from 0 to {length}.")
    return int(k)


def room(array: Any, length: int) -> Any:
    """The array, or one half as long again with the same beginning, so that row number `length` exists."""
    if length < len(array):
        return array
    longer = np.zeros((max(length + 1, len(array) + len(array) // 2 + 8), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer

"""What FPI asks of a class of functions F, and the search that every class shares.

A class F holds functions of (state, action) into [min_value, max_value]; the theory wants Q^pi in F for every policy
pi, in spans of rewards (`fpi.envs.RewardRange`). The learner keeps data (row, target) in order and asks, at prefixes k
of them, for three things: the least-squares function, how far the functions that fit about as well lie apart, and
whether the first k data tell the functions of F apart at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fpi._validation import check_positive, is_real
from fpi.errors import InputError

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

TOLERANCE = 1e-9
"""Differences and widths that exceed epsilon by no more than this share of it count as equal to it."""


EXACT = dict.fromkeys(("estimates", "widths", "dependent", "log_covering"), "exact")
"""What classes say of their answers, see `FunctionClass.exact`."""


class Prefixes(Protocol):
    """Data in order, and what the class says after any number k of them.

    Answers at k depend on the data 1 .. k alone, and are the same bits however and whenever they are asked for.
    """

    @property
    def epsilon(self) -> float:
        """The width at which a state is covered."""

    def __len__(self) -> int: ...

    def append(self, row: FloatArray, target: float) -> None:
        """One more datum: a row of `FunctionClass.rows`, and the return observed from there."""

    def estimates(self, rows: FloatArray, k: int) -> FloatArray:
        """The least-squares function of the first k data, at each row; ties are always broken alike."""

    def widths(self, rows: FloatArray, k: int) -> FloatArray:
        """At each row, the width of F_k = {f in F: sum over i <= k of (f - estimate)^2 <= beta(k)}, or a bound on it.

        F_0 is the whole of F.
        """

    def dependent(self, rows: FloatArray, k: int) -> BoolArray:
        """Is each row epsilon-dependent on the first k data? True only if that is certain.

        It is if any two functions of F with sum over i <= k of (f - g)^2 <= epsilon^2 differ by at most epsilon there.
        """


@runtime_checkable
class FunctionClass(Protocol):
    """What a learner asks of a class of functions.

    Optional: `key(observation, stage)`, whose equal answers promise equal rows at a stage; `eluder_bound(epsilon)`, a
    bound on the eluder dimension, and `most_data(epsilon, beta)`, for `dataset_bound`; `to_config()`, a
    description that JSON can hold, or None; and `first_cover` of the prefixes, for speed.
    """

    @property
    def actions(self) -> int:
        """How many actions there are."""

    @property
    def min_value(self) -> float:
        """The smallest value of any function."""

    @property
    def max_value(self) -> float:
        """All functions have values from `min_value` to this, in spans of rewards."""

    @property
    def exact(self) -> Mapping[str, str]:
        """Which answers are "exact", and which are a safe "upper bound"."""

    def rows(self, observation: Any, stage: int) -> FloatArray:
        """What the class sees of each action: one row per action."""

    def log_covering(self, radius: float) -> float:
        """ln N(F, radius, sup norm), or a bound above it."""

    def prefixes(self, epsilon: float, beta: Callable[[int], float]) -> Prefixes:
        """An empty dataset. `beta(k)`, never falling, is the radius of F_k for k >= 1."""


def check_values(min_value: Any, max_value: Any) -> tuple[float, float]:
    """The lowest and the highest value of a class."""
    if not (is_real(min_value) and is_real(max_value) and min_value < max_value):
        raise InputError(
            f"min_value is {min_value!r} and max_value {max_value!r}; pass two finite numbers, the smaller first."
        )
    return float(min_value), float(max_value)


def first_cover(prefixes: Prefixes, rows: FloatArray, allowed: BoolArray, after: int = 0) -> int | None:
    """The first k from `after` to the newest at which all allowed rows are dependent and at most epsilon wide.

    Widths are not monotone in k, since beta grows and the estimate moves: every prefix is looked at.
    """
    own = getattr(prefixes, "first_cover", None)
    if own is not None:
        found: int | None = own(rows, allowed, after)
        return found
    asked = rows[allowed]
    most = prefixes.epsilon * (1 + TOLERANCE)
    for k in range(after, len(prefixes) + 1):
        if (prefixes.widths(asked, k) <= most).all() and prefixes.dependent(asked, k).all():
            return k
    return None


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

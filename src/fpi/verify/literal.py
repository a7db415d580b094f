"""Algorithms 1 and 2 at one state, from their definitions and from raw data: slow, and this file imports only numpy.

A dataset keeps the inverse of every covariance, each computed anew, or every sum over functions; levels are climbed one
by one. What rounding could turn is not decided: `TooNear`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
TIE = 1e-9  # what the library calls equal


class TooNear(Exception):
    """Rounding could decide."""


def above(numbers: Any, edge: Any, unit: Any) -> NDArray[np.bool_]:
    """numbers > edge, beyond ties; two programs that round differently agree on it."""
    beyond = (numbers - edge) / unit / TIE - 1
    if (abs(beyond) < 0.5).any():
        raise TooNear
    return np.asarray(beyond > 0)


class Data(ABC):
    """An ordered dataset of one stage and level."""

    def __init__(self) -> None:
        self.rows: list[Array] = []
        self.targets: list[float] = []

    def __len__(self) -> int:
        return len(self.targets)

    def append(self, row: Array, target: float) -> None:
        self.rows.append(row)
        self.targets.append(target)

    @abstractmethod
    def values(self, rows: Array, k: int) -> Array: ...

    @abstractmethod
    def widths(self, rows: Array, k: int) -> Array: ...

    @abstractmethod
    def uncovered(self, rows: Array, k: int, epsilon: float) -> NDArray[np.bool_]: ...

    @abstractmethod
    def first_cover(self, rows: Array, epsilon: float) -> int | None: ...


class Ridge(Data):
    """Sigma_k^-1, eq. (4), ln det(Sigma_k / ridge) and sum_{i <= k} phi_i q_i for every prefix k."""

    def __init__(self, dim: int, ridge: float) -> None:
        super().__init__()
        self.ridge = ridge
        self.sigmas = [ridge * np.eye(dim)]
        self.moments = [np.zeros(dim)]
        self._inverses: list[Array] = []
        self._log_dets: list[float] = []

    def append(self, row: Array, target: float) -> None:
        super().append(row, target)
        self.sigmas.append(self.sigmas[-1] + row[:, None] * row)
        self.moments.append(self.moments[-1] + row * target)

    @property
    def inverses(self) -> list[Array]:
        """Those of many new data in one call, when somebody asks."""
        if len(self._inverses) < len(self.sigmas):
            self._inverses.extend(np.linalg.inv(self.sigmas[len(self._inverses) :]))
        return self._inverses

    @property
    def log_dets(self) -> list[float]:
        if len(self._log_dets) < len(self.sigmas):
            new = np.array(self.sigmas[len(self._log_dets) :]) / self.ridge
            self._log_dets.extend(np.linalg.slogdet(new)[1].tolist())
        return self._log_dets

    def widths_when_stored(self, first: int) -> Array:
        """Of all data from number `first` on, each on the data before it."""
        rows, inverses = np.array(self.rows[first:]), np.array(self.inverses[first:-1])
        widths: Array = np.sqrt(np.einsum("id,ide,ie->i", rows, inverses, rows))
        return widths

    def widths(self, rows: Array, k: int) -> Array:
        widths: Array = np.sqrt(((rows @ self.inverses[k]) * rows).sum(axis=1))
        return widths

    def values(self, rows: Array, k: int) -> Array:
        return rows @ (self.inverses[k] @ self.moments[k])

    def uncovered(self, rows: Array, k: int, epsilon: float) -> NDArray[np.bool_]:
        """Eq. (1)."""
        return above(self.widths(rows, k), epsilon, epsilon)

    def first_cover(self, rows: Array, epsilon: float) -> int | None:
        """Eq. (2). Widths fall with k, so halving finds the k that covers while k - 1 does not."""

        def covers(k: int) -> bool:
            """The widest action decides."""
            return not above(self.widths(rows, k).max(), epsilon, epsilon)

        return bisect_left(range(len(self)), True, key=covers) if covers(len(self)) else None


class Tables(Data):
    """A finite class of functions; a row has the values of all of them at a state and action."""

    def __init__(self, size: int, beta: Callable[[int], float]) -> None:
        super().__init__()
        self.beta = beta
        self.losses = [np.zeros(size)]
        self.apart = [np.zeros((size, size))]  # sum of (f - g)^2 over the data
        self._inside: dict[int, NDArray[np.bool_]] = {}
        self._alike: dict[tuple[int, float], NDArray[np.bool_]] = {}
        self._tried: dict[bytes, int] = {}  # so many prefixes do not cover these rows

    def append(self, row: Array, target: float) -> None:
        super().append(row, target)
        self.losses.append(self.losses[-1] + (row - target) ** 2)
        self.apart.append(self.apart[-1] + (row[:, None] - row) ** 2)

    def best(self, k: int) -> int:
        losses = self.losses[k]
        rivals = np.flatnonzero(losses <= losses.min() + TIE)
        if self.apart[k][rivals[0], rivals].max() > TIE:
            raise TooNear
        return int(rivals[0])

    def values(self, rows: Array, k: int) -> Array:
        return rows[:, self.best(k)]

    def widths(self, rows: Array, k: int) -> Array:
        inside = rows[:, self.members(k)]
        spread: Array = inside.max(axis=1) - inside.min(axis=1)
        return spread

    def members(self, k: int) -> NDArray[np.bool_]:
        """F_k."""
        if k not in self._inside:
            near = self.apart[k][self.best(k)] if k else np.zeros(len(self.losses[0]))
            self._inside[k] = ~above(near, self.beta(k), self.beta(k))
        return self._inside[k]

    def alike(self, k: int, epsilon: float) -> NDArray[np.bool_]:
        """Pairs of functions that the data do not tell apart."""
        if (k, epsilon) not in self._alike:
            self._alike[k, epsilon] = ~above(self.apart[k], epsilon**2, epsilon**2)
        return self._alike[k, epsilon]

    def uncovered(self, rows: Array, k: int, epsilon: float) -> NDArray[np.bool_]:
        wide = above(self.widths(rows, k), epsilon, epsilon)
        if wide.all():
            return wide
        alike = self.alike(k, epsilon)
        independent = [above(abs(row[:, None] - row)[alike], epsilon, epsilon).any() for row in rows]
        return wide | np.array(independent)

    def first_cover(self, rows: Array, epsilon: float) -> int | None:
        """Widths may rise: every prefix is looked at, once."""
        name = rows.tobytes()
        for k in range(self._tried.get(name, 0), len(self) + 1):
            if not self.uncovered(rows, k, epsilon).any():
                return k
            self._tried[name] = k + 1
        return None


class Rung(NamedTuple):
    """One level at one state."""

    level: int
    allowed: NDArray[np.bool_]
    k: int | None
    uncovered: NDArray[np.bool_]
    values: Array
    widths: Array
    action: int | None
    survives: NDArray[np.bool_] | None


Margins = Callable[[int, int, int], tuple[float, float, float]]
"""Of a stage, level and prefix: estimates err by factor * width + bias, and a slack for what comes later."""


def climb(
    rows: Array,
    stage: int,
    known: Sequence[Rung],
    levels: Iterable[tuple[int, Data]],
    accuracies: Sequence[float],
    margins: Margins | None,
) -> list[Rung]:
    """Eqs. (6) to (8) from known rungs on, up to a level that does not cover; Algorithm 1 has one, and no margins."""
    rungs = list(known)
    for level, data in levels:
        epsilon = accuracies[level - 1]
        allowed = np.ones(len(rows), np.bool_) if not rungs else rungs[-1].survives
        assert allowed is not None
        inside = rows[allowed]
        k = data.first_cover(inside, epsilon)
        at = len(data) if k is None else k
        q, width = data.values(inside, at), data.widths(inside, at)
        values, widths = np.full((2, len(rows)), np.nan)
        values[allowed], widths[allowed] = q, width
        uncovered = np.zeros(len(rows), np.bool_)
        if k is None:
            uncovered[allowed] = data.uncovered(inside, at, epsilon)
            rungs.append(Rung(level, allowed, None, uncovered, values, widths, None, None))
            break
        top = q.max()
        first = above(top - q, 0.0, 1 + abs(top)).argmin()  # of the tied ones
        survives = allowed
        if margins is not None:
            factor, bias, slack = margins(stage, level, k)
            errors = factor * width + bias
            bar = (q - errors).max() - slack
            survives = allowed.copy()
            survives[allowed] = ~above(bar - q - errors, 0.0, 1 + abs(bar))
        rungs.append(Rung(level, allowed, k, uncovered, values, widths, int(allowed.nonzero()[0][first]), survives))
    return rungs


def hindsight(
    paths: Sequence[Sequence[tuple[Any, int]]], left: list[int], look: Callable[[Any], Rung]
) -> Iterator[tuple[int, int]]:
    """Paths and steps that Algorithm 1 with hindsight stores, each to be stored before the next is asked for.

    `left` has the step that each path of states and actions has come back to, -1 for none. The deepest step comes
    first, then the oldest path. Where a state is covered, its path goes back to the step before if it took the frozen
    action, else it is dropped. Where the action is uncovered, the step is stored. Where others are, the path waits.
    """
    changed = True
    while changed:
        changed = False
        for path in sorted((i for i, step in enumerate(left) if step >= 0), key=lambda i: (-left[i], i)):
            step = left[path]
            state, action = paths[path][step]
            rung = look(state)
            if rung.k is not None:
                left[path] = step - 1 if rung.action == action else -1
            elif rung.uncovered[action]:
                yield path, step
            else:
                continue
            changed = True
            break

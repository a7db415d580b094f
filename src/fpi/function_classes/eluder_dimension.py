"""The eluder dimension: how long can data keep surprising someone who knows the class?

The epsilon-eluder dimension of F is the length of the longest sequence of points in which, for some one epsilon' >=
epsilon, every point is epsilon'-independent of those before it: two functions of F exist that lie at most epsilon'
apart on those (root of the sum of squares) and more than epsilon' apart at it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fpi._validation import check_positive
from fpi.errors import InputError
from fpi.function_classes.base import FloatArray

EQUAL = 1e-12


@dataclass(frozen=True)
class EluderSequence:
    """A sequence of points, each independent of those before it."""

    points: tuple[int, ...]
    """Columns of the values, or numbers of the rows, that were given."""
    below: float
    """The sequence is independent for all epsilon' a little below this."""
    exact: bool
    """Whether there is no longer one; else its length is a lower bound of the dimension."""

    def __len__(self) -> int:
        return len(self.points)


def eluder_dimension(values: npt.ArrayLike, epsilon: float, *, effort: int = 1_000_000) -> EluderSequence:
    """A longest sequence for a finite class; `values` has a row per function and a column per point.

    `len` of the answer is the dimension. The search stops, and says so, after looking at `effort` sets of points.

    As epsilon' rises within a gap between two of the numbers |f - g|(x), no comparison with one of them changes, while
    sums of squares only come to satisfy theirs. So it is enough to try the upper end v of each gap: sums below v^2,
    differences of at least v.
    """
    array = np.asarray(values, np.float64)
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise InputError(f"values have the shape {array.shape}, expected (functions, points) of finite numbers.")
    check_positive("epsilon", epsilon)
    first, second = np.triu_indices(len(array), 1)
    squares = (array[first] - array[second]) ** 2
    ends = np.unique(np.sqrt(squares))[::-1]
    search = _Search(effort)
    for end in ends[ends > epsilon]:
        search.begin(squares, float(end))
    return EluderSequence(search.best, search.below, exact=search.effort > 0)


class _Search:
    """Depth first over sets of points. What is independent of a set is so of its subsets: candidates only shrink."""

    def __init__(self, effort: int) -> None:
        self.effort = effort
        self.best: tuple[int, ...] = ()
        self.below = np.inf

    def begin(self, squares: FloatArray, end: float) -> None:
        self.end = end
        self.apart = squares >= end**2 * (1 - EQUAL)
        self.squares = squares
        self.known: set[frozenset[int]] = set()
        self.extend((), np.zeros(len(squares)))

    def extend(self, chosen: tuple[int, ...], sums: FloatArray) -> None:
        self.effort -= 1
        if len(chosen) > len(self.best):
            self.best, self.below = chosen, self.end
        close = sums < self.end**2 * (1 - EQUAL)  # pairs that the chosen points do not tell apart
        candidates = np.flatnonzero(self.apart[close].any(axis=0))
        # every further point uses up a candidate and a close pair
        for point in candidates:
            if self.effort <= 0 or len(chosen) + min(len(candidates), int(close.sum())) <= len(self.best):
                return
            longer = frozenset((*chosen, int(point)))
            if longer not in self.known:
                self.known.add(longer)
                self.extend((*chosen, int(point)), sums + self.squares[:, point])

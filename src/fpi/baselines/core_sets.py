"""Core sets of local planners: pairs of a stage whose features cover what has been met so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fpi.baselines.access import FloatArray, View


@dataclass
class Pair:
    """A state that can be restored and an action, with the mean return from there once it is measured."""

    view: View
    action: int
    value: float | None = None

    @property
    def row(self) -> FloatArray:
        row: FloatArray = self.view.features[self.action]
        return row


class CoreSet:
    """Pairs of one stage, and V = ridge I + sum phi phi' over them. phi is covered if |phi| in V^{-1} is at most 1."""

    def __init__(self, dim: int, ridge: float) -> None:
        self.pairs: list[Pair] = []
        self.inverse = np.eye(dim) / ridge

    def covers(self, view: View) -> bool:
        return bool(widths(view.features, self.inverse).max() <= 1)

    def discover(self, view: View) -> None:
        """Add the actions of a state that are not covered, one after the other."""
        for action, row in enumerate(view.features):
            u = self.inverse @ row
            if row @ u > 1:
                self.pairs.append(Pair(view, action))
                self.inverse -= np.outer(u, u) / (1 + row @ u)

    @property
    def unmeasured(self) -> Pair | None:
        return next((pair for pair in self.pairs if pair.value is None), None)

    def theta(self) -> FloatArray:
        """The ridge regression of what was measured."""
        total = sum(
            (pair.value * pair.row for pair in self.pairs if pair.value is not None), np.zeros(len(self.inverse))
        )
        return self.inverse @ total

    @property
    def numbers(self) -> int:
        return self.inverse.size + sum(pair.view.features.size + 2 for pair in self.pairs)


def covered(cores: Sequence[CoreSet]) -> Callable[[View], bool]:
    """Whether the core set of its stage covers a state."""
    return lambda view: cores[view.stage].covers(view)


def widths(rows: FloatArray, inverse: FloatArray) -> FloatArray:
    """|phi|^2 in V^{-1}, of every row; of a stack of inverses one line of them each."""
    squares: FloatArray = ((rows @ inverse) * rows).sum(axis=-1)
    return squares

"""Per-episode results: `History` of learning, `Evaluation` of a learned policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fpi.errors import InputError, importing
from fpi.statistics import Interval, bootstrap_interval, last_tenth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

ATTRIBUTES = {
    "return": "returns",
    "length": "lengths",
    "stored_stage": "stored_stage",
    "covered_steps": "covered_steps",
}
"""What has another name in data frames and result files, where a row is one episode."""


class _Episodes:
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    covered_steps: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.returns)

    def __repr__(self) -> str:
        covered = [] if math.isnan(self.covered_share) else [f"{self.covered_share:.1%} of decisions covered"]
        known = [f"{len(self):,} episodes", *(self._earned() if len(self) else []), *covered]
        return f"<{type(self).__name__}: {', '.join(known)}>"

    def _earned(self) -> list[str]:
        raise NotImplementedError

    @property
    def covered_share(self) -> float:
        """The share of all decisions that were taken at covered states; NaN if unknown."""
        steps = self.lengths.sum()
        return math.nan if self.covered_steps is None or not steps else float(self.covered_steps.sum() / steps)

    def to_frame(self) -> DataFrame:
        """A pandas DataFrame with one row per episode, counted from 0, and the columns that are known."""
        columns = {name: getattr(self, attribute, None) for name, attribute in ATTRIBUTES.items()}
        return data_frame({name: column for name, column in columns.items() if column is not None})


@dataclass(frozen=True, repr=False)
class History(_Episodes):
    """Episodes that were learned from, one number each."""

    returns: NDArray[np.float64]
    """Sums of raw rewards."""
    lengths: NDArray[np.int64]
    stored_stage: NDArray[np.int64]
    """Stage of the datum that was stored, or -1."""
    covered_steps: NDArray[np.int64] | None = None
    """Decisions at covered states; None where the agent does not count them."""
    data_stored: NDArray[np.int64] | None = None
    """How many data an episode stored, for agents that may store several; None where it is one or nothing."""

    def _earned(self) -> list[str]:
        return [f"mean return {self.returns.mean():.1f}", f"{last_tenth(self.returns).mean():.1f} in the last 10%"]

    def plot(self, ax: Axes | None = None, window: int | None = None) -> Axes:
        """Draw the return, averaged over the last `window` episodes, by default a fiftieth of them all."""
        window = max(1, len(self) // 50) if window is None else window
        if not 1 <= window <= max(1, len(self)):
            raise InputError(f"window is {window}; pass a number from 1 to the {len(self):,} episodes there are.")
        axes = _axes(ax)
        totals = np.concatenate([[0.0], np.cumsum(self.returns)])
        axes.plot(np.arange(window, len(self) + 1), (totals[window:] - totals[:-window]) / window)
        axes.set(xlabel="episode", ylabel=f"return, mean of {window:,} episodes" if window > 1 else "return")
        return axes


@dataclass(frozen=True, repr=False)
class Evaluation(_Episodes):
    """Episodes that a learned policy played, one number each."""

    returns: NDArray[np.float64]
    """Sums of raw rewards."""
    lengths: NDArray[np.int64]
    covered_steps: NDArray[np.int64] | None = None
    """Decisions at covered states; None where the agent does not tell."""

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(self.returns.mean())

    @property
    def interval(self) -> Interval:
        """The mean return with its 95% bootstrap interval."""
        if len(self) < 2:
            raise InputError(f"{len(self)} episodes have no interval: evaluate 2 or more.")
        return bootstrap_interval(self.returns)

    def _earned(self) -> list[str]:
        return [f"mean return {self.interval}" if len(self) > 1 else f"return {self.mean:.1f}"]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how the returns are distributed, and their mean."""
        axes = _axes(ax)
        axes.hist(self.returns, bins="auto")
        if len(self):
            axes.axvline(self.mean, color="black", linestyle="--", label=f"mean {self.mean:.1f}")
            axes.legend()
        axes.set(xlabel="return", ylabel="episodes")
        return axes


def data_frame(columns: Mapping[str, NDArray[Any]]) -> DataFrame:
    with importing("pandas", "to_frame needs pandas"):
        import pandas
    return pandas.DataFrame(dict(columns))


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots()[1]

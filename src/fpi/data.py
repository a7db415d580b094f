"""What data are, and what algorithms ask of an estimator: ridge regression on features, or a class of functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fpi.errors import InputError

Act = Callable[[Any, int], tuple[int, bool]]
"""How to act in an episode: (observation, stage) -> (action, whether it explores)."""


class Coverage(NamedTuple):
    """What the data of a stage and level say about the allowed actions of one state."""

    covered_at: int | None
    """The first prefix that covers all of them, or None."""
    values: NDArray[np.float64]
    widths: NDArray[np.float64]
    """Both at that prefix, or on all data; NaN for actions that are not allowed."""
    uncovered: NDArray[np.bool_]


class ExploringStep(NamedTuple):
    """The features of the step that an episode may store."""

    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    observation: Any  # None where the features can be saved without it
    level: int = 1


@dataclass(frozen=True)
class Dataset:
    """The data of one stage, in order."""

    features: NDArray[np.float64]
    """phi(s, a), one row per datum, all blocks side by side."""
    actions: NDArray[np.int64]
    targets: NDArray[np.float64]
    """The observed returns."""
    episodes: NDArray[np.int64]
    """The episode each came from, counted from 0."""

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def misfit(self) -> float:
        """What the best linear fit of the targets leaves over, its root mean square: 0 if the features fit.

        Random rewards leave their noise over, too: up to half their range times the root of the stages left.
        """
        if not len(self):
            return 0.0
        features = self.features[:, np.any(self.features != 0, axis=0)]
        theta = np.linalg.lstsq(features, self.targets, rcond=1e-9)[0]
        return float(np.sqrt(np.mean((features @ theta - self.targets) ** 2)))

    def times(self, span: float) -> Dataset:
        """The same with targets in units of rewards, of which estimators see the returns divided by their span.

        `span`: from the smaller of 0 and the lowest reward to the larger of 0 and the highest.
        """
        return replace(self, targets=span * self.targets)


class Trajectory(NamedTuple):
    """One whole episode."""

    observations: NDArray[Any]
    """One more than there are actions: the last is where it ended."""
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    terminated: bool
    """It ended in a final state, not for lack of time."""


class Estimator(Protocol):
    """The data of all stages and levels, and what they say of a state. A further kind needs no change in algorithms.

    `rows` is what an estimator sees of a state, in a form of its own; `key` tells states apart, None if it cannot.
    """

    features: Any
    """The feature map, or the class of functions."""

    def rows(self, observation: Any, stage: int) -> Any: ...

    def key(self, observation: Any, stage: int) -> Hashable | None: ...

    def look(
        self, rows: Any, stage: int, level: int, allowed: NDArray[np.bool_], key: Hashable | None = None
    ) -> Coverage:
        """What a level says of the allowed actions. By its `key` a state that comes back is recognised."""

    def keep(self, rows: Any, observation: Any, action: int, level: int) -> None:
        """Remember an exploring step, for as long as there is no other."""

    @property
    def kept(self) -> ExploringStep:
        """The last exploring step."""

    def append(self, kept: ExploringStep, stage: int, action: int, target: float, episode: int) -> None:
        """Add one datum."""

    @property
    def last_episode(self) -> int:
        """The episode of the newest datum, or -1."""

    def __len__(self) -> int: ...

    def size(self, stage: int, level: int) -> int: ...

    def sizes(self) -> NDArray[np.int64]:
        """Data per level (rows) and stage."""

    def dataset(self, stage: int, level: int) -> Dataset: ...

    @property
    def config(self) -> Any:
        """`features` as JSON can hold them, or None if a file cannot; then they are recognised by `describe`."""

    def describe(self, observation: Any, stage: int) -> NDArray[np.float64]: ...

    def to_tensors(self) -> dict[str, NDArray[Any]]: ...

    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        """Append what `to_tensors` gave, after checking every number of it; raises InputError."""


def check_log(
    tensors: dict[str, NDArray[Any]], stages: int, levels: int, actions: int, columns: int, several: bool = False
) -> int:
    """How many data a file holds, after checking what all kinds of data have in common; raises InputError.

    An episode stores one datum at most, unless `several`.
    """
    n = len(tensors["target"]) if "target" in tensors else 0
    ends = {"stage": (0, stages), "level": (1, levels + 1), "action": (0, actions), "episode": (0, 2**62)}
    for name, bounds in ends.items():
        check_column(tensors, name, np.int64, (n,), bounds)
    check_column(tensors, "target", np.float64, (n,))
    check_column(tensors, "values", np.float64, (n, columns))
    if np.any(np.diff(tensors["episode"]) < (0 if several else 1)):
        raise InputError("its episodes are out of order")
    if not (np.all(np.isfinite(tensors["target"])) and np.all(np.isfinite(tensors["values"]))):
        raise InputError("it holds numbers that are not finite")
    return n


def check_column(
    tensors: dict[str, NDArray[Any]],
    name: str,
    dtype: type,
    shape: tuple[int, ...],
    bounds: tuple[int, int] | None = None,
) -> None:
    found = tensors.get(name)
    if found is None or found.dtype != dtype or found.shape != shape:
        raise InputError(f"its {name} are missing or do not have the shape {shape}")
    if bounds is not None and np.any((found < bounds[0]) | (found >= bounds[1])):
        raise InputError(f"its {name} leave the range {bounds[0]} to {bounds[1] - 1}")

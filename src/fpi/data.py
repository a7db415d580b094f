"""What data are, and what algorithms ask of an estimator: ridge regression on features, or a class of functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

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


class Estimator(ABC):
    """The data of all stages and levels, and what they say of a state. A further kind needs no change in algorithms.

    `rows` is what an estimator sees of a state, in a form of its own.
    """

    features: Any
    """The feature map, or the class of functions."""
    methods: Any
    """What these can do beyond what they must: `fpi.features.OptionalMethods`."""

    @abstractmethod
    def rows(self, observation: Any, stage: int) -> Any: ...

    def key(self, observation: Any, stage: int) -> Hashable | None:
        """What tells the state from others at its stage, if `features` say; None if it need not come back."""
        return None if self.methods.key is None else self.methods.key(observation, stage)

    @abstractmethod
    def look(
        self, rows: Any, stage: int, level: int, allowed: NDArray[np.bool_], key: Hashable | None = None
    ) -> Coverage:
        """What a level says of the allowed actions. By its `key` a state that comes back is recognised."""

    @abstractmethod
    def keep(self, rows: Any, observation: Any, action: int, level: int) -> None:
        """Remember an exploring step for `append`, for as long as there is no other."""

    @property
    @abstractmethod
    def kept(self) -> ExploringStep:
        """The last exploring step that was decided."""

    @abstractmethod
    def append(self, kept: ExploringStep, stage: int, action: int, target: float, episode: int) -> None:
        """Add one datum to a stage and the level of the step."""

    @property
    @abstractmethod
    def last_episode(self) -> int:
        """The episode of the newest datum, or -1."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def size(self, stage: int, level: int) -> int: ...

    @abstractmethod
    def sizes(self) -> NDArray[np.int64]:
        """Data per level (rows) and stage."""

    @abstractmethod
    def dataset(self, stage: int, level: int) -> Dataset: ...

    @cached_property  # tables take long to write out: once is enough
    def config(self) -> Any:
        """`features` as JSON can hold them, or None if a file cannot; then they are recognised by `describe`."""
        return None if self.methods.to_config is None else self.methods.to_config()

    @abstractmethod
    def describe(self, observation: Any, stage: int) -> NDArray[np.float64]:
        """What is known of a state's actions before any data."""

    @abstractmethod
    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """All data in order of arrival."""

    @abstractmethod
    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        """Append what `to_tensors` gave, after checking every number of it; raises InputError."""

    def _append_all(self, tensors: dict[str, NDArray[Any]], indices: NDArray[np.int32]) -> None:
        columns = (tensors[name].tolist() for name in ("stage", "level", "action", "target", "episode"))
        for i, (stage, level, action, target, episode) in enumerate(zip(*columns, strict=True)):
            self.append(ExploringStep(indices[i], tensors["values"][i], None, level), stage, action, target, episode)


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

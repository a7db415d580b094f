"""What a method is: the protocol that the harness runs, and what its theorem needs.

    class Mine(Method):
        access = Online                    # what it may do; it is given exactly that
        needs = frozenset({"linear"})      # what its theorem asks of a testbed
        constants = "theory"               # or "scaled", or "none" where there is no theorem

        def run(self, access: Online) -> Iterator[Policy]:
            ...                            # yield a policy whenever it changes

Every line that costs something goes through `access`, which ends the run when the budget is spent. A policy is a
function from a View to an action. `fpi.check_method` looks whether a method of your own keeps to this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fpi.baselines.access import FloatArray, Online, View
from fpi.errors import InputError
from fpi.kernels.choose import best

Policy = Callable[[View], int]

FACTS = {
    "linear": "linear Q^π for every policy",
    "complete": "Bellman completeness",
    "deterministic": "deterministic transitions",
    "noiseless": "rewards without noise",
    "fixed start": "a fixed start state",
    "gap": "a gap between the best action and the others",
    "one stage": "one stage",
}
"""What may hold of a testbed, in words."""


class Inapplicable(InputError):
    """A method that cannot even be run on this testbed."""


@dataclass(frozen=True)
class Mixture:
    """One of these policies, drawn anew for every episode.

    `parts`: the policies, all of the same weight.
    """

    parts: tuple[Policy, ...]


class Method(ABC):
    """A method from the literature, or your own."""

    access: ClassVar[type[Any]] = Online
    needs: ClassVar[frozenset[str]] = frozenset()
    """The facts that its theorem assumes, of those in `FACTS`."""
    requires: ClassVar[frozenset[str]] = frozenset()
    """Those of them without which it cannot be run."""
    constants: str = "none"
    """ "theory" where those of the theorem are used, "scaled" where smaller ones are, "none" without a theorem."""
    numbers: int = 0
    """How many numbers it holds now."""

    @abstractmethod
    def run(self, access: Any) -> Iterator[Policy | Mixture]:
        """Play and plan; yield a policy whenever it changes."""

    def verdict(self, holds: frozenset[str]) -> str:
        """Whether its theorem covers a testbed on which these facts hold: "yes", or why not."""
        missing = [FACTS[fact] for fact in FACTS if fact in self.needs - holds]
        if self.constants == "none":
            return "no theorem"
        if missing:
            return "needs " + ", ".join(missing)
        return "yes" if self.constants == "theory" else "scaled constants"

    def check(self, holds: frozenset[str]) -> None:
        """An `Inapplicable` where it cannot be run."""
        missing = [FACTS[fact] for fact in FACTS if fact in self.requires - holds]
        if missing:
            raise Inapplicable(
                f"{type(self).__name__} needs {', '.join(missing)}, which this testbed does not have. Choose another."
            )


def greedy(values: FloatArray) -> int:
    """The best action; of equally good ones the first."""
    return int(best(values, np.ones(values.size, np.bool_)))


@dataclass
class Rows:
    """A growing array."""

    shape: tuple[int, ...] = ()
    size: int = 0
    _room: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._room = np.empty((16, *self.shape))

    def append(self, row: Any) -> None:
        if self.size == len(self._room):
            self._room = np.concatenate([self._room, np.empty_like(self._room)])
        self._room[self.size] = row
        self.size += 1

    @property
    def all(self) -> FloatArray:
        return self._room[: self.size]


class Transitions:
    """The data of one stage: features of what was played, rewards, and what was seen then."""

    def __init__(self, access: Online, ridge: float = 0.0) -> None:
        self.x, self.reward = Rows((access.dim,)), Rows()
        self.after, self.after_stage = Rows((access.actions, access.dim)), Rows()
        """Of episodes that ended 0 and -1."""
        self.gram = ridge * np.eye(access.dim)

    def add(self, x: FloatArray, reward: float, after: View | None) -> None:
        self.x.append(x)
        self.reward.append(reward)
        self.after.append(0.0 if after is None else after.features)
        self.after_stage.append(-1 if after is None else after.stage)
        self.gram += np.outer(x, x)

    @property
    def numbers(self) -> int:
        """How many it holds."""
        return self.x.all.size + self.reward.size + self.after.all.size + self.gram.size

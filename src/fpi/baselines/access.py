"""What a method may do with a world, as types, and what it pays for it.

    Online       reset() -> View, step(action) -> (reward, View or None)
    Local        Online, and restore(view): back to a state that this run has seen
    Generative   Local, and states(stage), jump(view): any state, seen or not
    Oracle       Online, and range(view): how much the action matters there, which nobody can know; marked as cheating

A View has a stage and the features of all actions, and nothing else: which state it shows is known to the access object
alone. Online has no method that takes a View. A method declares its `access` and is given exactly that type, so a type
checker refuses more before anything runs, and Python does when it runs.

One bill: executed transitions, draws of a start, restores, jumps, seconds and numbers stored. Leaving an episode before
its end by `reset` costs the rest of it, up to the horizon. Looking at features is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fpi._validation import is_whole
from fpi.errors import FpiError, InputError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class View:
    """What a method sees of a state."""

    stage: int
    features: FloatArray
    """One row per action."""


@dataclass
class Bill:
    """What a run has paid so far.

    `restores` and `jumps` count how often a state was set, seen before or not.
    """

    steps: int = 0
    episodes: int = 0
    restores: int = 0
    jumps: int = 0
    seconds: float = 0.0
    """Of a processor, for the method alone: judging its policies is not its business."""
    numbers: int = 0
    """The most it has stored at a time."""


class BudgetSpent(FpiError, RuntimeError):
    """The method asked for more steps or episodes than it has; whoever runs it catches this."""


class ForeignView(InputError):
    """A view that this access object has not shown."""


class World(Protocol):
    """What stands behind an access object. States are tuples that begin with their stage; methods never see them."""

    actions: int
    horizon: int
    dim: int

    def start(self, episode: int) -> Any:
        """The state in which the episode of this number begins."""

    def features(self, state: Any) -> FloatArray: ...

    def step(self, state: Any, action: int) -> tuple[float, Any]:
        """Reward and next state, None at the end."""


class Online:
    """Episodes from start to end, as in life."""

    def __init__(self, world: Any, *, steps: int | None = None, episodes: int | None = None) -> None:
        self.actions, self.horizon, self.dim = int(world.actions), int(world.horizon), int(world.dim)
        self.bill = Bill()
        self._world = world
        self._budget = steps, episodes
        self._state: Any = None
        self._stage = 0

    def reset(self) -> View:
        """Begin an episode."""
        if self._state is not None:
            self.bill.steps += self.horizon - self._stage  # an abandoned episode is paid to its end
        if self._budget[1] is not None and self.bill.episodes >= self._budget[1]:
            raise BudgetSpent(f"the budget of {self._budget[1]:,} episodes is spent.")
        self._state, self._stage = self._world.start(self.bill.episodes), 0
        self.bill.episodes += 1
        return self._show(self._state)

    def step(self, action: int) -> tuple[float, View | None]:
        """Reward, and what is seen then; None at the end of the episode."""
        if self._state is None:
            raise InputError("no episode is running: call reset() first.")
        if not (is_whole(action) and 0 <= action < self.actions):
            raise InputError(f"action {action!r} is not one of 0 to {self.actions - 1}.")
        if self._budget[0] is not None and self.bill.steps >= self._budget[0]:
            raise BudgetSpent(f"the budget of {self._budget[0]:,} steps is spent.")
        self.bill.steps += 1
        reward, self._state = self._world.step(self._state, int(action))
        self._stage += 1
        return reward, None if self._state is None else self._show(self._state)

    def _show(self, state: Any) -> View:
        return View(state[0], self._world.features(state))


class _Remembering(Online):
    """Knows which state each of its views shows, for as long as somebody holds the view."""

    def __init__(self, world: Any, *, steps: int | None = None, episodes: int | None = None) -> None:
        super().__init__(world, steps=steps, episodes=episodes)
        self._shown: WeakKeyDictionary[View, Any] = WeakKeyDictionary()

    def _show(self, state: Any) -> View:
        view = super()._show(state)
        self._shown[view] = state
        return view

    def _state_of(self, view: View) -> Any:
        state = self._shown.get(view)
        if state is None:
            raise ForeignView(
                "this view was not shown by this access object: it belongs to another run, or was made by hand. Use "
                "the views that reset, step and states return."
            )
        return state


class Local(_Remembering):
    """Online, and back to any state that this run has seen."""

    def restore(self, view: View) -> None:
        """Go on from there. What was left open is not charged: a restored simulator leaves nothing behind."""
        self._state, self._stage = self._state_of(view), view.stage
        self.bill.restores += 1


class Generative(Local):
    """Local, and any state at all: the whole finite state set, and sampled contexts where there are infinitely many."""

    def states(self, stage: int) -> list[View]:
        """States of this stage; seeing them is free."""
        return [self._show(state) for state in self._world.states(stage)]

    def jump(self, view: View) -> None:
        """Go on from there, whether or not play has ever come there."""
        self._state, self._stage = self._state_of(view), view.stage
        self.bill.jumps += 1


class Oracle(_Remembering):
    """Online, and told what a method would have to learn. Whatever uses it cheats."""

    def range(self, view: View) -> float:
        """The largest difference that the action makes here to any policy's value."""
        return float(self._world.range(self._state_of(view)))

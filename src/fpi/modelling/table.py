"""The model of an environment with numbered states: a table, which is exact, and exact planning in it (R-MAX).

Backwards over all stages, the value of a state is the best over its actions of the reward and the value after it. An
action that was never taken there is worth (1 - pessimism) of the way from the smallest to the largest reward at every
step that is left. With pessimism 0 every episode either takes an untried action or is optimal, if transitions and
rewards are deterministic: there are at most states x actions episodes of the first kind.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fpi.kernels.nets import END, UNTRIED
from fpi.modelling.calls import best, sweep_table
from fpi.modelling.experience import Experience

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TablePlan:
    """Where each action led, and the best actions of all stages by that."""

    after: Ints
    """(S, A): the next state, -1 where the action was never taken, -2 where it ended the episode."""
    rewards: Floats
    """(S, A): means of what was seen."""
    values: Floats
    """(H, S, A)."""
    contradictions: int
    """Transitions that led elsewhere than a later one: if there are any, they are not deterministic."""
    unknown: float
    """What an action that was never taken is taken to pay at every step from there on."""
    highest: float
    """The largest reward assumed."""
    starts: Ints
    """Where episodes began."""
    interval = 1

    def best(self, state: int, stage: int, taken: Collection[int] = ()) -> int:
        """The best action. One never tried before this episode is not `taken` twice in it while others are left.

        If it changed nothing, it would else be repeated to the end of the episode.
        """
        values, allowed = self.values[stage, state], np.ones(self.after.shape[1], np.bool_)
        for action in taken:
            allowed[action] = self.after[state, action] != UNTRIED
        return int(best(values, allowed if allowed.any() else ~allowed))

    def known(self, state: int) -> bool:
        """Whether all actions were tried."""
        return bool((self.after[state] != UNTRIED).all())

    def certain(self, state: int, stage: int) -> bool:
        """Whether the best actions from here on lead through nothing but tried ones: the value is then exact."""
        while stage < len(self.values):
            action = self.best(state, stage)
            if self.after[state, action] == UNTRIED:
                return False
            if self.after[state, action] == END:
                return True
            state, stage = int(self.after[state, action]), stage + 1
        return True

    def promise(self, state: int, stage: int) -> tuple[bool, str]:
        """Whether the values here are exact, and what is certain of them, in words."""
        if self.contradictions:
            return False, f"{self.contradictions} transitions contradicted earlier ones: they are not deterministic"
        if not self.certain(state, stage):
            return False, "optimistic: the best actions lead to some that were never tried"
        if self.unknown < self.highest and (self.after == UNTRIED).any():
            return False, "heuristic: with pessimism, actions that were never tried may pay more than they are taken to"
        return True, (
            "exact: no policy earns more from here, if transitions and rewards are deterministic and no reward is "
            "above the largest assumed"
        )


def plan_table(experience: Experience, bounds: tuple[float, float], pessimism: float) -> TablePlan:
    """The table of all episodes, and the plan in it."""
    states, actions = experience.features.states, experience.actions
    assert states is not None
    after = np.full((states, actions), UNTRIED, np.int64)
    total, count = np.zeros((states, actions)), np.zeros((states, actions), np.int64)
    seen = [each.observations[:, 0].astype(np.int64) for each in experience.episodes]
    states_before = np.concatenate([each[:-1] for each in seen])
    led = np.concatenate([each[1:] for each in seen])
    last = np.cumsum([len(each.actions) for each in experience.episodes]) - 1
    led[last[[each.terminated for each in experience.episodes]]] = END
    taken = states_before, np.concatenate([each.actions for each in experience.episodes])
    after[taken] = led  # the newest counts
    np.add.at(total, taken, np.concatenate([each.rewards for each in experience.episodes]))
    np.add.at(count, taken, 1)
    rewards = total / np.maximum(count, 1)
    values = np.empty((experience.stages, states, actions))
    low, high = bounds
    unknown = high - pessimism * (high - low)
    sweep_table(after, rewards, unknown, values)
    starts = np.unique([each[0] for each in seen])
    return TablePlan(after, rewards, values, int((after[taken] != led).sum()), unknown, high, starts)

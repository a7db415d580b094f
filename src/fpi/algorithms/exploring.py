"""Which uncovered action to try: the named rules, and rules of one's own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpi._validation import is_whole, shown
from fpi.errors import InputError
from fpi.kernels import choose
from fpi.setting_fields import Rule


class UncoveredState(NamedTuple):
    """What an exploring rule knows: a state with an uncovered action, and what the data say of it so far.

    Arrays have one entry per action. Estimates of actions that are not allowed at this level are NaN.
    """

    observation: Any
    stage: int
    uncovered: NDArray[np.bool_]
    """The actions to choose from."""
    widths: NDArray[np.float64]
    """|phi| at all data of the stage, or of the level: what is compared with the threshold."""
    values: NDArray[np.float64]
    """Estimated returns; a function gets them in units of your rewards."""
    seed: int
    episode: int

    @property
    def rng(self) -> np.random.Generator:
        """The same numbers at every call in this episode and stage: what is drawn from it can be repeated."""
        return np.random.default_rng((self.seed, self.episode, self.stage))


def explore(rule: str | Rule, state: UncoveredState, span: float) -> int:
    """One of the uncovered actions. `span` is that of rewards, by which values are divided."""
    if isinstance(rule, str):
        _, stage, uncovered, widths, values, seed, episode = state
        return int(choose.explore(choose.EXPLORING[rule], uncovered, widths, values, seed, episode, stage))
    action = rule(state._replace(values=span * state.values))
    if not (is_whole(action) and 0 <= action < len(state.uncovered) and state.uncovered[action]):
        raise InputError(
            f"the exploring rule answered {shown(action)} at stage {state.stage}, which is no uncovered action. Let it "
            f"return one that `state.uncovered` marks, here {', '.join(map(str, np.flatnonzero(state.uncovered)))}."
        )
    return int(action)

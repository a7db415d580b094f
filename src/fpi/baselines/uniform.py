"""Actions at random: the floor that every learner must beat."""

from __future__ import annotations

from typing import Any

from fpi import _kernels
from fpi.baselines.learner import Baseline
from fpi.datasets import Decide
from fpi.learning import Trail


class Uniform(Baseline):
    """Every action with the same probability at every step, for any horizon. It learns nothing."""

    def __init__(self, *, actions: int, horizon: int = 1, reward_range: tuple[float, float] = (0.0, 1.0)) -> None:
        super().__init__(actions, horizon, reward_range)

    def decider(self, trail: Trail) -> Decide:
        return lambda _, stage: 2 * self._action(trail, stage)

    def predict(self, observation: Any, stage: int) -> int:
        """What it would play in its next episode."""
        return self._action(self.trail, stage)

    def _action(self, trail: Trail, stage: int) -> int:
        return int(_kernels.pick(trail.seed or 0, trail.episodes, stage, self.actions))

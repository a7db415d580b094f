"""Actions at random: the floor that every learner must beat."""

from __future__ import annotations

from typing import Any

from fpi.baselines.base import Baseline
from fpi.data import Act
from fpi.evaluation import Decision
from fpi.kernels.numerics import pick
from fpi.training import TrainingState


class Uniform(Baseline):
    """Every action with the same probability at every step, for any horizon. It learns nothing."""

    def begin_episode(self, training_state: TrainingState) -> Act:
        return lambda _, stage: (self._action(training_state.seed, training_state.episodes, stage), False)

    def predict(self, observation: Any, stage: int) -> int:
        """What it would play in its next episode."""
        return self.decide(observation, stage, self.episodes).action

    def decide(self, observation: Any, stage: int, episode: int) -> Decision:
        """What it plays in the episode of this number."""
        return Decision(self._action(self.training_state.seed, episode, stage), None)

    def _action(self, seed: int | None, episode: int, stage: int) -> int:
        return int(pick(seed or 0, episode, stage, self.actions))

"""Base classes of the comparison methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi import training
from fpi._validation import check_positive, check_real, check_whole
from fpi.baselines import _ridge
from fpi.data import Act
from fpi.envs import RewardRange
from fpi.features import FeatureMap, as_feature_map
from fpi.training import TrainingState


class Baseline:
    """A method that `fpi.training.learn` can drive; it adds how it acts (`begin_episode`) and what it would do now."""

    learn = training.learn

    def __init__(self, *, actions: int, horizon: int = 1, reward_range: tuple[float, float] = (0.0, 1.0)) -> None:
        check_whole("actions", actions, least=1)
        check_whole("horizon", horizon, least=1)
        self.actions, self.horizon = int(actions), int(horizon)
        self.rewards = RewardRange(*reward_range)
        self.training_state = TrainingState()

    def begin_episode(self, training_state: TrainingState) -> Act:
        """How to act in the coming episode: (observation, stage) -> (action, whether it explores)."""
        raise NotImplementedError

    def predict(self, observation: Any, stage: int) -> int:
        raise NotImplementedError

    def end_episode(self, training_state: TrainingState, explored: tuple[int, int, float] | None) -> None:
        """End the episode; nothing is stored here."""
        self.training_state = training_state

    @property
    def episodes(self) -> int:
        """Episodes learned from."""
        return self.training_state.episodes

    @property
    def data_stored(self) -> int:
        """How many data it holds."""
        return 0


class LinearBandit(Baseline):
    """One stage, rewards that are linear in the features up to noise, and one or more ridge regressions of them."""

    levels = 1
    """Regressions."""

    def __init__(
        self,
        features: FeatureMap | Callable[..., Any],
        *,
        actions: int,
        scale: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.05,
        theta_bound: float | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        super().__init__(actions=actions, reward_range=reward_range)
        check_positive("ridge", ridge)
        check_real("scale", scale, "a finite number of at least 0", lambda x: x >= 0)
        check_real("delta", delta, "a probability between 0 and 1", lambda x: 0 < x < 1)
        if theta_bound is not None:
            check_real("theta_bound", theta_bound, "a finite number above 0, or None", lambda x: x > 0)
        self.features = as_feature_map(features, self.actions)
        self.ridge, self.scale, self.delta = float(ridge), float(scale), float(delta)
        self._bound = theta_bound
        self._fits: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        self.sizes = np.zeros(self.levels, np.int64)
        """Data of every regression."""
        self.log_dets = np.zeros(self.levels)
        """log det V - log det of its start, of every regression."""
        self._kept: tuple[int, NDArray[np.float64]] | None = None  # regression and features of the step to store

    @property
    def theta_bound(self) -> float:
        """Bound on |theta|; sqrt(d) if none was given, as for agents."""
        return math.sqrt(self.features.dim) if self._bound is None else float(self._bound)

    def look(
        self, observation: Any, stage: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Features of all actions, and of every regression the inverse of V and theta."""
        rows = self.features(observation, stage)
        if self._fits is None:  # only now is d known of a plain function
            d = rows.shape[1]
            self._fits = np.tile(np.eye(d) / self.ridge, (self.levels, 1, 1)), np.zeros((self.levels, d))
        return rows, *self._fits

    def keep(self, regression: int, row: NDArray[np.float64]) -> None:
        """What the episode stores if it ends well.

        `regression`: the number of the one that gets the datum.
        """
        self._kept = regression, row

    def end_episode(self, training_state: TrainingState, explored: tuple[int, int, float] | None) -> None:
        """End the episode, and store what `keep` was told."""
        if explored is not None and self._kept is not None and self._fits is not None:
            regression, row = self._kept
            inverses, thetas = self._fits
            self.log_dets[regression] += _ridge.append(inverses[regression], thetas[regression], row, explored[2])
            self.sizes[regression] += 1
        super().end_episode(training_state, explored)

    @property
    def data_stored(self) -> int:
        return int(self.sizes.sum())

"""Features from any plain function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from typing import Any, Self

import numpy as np

from fpi._validation import check_positive, check_whole
from fpi.envs import Env, action_count
from fpi.errors import InputError
from fpi.features.base import NORM_TOLERANCE, FeatureMap, FloatArray, as_array, check_finite, described


class Function:
    """Any plain function of (observation) or (observation, stage) that gives an (actions, d) matrix.

    It gets observations as the environment gives them, also the dictionaries and tuples of Dict and Tuple spaces.

    Features are divided by `scale`, so a known bound of their norm makes it at most 1. An optional
    `key` function promises equal features for equal keys. `dim` is 0 until the first call shows it.
    """

    separate = False

    def __init__(
        self,
        function: Callable[..., Any],
        actions: int,
        *,
        scale: float = 1.0,
        key: Callable[..., Hashable] | None = None,
    ) -> None:
        self.actions = check_whole("actions", actions, least=1)
        self.dim = 0
        self._name = getattr(function, "__name__", type(function).__name__)
        self._function = with_stage(function)
        self.scale = check_positive("scale", scale)
        if key is not None:  # learners look for the method: it must not exist without a key
            self.key = with_stage(key)

    @classmethod
    def for_env(
        cls,
        env: Env,
        function: Callable[..., Any],
        *,
        scale: float = 1.0,
        key: Callable[..., Hashable] | None = None,
    ) -> Self:
        """`function` with the number of actions of `env`."""
        return cls(function, action_count(env), scale=scale, key=key)

    def after(self, change: Callable[[Any], Any]) -> Function:
        """The same features of observations that `change` was applied to."""
        return Function(
            lambda observation, stage: self._function(change(observation), stage), self.actions, scale=self.scale
        )

    def __repr__(self) -> str:
        return described(self, self._name)

    def __call__(self, observation: Any, stage: int = 0) -> FloatArray:
        if isinstance(observation, np.ndarray) and observation.dtype.kind == "f":
            check_finite(observation)
        matrix = self._matrix(observation, stage)
        columns = self.dim or (matrix.shape[-1] if matrix.ndim else 0)
        if columns == 0 or matrix.shape != (self.actions, columns):
            raise InputError(
                f"the feature function gave the shape {matrix.shape} at stage {stage}, expected (actions, d)"
                f" = ({self.actions}, {self.dim or 'd'}): one row per action, the same d at every call."
            )
        check_finite(matrix, f"at stage {stage}, feature")
        with np.errstate(over="ignore"):
            norms = np.sqrt((matrix**2).sum(axis=1))
        widest = int(norms.argmax())
        if norms[widest] > 1 + NORM_TOLERANCE:
            bound = norms[widest] * self.scale
            raise InputError(
                f"the features of action {widest} at stage {stage} have the norm {norms[widest]:.6g}; the "
                "theory needs norms of at most 1. Divide by a bound: fpi.features.Function(function, "
                f"actions={self.actions}, scale=…) with a scale of at least {bound:.6g}."
            )
        if not self.dim and not np.array_equal(matrix, self._matrix(observation, stage)):
            raise InputError(
                "the feature function gave other features when it was asked again about the same observation. They "
                "must follow from observation and stage alone: take randomness and counters out of it."
            )
        self.dim = matrix.shape[1]
        return matrix

    def _matrix(self, observation: Any, stage: int) -> FloatArray:
        return as_array("features", self._function(observation, stage)) / self.scale


def as_feature_map(features: FeatureMap | Callable[..., Any], actions: int) -> FeatureMap:
    """Feature maps as they are, plain functions wrapped in `Function`."""
    if isinstance(features, type) or not callable(features):
        raise InputError(
            f"features must be a feature map or a function, not {features!r}. For example "
            "fpi.TileCoding.for_env(env, tiles=4, tilings=4), or a function that gives an (actions, d) array."
        )
    if not isinstance(features, FeatureMap):
        return Function(features, actions)
    if features.actions != actions:
        raise InputError(
            f"the features are for {features.actions} actions, the agent for {actions}: make both the same."
        )
    return features


def with_stage(function: Callable[..., Any]) -> Callable[[Any, int], Any]:
    """`function` as one of (observation, stage), whether it asks for the stage or not."""
    try:
        signature = inspect.signature(function)
        named = [each for each in signature.parameters.values() if each.kind < each.VAR_POSITIONAL]
        required = [each for each in named if each.default is each.empty]
        takes_stage = len(required) == 2 or [each.name for each in named[1:2]] == ["stage"]
        signature.bind(*(None, 0)[: 2 if takes_stage else 1])
    except ValueError:  # some compiled functions do not tell their arguments
        takes_stage = False
    except TypeError as error:
        raise InputError(f"{function!r} must take (observation) or (observation, stage): {error}.") from error
    return function if takes_stage else lambda observation, stage: function(observation)

"""Agents of fpi, and other learners that `fpi.training.learn` drives, as methods of the harness. They run unchanged.

FPI-PAC and FPI-Regret assume linear Q^pi for every policy and deterministic transitions; rewards and starts may be
random. Their held-out policy is that of `predict(..., explore=False)`; what they would play now is judged beside it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from fpi.algorithms import PAC, Agent, Regret
from fpi.baselines.access import FloatArray, Online, View
from fpi.baselines.method import Method, Policy
from fpi.baselines.oful import OFUL
from fpi.baselines.suplinucb import SupLinUCB
from fpi.baselines.uniform import Uniform


class ViewFeatures:
    """A feature map for agents whose observations are views."""

    separate = False

    def __init__(self, access: Online) -> None:
        self.actions, self.dim = access.actions, access.dim

    def __call__(self, observation: View, stage: int) -> FloatArray:
        return observation.features

    def key(self, observation: View, stage: int) -> bytes:
        return observation.features.tobytes()


class Learning(Method):
    """A learner, an episode at a time."""

    access = Online
    seed: int

    @abstractmethod
    def make(self, features: Any, access: Any) -> Any:
        """The learner for these features, with the actions and the horizon of an access object or a testbed."""

    def run(self, access: Online) -> Iterator[Policy]:
        self.agent = self.make(ViewFeatures(access), access)
        state = replace(self.agent.training_state, seed=self.seed)
        while True:
            explored: tuple[int, int] | None = None
            rewards: list[float] = []
            view: View | None = access.reset()
            act = self.agent.begin_episode(state)
            while view is not None:
                action, explores = act(view, view.stage)
                if explores:
                    explored, rewards = (view.stage, action), []
                reward, view = access.step(action)
                rewards.append(reward)
            state = replace(state, episodes=state.episodes + 1)
            self.agent.end_episode(state, None if explored is None else (*explored, math.fsum(rewards)))
            self.numbers = self.agent.data_stored * (access.dim + 1)
            yield self.policy

    def policy(self, view: View) -> int:
        if isinstance(self.agent, Agent):
            return self.agent.predict(view, view.stage, explore=False)
        return int(self.agent.predict(view, view.stage))

    def played(self, view: View) -> int:
        """pi_t, which still explores."""
        return int(self.agent.predict(view, view.stage))


@dataclass
class FPIPAC(Learning):
    """FPI-PAC, Algorithm 1. `freeze` = "never" or a number are its ablations, which no theorem covers."""

    needs = frozenset({"linear", "deterministic"})

    epsilon: float = 0.15
    ridge: float | None = None
    """None: 1 / H."""
    freeze: str | int = "exact"
    explore: Literal["first", "widest", "greedy", "random"] = "random"
    seed: int = 0

    def __post_init__(self) -> None:
        self.constants = "theory" if self.freeze == "exact" else "none"

    def make(self, features: Any, access: Any) -> PAC:
        return PAC(
            features,
            actions=access.actions,
            horizon=access.horizon,
            epsilon=self.epsilon,
            ridge=1 / access.horizon if self.ridge is None else self.ridge,
            freeze=self.freeze,
            explore=self.explore,
        )


@dataclass
class FPIRegret(Learning):
    """FPI-Regret, Algorithm 2. `scale` multiplies its constants; 1 is the theory."""

    needs = frozenset({"linear", "deterministic"})

    scale: float = 0.03
    explore: Literal["first", "widest", "greedy", "random", "optimistic"] = "greedy"
    elimination: Literal["paper", "stage", "interval"] = "paper"
    first_level: int | Literal["auto"] = 1
    theta_bound: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self.constants = "theory" if self.scale == 1 else "scaled"

    def make(self, features: Any, access: Any) -> Regret:
        return Regret(
            features,
            actions=access.actions,
            horizon=access.horizon,
            scale=self.scale,
            explore=self.explore,
            elimination=self.elimination,
            first_level=self.first_level,
            theta_bound=self.theta_bound,
        )


class _Bandit(Learning):
    needs = frozenset({"linear", "one stage"})
    requires = frozenset({"one stage"})


@dataclass
class OFULMethod(_Bandit):
    """`fpi.baselines.OFUL`."""

    scale: float = 1.0
    theta_bound: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self.constants = "theory" if self.scale == 1 else "scaled"

    def make(self, features: Any, access: Any) -> OFUL:
        return OFUL(features, actions=access.actions, scale=self.scale, theta_bound=self.theta_bound)


@dataclass
class SupLinUCBMethod(_Bandit):
    """`fpi.baselines.SupLinUCB` for so many `rounds`."""

    rounds: int = 8_000
    explore: str = "widest"
    scale: float = 1.0
    theta_bound: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self.constants = "theory" if self.scale == 1 else "scaled"

    def make(self, features: Any, access: Any) -> SupLinUCB:
        return SupLinUCB(
            features,
            actions=access.actions,
            rounds=self.rounds,
            explore=self.explore,
            scale=self.scale,
            theta_bound=self.theta_bound,
        )


@dataclass
class UniformMethod(Learning):
    """`fpi.baselines.Uniform`: the floor."""

    seed: int = 0

    def make(self, features: Any, access: Any) -> Uniform:
        return Uniform(actions=access.actions, horizon=access.horizon)

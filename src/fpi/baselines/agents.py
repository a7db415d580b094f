"""Agents of fpi, and other learners that `fpi.training.learn` drives, as methods of the harness. They run unchanged.

FPI-PAC and FPI-Regret assume linear Q^pi for every policy and deterministic transitions; rewards and starts may be
random. Their held-out policy is that of `predict(..., explore=False)`; what they would play now is judged beside it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, ClassVar, Literal

from fpi.algorithms import PAC, Agent, Regret
from fpi.baselines.access import FloatArray, Online, View
from fpi.baselines.method import Method, Policy
from fpi.baselines.oful import OFUL
from fpi.baselines.suplinucb import SupLinUCB
from fpi.baselines.uniform import Uniform
from fpi.datasets import Datasets


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
            since: list[tuple[View, int, float]] = []  # the last exploring step, and what came after it
            view: View | None = access.reset()
            act = self.agent.begin_episode(state)
            while view is not None:
                action, explores = act(view, view.stage)
                if explores:
                    explored, since = (view.stage, action), []
                reward, after = access.step(action)
                since.append((view, action, reward))
                view = after
            state = replace(state, episodes=state.episodes + 1)
            total = math.fsum(reward for *_, reward in since)
            self.agent.end_episode(state, None if explored is None else (*explored, total))
            self.store_covered(since[explored is not None :], state.episodes - 1)
            self.numbers = self.agent.data_stored * (access.dim + 1)
            yield self.policy

    def store_covered(self, steps: list[tuple[View, int, float]], episode: int) -> None:
        """For variants that learn from the steps after the last exploring one, too."""

    def policy(self, view: View) -> int:
        if isinstance(self.agent, Agent):
            return self.agent.predict(view, view.stage, explore=False)
        return int(self.agent.predict(view, view.stage))

    def played(self, view: View) -> int:
        """pi_t, which still explores."""
        return int(self.agent.predict(view, view.stage))


@dataclass
class FPIPAC(Learning):
    """FPI-PAC, Algorithm 1. `freeze` = "never" or a number, and `suffix`, are its ablations, which no theorem covers.

    With `suffix` the covered steps after the stored one are stored as well. They are frozen, so their returns are
    samples that stay valid; but data are no longer bounded by what there is to explore, and grow with every episode.
    """

    needs = frozenset({"linear", "deterministic"})

    epsilon: float = 0.15
    ridge: float | None = None
    """None: 1 / H."""
    freeze: str | int = "exact"
    explore: Literal["first", "widest", "greedy", "random"] = "random"
    suffix: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        self.constants = "theory" if self.freeze == "exact" and not self.suffix else "none"

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

    def store_covered(self, steps: list[tuple[View, int, float]], episode: int) -> None:
        if not self.suffix:
            return
        datasets: Datasets = self.agent.datasets
        for i, (view, action, _) in enumerate(steps):
            target = math.fsum(reward for *_, reward in steps[i:])
            datasets.keep(datasets.rows(view, view.stage), view, action, 1)
            datasets.append(datasets.kept, view.stage, action, target, episode)


@dataclass
class Scaled(Learning):
    """A learner whose constants are multiplied by `scale`; 1 is the theory. Its fields are arguments of `learner`."""

    learner: ClassVar[Callable[..., Any]]
    sizes: ClassVar[tuple[str, ...]]
    """What it takes of a testbed."""

    scale: float = 1.0
    theta_bound: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self.constants = "theory" if self.scale == 1 else "scaled"

    def make(self, features: Any, access: Any) -> Any:
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "seed"}
        return self.learner(features, **{name: getattr(access, name) for name in self.sizes}, **own)


@dataclass
class FPIRegret(Scaled):
    """FPI-Regret, Algorithm 2."""

    needs = frozenset({"linear", "deterministic"})
    learner = Regret
    sizes = ("actions", "horizon")

    scale: float = 0.03
    explore: Literal["first", "widest", "greedy", "random", "optimistic"] = "greedy"
    elimination: Literal["paper", "stage", "interval"] = "paper"
    first_level: int | Literal["auto"] = 1


class _Bandit(Scaled):
    needs = frozenset({"linear", "one stage"})
    requires = frozenset({"one stage"})
    sizes = ("actions",)


class OFULMethod(_Bandit):
    """`fpi.baselines.OFUL`."""

    learner = OFUL


@dataclass
class SupLinUCBMethod(_Bandit):
    """`fpi.baselines.SupLinUCB` for so many `rounds`."""

    learner = SupLinUCB

    rounds: int = 8_000
    explore: str = "widest"

    def run(self, access: Online) -> Iterator[Policy]:
        return islice(super().run(access), self.rounds)  # a policy a round; it ends there, whatever is left to spend


@dataclass
class UniformMethod(Learning):
    """`fpi.baselines.Uniform`: the floor."""

    seed: int = 0

    def make(self, features: Any, access: Any) -> Uniform:
        return Uniform(actions=access.actions, horizon=access.horizon)

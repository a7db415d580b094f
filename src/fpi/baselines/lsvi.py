"""LSVI-UCB (Jin, Yang, Wang and Jordan, 2020), and three variants of least-squares value iteration.

With the data (x_i, r_i, s'_i) of stage h, x = phi(s, a), and Lambda = ridge I + sum x x',

    w_h     = Lambda^{-1} sum_i x_i (r_i + max_b Q_{h+1}(s'_i, b))        for h = H, ..., 1
    Q_h     = min(<phi, w_h> + bonus |phi| in Lambda^{-1}, H - h + 1)
    play      argmax_a Q_h(s, a)

Assumes a linear MDP; its proof needs that backups of Q are linear in phi (Bellman completeness). With ridge = 1 and
bonus = O~(d H) the regret is O~(d^{3/2} H^2 sqrt(K)). Smaller constants, as here, are covered by no theorem. A plan,
with all targets made anew, comes when det Lambda of a stage may have doubled, and after `replan` episodes at most.

RLSVI (Osband, Van Roy and Wen, 2016) has noise instead of a bonus: w_h + N(0, sigma^2 Lambda^{-1}), anew at every plan.

FittedQ has neither and plays any action in one of ten steps; nothing is proved of it.

OracleSkip stands in for SkippyEleanor (Weisz, György and Szepesvári, 2023), which cannot be computed: where the action
does not matter to any policy it plays action 0 and leaves the state out of the regressions. Weisz et al. learn which
states these are; here an oracle tells, and that is cheating. What is left is a linear MDP.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fpi.baselines.access import FloatArray, Online, Oracle, View
from fpi.baselines.method import Method, Policy, Transitions, greedy


class _Stage(Transitions):
    """The data of one stage, and the regression of the last plan."""

    def __init__(self, access: Online, ridge: float) -> None:
        super().__init__(access, ridge)
        self.w: FloatArray = np.zeros(access.dim)
        self.root: FloatArray = np.eye(access.dim) / np.sqrt(ridge)
        """A matrix R with R R' = Lambda^{-1} of the last plan."""
        self.growth = 0.0
        """At most by how much log det Lambda has grown since."""

    def add(self, x: FloatArray, reward: float, after: View | None) -> None:
        super().add(x, reward, after)
        self.growth += math.log1p(float(((x @ self.root) ** 2).sum()))


@dataclass
class LSVI_UCB(Method):
    """LSVI-UCB. `ridge` and `bonus` decide everything; 0.1 and 1 serve all testbeds here."""

    access = Online
    needs = frozenset({"complete"})
    constants = "scaled"

    ridge: float = 0.1
    bonus: float = 1.0
    replan: int = 20
    seed: int = 0
    stages: list[_Stage] = field(default_factory=list, init=False, repr=False)

    def run(self, access: Online) -> Iterator[Policy]:
        self.rng = np.random.default_rng((self.seed, 3))
        self.horizon = access.horizon
        self.stages = [_Stage(access, self.ridge) for _ in range(access.horizon)]
        while True:
            self.plan()
            yield self.policy
            for _ in range(self.replan):
                self.play(access)
                if max(stage.growth for stage in self.stages) > math.log(2):
                    break

    def policy(self, view: View) -> int:
        return greedy(self.q(view.features, view.stage))

    def play(self, access: Online) -> None:
        view: View | None = access.reset()
        while view is not None:
            action = self.act(view)
            reward, after = access.step(action)
            self.stages[view.stage].add(view.features[action], reward, after)
            view = after

    def act(self, view: View) -> int:
        return self.policy(view)

    def plan(self) -> None:
        for stage in reversed(self.stages):
            stage.root = np.linalg.cholesky(np.linalg.inv(stage.gram))
            stage.growth = 0.0
            targets = stage.reward.all + self.later(stage)
            fitted = np.linalg.solve(stage.gram, stage.x.all.T @ targets)
            stage.w = np.asarray(fitted + self.noise(stage), np.float64)
        self.numbers = sum(stage.numbers for stage in self.stages)

    def later(self, stage: _Stage) -> FloatArray:
        """max_b Q at the state that followed, 0 at the end."""
        values = np.zeros(stage.x.size)
        for number in np.unique(stage.after_stage.all).astype(int):
            if number >= 0:
                there = stage.after_stage.all == number
                after = stage.after.all[there]
                rows = after.reshape(-1, after.shape[-1])  # numpy is quick with matrices only
                values[there] = self.q(rows, number).reshape(after.shape[:2]).max(axis=1)
        return values

    def q(self, rows: FloatArray, number: int) -> FloatArray:
        """Q of feature vectors, which are rows."""
        stage = self.stages[number]
        values = rows @ stage.w
        if self.bonus:
            values = values + self.bonus * np.sqrt(((rows @ stage.root) ** 2).sum(axis=-1))
        return np.minimum(values, self.horizon - number)

    def noise(self, stage: _Stage) -> FloatArray | float:
        return 0.0


@dataclass
class RLSVI(LSVI_UCB):
    """Randomised least-squares value iteration."""

    ridge: float = 0.01
    bonus: float = 0.0
    sigma: float = 0.3

    def noise(self, stage: _Stage) -> FloatArray | float:
        drawn: FloatArray = stage.root @ self.rng.standard_normal(len(stage.w))
        return self.sigma * drawn


@dataclass
class FittedQ(LSVI_UCB):
    """Least-squares value iteration that explores by chance."""

    needs = frozenset[str]()
    constants = "none"

    ridge: float = 0.01
    bonus: float = 0.0
    chance: float = 0.1

    def act(self, view: View) -> int:
        if self.rng.random() < self.chance:
            return int(self.rng.integers(len(view.features)))
        return self.policy(view)


@dataclass
class OracleSkip(LSVI_UCB):
    """LSVI-UCB that is told where the action does not matter. It cheats."""

    access = Oracle
    needs = frozenset({"linear"})
    smallest: float = 1e-9
    """The range from which on a state is kept."""

    def run(self, access: Oracle) -> Iterator[Policy]:  # type: ignore[override]  # it is given more
        self.range = access.range
        yield from super().run(access)

    def policy(self, view: View) -> int:
        return 0 if self.range(view) <= self.smallest else super().policy(view)

    def play(self, access: Online) -> None:
        view: View | None = access.reset()
        kept: tuple[int, FloatArray] | None = None
        collected = 0.0
        while view is not None:
            action = self.policy(view)
            if self.range(view) > self.smallest:
                if kept is not None:
                    self.stages[kept[0]].add(kept[1], collected, view)
                kept, collected = (view.stage, view.features[action]), 0.0
            reward, view = access.step(action)
            collected += reward
        if kept is not None:
            self.stages[kept[0]].add(kept[1], collected, None)

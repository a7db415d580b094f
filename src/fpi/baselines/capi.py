"""CAPI-QPI-Plan (Weisz, György, Kozuno and Szepesvári, 2022): confident approximate policy iteration with restores.

Measure the value of core pairs by rollouts. A rollout that meets a state with an uncovered action adds that to the core
set and is repeated later. A policy changes an action only where that state is covered, and is then sure to be better;
where it was covered before, the earlier decision stands. So no visited state ever changes its action after it was
covered.

`CAPI`, by stages: each stage has one core set and is measured when all later stages are. When its pairs are complete, a
snapshot (V_h, theta_h) is appended, and a state acts by the first snapshot that covers it. This is FPI-PAC with
restores: the same freezing at the first cover, n rollouts and the threshold 1 instead of one return and the threshold
epsilon. It is the cleanest ablation of what restores are worth.

`CAPILiteral`, the paper's box with discount 1 and H levels: level l has core pairs of all stages and a policy; when its
pairs are measured, its policy improved once becomes that of level l + 1, where that level does not cover. Discoveries
go to level 0.

Assumes linear Q^pi up to kappa, any transitions, restores. With n = (H - h + 1)^2 log(2 d~ H / delta) / (2 omega^2)
rollouts and ridge = omega^2 / B^2 the policy loses at most 4 H (omega + kappa) (sqrt(d~) + 1), d~ = O~(d) core pairs a
stage.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fpi.baselines.access import FloatArray, Local, View
from fpi.baselines.core_sets import CoreSet, Pair, covered, widths
from fpi.baselines.method import Method, Policy, greedy


def measure(access: Local, pair: Pair, rollouts: int, policy: Policy, covers: Callable[[View], bool]) -> View | None:
    """Set the value of a pair to the mean of its rollouts, unless one meets a state that is not covered: that one."""
    total = 0.0
    for _ in range(rollouts):
        access.restore(pair.view)
        reward, view = access.step(pair.action)
        total += reward
        while view is not None:
            if not covers(view):
                return view
            reward, view = access.step(policy(view))
            total += reward
    pair.value = total / rollouts
    return None


def first_uncovered(access: Local, episodes: int, policy: Policy, covers: Callable[[View], bool]) -> View | None:
    """The first uncovered state of so many fresh episodes, None if all are covered."""
    for _ in range(episodes):
        view: View | None = access.reset()
        while view is not None:
            if not covers(view):
                return view
            _, view = access.step(policy(view))
    return None


@dataclass
class CorePlanner(Method):
    """Planning with core sets ends after `fresh` episodes in a row without a discovery."""

    access = Local
    needs = frozenset({"linear"})
    constants = "scaled"

    rollouts: int = 20
    """Of each core pair."""
    ridge: float = 1e-2
    fresh: int = 50
    seed: int = 0


class CAPI(CorePlanner):
    """By stages. `rollouts` = n."""

    def run(self, access: Local) -> Iterator[Policy]:
        self.cores = [CoreSet(access.dim, self.ridge) for _ in range(access.horizon)]
        self.inverses: list[list[FloatArray]] = [[] for _ in self.cores]
        self.thetas: list[list[FloatArray]] = [[] for _ in self.cores]
        while True:
            stage = max((h for h, core in enumerate(self.cores) if core.unmeasured is not None), default=None)
            if stage is None:
                found = first_uncovered(access, self.fresh, self.policy, covered(self.cores))
                if found is None:
                    yield self.policy
                    return
            else:
                core = self.cores[stage]
                pair = core.unmeasured
                assert pair is not None
                found = measure(access, pair, self.rollouts, self.policy, covered(self.cores))
                if found is None and core.unmeasured is None:
                    self.inverses[stage].append(core.inverse.copy())
                    self.thetas[stage].append(core.theta())
            if found is not None:
                self.cores[found.stage].discover(found)
            self.numbers = sum(core.numbers for core in self.cores)
            self.numbers += sum(each.size for snapshots in (*self.inverses, *self.thetas) for each in snapshots)

    def policy(self, view: View) -> int:
        """By the first snapshot that covers the state; at one that none covers, by the last."""
        snapshots = self.inverses[view.stage]
        if not snapshots:
            return 0
        covering = widths(view.features, np.array(snapshots)).max(axis=-1) <= 1
        first = int(covering.argmax()) if covering.any() else -1
        return greedy(view.features @ self.thetas[view.stage][first])


class _Update(NamedTuple):
    """What a policy of a level became: pi' where the level did not cover, else what it was."""

    covered_before: list[FloatArray]
    """V^{-1} of this level, per stage, before the update."""
    covered_below: list[FloatArray]
    """V^{-1} of the level below: where it does not cover, nothing is improved."""
    thetas: list[FloatArray]
    below: int
    """The number of updates that the policy of the level below had seen."""


@dataclass
class CAPILiteral(CorePlanner):
    """As printed, with H levels. The printed margin `margin` is omega; the proof would need omega'."""

    margin: float = 0.0

    def run(self, access: Local) -> Iterator[Policy]:
        levels = range(access.horizon + 1)
        self.cores = [[CoreSet(access.dim, self.ridge) for _ in range(access.horizon)] for _ in levels]
        self.updates: list[list[_Update]] = [[] for _ in levels]
        while True:
            level = next((each for each in levels[:-1] if self.unmeasured(each) is not None), None)
            if level is None:
                found = first_uncovered(access, self.fresh, self.act(access.horizon), covered(self.cores[0]))
                if found is None:
                    yield self.act(access.horizon)
                    return
            else:
                pair = self.unmeasured(level)
                assert pair is not None
                found = measure(access, pair, self.rollouts, self.act(level), covered(self.cores[level]))
                if found is None and self.unmeasured(level) is None:
                    self.improve(level)
            if found is not None:
                self.cores[0][found.stage].discover(found)
            self.numbers = sum(core.numbers for cores in self.cores for core in cores)
            self.numbers += sum(np.size(u.covered_before) + np.size(u.covered_below) for us in self.updates for u in us)

    def unmeasured(self, level: int) -> Pair | None:
        return next((core.unmeasured for core in self.cores[level] if core.unmeasured is not None), None)

    def improve(self, level: int) -> None:
        """The policy of the next level, and the pairs that it is measured at."""
        below, above = self.cores[level], self.cores[level + 1]
        self.updates[level + 1].append(
            _Update(
                [core.inverse.copy() for core in above],
                [core.inverse.copy() for core in below],
                [core.theta() for core in below],
                len(self.updates[level]),
            )
        )
        for lower, upper in zip(below, above, strict=True):
            for pair in lower.pairs[len(upper.pairs) :]:
                upper.pairs.append(Pair(pair.view, pair.action))
            upper.inverse = lower.inverse.copy()

    def act(self, level: int) -> Policy:
        return lambda view: self._action(view, level, len(self.updates[level]))

    def _action(self, view: View, level: int, updates: int) -> int:
        """pi of a level after so many updates: the last one before which its core set did not cover the state."""
        done = self.updates[level]

        def covers(i: int) -> bool:
            return bool(widths(view.features, done[i].covered_before[view.stage]).max() <= 1)

        covered = bisect_left(range(updates), True, key=covers)
        if covered == 0:
            return 0
        last = done[covered - 1]
        before = self._action(view, level - 1, last.below)
        if widths(view.features, last.covered_below[view.stage]).max() > 1:
            return before
        values = view.features @ last.thetas[view.stage]
        return greedy(values) if values[before] + self.margin < values.max() - self.margin else before

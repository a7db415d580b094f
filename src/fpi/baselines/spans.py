"""Two methods for worlds without noise, which learn a value for good once its features are in the span of the data.

OCP (Wen and Van Roy, 2013; 2017), optimistic constraint propagation, for the class of all linear functions: the largest
value that earlier constraints allow is infinite outside of their span. So: try any action outside of the span, else
play greedily; after the episode store the return of the LAST pair outside of the span, after which everything was
determined. This is FPI-PAC with epsilon and ridge going to 0. Assumes deterministic rewards and transitions and linear
Q*; starts may be anything. At most sum_h rank_h episodes are suboptimal.

The agnostic recursion (Du, Lee, Mahajan and Wang, 2020), for a fixed start, deterministic transitions and a gap rho;
linear Q* up to rho / sqrt(rank) is enough:

    explore(prefix)  at the state that these actions lead to, measure every action outside of the span
    measure(prefix)  play it and go on greedily; explore a state with a new action first, then begin again

Rewards with noise are measured `repeats` times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fpi.baselines.access import FloatArray, Online, View
from fpi.baselines.method import Method, Policy, greedy

OUTSIDE = 1e-8  # distance from the span


class Span:
    """Data of one stage with independent features, and the one theta in their span that fits them."""

    def __init__(self, dim: int) -> None:
        self.rows, self.targets = np.zeros((0, dim)), np.zeros(0)
        self.axes = np.zeros((0, dim))
        self.theta: FloatArray = np.zeros(dim)

    def outside(self, rows: FloatArray) -> FloatArray:
        """Distances from the span."""
        distances: FloatArray = np.linalg.norm(rows - rows @ self.axes.T @ self.axes, axis=-1)
        return distances

    def new_action(self, view: View) -> int | None:
        """The first action outside of the span."""
        new = self.outside(view.features) > OUTSIDE
        return int(new.argmax()) if new.any() else None

    def add(self, row: FloatArray, target: float) -> None:
        left = row - row @ self.axes.T @ self.axes
        self.axes = np.vstack([self.axes, left / np.linalg.norm(left)])
        self.rows, self.targets = np.vstack([self.rows, row]), np.append(self.targets, target)
        self.theta = np.asarray(np.linalg.lstsq(self.rows, self.targets, rcond=None)[0], np.float64)

    def best(self, view: View) -> int:
        return greedy(view.features @ self.theta)


class _Spans(Method):
    spans: list[Span]

    def policy(self, view: View) -> int:
        return self.spans[view.stage].best(view)

    def count(self) -> None:
        self.numbers = sum(span.rows.size + span.targets.size + span.axes.size + span.theta.size for span in self.spans)


@dataclass
class OCP(_Spans):
    """Optimistic constraint propagation in its span form."""

    access = Online
    needs = frozenset({"linear", "deterministic", "noiseless"})
    constants = "theory"

    seed: int = 0

    def run(self, access: Online) -> Iterator[Policy]:
        self.spans = [Span(access.dim) for _ in range(access.horizon)]
        while True:
            last: tuple[int, FloatArray] | None = None
            view: View | None = access.reset()
            collected = 0.0
            while view is not None:
                new = self.spans[view.stage].new_action(view)
                action = self.policy(view) if new is None else new
                if new is not None:
                    last, collected = (view.stage, view.features[action]), 0.0
                reward, view = access.step(action)
                collected += reward
            if last is not None:
                self.spans[last[0]].add(last[1], collected)
                self.count()
            yield self.policy


@dataclass
class Agnostic(_Spans):
    """The agnostic recursion; `repeats` = n measurements of a pair."""

    access = Online
    needs = frozenset({"linear", "deterministic", "fixed start", "gap", "noiseless"})
    requires = frozenset({"deterministic", "fixed start"})
    constants = "theory"

    repeats: int = 1
    seed: int = 0

    def run(self, access: Online) -> Iterator[Policy]:
        self.spans = [Span(access.dim) for _ in range(access.horizon)]
        while self.play_on(access, []) is None:
            pass
        yield self.policy

    def explore(self, access: Online, prefix: Sequence[int]) -> None:
        view = self.replay(access, prefix)
        span = self.spans[view.stage]
        for action, row in enumerate(view.features):
            if span.outside(row) > OUTSIDE:
                span.add(row, self.measure(access, [*prefix, action]))
                self.count()

    def measure(self, access: Online, prefix: Sequence[int]) -> float:
        returns: list[float] = []
        while len(returns) < self.repeats:
            found = self.play_on(access, prefix)
            if found is not None:
                returns.append(found)
        return float(np.mean(returns))

    def play_on(self, access: Online, prefix: Sequence[int]) -> float | None:
        """The return from the last action of the prefix on; None if a state with a new action was explored instead."""
        path = list(prefix)
        view: View | None = self.replay(access, prefix[:-1])
        collected = 0.0
        if path:
            collected, view = access.step(path[-1])
        while view is not None:
            if self.spans[view.stage].new_action(view) is not None:
                self.explore(access, path)
                return None
            path.append(self.policy(view))
            reward, view = access.step(path[-1])
            collected += reward
        return collected

    def replay(self, access: Online, prefix: Sequence[int]) -> View:
        view = access.reset()
        for action in prefix:
            _, after = access.step(action)
            assert after is not None
            view = after
        return view

"""One run of a method on a testbed: it gets its access and nothing else, pays one bill, and is judged out of its sight.

Policies are judged on a fixed list of start states, by exact values, after 100, 141, 200, ... steps and at the end. The
starts that a seed gives are the same for all methods.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from fpi.baselines.access import Bill, BudgetSpent, FloatArray, Online, Oracle, View
from fpi.baselines.method import Method, Mixture, Policy
from fpi.baselines.worlds import TestbedWorld
from fpi.testbeds import State, Testbed

HELD_OUT = 200  # start states
FIRST_MARK = 100  # steps
MIXED = 10  # policies of a mixture that are judged
COLUMNS = (*(each.name for each in fields(Bill)), "gap", "played_gap")


@dataclass(frozen=True)
class Run:
    """What a method paid and had learned at every mark, the last row at its end; and what its episodes lost."""

    rows: dict[str, FloatArray]
    """By the names in COLUMNS. A gap is NaN before the first policy; `played_gap` is that of learners that explore."""
    losses: FloatArray
    """One number per episode, of online methods."""

    @property
    def gap(self) -> float:
        """Of the last policy."""
        return float(self.rows["gap"][-1])

    def steps_to(self, gap: float) -> float:
        """Steps paid by the first mark at which the policy lost no more; infinite if there is none."""
        good = self.rows["gap"] <= gap
        return float(self.rows["steps"][good.argmax()]) if good.any() else math.inf


def facts(testbed: Testbed, noise: str) -> frozenset[str]:
    """What holds of a testbed played with this noise."""
    return testbed.holds | ({"noiseless"} if noise == "none" else frozenset[str]())


def play(
    method: Method,
    testbed: Testbed,
    *,
    seed: int,
    steps: int,
    episodes: int | None = None,
    noise: str = "bernoulli",
) -> Run:
    """Run a method until it ends or its budget is spent. An `Inapplicable` if it cannot be run here.

    It is given the access that it declares, exactly.
    """
    method.check(facts(testbed, noise))
    kind: type[Online] = method.access
    world = TestbedWorld(testbed, seed, noise, online=kind in (Online, Oracle))
    access = kind(world, steps=steps, episodes=episodes)
    judge = Judge(testbed, access)
    rows: list[list[float]] = []
    policies = method.run(access)
    policy: Policy | Mixture | None = None
    passed, spent = 0, False  # marks

    def record() -> None:
        if rows and rows[-1][0] == access.bill.steps:
            rows.pop()  # what a method does at its end costs no steps
        played = getattr(method, "played", None)
        judged = [math.nan if each is None else judge.gap(each) for each in (policy, policy and played)]
        rows.append([*(getattr(access.bill, each.name) for each in fields(Bill)), *judged])

    while not spent:
        began = time.process_time()
        try:
            policy = next(policies)
        except (StopIteration, BudgetSpent):
            spent = True
        access.bill.seconds += time.process_time() - began
        access.bill.numbers = max(access.bill.numbers, method.numbers)
        if spent or access.bill.steps >= FIRST_MARK * 2 ** (passed / 2):
            record()
        while access.bill.steps >= FIRST_MARK * 2 ** (passed / 2):
            passed += 1
    table = np.array(rows, np.float64)
    losses = np.array(world.losses if access._state is None else world.losses[:-1])  # of whole episodes
    return Run({name: table[:, i] for i, name in enumerate(COLUMNS)}, losses)


class Judge:
    """Exact gaps on the held-out starts. Its views belong to nobody, so that no method can go where they were seen."""

    def __init__(self, testbed: Testbed, access: Online, starts: int = HELD_OUT) -> None:
        self.testbed, self.access = testbed, access
        self.starts = testbed.held_out(1 if testbed.fixed_start else starts)
        self._views: dict[State, View] = {}

    @cached_property
    def optimal(self) -> float:
        """The mean value of the best policy over the held-out starts."""
        return float(np.mean([self.testbed.optimal_value(start) for start in self.starts]))

    def gap(self, policy: Policy | Mixture) -> float:
        """What the policy loses against the best one, in the mean over the held-out starts."""
        if isinstance(policy, Mixture):
            chosen = np.linspace(0, len(policy.parts) - 1, min(MIXED, len(policy.parts))).round().astype(int)
            return float(np.mean([self.gap(policy.parts[i]) for i in chosen]))
        value = self.testbed.values(lambda state: policy(self.view(state)))
        return self.optimal - float(np.mean([value(start) for start in self.starts]))

    def view(self, state: State) -> View:
        """What a method sees of a state."""
        if state not in self._views:
            # An oracle answers about its own views only, and there is no way back to them.
            cheats = isinstance(self.access, Oracle)
            self._views[state] = self.access._show(state) if cheats else View(state[0], self.testbed.phi(state))
        return self._views[state]

"""`fpi.check_method`: methods of the library pass, and each rule that is broken is named."""

import random

import numpy as np
import pytest

import fpi
from fpi import baselines
from fpi.baselines import BudgetSpent, Method
from fpi.errors import CheckFailed


@pytest.mark.parametrize(
    "make",
    [
        baselines.LSVI_UCB,
        baselines.MonteCarloLSPI,
        baselines.NullSpace,
        baselines.OracleSkip,
        baselines.OCP,
        baselines.Agnostic,
        baselines.UPACOFUL,
        baselines.FPIPAC,
        lambda seed: baselines.CAPI(rollouts=2, fresh=5, seed=seed),
        lambda seed: baselines.ConfidentLSPI(rollouts=2, fresh=5, reuse=True, seed=seed),
        lambda seed: baselines.BackwardSweep(rollouts=2, seed=seed),
    ],
)
def test_methods_of_the_library_pass(make):
    report = fpi.check_method(make)
    assert len(report.passed) == 7
    assert "passes 7 checks" in str(report)


class Plays(Method):
    """Plays at random from its seed; the others break a rule each."""

    constants = "none"

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def draw(self):
        return int(self.rng.integers(2))

    def run(self, access):
        while True:
            view = access.reset()
            while view is not None:
                _, view = access.step(self.draw())
            yield lambda view: 0


class WrongAccess(Plays):
    access = dict


class UnknownFact(Plays):
    needs = frozenset({"luck"})


class UnknownConstants(Plays):
    constants = "good"


class NoAction(Plays):
    def run(self, access):
        for _ in super().run(access):
            yield lambda view: 0.5


class NoPolicy(Plays):
    def run(self, access):
        for _ in super().run(access):
            pass
        yield None


class Peeks(Plays):
    def run(self, access):
        access._world.testbed.optimal_value(access._world.testbed.held_out(1)[0])
        yield from super().run(access)


class Impure(Plays):
    def run(self, access):
        for _ in super().run(access):
            yield lambda view: self.draw() * 0
            for _ in range(self.draw()):
                access.reset()


class Steps(Plays):
    def run(self, access):
        for _ in super().run(access):
            yield lambda view: access.reset() and access.step(0) and 0


class Forgetful(Plays):
    def __init__(self, seed):
        self.rng = np.random.default_rng()

    def run(self, access):
        for _ in super().run(access):
            action = self.draw()
            yield lambda view, action=action: action


class Global(Plays):
    def draw(self):
        return random.randrange(2)

    def run(self, access):
        yield from super().run(access)


class Endless(Plays):
    def run(self, access):
        while True:
            try:
                yield from super().run(access)
            except BudgetSpent:
                continue


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (WrongAccess, "its access is <class 'dict'>"),
        (UnknownFact, "needs has luck"),
        (UnknownConstants, "constants is 'good'"),
        (NoAction, "a policy answered 0.5"),
        (NoPolicy, "no policy came"),
        (Peeks, "reads access._world"),
        (Impure, "went another way"),
        (Steps, "a policy took steps|reads"),
        (Forgetful, "differ in gap"),
        (Global, "generator of `random`"),
        (Endless, "went on for"),
        (lambda seed: "method", "is no fpi.baselines.Method"),
    ],
)
def test_a_broken_rule_is_named(broken, complaint):
    with pytest.raises(CheckFailed, match=complaint):
        fpi.check_method(broken)


def test_the_same_method_unbroken_passes():
    assert fpi.check_method(Plays).method == "Plays"

"""`check_method`: does a method of your own keep to the rules of the harness?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fpi import baselines
from fpi.baselines import FACTS, BudgetSpent, Generative, Inapplicable, Judge, Local, Method, Online, Oracle, access
from fpi.baselines.worlds import TestbedWorld
from fpi.errors import CheckFailed
from fpi.testbeds import DeepSea, HubNet, LinBandit, Testbed
from fpi.testing.checks import _global_generators
from fpi.testing.harness import require

STEPS = 800
PATIENCE = 3  # calls after the budget is spent

Make = Callable[..., Method]


@dataclass(frozen=True)
class MethodReport:
    """The checks that a method passed."""

    method: str
    passed: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.method} passes {len(self.passed)} checks", *(f"  {name}" for name in self.passed)])


def check_method(make_method: Make, testbed: Testbed | None = None) -> MethodReport:
    """Check that a method keeps to the rules of `fpi.baselines.play`; a CheckFailed says what it broke.

    `make_method(seed=...)` gives a fresh method, so its class will do. Without a `testbed` a small one is chosen that
    it can be run on.
    """
    declarations_make_sense(make_method(seed=0))
    chosen = testbed or _fitting(make_method(seed=0))
    for check in CHECKS:
        check(make_method, chosen)
    passed = (check.__name__.replace("_", " ") for check in (declarations_make_sense, *CHECKS))
    return MethodReport(type(make_method(seed=0)).__name__, tuple(passed))


def _fitting(method: Method) -> Testbed:
    for testbed in (HubNet(B=2, m=2, K=3), DeepSea(4), LinBandit(d=3, K=3)):
        try:
            method.check(testbed.holds | {"noiseless"})
        except Inapplicable:
            continue
        return testbed
    raise CheckFailed("no small testbed is fit for this method, by what it requires. Pass one as `testbed`.")


def declarations_make_sense(method: Method) -> None:
    require(isinstance(method, Method), f"{method!r} is no fpi.baselines.Method", "Derive it from that class.")
    kinds = (Online, Local, Generative, Oracle)
    require(
        method.access in kinds,
        f"its access is {method.access!r}",
        "Declare one of fpi.baselines.Online, Local, Generative, Oracle.",
    )
    unknown = sorted((method.needs | method.requires) - set(FACTS))
    require(not unknown, f"needs has {', '.join(unknown)}", f"Facts are called {', '.join(FACTS)}.")
    require(
        method.constants in ("theory", "scaled", "none"),
        f"constants is {method.constants!r}",
        'Say "theory", "scaled", or "none" if there is no theorem.',
    )


def its_policies_are_actions_for_every_view(make: Make, testbed: Testbed) -> None:
    given, policies = _opened(make, testbed)
    judge = Judge(testbed, given, 20)
    policy = next(_safely(policies), None)
    require(policy is not None, f"no policy came in {STEPS:,} steps", "Yield one whenever it changes, or at the end.")
    parts = policy.parts if isinstance(policy, baselines.Mixture) else (policy,)
    paid = given.bill.steps
    for part in parts[:3]:
        for start in judge.starts:
            action = part(judge.view(start))  # type: ignore[misc]
            require(
                isinstance(action, int | np.integer) and action in range(testbed.actions),
                f"a policy answered {action!r}",
                f"Return a whole number from 0 to {testbed.actions - 1}.",
            )
            require(given.bill.steps == paid, "a policy took steps", "A policy answers from what was learned.")


def it_looks_at_views_only(make: Make, testbed: Testbed) -> None:
    """Nothing with a leading underscore is read from the access object, where the world is."""
    _, policies = _opened(make, testbed, guarded=True)
    for _ in _safely(policies):
        pass


def judging_changes_nothing(make: Make, testbed: Testbed) -> None:
    taken = []
    for judged in (False, True):
        given, policies = _opened(make, testbed, watched=True)
        judge = Judge(testbed, given, 5)
        for policy in _safely(policies):
            if judged:
                judge.gap(policy)
        taken.append(given.taken)  # type: ignore[attr-defined]
    require(taken[0] == taken[1], "the run went another way when its policies were asked", "Keep policies pure.")


def the_same_seed_gives_the_same_run(make: Make, testbed: Testbed) -> None:
    runs = [baselines.play(make(seed=1), testbed, seed=1, steps=STEPS, noise="none") for _ in range(2)]
    for name in ("steps", "episodes", "restores", "jumps", "gap"):
        same = np.array_equal(runs[0].rows[name], runs[1].rows[name], equal_nan=True)
        require(same, f"two runs with seed=1 differ in {name}", "Draw every random number from the seed.")


def global_generators_are_left_alone(make: Make, testbed: Testbed) -> None:
    before = _global_generators()
    baselines.play(make(seed=0), testbed, seed=0, steps=STEPS, noise="none")
    require(
        before == _global_generators(),
        "the generator of `random` or `np.random` was used",
        "Use numpy.random.default_rng(self.seed).",
    )


def it_stops_when_its_budget_is_spent(make: Make, testbed: Testbed) -> None:
    given, policies = _opened(make, testbed, steps=100, watched=True)
    for _ in _safely(policies):
        pass
    refused: int = given.refused  # type: ignore[attr-defined]
    require(
        refused <= PATIENCE,
        f"it went on for {refused} calls after its budget was spent",
        "Let BudgetSpent pass: whoever runs the method catches it.",
    )


CHECKS = (
    it_stops_when_its_budget_is_spent,  # the others rely on it
    its_policies_are_actions_for_every_view,
    it_looks_at_views_only,
    the_same_seed_gives_the_same_run,
    global_generators_are_left_alone,
    judging_changes_nothing,
)


def _opened(
    make: Make, testbed: Testbed, steps: int = STEPS, guarded: bool = False, watched: bool = False
) -> tuple[Online, Iterator[Any]]:
    """An access object for a fresh method, and its policies."""
    method = make(seed=0)
    world = TestbedWorld(testbed, 0, "none", online=method.access in (Online, Oracle))
    kind = _guarded(method.access) if guarded else _watched(method.access) if watched else method.access
    given: Online = kind(world, steps=steps)
    return given, method.run(given)


def _safely(policies: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from policies
    except BudgetSpent:
        return


def _guarded(kind: type[Any]) -> type[Any]:
    """The same access, which complains when anybody else reads its private parts."""

    class Guarded(kind):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            if name.startswith("_") and not name.startswith("__"):
                asker = sys._getframe(1).f_code.co_filename
                require(
                    asker in (access.__file__, __file__),
                    f"the method reads access.{name}",
                    "That is behind the curtain: use what the access type offers.",
                )
            return super().__getattribute__(name)

    return Guarded


def _watched(kind: type[Any]) -> type[Any]:
    """The same access, which keeps the actions taken and counts the calls it has refused."""

    class Watched(kind):  # type: ignore[misc]
        refused = 0

        def __init__(self, *arguments: Any, **budget: Any) -> None:
            super().__init__(*arguments, **budget)
            self.taken: list[int] = []

        def _refusing(self, call: Callable[..., Any], *arguments: Any) -> Any:
            try:
                return call(*arguments)
            except BudgetSpent:
                self.refused += 1
                if self.refused > 10 * PATIENCE:
                    raise CheckFailed("it stops when its budget is spent: it went on for ever.") from None
                raise

        def reset(self) -> Any:
            return self._refusing(super().reset)

        def step(self, action: int) -> Any:
            self.taken.append(action)
            return self._refusing(super().step, action)

    return Watched

"""A method of the harness as the planner of `fpi.ModelFPI`: planners of Table 1, online.

They ask for restores, or for any state at all, which no environment grants online. A learnt model does: the method is
given its access to the model, pays its bill there, and the environment is only played. What is not known ends an
episode in the model, and pays what pessimism says for all that is left.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi._validation import check_whole
from fpi.baselines.access import Bill, BudgetSpent, FloatArray, Online, Oracle, View, World
from fpi.baselines.method import Method, Mixture, Policy
from fpi.errors import InputError
from fpi.kernels.choose import TIE
from fpi.kernels.nets import UNTRIED
from fpi.modelling.calls import choose_widest
from fpi.modelling.model import SmoothModel
from fpi.modelling.planners import RIDGE, Plan, Window, bare_plan
from fpi.modelling.table import TablePlan

Ints = NDArray[np.int64]

MOST_FEATURES = 4_000


class TableWorld:
    """A learnt table. Features are one-hot, and states are pairs of a stage and a number."""

    def __init__(self, table: TablePlan) -> None:
        self.table = table
        self.horizon, states, self.actions = table.values.shape
        self.dim = states * self.actions
        if self.dim > MOST_FEATURES:
            raise InputError(
                f"{states:,} states with {self.actions:,} actions are {self.dim:,} features, more than the "
                f"{MOST_FEATURES:,} that methods are given. Plan exactly: leave the planner out."
            )
        self._features = np.eye(self.dim).reshape(states, self.actions, self.dim)
        self._features.flags.writeable = False
        self._visited = np.flatnonzero((table.after != UNTRIED).any(axis=1)).tolist()

    def start(self, episode: int) -> tuple[int, int]:
        return 0, int(self.table.starts[episode % len(self.table.starts)])

    def features(self, state: tuple[int, int]) -> FloatArray:
        rows: FloatArray = self._features[state[1]]
        return rows

    def states(self, stage: int) -> list[tuple[int, int]]:
        return [(stage, number) for number in self._visited]

    def step(self, state: tuple[int, int], action: int) -> tuple[float, tuple[int, int] | None]:
        stage, number = state
        after = int(self.table.after[number, action])
        if after == UNTRIED:
            return (self.horizon - stage) * self.table.unknown, None
        ends = after < 0 or stage + 1 == self.horizon
        return float(self.table.rewards[number, action]), None if ends else (stage + 1, after)


class SmoothWorld:
    """A window of a smooth model. Windows begin at the points of the cover, and states are pairs of a stage and z.

    The features of an action are 1 and those of the kernel of the frozen stages, projected on a few widest points of
    the cover: with all points, their inner products would be the kernel itself.
    """

    def __init__(self, plan: Plan, centres: int) -> None:
        self.plan = plan
        self.horizon, self.actions = plan.stages.means.shape
        count = len(plan.points)
        chosen, rows = choose_widest(
            plan.stages.cover, np.zeros((1, 1)), np.zeros(count, np.int64), min(centres, count), RIDGE
        )
        self._centres = plan.stages.cover[:, chosen]
        self._whitening = np.linalg.inv(rows[:, chosen].T)
        self._own = 1 + len(chosen)  # features of one action
        self.dim = self.actions * self._own

    def start(self, episode: int) -> tuple[int, FloatArray]:
        return 0, self.plan.points[episode % len(self.plan.points)]

    def features(self, state: tuple[int, FloatArray]) -> FloatArray:
        apart = self._centres - (state[1] * self.plan.stages.rates)[:, None]
        near = (1.0 + (apart**2).sum(axis=0)) ** -2
        rows = np.zeros((self.actions, self.actions, self._own))
        every = np.arange(self.actions)
        rows[every, every] = np.append(1.0, self._whitening @ near) / np.sqrt(2.0)  # of norm 1 at most
        return rows.reshape(self.actions, self.dim)

    def states(self, stage: int) -> list[tuple[int, FloatArray]]:
        return [(stage, z) for z in self.plan.points]

    def step(self, state: tuple[int, FloatArray], action: int) -> tuple[float, tuple[int, FloatArray] | None]:
        stage, z = state
        left, model, unknown = self.horizon - stage, self.plan.model, self.plan.stages.unknown
        observation, reward, end, known = model.step(z * model.coordinates.scales, action, unknown)
        if not known:
            return left * unknown, None
        if end or left == 1:
            return reward, None
        return reward, (stage + 1, model.coordinates(observation))


@dataclass(frozen=True)
class MethodTable(TablePlan):
    """The policy of a method in a table. `values` are those of this policy."""

    policy: Ints
    """(H, S)."""
    exact: TablePlan
    """The best policy, to compare with."""
    bill: Bill
    """What the method paid in the table."""

    def best(self, state: int, stage: int, taken: Collection[int] = ()) -> int:
        action = int(self.policy[stage, state])
        repeated = action in taken and self.after[state, action] == UNTRIED
        return super().best(state, stage, taken) if repeated else action

    def promise(self, state: int, stage: int) -> tuple[bool, str]:
        lost = float(self.exact.values[stage, state].max() - self.values[stage, state, self.best(state, stage)])
        if lost > TIE * (1.0 + abs(self.exact.values[stage, state].max())):
            return False, f"heuristic: in the table, the policy of the method earns {lost:.4g} less than the best"
        return super().promise(state, stage)


@dataclass(frozen=True)
class MethodPlan(Plan):
    """The policy of a method in a smooth model."""

    world: SmoothWorld
    policy: Policy
    bill: Bill
    """What the method paid in the model."""


@dataclass(frozen=True)
class MethodPlanner:
    """A planner for `fpi.ModelFPI.for_env(env, planner=...)`: the method plans anew in the model after every episode.

    >>> import gymnasium as gym, fpi
    >>> from fpi import baselines
    >>> env = gym.make("FrozenLake-v1", is_slippery=False, desc=["SFF", "HFH", "FFG"], max_episode_steps=5)
    >>> agent = fpi.ModelFPI.for_env(env, planner=baselines.MethodPlanner(baselines.BackwardSweep(rollouts=1)))
    >>> history = agent.learn(env, episodes=20, seed=0)
    >>> float(fpi.evaluate(agent, env, episodes=1).mean), agent.plan.bill.jumps > 0
    (1.0, True)

    Files do not hold methods: pass it to `fpi.load(path, planner=...)` again.
    """

    method: Method
    """It must ask for `Local` or `Generative` access, or for `Online`: then it ends when its steps are spent."""
    steps: int = 200_000
    """What it may take in the model, for one plan."""
    centres: int = 30
    """Points of the cover that features are made of, where the model is no table; they are as many for each action."""

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method) or self.method.access is Oracle:
            raise InputError(
                f"{self.method!r} cannot plan in a learnt model. Pass a method of fpi.baselines that asks for Online, "
                "Local or Generative access, such as BackwardSweep() or CAPI(); no model answers an Oracle's questions."
            )
        check_whole("steps", self.steps, 1)
        check_whole("centres", self.centres, 1)

    def prepare(self, model: SmoothModel, horizon: int, pessimism: float) -> MethodPlan:
        """The plan in a smooth `model`, for windows of `horizon` steps. `pessimism` values the unknown."""
        plan = bare_plan(model, horizon, pessimism, model.cover, self)
        world = SmoothWorld(plan, self.centres)
        policy, bill = self._run(world, frozenset())
        return MethodPlan(**_fields(plan), world=world, policy=policy, bill=bill)

    def prepare_table(self, exact: TablePlan) -> MethodTable:
        """The plan of the method in the table of which `exact` is the best plan."""
        world = TableWorld(exact)
        fixed = {"fixed start"} if len(exact.starts) == 1 else set()
        policy, bill = self._run(world, frozenset({"linear", "complete"} | fixed))
        stages, states, _ = exact.values.shape
        chosen = np.array([[policy(_view(world, (h, s))) for s in range(states)] for h in range(stages)], np.int64)
        values, later = np.empty_like(exact.values), np.zeros(states)
        for h in range(stages - 1, -1, -1):
            paid = exact.rewards + np.where(exact.after >= 0, later[exact.after], 0.0)
            values[h] = np.where(exact.after == UNTRIED, (stages - h) * exact.unknown, paid)
            later = values[h, np.arange(states), chosen[h]]
        return MethodTable(**{**_fields(exact), "values": values}, policy=chosen, exact=exact, bill=bill)

    def choose(self, plan: Plan, z: FloatArray, kept: Ints, seed: int, episode: int, decision: int) -> Window:
        """The best of one window for each first action from the point `z` of the `plan`, and of the one `kept`.

        Nothing is random here: `seed`, `episode` and `decision` make no difference.
        """
        assert isinstance(plan, MethodPlan)
        values = np.full(plan.world.actions, -np.inf)
        best, value = np.empty(0, np.int64), -np.inf
        for given in [kept, *np.arange(plan.world.actions)[:, None]][0 if len(kept) else 1 :]:
            window, worth = imagine(plan, z, given)
            values[given[0]] = max(values[given[0]], worth)
            worth += plan.margin if given is kept else 0.0
            if worth > value + TIE * (1.0 + abs(worth)):
                best, value = window, worth
        return Window(best, value, values)

    def _run(self, world: World, more: frozenset[str]) -> tuple[Policy, Bill]:
        """The last policy that the method gives before it ends, or its steps are spent."""
        method = deepcopy(self.method)  # as it was before any plan
        one_stage = {"one stage"} if world.horizon == 1 else set()
        method.check(frozenset({"deterministic", "noiseless"} | one_stage) | more)
        access: Online = method.access(world, steps=self.steps)
        policy: Policy | Mixture | None = None
        began = time.process_time()
        try:
            for latest in method.run(access):
                policy = latest
                access.bill.numbers = max(access.bill.numbers, method.numbers)
        except BudgetSpent:
            pass
        access.bill.seconds = time.process_time() - began
        name = type(method).__name__
        if policy is None:
            raise InputError(
                f"{name} gives no policy within {self.steps:,} steps in the model. Give MethodPlanner more steps, a "
                "shorter window or horizon, or another method."
            )
        if isinstance(policy, Mixture):
            raise InputError(f"{name} mixes several policies, where a plan is one. Give MethodPlanner another method.")
        return policy, access.bill


def _fields(plan: Plan | TablePlan) -> dict[str, Any]:
    return {each.name: getattr(plan, each.name) for each in fields(plan)}


def _view(world: World, state: Any) -> View:
    return View(state[0], world.features(state))


def imagine(plan: MethodPlan, z: FloatArray, given: Ints) -> tuple[Ints, float]:
    """The window that begins with the given actions and goes on with the policy; its return."""
    played: list[int] = []
    total = 0.0
    state: tuple[int, FloatArray] | None = (0, z)
    while state is not None:
        action = int(given[len(played)]) if len(played) < len(given) else plan.policy(_view(plan.world, state))
        reward, state = plan.world.step(state, action)
        played.append(action)
        total += reward
    return np.array(played, np.int64), total

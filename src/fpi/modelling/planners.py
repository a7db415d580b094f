"""Planning in a learnt model: which window of decisions to begin at a state. Planners can be exchanged.

`FrozenStages` is Frozen Policy Iteration with a simulator. Backwards over the stages h = H-1 ... 0 of a window it rolls
out every action at every point of the cover, followed by the frozen policies of the later stages; Q_h is the kernel
regression of these returns, pi_h its argmax, frozen before stage h - 1 begins. So no stored return ever goes stale: the
complete-stage case of the paper's Lemma 2. At a state it then compares one window for every first action, followed by
the frozen policies, with those that a search finds, which Q_h guides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fpi.kernels.windows import Stages
from fpi.modelling.calls import (
    best_window,
    decide,
    factorise,
    gram,
    imagine,
    product,
    similarities_of,
    solve_lower,
    solve_upper,
    sweep,
    value_of,
)
from fpi.modelling.known import add_to_net, distances
from fpi.modelling.model import SmoothModel
from fpi.modelling.table import TablePlan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LENGTH = 3.0  # of the kernel of Q_h, in radii of the cover
RIDGE = 1e-3
MOST_POINTS = 320  # of the cover with imagined states
SKETCH = 2  # one of so many points of the cover is enough for a plan that only tells which states windows come to
MARGIN = 0.1  # of the span of rewards over one decision: by less, no rival replaces a window


class Window(NamedTuple):
    """Decisions that were chosen, and what the model says they are worth, with the margin if they were kept."""

    actions: Ints
    value: float
    values: Floats
    """The best value found for each first action; minus infinity where none was tried, or could have been the best."""


@dataclass(frozen=True)
class Plan:
    """A model and what a planner has prepared in it."""

    model: SmoothModel
    stages: Stages
    targets: Floats
    """(H, A, n): the returns that the stages rest on; empty where there are none."""
    points: Floats
    """(n, d): where they begin."""
    planner: Planner

    @property
    def horizon(self) -> int:
        """Decisions of a window."""
        return len(self.stages.means)

    def distance(self, z: Floats) -> float:
        """Of the known set's nearest data, in its units: below 1 some decision is known."""
        return float(distances(self.model.dynamics, z).min())

    def choose(self, z: Floats, kept: Ints, seed: int, episode: int, decision: int) -> Window:
        """The window to begin at z; `kept` are the decisions left of the last one."""
        return self.planner.choose(self, z, kept, seed, episode, decision)

    @property
    def margin(self) -> float:
        low, high = self.model.rewards
        return MARGIN * self.model.coordinates.interval * (high - low)


class Planner(Protocol):
    """What can be exchanged."""

    def prepare(self, model: SmoothModel, horizon: int, pessimism: float) -> Plan:
        """All that can be computed before a state is asked for."""

    def choose(self, plan: Plan, z: Floats, kept: Ints, seed: int, episode: int, decision: int) -> Window: ...


@runtime_checkable
class TablePlanner(Protocol):
    """A planner that has plans of its own in tables; with all others these are planned exactly."""

    def prepare_table(self, exact: TablePlan) -> TablePlan: ...


def bare_plan(model: SmoothModel, horizon: int, pessimism: float, points: Floats, planner: Planner) -> Plan:
    """With stages that know what is known, and nothing else."""
    rates = np.full(points.shape[1], 1.0 / (np.sqrt(2.0) * LENGTH * model.radius))
    low, high = model.rewards
    actions = len(model.tried)
    stages = Stages(
        cover=np.ascontiguousarray((points * rates).T),
        rates=rates,
        weights=np.zeros((horizon, actions, len(points))),
        means=np.zeros((horizon, actions)),
        unknown=model.coordinates.interval * (high - pessimism * (high - low)),
        highest=model.coordinates.interval * high,
    )
    return Plan(model, stages, np.empty((0, actions, len(points))), points, planner)


@dataclass(frozen=True)
class FrozenStages:
    """FPI in the model."""

    width: int = 100
    """Of the search for a window at a state that comes by itself: states that it goes on from after every decision."""
    width_kept: int = 5
    """The same where a window is kept from before."""
    every: int = 4
    """A search at every so many decisions, as long as the window that is kept runs its course."""

    def prepare(self, model: SmoothModel, horizon: int, pessimism: float) -> Plan:
        sketch = self._sweep(bare_plan(model, horizon, pessimism, model.cover[::SKETCH], self))
        points = add_to_net(model.cover, self._imagined(sketch, model.cover), model.radius, MOST_POINTS)
        return self._sweep(bare_plan(model, horizon, pessimism, points, self))

    def _sweep(self, plan: Plan) -> Plan:
        """Fill all stages, the last one first, each from the stages after it that are already there."""
        return self._fill(plan, plan.stages)

    def _fill(self, plan: Plan, later: Stages) -> Plan:
        """Fill all stages from returns of the policies in `later`."""
        n = len(plan.points)
        factor = gram(plan.stages.cover, np.zeros((1, 1)), np.zeros(n, np.int64), RIDGE)
        factorise(factor)
        targets = np.empty((*plan.stages.means.shape, n))
        sweep(plan.model.dynamics, plan.model.ends, plan.stages, later, plan.points, factor, targets)
        return replace(plan, targets=targets)

    def _imagined(self, plan: Plan, starts: Floats) -> Floats:
        """The known states that windows come to."""
        path = np.empty((plan.horizon + 1, plan.points.shape[1]))
        played = np.empty(plan.horizon, np.int64)
        found = []
        for point in starts:
            for action in range(plan.stages.means.shape[1]):
                given = np.array([action])
                _, taken, _ = imagine(
                    plan.model.dynamics, plan.model.ends, plan.stages, point, 0, given, 1, -np.inf, played, path
                )
                found.append(path[1:taken].copy())
        return np.concatenate(found)

    def choose(self, plan: Plan, z: Floats, kept: Ints, seed: int, episode: int, decision: int) -> Window:
        chosen = np.empty(plan.horizon, np.int64)
        given = np.append(kept, 0)  # not empty, for compiled code
        model, width = plan.model, self.width_kept if len(kept) else self.width
        value, length, values = best_window(
            model.dynamics,
            model.ends,
            plan.stages,
            z,
            given,
            len(kept),
            plan.margin,
            decision % self.every > 0,
            width,
            chosen,
        )
        return Window(chosen[:length].copy(), value, values)


@dataclass(frozen=True)
class StationaryValues(FrozenStages):
    """One discounted Q for all stages, by fitted Q iteration: what freezing stage by stage is compared with."""

    discount: float = 0.98
    rounds: int = 150

    def _sweep(self, plan: Plan) -> Plan:
        stages, (n, d) = plan.stages, plan.points.shape
        actions = stages.means.shape[1]
        factor = gram(stages.cover, np.zeros((1, 1)), np.zeros(n, np.int64), RIDGE)
        factorise(factor)
        rewards, later = np.empty((n, actions)), np.zeros((n, actions))
        after = np.empty((n, actions, d))
        unknown = stages.unknown / (1.0 - self.discount)
        known = np.zeros((n, actions), np.bool_)
        for i, a in np.ndindex(n, actions):
            reward, end, sure = decide(
                plan.model.dynamics, plan.model.ends, stages.unknown, plan.points[i], a, after[i, a]
            )
            rewards[i, a] = reward if sure else 0.0
            known[i, a] = sure and not end
            later[i, a] = 0.0 if end and sure else unknown
        inputs = np.ascontiguousarray(after[known].T)
        near = similarities_of(stages.cover, np.zeros((1, n)), np.zeros(known.sum(), np.int64), inputs, stages.rates)
        weights, means = np.zeros((n, actions)), np.zeros(actions)
        for _ in range(self.rounds):
            later[known] = (means + product(near, weights)).max(axis=1)
            targets = rewards + self.discount * later
            means = targets.mean(axis=0)
            weights = targets - means
            solve_lower(factor, weights)
            solve_upper(factor, weights)
        stages.means[:], stages.weights[:] = means, weights.T
        return replace(plan, targets=targets.T[None].copy())


@dataclass(frozen=True)
class CrossEntropy:
    """The cross-entropy method on action sequences, or the best of random ones with one round; no policy behind it."""

    candidates: int = 100
    rounds: int = 3
    elite: float = 0.1

    def prepare(self, model: SmoothModel, horizon: int, pessimism: float) -> Plan:
        return bare_plan(model, horizon, pessimism, model.cover, self)

    def choose(self, plan: Plan, z: Floats, kept: Ints, seed: int, episode: int, decision: int) -> Window:
        horizon, actions = plan.stages.means.shape
        draw = np.random.default_rng([seed, episode, decision])  # the same wherever it is asked for
        chances = np.full((horizon, actions), 1.0 / actions)
        best, value, values = np.zeros(horizon, np.int64), -np.inf, np.full(actions, -np.inf)
        for number in range(self.rounds):
            uniform = draw.random((self.candidates, horizon))
            sequences = (uniform[:, :, None] > np.cumsum(chances, axis=1)[None, :, :-1]).sum(axis=2).astype(np.int64)
            if number:
                sequences[0] = best
            elif len(kept):
                sequences[0, : len(kept)] = kept[:horizon]
            worth = np.empty(self.candidates)
            margin = plan.margin if len(kept) and not number else 0.0
            value_of(plan.model.dynamics, plan.model.ends, plan.stages, z, sequences, worth, margin)
            plain = worth.copy()
            plain[0] -= margin
            np.maximum.at(values, sequences[:, 0], plain)
            order = np.argsort(-worth, kind="stable")
            if worth[order[0]] > value:
                best, value = sequences[order[0]].copy(), float(worth[order[0]])
            elite = sequences[order[: max(1, int(self.elite * self.candidates))]]
            chances = 0.1 / actions + 0.9 * (elite[:, :, None] == np.arange(actions)).mean(axis=0)
        return Window(best, value, values)


PLANNERS: dict[str, Planner] = {
    "frozen": FrozenStages(),
    "stationary": StationaryValues(),
    "cem": CrossEntropy(),
    "shooting": CrossEntropy(candidates=300, rounds=1),
}

"""Does a testbed keep its promises? Everything is measured on random states and policies, nothing is taken on trust."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpi.errors import InputError
from fpi.testbeds.base import random_policy

if TYPE_CHECKING:
    from fpi.testbeds.base import FloatArray, Policy, State, Testbed, Value

TOLERANCE = 1e-9
RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Verification:
    """What `verify` measured; `problems` is empty if everything holds.

    `deterministic` is that of the testbed.
    """

    testbed: str
    horizon: int
    actions: int
    dim: int
    kappa: float
    ranks: tuple[int, ...]
    """Independent feature directions, per stage."""
    pairs: int
    """State-action pairs in the largest stage of the pool."""
    residual: float
    """Largest |Q^pi - fit| of least-squares fits to Q^pi of random policies and an optimal one."""
    closed_form_residual: float
    """Largest |Q^pi - <phi, theta^pi>| with the closed form of theta."""
    bellman_residual: float
    """Largest error of least-squares fits to r + max <phi, theta> for random unit theta; 0 if Bellman complete."""
    norm: float
    """Largest norm of a feature vector."""
    theta: float
    """Largest norm of theta among the random policies."""
    theta_bound: float
    means: tuple[float, float]
    """Smallest and largest mean reward."""
    choices: tuple[int, ...]
    """States seen, per stage, at which the action matters to some policy."""
    deterministic: bool = True

    @property
    def theory_bound(self) -> float:
        """The paper's bound on theta, sqrt(d) H."""
        return math.sqrt(self.dim) * self.horizon

    @property
    def problems(self) -> tuple[str, ...]:
        """What does not hold, in words."""
        exact = self.kappa == 0
        structured = not self.deterministic or all(
            states <= rank for rank, states in zip(self.ranks, self.choices[1:], strict=False)
        )
        promises = {
            f"features have norms up to {self.norm:.6g}": self.norm <= 1 + TOLERANCE,
            f"means go from {self.means[0]:.6g} to {self.means[1]:.6g}": self.means[0] >= 0 and self.means[1] <= 1,
            f"Q^pi is off by {self.residual:.2g} from its linear fit": not exact or self.residual <= TOLERANCE,
            f"Q^pi is off by {self.closed_form_residual:.2g} from its closed form": (
                self.closed_form_residual <= self.kappa + TOLERANCE
            ),
            f"a theta has the norm {self.theta:.6g}, above the bound {self.theta_bound:.6g}": (
                self.theta <= self.theta_bound * (1 + TOLERANCE)
            ),
            f"the theta bound {self.theta_bound:.6g} is above sqrt(d) H": self.theta_bound <= self.theory_bound,
            "a stage has more choice states than the one before has feature directions": not exact or structured,
        }
        return tuple(text for text, kept in promises.items() if not kept)

    def __str__(self) -> str:
        return "\n".join(
            [
                self.testbed,
                f"  horizon {self.horizon}, actions {self.actions}, features {self.dim}, {self.pairs} pairs in a stage",
                f"  feature directions per stage    {' '.join(map(str, self.ranks))}",
                f"  choice states seen per stage    {' '.join(map(str, self.choices))}",
                f"  Q^pi: least-squares residual    {self.residual:.1e}",
                f"  Q^pi: closed-form residual      {self.closed_form_residual:.1e}  (misspecification {self.kappa:g})",
                f"  Bellman-completeness residual   {self.bellman_residual:.1e}",
                f"  largest feature norm            {self.norm:.6f}",
                f"  largest theta, its bound        {self.theta:.2f}, {self.theta_bound:.2f}  (sqrt(d) H ="
                f" {self.theory_bound:.1f})",
                f"  mean rewards                    {self.means[0]:.3f} to {self.means[1]:.3f}",
                "  " + ("everything holds" if not self.problems else "PROBLEMS: " + "; ".join(self.problems)),
            ]
        )


def verify(testbed: Testbed, policies: int = 6, pool: int = 700, seed: int = 0) -> Verification:
    """Measure a testbed with `policies` random policies, on up to `pool` states per stage."""
    if policies < 1 or pool < 1:
        raise InputError(f"policies={policies}, pool={pool}: both must be at least 1.")
    rng = np.random.default_rng(seed)
    stages = [_Stage(testbed, states) for states in pool_of(testbed, pool, rng, seed)]
    tried: list[tuple[Policy, Value]] = [(testbed.optimal_action, testbed.optimal_value)]
    for number in range(policies):
        policy = random_policy(testbed.actions, seed + number)
        tried.append((policy, testbed.values(policy)))
    arbitrary = rng.normal(size=(testbed.dim, policies))
    arbitrary /= np.linalg.norm(arbitrary, axis=0)

    residual = closed_form = longest = bellman = 0.0
    choices = []
    for h, stage in enumerate(stages):
        q = stage.targets([[value(state) for _, value in tried] for state in stage.following], columns=len(tried))
        theta = np.column_stack([testbed.theta(h, policy) for policy, _ in tried])
        residual = max(residual, stage.misfit(q))
        closed_form = max(closed_form, float(np.abs(stage.rows @ theta - q).max()))
        # the optimal policy, which is the first, makes the bound that the others are held against
        longest = max(longest, float(np.linalg.norm(theta[:, 1:], axis=0).max()))
        spread = np.ptp(q.reshape(-1, testbed.actions, len(tried)), axis=1)
        choices.append(int((spread.max(axis=1) > TOLERANCE).sum()))
        if h < testbed.horizon - 1:
            best = [(testbed.phi(state) @ arbitrary).max(axis=0) for state in stage.following]
            bellman = max(bellman, stage.misfit(stage.targets(best, columns=policies)))
    return Verification(
        testbed=str(testbed),
        horizon=testbed.horizon,
        actions=testbed.actions,
        dim=testbed.dim,
        kappa=testbed.misspecification,
        ranks=tuple(int(np.linalg.matrix_rank(stage.rows, rtol=RANK_TOLERANCE)) for stage in stages),
        pairs=max(len(stage.rows) for stage in stages),
        residual=residual,
        closed_form_residual=closed_form,
        bellman_residual=bellman,
        norm=max(float(np.linalg.norm(stage.rows, axis=1).max()) for stage in stages),
        theta=longest,
        theta_bound=testbed.theta_bound,
        means=(min(float(s.means.min()) for s in stages), max(float(s.means.max()) for s in stages)),
        choices=tuple(choices),
        deterministic=testbed.deterministic,
    )


class _Stage:
    """The states of one stage in the pool, all actions of each, and where they lead."""

    def __init__(self, testbed: Testbed, states: list[State]) -> None:
        pairs = [(state, action) for state in states for action in range(testbed.actions)]
        self.rows = np.concatenate([testbed.phi(state) for state in states])
        self.means = np.array([testbed.mean(*pair) for pair in pairs])
        reached = [testbed.outcomes(*pair) for pair in pairs]
        self.following = [
            state
            for state in dict.fromkeys(state for outcomes in reached for _, state in outcomes)
            if state is not None
        ]
        places: dict[State | None, int] = {state: i for i, state in enumerate(self.following)}
        most = max(map(len, reached))
        self._leads_to = np.full((len(pairs), most), -1)
        self._chances = np.zeros((len(pairs), most))
        for i, outcomes in enumerate(reached):
            for j, (chance, state) in enumerate(outcomes):
                self._leads_to[i, j], self._chances[i, j] = places.get(state, -1), chance

    def targets(self, values: Sequence[Sequence[float] | FloatArray], columns: int) -> FloatArray:
        """Mean reward plus the expected values of the state that follows, one row for every pair."""
        later = np.zeros((len(self.following) + 1, columns))  # the last row is the end
        if values:
            later[:-1] = values
        pairs: FloatArray = self.means[:, None] + (self._chances[..., None] * later[self._leads_to]).sum(axis=1)
        return pairs

    def misfit(self, targets: FloatArray) -> float:
        """The largest error of least-squares fits to all columns."""
        fit = np.linalg.lstsq(self.rows, targets, rcond=RANK_TOLERANCE)[0]
        return float(np.abs(self.rows @ fit - targets).max())


def pool_of(testbed: Testbed, most: int, rng: np.random.Generator, seed: int) -> list[list[State]]:
    """For every stage up to `most` of the states that can be reached from those of the stage before."""
    stages = [list(dict.fromkeys(testbed.held_out(most, seed)))]
    for _ in range(testbed.horizon - 1):
        reached = {
            after: None
            for state in stages[-1]
            for action in range(testbed.actions)
            for _, after in testbed.outcomes(state, action)
        }
        states = [state for state in reached if state is not None]
        if len(states) > most:
            states = [states[i] for i in np.sort(rng.choice(len(states), most, replace=False))]
        stages.append(states)
    return stages

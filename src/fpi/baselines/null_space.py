"""Null-space randomisation (Wu, Sekhari, Krishnamurthy and Sun, 2024), online, for linear Bellman completeness.

For h = H, ..., 1, with P the projector on the span of the data of stage h:

    theta^  fits V_{h+1}(s') of the data without error (completeness), omega^ fits their rewards
    theta   = theta^ + N(0, sigma_h^2 (I - P)):  noise only where nothing is known
    omega   = omega^ + N(0, sigma_R^2 Sigma_h^{-1}),  Sigma_h = ridge I + sum x x'
    Q_h     = <phi, omega + theta>, never cut; play the greedy policy

Assumes deterministic transitions and completeness for every theta. sigma_h grows exponentially with H - h in the
theory, which is harmless as the noise lives outside of the span; at most d H episodes leave it. Regret O~(d^{5/2}
H^{5/2} + d^2 H^{3/2} sqrt(T)). Here sigma_h = 3 (H - h + 1), a pseudo-inverse stands for the constrained fit, and the
identity for the design that shapes the noise. `residual` is the largest error of the fits theta^: it is 0 if the
assumption holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fpi.baselines.access import FloatArray, Online, View
from fpi.baselines.method import Method, Policy, Transitions, greedy

RANK_CUT = 1e-8  # of eigenvalues; decides what is known and what is noise
OUTSIDE = 1e-6


class _Stage(Transitions):
    def __init__(self, access: Online) -> None:
        super().__init__(access)
        self.null = np.eye(access.dim)
        """I - P."""
        self.drawn = np.zeros(access.dim)
        self.judged = np.zeros(access.dim)
        """Without the noise of rewards and outside of the span."""


@dataclass
class NullSpace(Method):
    """Wu et al. with `sigma` times H - h + 1 as noise outside of the span and `sigma_reward` inside."""

    access = Online
    needs = frozenset({"complete", "deterministic"})
    constants = "scaled"

    sigma: float = 3.0
    sigma_reward: float = 0.3
    ridge: float = 0.1
    replan: int = 20
    seed: int = 0

    def run(self, access: Online) -> Iterator[Policy]:
        self.rng = np.random.default_rng((self.seed, 3))
        self.residual = 0.0
        self.stages = [_Stage(access) for _ in range(access.horizon)]
        while True:
            self.plan()
            yield self.policy
            for _ in range(self.replan):
                if self.play(access):
                    break

    def play(self, access: Online) -> bool:
        """An episode; whether it left the span of the data."""
        left = False
        view: View | None = access.reset()
        while view is not None:
            stage = self.stages[view.stage]
            action = greedy(view.features @ stage.drawn)
            reward, after = access.step(action)
            left |= bool(np.abs(stage.null @ view.features[action]).max() > OUTSIDE)
            stage.add(view.features[action], reward, after)
            view = after
        return left

    def policy(self, view: View) -> int:
        """By omega^ + theta^, not by the last noisy draw."""
        return greedy(view.features @ self.stages[view.stage].judged)

    def plan(self) -> None:
        self.residual = 0.0
        later: _Stage | None = None
        for left, stage in enumerate(reversed(self.stages), start=1):
            d = len(stage.gram)
            sizes, axes = np.linalg.eigh(stage.gram)
            known = sizes > RANK_CUT * max(1.0, sizes[-1])
            inverse = (axes[:, known] / sizes[known]) @ axes[:, known].T
            stage.null = np.eye(d) - axes[:, known] @ axes[:, known].T
            x = stage.x.all
            targets = [_values(stage, weights) for weights in ((later.drawn, later.judged) if later else (None, None))]
            drawn, judged = (inverse @ (x.T @ target) for target in targets)
            self.residual = max(self.residual, float(np.abs(x @ drawn - targets[0]).max(initial=0.0)))
            ridged = stage.gram + self.ridge * np.eye(d)
            omega = np.linalg.solve(ridged, x.T @ stage.reward.all)
            root = np.linalg.cholesky(np.linalg.inv(ridged))
            noise = self.rng.standard_normal((2, d))
            stage.drawn = (
                drawn + self.sigma * left * (stage.null @ noise[0]) + omega + self.sigma_reward * (root @ noise[1])
            )
            stage.judged = judged + omega
            later = stage
        self.numbers = sum(stage.numbers for stage in self.stages)


def _values(stage: _Stage, weights: FloatArray | None) -> FloatArray:
    """max_b <phi(s', b), weights> of the data, 0 at the end."""
    if weights is None:
        return np.zeros(stage.x.size)
    after = stage.after.all
    rows = after.reshape(-1, len(weights))  # numpy is quick with matrices only
    values: FloatArray = (rows @ weights).reshape(after.shape[:2]).max(axis=1) * (stage.after_stage.all >= 0)
    return values

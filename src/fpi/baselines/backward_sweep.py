"""Backward induction with a generative model: Lattimore, Szepesvári and Weisz (2020), and Du, Kakade, Wang and Yang
(2019).

For h = H, ..., 1: choose few pairs (s, a) of the stage, whose features speak for all; play each, then the greedy
policies of later stages, some times; theta_h = least squares of the returns. The policy is greedy with respect to <phi,
theta_h>.

    design = "g"        a G-optimal design, ceil(n r rho_z) rollouts of pair z: Lattimore et al., who iterate policies
                        in discounted MDPs; with a horizon one sweep does. |phi|^2 in the inverse of the Gram matrix
                        is at most (1 + tol) / n everywhere.
    design = "spanner"  n rollouts of each vector of a barycentric spanner: Du et al.

Assumes linear Q^pi (Lattimore et al. up to kappa, at the price of a factor sqrt(d)), any transitions, and that one may
jump to any pair. With probability 1 - delta the policy loses at most 2 sum_h e_h, where with the design "g"

    e_h = kappa (1 + sqrt(r)) + sqrt(r) (H - h + 1) sqrt(log(2 |C| H / delta) / (2 n))     per pair, |C| pairs
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fpi.baselines.access import FloatArray, Generative, View
from fpi.baselines.designs import g_optimal, reduced, spanner
from fpi.baselines.method import Method, Policy, greedy


@dataclass
class BackwardSweep(Method):
    """One sweep with `rollouts` = n per direction.

    `design` says which directions are measured: "g" (a G-optimal design) or "spanner" (a barycentric one).
    """

    access = Generative
    needs = frozenset({"linear"})
    constants = "theory"

    rollouts: int = 100
    design: str = "g"
    seed: int = 0

    def run(self, access: Generative) -> Iterator[Policy]:
        self.thetas: dict[int, FloatArray] = {}
        for stage in reversed(range(access.horizon)):
            pairs = [(view, action) for view in access.states(stage) for action in range(access.actions)]
            rows = np.array([view.features[action] for view, action in pairs])
            counts = self.counts(reduced(rows))
            chosen = np.flatnonzero(counts)
            means = [
                math.fsum(self.rollout(access, *pairs[z]) for _ in range(counts[z])) / int(counts[z]) for z in chosen
            ]
            root = np.sqrt(counts[chosen])
            self.thetas[stage] = np.linalg.lstsq(rows[chosen] * root[:, None], means * root, rcond=1e-8)[0]
            self.numbers = sum(theta.size for theta in self.thetas.values()) + rows.size
        yield self.policy

    def counts(self, rows: FloatArray) -> Any:
        """Rollouts of every pair."""
        rank = rows.shape[1]
        counts = np.zeros(len(rows), np.int64)
        if rank == 0:
            return counts
        if self.design == "g":
            return np.ceil(self.rollouts * rank * g_optimal(rows)).astype(np.int64)
        counts[spanner(rows)] = self.rollouts
        return counts

    def rollout(self, access: Generative, view: View, action: int) -> float:
        access.jump(view)
        total, after = access.step(action)
        while after is not None:
            reward, after = access.step(self.policy(after))
            total += reward
        return total

    def policy(self, view: View) -> int:
        return greedy(view.features @ self.thetas[view.stage])

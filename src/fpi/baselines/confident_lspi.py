"""Confident MC-LSPI and MC-Politex (Yin, Hao, Abbasi-Yadkori, Lazić and Szepesvári, 2022), which need restores.

A core set of pairs with V = ridge I + sum phi phi'; (s, a) is uncertain if |phi|^2 in V^{-1} is above 1. A confident
rollout checks all actions of every state it meets after its first transition; an uncertain one is added to the core
set, and everything is measured anew. Else the mean return of m rollouts is the value of the pair, and w the ridge
regression of these. The state from which a rollout starts is not checked again.

With a horizon one backward sweep is enough (`ConfidentLSPI`): w_h from rollouts under the greedy policies of later
stages. `fresh` episodes in place of a random start state end the search. `reuse=True` keeps what a discovery at stage h
leaves valid: values of stages from h on, since their rollouts follow later policies only.

Politex plays pi_k ~ exp(alpha sum_{j < k} Q_j), Q_j = clip(<phi, w_j>, 0, H), for K iterations, and its result is one
of the iterates, drawn for every episode. The theory's alpha = sqrt(2 log |A| / K) / H gives nothing usable at a K that
one can afford; here it is larger.

Assumes linear Q^pi up to kappa, any transitions, restores. LSPI is epsilon-optimal after O~(d^3 H^8 / epsilon^2)
queries, Politex after O~(d^3 H^9 / epsilon^4), with a better dependence on kappa.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from fpi.baselines.access import FloatArray, Local, View
from fpi.baselines.capi import CorePlanner, first_uncovered, measure
from fpi.baselines.core_sets import CoreSet, covered
from fpi.baselines.method import Mixture, Policy, greedy


@dataclass
class ConfidentLSPI(CorePlanner):
    """Confident MC-LSPI with `rollouts` = m per core pair.

    With `reuse`, a discovery at a stage leaves the values of that stage and of later ones as they are.
    """

    reuse: bool = False

    def run(self, access: Local) -> Iterator[Policy | Mixture]:
        self.cores = [CoreSet(access.dim, self.ridge) for _ in range(access.horizon)]
        while (found := self.sweep(access)) is not None:
            self.cores[found.stage].discover(found)
            for stage, core in enumerate(self.cores):
                if not self.reuse or stage < found.stage:
                    for pair in core.pairs:
                        pair.value = None
        yield self.policy

    def sweep(self, access: Local) -> View | None:
        """From the last stage to the first; a state with an uncertain action ends it."""
        self.w = np.zeros((access.horizon, access.dim))
        self.numbers = self.w.size + sum(core.numbers for core in self.cores)
        for stage in reversed(range(access.horizon)):
            while (pair := self.cores[stage].unmeasured) is not None:
                found = measure(access, pair, self.rollouts, self.policy, covered(self.cores))
                if found is not None:
                    return found
            self.w[stage] = self.cores[stage].theta()
        return first_uncovered(access, self.fresh, self.policy, covered(self.cores))

    def policy(self, view: View) -> int:
        return greedy(view.features @ self.w[view.stage])


@dataclass
class Politex(CorePlanner):
    """Confident MC-Politex: K `iterations` of `rollouts` = m per core pair."""

    rollouts: int = 5
    iterations: int = 40
    alpha: float = 2.0

    def run(self, access: Local) -> Iterator[Policy | Mixture]:
        self.rng = np.random.default_rng((self.seed, 3))
        self.horizon = access.horizon
        self.cores = [CoreSet(access.dim, self.ridge) for _ in range(access.horizon)]
        while (found := self.iterate(access)) is not None:
            self.cores[found.stage].discover(found)
        yield Mixture(tuple(partial(self.act, k) for k in range(self.iterations)))

    def iterate(self, access: Local) -> View | None:
        self.w = np.zeros((access.horizon, self.iterations, access.dim))
        self.numbers = self.w.size + sum(core.numbers for core in self.cores)
        for k in range(self.iterations):
            policy = partial(self.act, k)
            found = first_uncovered(access, self.fresh if k == 0 else 1, policy, covered(self.cores))
            if found is not None:
                return found
            for core in self.cores:
                for pair in core.pairs:
                    found = measure(access, pair, self.rollouts, policy, covered(self.cores))
                    if found is not None:
                        return found
            for stage, core in enumerate(self.cores):
                self.w[stage, k] = core.theta()
        return None

    def act(self, k: int, view: View) -> int:
        """An action of the iterate that has seen k evaluations."""
        past = np.clip(view.features @ self.w[view.stage, :k].T, 0.0, self.horizon - view.stage)
        preference: FloatArray = self.alpha * past.sum(axis=1)
        chances = np.exp(preference - preference.max()).cumsum()
        return int(np.searchsorted(chances, self.rng.random() * chances[-1]))

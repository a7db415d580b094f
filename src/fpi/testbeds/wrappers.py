"""Wrappers for any testbed: rotated features, misspecified means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fpi.testbeds import _hash
from fpi.testbeds.base import FloatArray, Policy, State, Testbed, Value, check_number, check_sizes


class _Changed(Testbed):
    """Another testbed with something changed."""

    base: Testbed

    def __post_init__(self) -> None:
        for name in ("actions", "horizon", "dim", "lowest", "highest", "finite", "ordered", "misspecification"):
            setattr(self, name, getattr(self.base, name))

    def next(self, state: State, action: int) -> State | None:
        return self.base.next(state, action)

    def mean(self, state: State, action: int) -> float:
        return self.base.mean(state, action)

    def phi(self, state: State) -> FloatArray:
        return self.base.phi(state)

    def weights(self, stage: int, value: Value) -> FloatArray:
        return self.base.weights(stage, value)

    def theta(self, stage: int, policy: Policy) -> FloatArray:
        return self.base.theta(stage, policy)

    @cached_property
    def theta_bound(self) -> float:
        return self.base.theta_bound

    def draw(self, rng: np.random.Generator) -> State:
        return self.base.draw(rng)

    def start(self, rng: np.random.Generator, episode: int) -> State:
        return self.base.start(rng, episode)

    def recurs(self, state: State) -> bool:
        return self.base.recurs(state)

    def choices(self, state: State) -> range:
        return self.base.choices(state)


@dataclass
class Rotated(_Changed):
    """Features turned by a random orthogonal matrix per stage, which hides their blocks and changes nothing else."""

    base: Testbed
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, seed=0)
        self._matrices = [_hash.rotation(self.seed, stage, self.dim) for stage in range(self.horizon)]

    def phi(self, state: State) -> FloatArray:
        return self._turn(self.base.phi(state), state[0])

    def weights(self, stage: int, value: Value) -> FloatArray:
        return self._turn(self.base.weights(stage, value)[None], stage).ravel()

    def theta(self, stage: int, policy: Policy) -> FloatArray:
        return self._turn(self.base.theta(stage, policy)[None], stage).ravel()

    def _turn(self, rows: FloatArray, stage: int) -> FloatArray:
        turned: FloatArray = _hash.turn(rows, self._matrices[stage])
        return turned


@dataclass
class Misspecified(_Changed):
    """Means shifted by up to kappa / H, so that |Q^pi - <phi, theta^pi>| <= kappa for every policy.

    theta^pi is that of the base; means are cut to [0, 1], which only brings them nearer to the base.
    """

    base: Testbed
    kappa: float
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, seed=0)
        check_number("kappa", self.kappa, self.horizon)
        self.misspecification += self.kappa

    def mean(self, state: State, action: int) -> float:
        noise: float = _hash.signed(self.seed, _hash.NOISE, state, action)
        return min(max(self.base.mean(state, action) + self.kappa / self.horizon * noise, 0.0), 1.0)

    def choices(self, state: State) -> range:
        return range(self.actions)

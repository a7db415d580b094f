"""Wrappers for any testbed: rotated features, misspecified means, adversarial starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fpi.testbeds import _hash
from fpi.testbeds.base import FloatArray, Policy, State, Testbed, Value, check_number, check_sizes

_SAME = (
    *("actions", "horizon", "dim", "lowest", "highest", "finite", "ordered", "misspecification"),
    *("complete", "deterministic", "fixed_start"),
)


class Changed(Testbed):
    """Another testbed with something changed."""

    base: Testbed

    def __post_init__(self) -> None:
        for name in _SAME:
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
class Rotated(Changed):
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
class Misspecified(Changed):
    """Means shifted by up to kappa / H, so that |Q^pi - <phi, theta^pi>| <= kappa for every policy.

    theta^pi is that of the base; means are cut to [0, 1], which only brings them nearer to the base. Such noise
    averages out. If `adversarial`, half of the starts are worth kappa more and the others kappa less, and only the
    former are played: what is learned is then wrong by 2 kappa at the latter.
    """

    base: Testbed
    kappa: float
    seed: int = 0
    adversarial: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, seed=0)
        check_number("kappa", self.kappa, self.horizon)
        self.misspecification += self.kappa
        self.complete = False

    def mean(self, state: State, action: int) -> float:
        if self.adversarial:
            shift = 0.0 if state[0] else self.kappa if self._favoured(state) else -self.kappa
        else:
            shift = self.kappa / self.horizon * _hash.signed(self.seed, _hash.NOISE, state, action)
        return min(max(self.base.mean(state, action) + shift, 0.0), 1.0)

    def _favoured(self, state: State) -> bool:
        return bool(_hash.below(self.seed, _hash.NOISE, state, 0, 2))

    def start(self, rng: np.random.Generator, episode: int) -> State:
        state = self.base.start(rng, episode)
        while self.adversarial and not self._favoured(state):
            state = self.base.start(rng, episode)
        return state

    def choices(self, state: State) -> range:
        return range(self.actions)


@dataclass
class WorstStarts(Changed):
    """Of `candidates` starts that are drawn the one with the largest `loss`, which an adversary may look up."""

    base: Testbed
    candidates: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, candidates=1)
        self.loss: Callable[[State], float] = lambda state: 0.0

    def start(self, rng: np.random.Generator, episode: int) -> State:
        return max([self.base.start(rng, episode) for _ in range(self.candidates)], key=self.loss)

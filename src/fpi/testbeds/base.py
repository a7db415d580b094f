"""Layered deterministic MDPs whose every quantity can be computed exactly.

A state is a short tuple of whole numbers that begins with its stage (0, 1, ...). `next`, `mean` and `phi` are pure
functions of it; whatever looks random in them is a hash, so contexts that never come back cost no memory. The value of
a policy is the sum of means along one path, V* a recursion over the states that can be reached.

For all testbeds here Q^pi(s, a) = <phi(s, a), theta_h^pi> holds for every policy pi, and theta_h^pi is known in closed
form from the values of pi at stage h + 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fpi._validation import check_real, check_whole
from fpi.errors import InputError
from fpi.testbeds import _hash
from fpi.testbeds.env import TestbedEnv

if TYPE_CHECKING:
    from fpi.testbeds.self_check import Verification

State = tuple[int, ...]
Policy = Callable[[State], int]
Value = Callable[[State], float]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CONTEXTS = 2**62
MOST_NUMBERS = 20_000_000  # that a testbed is made of, roughly


class Testbed(ABC):
    """An exact MDP: pure dynamics and mean rewards in [0, 1], features, and the evaluator that agents do not see."""

    actions: int
    horizon: int
    dim: int
    lowest: State
    """The smallest entries of states; `highest` the largest. Stage `horizon` is the end."""
    highest: State
    finite: bool = True
    """Whether all states can come back."""
    ordered: bool = False
    """Whether starts follow the number of the episode instead of chance."""
    misspecification: float = 0.0
    """kappa: Q^pi is within this of <phi, theta^pi> for every policy pi."""
    complete: bool = False
    """Whether r + max <phi, theta> is linear in phi for every theta (Bellman completeness)."""
    deterministic: bool = True
    """Whether an action always leads to the same state."""
    fixed_start: bool = False
    """Whether all episodes begin at the same state."""

    # --- what a family defines ----------------------------------------------------------------------------------------

    @abstractmethod
    def next(self, state: State, action: int) -> State | None:
        """Where the action leads, or None at the end of the episode."""

    @abstractmethod
    def mean(self, state: State, action: int) -> float:
        """The expected reward."""

    @abstractmethod
    def phi(self, state: State) -> FloatArray:
        """Features of norm at most 1, one row per action."""

    @abstractmethod
    def weights(self, stage: int, value: Value) -> FloatArray:
        """theta of the policy that is worth `value` at later states; never shorter for larger values."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> State:
        """A random start state."""

    def start(self, rng: np.random.Generator, episode: int) -> State:
        """Where the episode of this number (from 0) begins."""
        return self.draw(rng)

    def recurs(self, state: State) -> bool:
        """Whether the state is one of finitely many, so that its value is worth remembering."""
        return self.finite

    def choices(self, state: State) -> range:
        """The actions worth comparing: fewer than all where further ones are worth the same under every policy."""
        return range(self.actions)

    @property
    def holds(self) -> frozenset[str]:
        """What is true of this testbed, in the words in which methods say what their theorems need."""
        facts = {
            "linear": self.misspecification == 0,
            "complete": self.complete,
            "deterministic": self.deterministic,
            "fixed start": self.fixed_start,
            "gap": self.finite,  # of finitely many states some smallest gap is above 0
            "one stage": self.horizon == 1,
        }
        return frozenset(name for name, true in facts.items() if true)

    # --- chance, of which there is none unless a family says otherwise (`fpi.testbeds.stochastic`) --------------------

    def outcomes(self, state: State, action: int) -> list[tuple[float, State | None]]:
        """Where the action may lead, each with its probability."""
        return [(1.0, self.next(state, action))]

    def draw_next(self, state: State, action: int, rng: np.random.Generator) -> State | None:
        """Where the action leads this time."""
        return self.next(state, action)

    def earned(self, state: State, action: int, after: State | None) -> float:
        """The expected reward, corrected by what luck gave or took: V* minus the sum of it is what an episode lost."""
        return self.mean(state, action)

    # --- the evaluator ------------------------------------------------------------------------------------------------

    def value(self, state: State, policy: Policy) -> float:
        """V^pi(s), by walking the path of the policy."""
        return math.fsum(self.mean(*step) for step in self.path(state, policy))

    def values(self, policy: Policy) -> Value:
        """V^pi as a function that remembers every state it came through."""
        known: dict[State, float] = {}

        def value(state: State) -> float:
            steps = []
            later = 0.0
            for here, action in self.path(state, policy):
                if here in known:
                    later = known[here]
                    break
                steps.append((here, action))
            for here, action in reversed(steps):
                known[here] = later = self.mean(here, action) + later
            return later

        return value

    def backup(self, state: State, value: Value) -> FloatArray:
        """Mean reward plus the value of the state that follows, one number per action."""
        following = (self.next(state, action) for action in range(self.actions))
        later = [0.0 if after is None else value(after) for after in following]
        return np.array([self.mean(state, action) + later[action] for action in range(self.actions)])

    def action_values(self, state: State, policy: Policy) -> FloatArray:
        """Q^pi(s, .), one number per action."""
        return self.backup(state, lambda after: self.value(after, policy))

    def path(self, state: State, policy: Policy) -> Iterator[tuple[State, int]]:
        """States and actions from here to the end."""
        here: State | None = state
        while here is not None:
            action = policy(here)
            yield here, action
            here = self.next(here, action)

    def optimal_value(self, state: State) -> float:
        """V*(s)."""
        known = self._optimal.get(state)
        if known is not None:
            return known
        layers: list[dict[State, list[tuple[int, State | None]]]] = []
        fresh = [state]
        while fresh:
            layers.append({here: [(a, self.next(here, a)) for a in self.choices(here)] for here in fresh})
            reached = (after for moves in layers[-1].values() for _, after in moves if after is not None)
            fresh = [after for after in dict.fromkeys(reached) if after not in self._optimal]
        passing: dict[State, float] = {}
        for layer in reversed(layers):
            for here, moves in layer.items():
                best = max(self.mean(here, a) + self._look_up(after, passing) for a, after in moves)
                (self._optimal if self.recurs(here) else passing)[here] = best
        return self._look_up(state, passing)

    @cached_property
    def _optimal(self) -> dict[State, float]:
        """V* of recurring states met so far."""
        return {}

    def _look_up(self, state: State | None, passing: dict[State, float]) -> float:
        if state is None:
            return 0.0
        known = self._optimal.get(state)
        return passing[state] if known is None else known

    def optimal_action_values(self, state: State) -> FloatArray:
        """Q*(s, .), one number per action."""
        return self.backup(state, self.optimal_value)

    def optimal_action(self, state: State) -> int:
        """The policy that attains V*."""
        return int(self.optimal_action_values(state).argmax())

    def gap(self, state: State, policy: Policy) -> float:
        """What the policy loses from this state on: V*(s) - V^pi(s)."""
        return self.optimal_value(state) - self.value(state, policy)

    def gaps(self, states: Iterable[State], policy: Policy) -> FloatArray:
        """The gap at each of these states, for example at those of `held_out`."""
        return np.array([self.gap(state, policy) for state in states])

    def held_out(self, n: int, seed: int = 0) -> list[State]:
        """A fixed list of n start states to judge policies on."""
        rng = np.random.default_rng(seed)
        return [self.draw(rng) for _ in range(n)]

    def regret(self, start: State, actions: Sequence[int]) -> float:
        """What an episode lost in expectation: V* of its start minus the means of its rewards."""
        means = []
        here: State | None = start
        for number, action in enumerate(actions):
            if here is None:
                raise InputError(f"{len(actions)} actions, but the episode from {start} ends after {number} of them.")
            means.append(self.mean(here, action))
            here = self.next(here, action)
        return self.optimal_value(start) - math.fsum(means)

    def theta(self, stage: int, policy: Policy) -> FloatArray:
        """theta_h^pi with Q^pi = <phi, theta> at every state of this stage."""
        return self.weights(stage, lambda state: self.value(state, policy))

    @cached_property
    def theta_bound(self) -> float:
        """The largest norm of theta_h^pi over all stages and policies; an optimal policy attains it."""
        return max(float(np.linalg.norm(self.weights(h, self.optimal_value))) for h in range(self.horizon))

    # --- the agent's view ---------------------------------------------------------------------------------------------

    def observation(self, state: State | None) -> IntArray:
        """A state as agents see it: the same numbers in an array."""
        return np.array((self.horizon, *self.lowest[1:]) if state is None else state, np.int64)

    def state(self, observation: Any) -> State:
        """The state that was observed."""
        array = np.asarray(observation)
        if array.shape != (len(self.lowest),) or array.dtype.kind not in "iu":
            raise InputError(
                f"observations of {self} are {len(self.lowest)} whole numbers, not {observation!r}. Hand them on as "
                "they come from the environment; floating point would blur the numbers of contexts."
            )
        return tuple(array.tolist())

    @property
    def features(self) -> Features:
        """The feature map for agents; with keys where every state can come back."""
        return KeyedFeatures(self) if self.finite else Features(self)

    def policy(self, predict: Callable[[IntArray, int], int]) -> Policy:
        """An agent's `predict` or `greedy`, functions of (observation, stage), as a function of states."""
        return lambda state: predict(self.observation(state), state[0])

    def env(self, noise: str = "bernoulli") -> TestbedEnv:
        """A Gymnasium environment; rewards are drawn around the means as `noise` says."""
        return TestbedEnv(self, noise)

    def verify(self, policies: int = 6, pool: int = 700, seed: int = 0) -> Verification:
        """Measure on random policies and states whether all of this holds."""
        from fpi.testbeds.self_check import verify

        return verify(self, policies, pool, seed)


class Features:
    """The features of a testbed as a map from observations, for agents."""

    separate = False

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self.actions = testbed.actions
        self.dim = testbed.dim

    def __call__(self, observation: Any, stage: int) -> FloatArray:
        state = self.testbed.state(observation)
        if state[0] != stage:
            raise InputError(f"the observation {state} belongs to stage {state[0]}, but stage {stage} was asked for.")
        return self.testbed.phi(state)


class KeyedFeatures(Features):
    """Features of a finite testbed: agents may remember what they decided at a state."""

    def key(self, observation: Any, stage: int) -> State:
        return self.testbed.state(observation)


def random_policy(actions: int, seed: int) -> Policy:
    """A deterministic policy that looks random: a hash of the state."""
    return lambda state: int(_hash.below(seed, _hash.POLICY, state, 0, actions))


def check_sizes(testbed: Any, **least: int) -> None:
    """Check arguments of a testbed that are whole numbers, each of at least so much, and not too large together."""
    sizes = {name: check_whole(name, getattr(testbed, name), lowest, bits=62) for name, lowest in least.items()}
    made = math.prod(max(size, 1) for name, size in sizes.items() if name not in ("seed", "phase"))
    if made > MOST_NUMBERS:
        shown = ", ".join(f"{name}={size:,}" for name, size in sizes.items())
        raise InputError(f"{shown} is too large a testbed: their product is above {MOST_NUMBERS:,}. Ask for a smaller.")


def check_number(name: str, number: Any, most: float = 1.0) -> float:
    return check_real(name, number, f"a number from 0 to {most:g}", lambda x: 0 <= x <= most)

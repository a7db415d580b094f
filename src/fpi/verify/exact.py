"""Exact values of policies under test, remembered for as long as these stay the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from fpi.algorithms.levels import LeveledAgent, LevelState
from fpi.algorithms.pac import PAC
from fpi.testbeds.base import FloatArray, Policy, State, Testbed, random_policy


def played_policy(testbed: Testbed, agent: PAC) -> Policy:
    """pi_t of the coming episode t, on the data of all earlier ones.

    At a covered state it is the frozen greedy action; at an uncovered one the exploring action, which a hash of the
    seed, t and the stage chooses among the uncovered ones. So it is one deterministic policy on all states, also on
    those that episode t does not visit.
    """
    act = agent.begin_episode(agent.training_state)
    return lambda state: act(testbed.observation(state), state[0])[0]


def greedy_policy(testbed: Testbed, agent: PAC) -> Policy:
    """What `predict(..., explore=False)` answers: the same where covered, elsewhere the best estimate.

    Lemmas 2 to 6 hold for it too. Their proofs need that stored suffixes are followed, and those lie in covered states.
    """
    return testbed.policy(agent.greedy)


class LevelStates:
    """How states stand at the levels of an agent, in spans of rewards, remembered for as long as nothing is learned."""

    def __init__(self, testbed: Testbed, agent: LeveledAgent) -> None:
        self._testbed, self._agent = testbed, agent
        self.of = cache(self._of)

    def _of(self, state: State) -> tuple[LevelState, ...]:
        said = self._agent.level_states(self._testbed.observation(state), state[0])
        return tuple(each.times(1 / self._agent.rewards.span) for each in said)

    def action(self, state: State, level: int) -> int | None:
        """pi^(l)(s) if all levels up to l cover the state."""
        return next((each.action for each in self.of(state) if each.level == level), None)


class Brackets:
    """The least and the most that a policy can be worth which acts as `action` says, and anyhow where it says None."""

    def __init__(self, testbed: Testbed, action: Callable[[State], int | None]) -> None:
        self._testbed = testbed
        self._action = action
        self._known: dict[State, tuple[float, float]] = {}

    def of(self, state: State | None) -> tuple[float, float]:
        if state is None:
            return 0.0, 0.0
        if state not in self._known:
            action = self._action(state)
            choices = self._testbed.choices(state) if action is None else (action,)
            low, high = zip(*(self._of_action(state, choice) for choice in choices), strict=True)
            self._known[state] = min(low), max(high)
        return self._known[state]

    def _of_action(self, state: State, action: int) -> tuple[float, float]:
        mean = self._testbed.mean(state, action)
        low, high = self.of(self._testbed.next(state, action))
        return mean + low, mean + high

    def of_actions(self, state: State) -> FloatArray:
        """Least and most, actions along the second axis."""
        return np.array([self._of_action(state, action) for action in range(self._testbed.actions)]).T


def all_policies(testbed: Testbed) -> Brackets:
    """What the worst and the best of all policies get from a state."""
    return Brackets(testbed, lambda state: None)


def pool(testbed: Testbed, walks: int, seed: int = 0) -> list[list[State]]:
    """States of every stage that random walks from held-out starts come through, without repetition."""
    stages: list[dict[State, None]] = [{} for _ in range(testbed.horizon)]
    for number, start in enumerate(testbed.held_out(walks, seed)):
        for state, _ in testbed.path(start, random_policy(testbed.actions, number)):
            stages[state[0]][state] = None
    return [list(states) for states in stages]

"""The learned policy: in ordinary loops, and evaluated."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from fpi import envs
from fpi._validation import check_whole, shown
from fpi.envs import Env
from fpi.errors import InputError
from fpi.features import Function
from fpi.history import Evaluation

EnvActions = list[np.int64]


class Decision(NamedTuple):
    """What a policy does at a state."""

    action: int
    covered: bool | None
    """Whether the data cover all its actions; None where the agent does not tell."""


class Player(Protocol):
    """What evaluation asks of an agent. One that has `decide` too is asked that, see `deciding`."""

    actions: int
    horizon: int

    def predict(self, observation: Any, stage: int) -> int:
        """The action that it would play."""


def evaluate(agent: Player, env: Env, episodes: int, seed: int = 0, explore: bool = True) -> Evaluation:
    """Play the learned policy. Every agent meets the same start states under the same `seed`.

    An agent with `decide` plays pi_t, exploring rule included, in episodes numbered on from its own; one that has only
    `predict` plays that. The agent does not change, and `learn` afterwards goes on as if this had not happened.

    `explore`: False plays `predict(..., explore=False)` instead, the best estimate at uncovered states too.
    """
    check_whole("episodes", episodes)
    check_whole("seed", seed)
    returns = np.zeros(episodes)
    lengths = np.zeros(episodes, np.int64)
    covered = np.zeros(episodes, np.int64)
    told = True
    for i, episode in enumerate(evaluation_episodes(agent, env, episodes, seed, explore)):
        rewards, known = zip(*episode, strict=True)
        returns[i], lengths[i], covered[i] = math.fsum(rewards), len(rewards), known.count(True)
        told = told and None not in known
    return Evaluation(returns, lengths, covered if told else None)


def evaluation_episodes(
    agent: Player, env: Env, episodes: int, seed: int, explore: bool = True
) -> Iterator[Iterator[tuple[float, bool | None]]]:
    """The episodes of `evaluate`, each just reset: reading (reward, covered) of its steps plays it."""
    missing = [name for name in ("actions", "horizon", "predict") if not hasattr(agent, name)]
    if missing:
        raise InputError(
            f"the agent is {shown(agent)}, which has no {missing[0]}. Pass an agent of fpi, or one like it."
        )
    env = with_grid(env, agent)
    env_actions = list_actions(env, agent)
    envs.check_horizon(env, agent.horizon)
    for number, start in enumerate(np.random.SeedSequence(seed).generate_state(episodes) if episodes else ()):
        observation = envs.reset(env, int(start))
        decide = policy_function(agent, number) if explore else _estimating(agent)
        yield _policy_steps(agent, env, decide, observation, env_actions)


def _estimating(agent: Any) -> Callable[[Any, int], Decision]:
    if "explore" not in inspect.signature(agent.predict).parameters:
        raise InputError(
            "explore=False asks predict(..., explore=False), which this agent does not have: leave it out."
        )
    return lambda observation, stage: Decision(agent.predict(observation, stage, explore=False), None)


def _policy_steps(
    agent: Player, env: Env, decide: Callable[[Any, int], Decision], observation: Any, env_actions: EnvActions
) -> Iterator[tuple[float, bool | None]]:
    covered: bool | None = None

    def act(observation: Any, stage: int) -> np.int64:
        nonlocal covered
        action, covered = decide(observation, stage)
        return env_actions[action]

    for _, reward, _, _ in envs.rollout(env, observation, act, agent.horizon):
        yield reward, covered


def policy_function(agent: Any, number: int) -> Callable[[Any, int], Decision]:
    """The learned policy in the episode that comes `number` episodes after those learned from.

    That is `decide`, where there is one, unless a subclass has a `predict` of its own. Where decisions of an episode
    depend on earlier ones, the agent has an `episode_policy`.
    """
    if hasattr(agent, "episode_policy"):
        follow: Callable[[Any, int], Decision] = agent.episode_policy(agent.episodes + number)
        return follow
    homes = [next((i for i, kind in enumerate(type(agent).__mro__) if name in vars(kind)), 0) for name in PREDICTING]
    if not hasattr(agent, "decide") or homes[0] < homes[1]:
        return lambda observation, stage: Decision(agent.predict(observation, stage), None)
    episode = agent.episodes + number
    return lambda observation, stage: agent.decide(observation, stage, episode)


PREDICTING = ("predict", "decide")


class Policy:
    """The learned policy for ordinary loops: it counts stages and episodes itself. Call `reset` when one begins."""

    def __init__(self, agent: Player) -> None:
        self._agent = agent
        self._number = 0
        self._decide = policy_function(agent, 0)
        self.stage = 0

    def reset(self) -> None:
        """Begin an episode: the next observation is one of stage 0."""
        if self.stage:
            self._number += 1
            self._decide = policy_function(self._agent, self._number)
        self.stage = 0

    def __call__(self, observation: Any) -> int:
        if self.stage == self._agent.horizon:
            raise InputError(
                f"this policy was asked for {self.stage} actions, its whole horizon. Call policy.reset() when an "
                "episode begins."
            )
        action = self._decide(observation, self.stage).action
        self.stage += 1
        return action


def with_grid(env: Env, agent: Player) -> Env:
    """The environment in the action grid of an agent that has one for continuous actions."""
    grid = getattr(agent, "action_grid", None)
    return env if grid is None or hasattr(env.action_space, "n") else envs.ActionGrid(env, grid)


def list_actions(env: Env, learner: Player) -> EnvActions:
    """The environment's own actions; numpy's integers are what its space checks fastest."""
    reads_any = isinstance(getattr(learner, "features", None), Function)  # a plain one: dictionaries and tuples, too
    whole = getattr(learner, "whole_episodes", False)  # which are kept as arrays
    first = envs.check_spaces(env, learner.actions, structured=reads_any and not whole)
    return [np.int64(first + action) for action in range(learner.actions)]

"""The invariants that make Frozen Policy Iteration work, watched while it learns."""

import math
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import layered
import numpy as np
import pytest
from layered import LayeredMDP

import fpi

EPISODES, HORIZON, RIDGE = 500, 4, 0.1


def dense(freeze="exact", explore="random", epsilon=0.3):
    """Rewards so noisy that estimates keep moving: without freezing, decisions must change."""
    env = LayeredMDP(5, horizon=HORIZON, states=(200, 15, 15, 15), actions=3, early_end=0.05)
    features = layered.of_stage(layered.dense(env, 5))
    return env, agent_with(features, 3, freeze, explore, epsilon)


def tiles(freeze="exact", explore="random", epsilon=0.5):
    """The same with overlapping tiles, whose decisions are remembered by key."""
    env = LayeredMDP(5, horizon=HORIZON, states=(200, 15, 15, 15), actions=2, observe="point", dims=1)
    features = fpi.TileCoding([0], [1], tiles=3, tilings=4, actions=2)
    return env, agent_with(features, 2, freeze, explore, epsilon)


def agent_with(features, actions, freeze, explore, epsilon):
    return fpi.PAC(
        features,
        actions=actions,
        horizon=HORIZON,
        epsilon=epsilon,
        ridge=RIDGE,
        freeze=freeze,
        explore=explore,
    )


learners = pytest.mark.parametrize("learner", [dense, tiles], ids=["dense", "tiles"])
rules = pytest.mark.parametrize("explore", ["random", "widest", "greedy", "first"])


# --- I1, Lemma 2: data stay on-policy ------------------------------------------------------------------


def changed_suffixes(env, agent):
    """(data stored, data whose suffix the final policy would no longer follow)."""
    suffixes = []

    def keep(episode):
        if episode.explored >= 0:
            later = slice(episode.explored + 1, None)
            suffixes.append((episode.explored + 1, episode.observations[later], episode.actions[later]))

    agent.learn(env, EPISODES, seed=1, callback=keep)
    changed = [
        suffix
        for first, *suffix in suffixes
        if any(
            agent.predict(observation, stage) != action
            for stage, (observation, action) in enumerate(zip(*suffix, strict=True), start=first)
        )
    ]
    return len(suffixes), len(changed)


@rules
@learners
def test_every_stored_pair_keeps_its_suffix(learner, explore):
    stored, changed = changed_suffixes(*learner("exact", explore))
    assert stored > 100
    assert changed == 0


@pytest.mark.parametrize("freeze", ["never", 5])
@learners
def test_without_exact_freezing_suffixes_change(learner, freeze):
    _, changed = changed_suffixes(*learner(freeze))
    assert changed > 0


# --- I2: once covered, a state is frozen ---------------------------------------------------------------


def answers_while_learning(env, agent):
    """For every state of a pool: what `explain` said every ten episodes, from when it was covered."""
    pool = [(env.observation(stage, state), stage) for stage in range(HORIZON) for state in range(15)]
    answers = {i: [] for i in range(len(pool))}

    def ask(episode):
        if episode.number % 10 == 0:
            for i, (observation, stage) in enumerate(pool):
                known = agent.explain(observation, stage)
                if known.covered or answers[i]:
                    answer = known.covered, known.prefix, known.action, known.values.tobytes()
                    answers[i].append((*answer, agent.predict(observation, stage)))

    agent.learn(env, EPISODES, seed=1, callback=ask)
    return [given for given in answers.values() if given]


@learners
def test_a_covered_state_is_frozen_for_ever(learner):
    answers = answers_while_learning(*learner())
    assert sum(len(given) > 10 for given in answers) > 20
    for given in answers:
        assert set(given) == {given[0]}


@pytest.mark.parametrize("freeze", ["never", 5])
def test_without_exact_freezing_covered_states_move(freeze):
    answers = answers_while_learning(*dense(freeze))
    assert any(len({action for _, _, action, _, _ in given}) > 1 for given in answers)
    assert all(covered for given in answers for covered, *_ in given)


# --- I3, Lemma 1: datasets stay small ------------------------------------------------------------------


@rules
@learners
@pytest.mark.parametrize("epsilon", [0.3, 0.8])
def test_datasets_obey_the_bound(learner, explore, epsilon):
    env, agent = learner(explore=explore, epsilon=epsilon)
    agent.learn(env, EPISODES, seed=2)
    dim = agent.features.dim
    bound = 2 * dim / epsilon**2 * math.log(1 + 4 * epsilon**-4 / RIDGE**2)
    for stage in range(HORIZON):
        data = agent.dataset(stage)
        assert 0 < len(data) <= bound
        assert_every_datum_was_uncovered(data, epsilon)


def assert_every_datum_was_uncovered(data, epsilon):
    """What the bound rests on: each stored pair was wider than epsilon on the data before it."""
    sigma = RIDGE * np.eye(data.features.shape[1])
    for phi in data.features:
        assert math.sqrt(phi @ np.linalg.solve(sigma, phi)) > epsilon
        sigma += np.outer(phi, phi)


# --- I6: an episode adds at most one datum, when it is over --------------------------------------------


@dataclass
class Snapshot:
    """All an agent could have changed: its data, and its answers at some states."""

    sizes: list[int]
    answers: list[Any]

    @classmethod
    def of(cls, agent, pool):
        answers = [agent.explain(observation, stage) for observation, stage in pool]
        return cls(
            [len(agent.dataset(stage)) for stage in range(HORIZON)],
            [(known.action, known.prefix, known.values.tobytes()) for known in answers],
        )


class Watched(gym.Wrapper):
    """Looks at the agent at every reset and step, while an episode is running."""

    def __init__(self, env, agent):
        super().__init__(env)
        self.agent = agent
        self.pool = [(env.observation(stage, state), stage) for stage in range(HORIZON) for state in (0, 7)]
        self.snapshots, self.uncovered = [], []

    def look(self, observation, stage):
        if stage < HORIZON:
            self.snapshots.append(Snapshot.of(self.agent, self.pool))
            self.uncovered.append(not self.agent.explain(observation, stage).covered)

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        self.snapshots, self.uncovered = [], []
        self.look(observation, 0)
        return observation, info

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not terminated:
            self.look(observation, len(self.snapshots))
        return observation, reward, terminated, truncated, info


@learners
def test_an_episode_adds_at_most_one_datum_at_its_last_uncovered_stage(learner):
    env, agent = learner()
    watched = Watched(env, agent)
    explored = []

    def check(episode):
        during, uncovered = watched.snapshots, np.flatnonzero(watched.uncovered)
        assert len(during) == len(episode.actions)
        assert all(snapshot == during[0] for snapshot in during)
        last = uncovered[-1] if len(uncovered) else -1
        assert episode.explored == last
        assert episode.frozen == len(episode.actions) - len(uncovered)
        added = np.subtract(Snapshot.of(agent, watched.pool).sizes, during[0].sizes)
        assert added.tolist() == [int(stage == last) for stage in range(HORIZON)]
        if last >= 0:
            assert agent.dataset(last).episodes[-1] == episode.number
        explored.append(last)

    history = agent.learn(watched, 250, seed=3, callback=check)
    assert history.explored.tolist() == explored
    assert len(set(explored)) > 2

"""The invariants that make Frozen Policy Iteration work, watched while it learns."""

import itertools
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
        if episode.stored_stage >= 0:
            later = slice(episode.stored_stage + 1, None)
            suffixes.append((episode.stored_stage + 1, episode.observations[later], episode.actions[later]))

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


@pytest.mark.slow
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
        assert episode.stored_stage == last
        assert episode.covered_steps == len(episode.actions) - len(uncovered)
        added = np.subtract(Snapshot.of(agent, watched.pool).sizes, during[0].sizes)
        assert added.tolist() == [int(stage == last) for stage in range(HORIZON)]
        if last >= 0:
            assert agent.dataset(last).episodes[-1] == episode.number
        explored.append(last)

    history = agent.learn(watched, 250, seed=3, callback=check)
    assert history.stored_stage.tolist() == explored
    assert len(set(explored)) > 2


# --- FPI-Regret: the same at every level ---------------------------------------------------------------


def dense_levels(explore="greedy", elimination="paper", scale=0.05, **settings):
    """Noisy rewards again, and a scale at which actions are eliminated."""
    env = LayeredMDP(5, horizon=HORIZON, states=(60, 10, 10, 10), actions=3, early_end=0.05)
    features = layered.of_stage(layered.dense(env, 3))
    return env, leveled_with(features, 3, explore, elimination, scale, **settings)


def keyed_levels(explore="greedy", elimination="paper", scale=0.05, **settings):
    """The same, with frozen levels remembered by key."""
    env, _ = dense_levels()
    function = layered.of_stage(layered.dense(env, 3))
    features = fpi.features.Function(function, 3, key=lambda observation: int(observation))
    return env, leveled_with(features, 3, explore, elimination, scale, **settings)


def tile_levels(explore="greedy", elimination="paper", scale=0.02, **settings):
    env = LayeredMDP(5, horizon=HORIZON, states=(60, 10, 10, 10), actions=2, observe="point", dims=1)
    features = fpi.TileCoding([0], [1], tiles=2, tilings=2, actions=2)
    return env, leveled_with(features, 2, explore, elimination, scale, **settings)


def leveled_with(features, actions, explore, elimination, scale, **settings):
    return fpi.Regret(
        features,
        actions=actions,
        horizon=HORIZON,
        ridge=RIDGE,
        explore=explore,
        elimination=elimination,
        scale=scale,
        **settings,
    )


def listed_levels(explore="greedy", elimination="paper", scale=0.01, **settings):
    """Candidate functions instead of features: much alike, but for a tenth of their values."""
    env = LayeredMDP(5, horizon=HORIZON, states=(60, 10, 10, 10), actions=3, early_end=0.05)
    rng, shape = np.random.default_rng(0), (40, HORIZON, 60, 3)
    alike = rng.uniform(1, 3, (1, *shape[1:])) + rng.uniform(-0.1, 0.1, shape)
    tables = np.where(rng.random(shape) < 0.1, rng.uniform(0, HORIZON, shape), alike)
    candidates = fpi.function_classes.FiniteClass(tables, max_value=HORIZON)
    rules = {"explore": explore, "elimination": elimination, "scale": scale, "episodes": 400} | settings
    return env, fpi.Eluder(candidates, actions=3, horizon=HORIZON, **rules)


leveled = pytest.mark.parametrize("learner", [dense_levels, keyed_levels, tile_levels], ids=["dense", "keyed", "tiles"])
leveled_or_listed = pytest.mark.parametrize(
    "learner",
    [dense_levels, keyed_levels, tile_levels, listed_levels],
    ids=["dense", "keyed", "tiles", "listed"],
)
eliminations = pytest.mark.parametrize("elimination", ["paper", "stage", "interval"])


def covered_levels(agent, observation, stage):
    return [level_state for level_state in agent.level_states(observation, stage) if level_state.covered is not None]


def estimate_on_all_data(agent, observation, stage, level):
    """Q~^(l) as it would be without freezing."""
    if isinstance(agent, fpi.Eluder):
        prefixes = agent.datasets.prefixes(stage, level)
        return prefixes.estimates(agent.datasets.rows(observation, stage), len(prefixes))
    data = agent.dataset(stage, level)
    sigma = RIDGE * np.eye(agent.features.dim) + data.features.T @ data.features
    return agent.features(observation, stage) @ np.linalg.solve(sigma, data.features.T @ data.targets)


@leveled_or_listed
@pytest.mark.parametrize(
    ("elimination", "explore"), [("paper", "greedy"), ("stage", "random"), ("interval", "first"), ("paper", "widest")]
)
def test_every_stored_pair_of_every_level_keeps_its_suffix(learner, elimination, explore):
    """pi^(l) still follows every suffix of D^(l); estimates on all data would have left some."""
    env, agent = learner(explore, elimination)
    suffixes = []

    def keep(episode):
        if episode.stored_stage >= 0:
            level = agent.played[-1]
            steps = zip(episode.observations, episode.actions, agent.played, strict=True)
            suffix = list(enumerate(steps))[episode.stored_stage + 1 :]
            assert all(played == level for _, (_, _, played) in suffix)
            suffixes.extend((level, stage, observation, action) for stage, (observation, action, _) in suffix)

    agent.learn(env, 300, seed=1, callback=keep)
    moved = 0
    for level, stage, observation, action in suffixes:
        level_states = covered_levels(agent, observation, stage)
        assert len(level_states) >= level
        now = level_states[level - 1]
        assert now.action == action
        unfrozen = estimate_on_all_data(agent, observation, stage, level)
        moved += np.where(now.allowed, unfrozen, -np.inf).argmax() != action
    assert len(suffixes) > 100 and len({level for level, *_ in suffixes}) > 1
    assert moved > 0 or learner is tile_levels


@leveled_or_listed
@eliminations
def test_a_covered_level_is_frozen_for_ever(learner, elimination):
    """k, Q, pi, A^(l) and A^(l+1) of every covered level at every state of a pool."""
    env, agent = learner(elimination=elimination)
    pool = [(env.observation(stage, state), stage) for stage in range(HORIZON) for state in range(10)]
    known = [[] for _ in pool]
    seen, eliminated = 0, 0

    def ask(episode):
        nonlocal seen, eliminated
        if episode.number % 10 == 0:
            for (observation, stage), before in zip(pool, known, strict=True):
                now = [
                    (at.covered, at.action, at.values.tobytes(), at.allowed.tobytes(), at.survives.tobytes())
                    for at in covered_levels(agent, observation, stage)
                ]
                assert now[: len(before)] == before
                seen += len(before)
                eliminated += any(0 in at[-1] for at in before)
                before[:] = now

    agent.learn(env, 400, seed=1, callback=ask)
    assert seen > 500 and eliminated > 50
    assert max(map(len, known)) >= 2


@leveled
@eliminations
@pytest.mark.parametrize("constants", ["tight", "paper"])
def test_datasets_of_every_level_obey_the_bound(learner, elimination, constants):
    env, agent = learner("random", elimination, constants=constants, misspecification=0.05)
    agent.learn(env, 400, seed=2)
    assert agent.levels == 5
    for stage in range(HORIZON):
        for level in range(1, agent.levels + 1):
            data = agent.dataset(stage, level)
            assert len(data) == agent.datasets.size(stage, level) <= agent.theory.dataset_bound(0.5**level)
            assert_every_datum_was_uncovered(data, 0.5**level)
    assert sizes_of(agent)[1].sum() > 0


@eliminations
@pytest.mark.parametrize("constants", ["tight", "paper"])
def test_datasets_of_every_level_obey_the_bound_for_a_class(elimination, constants):
    """And every datum was wide or independent when it came, which the bound rests on."""
    env, agent = listed_levels("random", elimination, constants=constants)
    agent.learn(env, 400, seed=2)
    for stage in range(HORIZON):
        for level in range(1, agent.levels + 1):
            data, prefixes = agent.dataset(stage, level), agent.datasets.prefixes(stage, level)
            assert len(data) == agent.datasets.size(stage, level) <= agent.dataset_bound(level)
            for k, row in enumerate(data.features):
                assert prefixes.widths(row[None], k) > 0.5**level or not prefixes.dependent(row[None], k)
    assert sizes_of(agent)[1].sum() > 0


class Climbed(gym.Wrapper):
    """Asks the agent at every step of an episode how the state stands at each level."""

    def __init__(self, env, agent):
        super().__init__(env)
        self.agent, self.level_states = agent, []

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        self.level_states = [self.agent.level_states(observation, 0)]
        return observation, info

    def step(self, action):
        observation, reward, terminated, *rest = self.env.step(action)
        if not terminated and len(self.level_states) < HORIZON:
            self.level_states.append(self.agent.level_states(observation, len(self.level_states)))
        return observation, reward, terminated, *rest


LADDERS = [
    *itertools.product([dense_levels, keyed_levels, tile_levels], [{}, {"max_level": 2}, {"misspecification": 5.0}]),
    (listed_levels, {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "settings"), LADDERS, ids=lambda each: getattr(each, "__name__", str(each)))
def test_levels_never_rise_and_an_episode_adds_at_most_one_datum_at_its_last_level(learner, settings):
    env, agent = learner(**settings)
    climbed = Climbed(env, agent)
    drops, stored, sizes = 0, 0, np.zeros((agent.levels, HORIZON), int)

    def check(episode):
        nonlocal drops, stored, sizes
        level, played, explored = min(episode.number + 1, agent.levels + 1), [], -1
        for stage, level_states in enumerate(climbed.level_states):
            first = next((at for at in level_states if at.covered is None), None)
            if first is not None and first.level <= level:
                level, explored = first.level, stage
                assert first.uncovered[episode.actions[stage]] and first.allowed[episode.actions[stage]]
            else:
                assert episode.actions[stage] == level_states[min(level, agent.levels) - 1].action
            played.append(level)
        assert (agent.played, episode.stored_stage) == (tuple(played), explored)
        assert played == sorted(played, reverse=True)
        before, sizes = sizes, sizes_of(agent)
        expected = np.zeros_like(sizes)
        if explored >= 0:
            expected[level - 1, explored] = 1
            assert agent.dataset(explored, level).episodes[-1] == episode.number
        np.testing.assert_array_equal(sizes - before, expected)
        drops += len(set(played)) > 1
        stored += explored >= 0

    agent.learn(climbed, 250, seed=3, callback=check)
    assert agent.data_stored == stored == sizes.sum()
    assert drops > 0


def sizes_of(agent):
    levels = range(1, agent.levels + 1)
    return np.array([[len(agent.dataset(stage, level)) for stage in range(HORIZON)] for level in levels])

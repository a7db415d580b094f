"""fpi.Eluder beyond its actions: constants, what it explains, freezing while widths rise, classes, files."""

import math
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from layered import LayeredMDP
from support.worlds import bandit

import fpi
from fpi import function_classes, testbeds
from fpi.function_classes import FiniteClass

MIRRORED = np.array([[[0.8, 0.2]], [[0.2, 0.8]]])  # two candidates for one state and two actions


def learned(episodes=7, tables=MIRRORED, **settings):
    """At level 1 it takes 3 data to rule the first candidate out, at level 2 it takes 4, at level 3 it takes 5."""
    defaults = {"actions": 2, "horizon": 1, "episodes": 64, "scale": 0.1, "explore": "first"}
    agent = fpi.Eluder(FiniteClass(tables, max_value=1.0), **(defaults | settings))
    agent.learn(bandit(0.2, 0.8), episodes, seed=0)
    return agent


# --- constants -----------------------------------------------------------------------------------------


def test_constants_are_those_of_the_appendix():
    candidates = FiniteClass(np.zeros((20, 2, 3, 2)), max_value=2.0)
    agent = fpi.Eluder(candidates, actions=2, horizon=2, episodes=1_000, delta=0.1, constants="paper")
    assert agent.levels == 9  # L-bar = floor(log2 1000) + 1 = 10, and nothing is stored there
    assert [agent.level_gap(level) for level in (1, 2, 5)] == [1 / 2, 1 / 4, 1 / 32]
    share = 0.1 / (4 * 2 * 3**2)
    rest = 2 * 7e-6 * (16 + math.sqrt(16 * math.log(4 * 49 / share)))
    assert agent.beta(level=3, k=7) == pytest.approx(16 * math.log(20 / share) + rest)
    scaled = fpi.Eluder(candidates, actions=2, horizon=2, episodes=1_000, delta=0.1, constants="paper", scale=0.01)
    assert scaled.beta(3, 7) == pytest.approx(agent.beta(3, 7) / 100)
    assert scaled.level_gap(3) == agent.level_gap(3)


@pytest.mark.parametrize(("episodes", "levels"), [(1, 1), (2, 1), (3, 1), (4, 2), (1_023, 9), (1_024, 10)])
def test_the_number_of_levels(episodes, levels):
    assert fpi.Eluder(FiniteClass(MIRRORED, max_value=1.0), actions=2, horizon=1, episodes=episodes).levels == levels


def test_dataset_bound_by_hand():
    """Two candidates make one pair, so the eluder dimension is 1 and D = 2 + 4 beta / eps^2."""
    agent = fpi.Eluder(FiniteClass(MIRRORED, max_value=1.0), actions=2, horizon=1, episodes=10_000)
    for level in (1, 2, 3):
        most = agent.dataset_bound(level)
        assert most == math.floor(2 + 4 * agent.beta(level, most) * 4**level)
        assert agent.theory.dataset_bound(0.5**level) == most


def test_the_bounds_of_theorem_4_by_hand():
    """H = 1: an episode whose smallest level is l loses at most min(1, 4 * 2^-(l-1)), and there are D_l + 1 of them."""
    theory = fpi.Eluder(FiniteClass(MIRRORED, max_value=1.0), actions=2, horizon=1, episodes=2**14).theory
    assert [theory.level_loss(level) for level in range(1, 6)] == [1, 1, 1, 0.5, 0.25]
    first = sum(theory.dataset_bound(0.5**level) + 1 for level in (1, 2, 3))
    assert theory.regret_bound([1, first, first + 10]).tolist() == [1, first, first + 5]
    assert theory.mistakes_bound(0.5) == first
    assert theory.level_episodes(14) < math.inf == theory.level_episodes(15)


# --- what it says --------------------------------------------------------------------------------------


def test_explain_tells_levels_action_sets_and_why_an_action_went():
    told = learned(9).explain(0, 0)
    assert (told.action, told.covered, told.level, told.freezing_index) == (1, True, 2, 4)
    assert told.values.tolist() == [0.2, 0.8] and told.widths.tolist() == [0, 0]
    first, second, third = told.level_states
    assert (first.covered, second.covered, third.covered) == (3, 4, None)
    assert second.allowed.all() and third.allowed.tolist() == third.uncovered.tolist() == [False, True]
    assert told.reasons[0].startswith("eliminated at level 2: its value 0.2 does not reach 0.3")
    assert told.reasons[1] == "not covered yet at level 3: value 0.8, width 0.6"
    assert told.gap == 0.5 and not told.vacuous
    assert "no promise" in str(told) and "covered up to level 2" in str(told)


def test_intervals_use_the_width_at_the_frozen_prefix():
    """Widths are 0 where one candidate is left, so the worse action goes at once."""
    told = learned(4, elimination="interval").explain(0, 0)
    assert told.level_states[0].errors.tolist() == [0, 0]
    assert told.level_states[0].survives.tolist() == [False, True]


def test_an_agent_that_knows_nothing_says_so():
    agent = fpi.Eluder(FiniteClass(MIRRORED, max_value=1.0), actions=2, horizon=1, episodes=64)
    told = agent.explain(0, 0)
    assert (told.action, told.covered, told.level, told.gap, told.vacuous) == (0, False, 0, 1.0, True)
    assert told.widths == pytest.approx([0.6, 0.6])


# --- frozen stays frozen -------------------------------------------------------------------------------


class Widths:
    """Looks after every episode at the widths on all data, and at what is frozen, at every state and level."""

    def __init__(self, agent, env):
        self.agent, self.rises, self.lapses, self.seen = agent, 0, 0, 0
        self.pool = [(env.observation(h, s), h) for h in range(agent.horizon) for s in range(env.sizes[h])]
        self.before, self.covered_steps = {}, {}

    def __call__(self, episode):
        for i, (observation, stage) in enumerate(self.pool):
            for level_state in self.agent.level_states(observation, stage):
                if level_state.covered is None:
                    break
                self._look(i, observation, stage, level_state)

    def _look(self, i, observation, stage, level_state):
        data = self.agent.datasets.prefixes(stage, level_state.level)
        rows = self.agent.datasets.rows(observation, stage)[level_state.allowed]
        widths = data.widths(rows, len(data))
        covered = (widths <= data.epsilon).all() and data.dependent(rows, len(data)).all()
        name = i, level_state.level
        self.rises += np.any(widths > self.before.get(name, np.inf))
        self.lapses += not covered
        self.before[name] = widths
        now = [
            level_state.covered,
            level_state.action,
            *(x.tobytes() for x in level_state[2:6]),
            level_state.survives.tobytes(),
        ]
        assert self.covered_steps.setdefault(name, now) == now
        self.seen += 1


@pytest.mark.parametrize("elimination", ["paper", "interval"])
def test_what_is_frozen_stays_although_widths_rise_and_covered_states_fall_out_of_cover(elimination):
    env = LayeredMDP(seed=3, horizon=1, states=8, actions=4)
    tables = np.random.default_rng(5).uniform(0, 1, (12, 8, 4))
    tables[0] = env.mean[0]
    settings = {"actions": 4, "horizon": 1, "episodes": 200, "scale": 0.1, "elimination": elimination}
    agent = fpi.Eluder(FiniteClass(tables, max_value=1.0), **settings)
    widths = Widths(agent, env)
    agent.learn(env, 200, seed=7, callback=widths)
    assert widths.rises > 0 and widths.seen > 1_000
    assert widths.lapses > 0 or elimination == "interval"


# --- classes of all kinds ------------------------------------------------------------------------------


class Threshold:
    """One page of a user's own: F = {c g: 0 <= c <= 1} for known g, without any of the optional methods."""

    actions, min_value, max_value, exact = 2, 0.0, 1.0, {}

    def rows(self, observation, stage):
        return np.array([[0.3], [0.9]])

    def log_covering(self, radius):
        return math.log(math.ceil(0.5 / radius))

    def prefixes(self, epsilon, beta):
        return Heights(epsilon, beta)


class Heights:
    def __init__(self, epsilon, beta):
        self.epsilon, self.beta, self.data = epsilon, beta, []

    def __len__(self):
        return len(self.data)

    def append(self, row, target):
        self.data.append((row[0], target))

    def fit(self, k):
        square = sum(g * g for g, _ in self.data[:k])
        return square, min(max(sum(g * q for g, q in self.data[:k]) / square, 0), 1) if square else 0.0

    def estimates(self, rows, k):
        return self.fit(k)[1] * rows[:, 0]

    def widths(self, rows, k):
        square, height = self.fit(k)
        reach = math.sqrt(self.beta(k) / square) if square else math.inf
        return (min(height + reach, 1) - max(height - reach, 0)) * rows[:, 0]

    def dependent(self, rows, k):
        square, _ = self.fit(k)
        return (min(self.epsilon / math.sqrt(square), 1.0) if square else 1.0) * rows[:, 0] <= self.epsilon


def test_a_class_without_optional_methods_is_enough(tmp_path):
    env = bandit(0.24, 0.72)
    agent = fpi.Eluder(Threshold(), actions=2, horizon=1, episodes=60, scale=0.01)
    agent.learn(env, 50, seed=0)
    assert agent.predict(0, 0) == 1 and agent.explain(0, 0).level >= 2
    assert agent.explain(0, 0).values == pytest.approx([0.24, 0.72])
    agent.save(tmp_path / "agent.fpi")
    loaded = fpi.load(tmp_path / "agent.fpi", Threshold())
    assert str(loaded.explain(0, 0)) == str(agent.explain(0, 0))


def cells(testbed):
    K = testbed.actions
    return function_classes.Aggregation(
        lambda seen, stage: K * int(seen[-1]) + np.arange(K), cells=5 * K, actions=K, max_value=1.0
    )


KINDS = {
    "tables": (lambda t: FiniteClass(t.tables, max_value=1.0), testbeds.TableBandit(contexts=5, K=3, N=10), 1.0),
    "cells": (cells, testbeds.TableBandit(contexts=5, K=3, N=10), 1e-2),
    "ball": (
        lambda t: function_classes.LinearBall(t.features, radius=t.theta_bound, max_value=1.0),
        testbeds.LinBandit(d=2, K=3),
        1e-3,
    ),
    "logistic": (
        lambda t: function_classes.GeneralizedLinear(t.arms, radius=t.radius),
        testbeds.LogitBandit(d=2, K=3),
        1e-3,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_class_finds_nearly_best_actions(kind):
    make, testbed, scale = KINDS[kind]
    agent = fpi.Eluder(make(testbed), actions=3, horizon=1, episodes=400, scale=scale)
    agent.learn(testbed.env(), 400, seed=0)
    starts = testbed.held_out(60)
    random = testbed.gaps(starts, testbeds.random_policy(3, 0)).mean()
    assert testbed.gaps(starts, testbed.policy(agent.greedy)).mean() < 0.25 * random
    assert agent.datasets.size(0, 2) > 0  # level 1 is full
    assert all(len(agent.dataset(0, level)) <= agent.dataset_bound(level) for level in range(1, agent.levels + 1))


def test_with_the_constants_of_the_theory_a_list_of_candidates_is_told_apart():
    """Two stages, 90 candidates: the policy at the end is optimal at every start."""
    testbed = testbeds.TableHubs(contexts=6, m=2, K=3, R=10)
    agent = fpi.Eluder(FiniteClass(testbed.tables, max_value=2.0), actions=3, horizon=2, episodes=1_500)
    agent.learn(testbed.env(), 1_500, seed=0)
    assert testbed.gaps(testbed.held_out(20), testbed.policy(agent.predict)).max() == pytest.approx(0)


@pytest.mark.slow
def test_the_example_finds_the_best_policy(capsys):
    runpy.run_path(str(Path(__file__).parents[1] / "examples/unknown_features.py"))
    said = capsys.readouterr().out
    learned, best = re.search(r"learned policy: ([\d.]+), of the best one: ([\d.]+)", said).groups()
    assert learned == best and "108 candidates" in said


# --- files ---------------------------------------------------------------------------------------------


def candidates_of(testbed):
    tables = testbed.tables
    functions = [lambda seen, stage, table=table: table[stage, int(seen[-1])] for table in tables]
    return FiniteClass(functions, max_value=2.0, actions=testbed.actions)


@pytest.mark.parametrize("as_functions", [False, True])
def test_stopping_saving_and_asking_in_between_change_nothing(tmp_path, as_functions):
    testbed = testbeds.TableHubs(contexts=6, m=2, K=2, R=6)
    function_class = candidates_of(testbed) if as_functions else FiniteClass(testbed.tables, max_value=2.0)
    again = candidates_of(testbed) if as_functions else None

    def make():
        return fpi.Eluder(function_class, actions=2, horizon=2, episodes=300, scale=0.02)

    def answers(agent):
        starts = map(testbed.observation, testbed.held_out(6))
        return [(agent.predict(start, 0), str(agent.explain(start, 0))) for start in starts]

    whole, parts, path = make(), make(), tmp_path / "agent.fpi"
    whole.learn(testbed.env(), 240, seed=4)
    parts.learn(testbed.env(), 80, seed=4)
    answers(parts)
    parts.learn(testbed.env(), 80)
    parts.save(path)
    loaded = fpi.load(path, again)
    assert answers(loaded) == answers(parts)
    loaded.learn(testbed.env(), 80)
    assert loaded.played == whole.played and answers(loaded) == answers(whole)
    loaded.save(path)
    whole.save(tmp_path / "whole.fpi")
    assert path.read_bytes() == (tmp_path / "whole.fpi").read_bytes()


def test_tables_come_back_from_the_file_and_others_are_refused(tmp_path):
    path = tmp_path / "agent.fpi"
    learned(5).save(path)
    loaded = fpi.load(path)
    assert loaded.function_class.rows(0, 0).tolist() == MIRRORED[:, 0].T.tolist()
    assert loaded.settings == learned(5).settings
    with pytest.raises(fpi.errors.ModelFileError, match="other features"):
        fpi.load(path, FiniteClass(MIRRORED[::-1].copy(), max_value=1.0))


def test_features_given_for_a_class_are_refused_by_name(tmp_path):
    functions = FiniteClass([lambda x, stage: [0.25, 0.5]], max_value=1.0, actions=2)
    fpi.Eluder(functions, actions=2, horizon=1, episodes=8).save(tmp_path / "model.fpi")
    with pytest.raises(fpi.errors.ModelFileError, match="not what it was learned with: .* is not a function class"):
        fpi.load(tmp_path / "model.fpi", features=lambda x: [1.0, 0.0])

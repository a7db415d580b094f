"""fpi.Eluder takes the same action as a literal search over all pairs of functions, at every step."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from layered import LayeredMDP
from literal import TIE, IllPosed
from literal_eluder import Functions, LiteralEluder
from test_literal_regret import ELIMINATIONS, RULES, assert_same_data, assert_same_standing, bandit

import fpi
from fpi.function_classes import FiniteClass

SEED = 7


def as_tables(tables, top):
    return FiniteClass(tables, max_value=top)


def as_functions(tables, top):
    functions = [lambda observation, stage, table=table: table[stage, observation] for table in tables]
    return FiniteClass(functions, max_value=top, actions=tables.shape[-1])


def as_keyed_functions(tables, top):
    functions = [lambda observation, stage, table=table: table[stage, observation] for table in tables]
    return FiniteClass(
        functions, max_value=top, actions=tables.shape[-1], key=lambda observation, stage: int(observation)
    )


@dataclass(frozen=True)
class World:
    """An MDP, random candidate functions for it of which the first is near the truth, and settings."""

    mdp: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    size: int = 12
    candidates: Callable[[Any, float], Any] = as_tables
    change: Callable[[Any], Any] = lambda tables: tables
    episodes: int = 150

    def env(self):
        return LayeredMDP(seed=3, **self.mdp)

    def tables(self):
        """Q* of the first, in units of [0, 1] a stage, a stage at a time from the last."""
        env, rng = self.env(), np.random.default_rng(5)
        tables = rng.uniform(0, self.horizon, (self.size, self.horizon, max(env.sizes), env.actions))
        best = np.zeros(max(env.sizes))
        for stage in reversed(range(self.horizon)):
            after = np.where(env.ends[stage], 0.0, best[env.successor[stage]]) if stage < self.horizon - 1 else 0.0
            tables[0, stage] = env.mean[stage] + after
            best = tables[0, stage].max(axis=-1)
        return self.change(tables)

    @property
    def horizon(self):
        return self.settings.get("horizon", self.mdp["horizon"])

    def arguments(self, elimination, explore):
        defaults = {"actions": self.mdp["actions"], "horizon": self.horizon, "episodes": self.episodes, "scale": 0.05}
        return defaults | self.settings | {"elimination": elimination, "explore": explore}

    def agent(self, elimination="paper", explore="greedy"):
        return fpi.Eluder(self.candidates(self.tables(), self.horizon), **self.arguments(elimination, explore))

    def literal(self, elimination="paper", explore="greedy"):
        tables = self.tables()
        functions = lambda observation, stage: tables[:, stage, observation].T  # noqa: E731
        return LiteralEluder(functions, **self.arguments(elimination, explore), seed=SEED)


def twice(tables):
    """Every function has a copy, and the last two actions are the same to all of them."""
    tables = np.concatenate([tables, tables])
    tables[..., -1] = tables[..., -2]
    return tables


def agreed(tables):
    """All functions agree in every third state; in every other third they differ by at most 0.1."""
    tables = tables.copy()
    tables[:, :, ::3] = tables[:1, :, ::3]
    tables[:, :, 1::3] = 0.9 * tables[:1, :, 1::3] + 0.05 * tables[:, :, 1::3]
    return tables


def indicators(tables):
    """Function i is high at pair i alone, so that hardly any data tell about others: dependence decides."""
    tables = np.zeros_like(tables)
    for i, table in enumerate(tables[1:], start=1):
        table.reshape(-1)[7 * i % table.size] = 0.7 + 0.01 * i
    return tables


ONE = {"horizon": 1, "states": 8, "actions": 4}
TWO = {"horizon": 2, "states": (8, 3), "actions": 3, "early_end": 0.1}
THREE = {"horizon": 3, "states": (6, 3, 3), "actions": 2, "early_end": 0.1}
WORLDS = {
    "one stage": World(ONE, {"scale": 0.1}),
    "one stage, many functions": World(ONE, {"scale": 0.05}, size=40, episodes=120),
    "the theory's scale": World(ONE | {"states": 3, "actions": 2}, {"scale": 1.0}, size=4, episodes=300),
    "hardly any doubt": World(ONE, {"scale": 1e-3}),
    "two stages": World(TWO, {"scale": 0.02}),
    "two stages, functions": World(TWO, {"scale": 0.02}, candidates=as_functions),
    "two stages, keyed functions": World(TWO, {"scale": 0.02}, candidates=as_keyed_functions),
    "two stages, as in the paper": World(TWO, {"scale": 0.02, "constants": "paper", "delta": 0.3}),
    "three stages": World(THREE | {"rewards": "uniform"}, {"scale": 0.01}),
    "a short horizon": World(THREE, {"scale": 0.02, "horizon": 2}),
    "two functions": World(ONE | {"states": 2}, {"scale": 0.3}, size=2, episodes=300),
    "one function": World(TWO, size=1, episodes=40),
    "copies": World(ONE, change=twice),
    "agreement": World(TWO | {"states": (9, 6)}, {"scale": 0.02}, change=agreed),
    "indicators": World(ONE, {"scale": 1e-4}, change=indicators, episodes=100),
    "indicators, two stages": World(TWO | {"states": (6, 20)}, {"scale": 1e-4}, 25, change=indicators, episodes=150),
    "one episode": World(TWO, episodes=1),
    "three episodes": World(TWO, {"scale": 1e-3}, episodes=3),
    "rewards from -1 to 2": World(
        TWO | {"rewards": "uniform", "reward_range": (-1, 2)}, {"reward_range": (-1, 2), "scale": 0.02}
    ),
    "rewards above 0": World(TWO | {"rewards": "uniform", "reward_range": (1, 3)}, {"reward_range": (1, 3)}),
}


def settings_of(name):
    """Two elimination rules, each with another exploring rule; the pairs change from world to world."""
    shift = list(WORLDS).index(name)
    return [(name, ELIMINATIONS[(shift + i) % 3], RULES[(shift // 3 + 2 * i + shift) % 4]) for i in range(2)]


CASES = {setting for name in WORLDS for setting in settings_of(name)}
CASES |= {(name, each, rule) for name in ("one stage", "two stages") for each in ELIMINATIONS for rule in RULES}


@pytest.mark.parametrize(("name", "elimination", "explore"), sorted(CASES))
def test_same_action_at_every_step(name, elimination, explore):
    world = WORLDS[name]
    agent, literal = world.agent(elimination, explore), world.literal(elimination, explore)
    env, episodes = world.env(), []

    def keep(episode):
        episodes.append((episode.number, episode.actions.tolist(), episode.stored_stage, list(agent.played)))

    agent.learn(world.env(), world.episodes, seed=SEED, callback=keep)
    for number, *played in episodes:
        assert played == list(literal.learn_episode(env)), number
    assert agent.levels == literal.levels
    assert_same_data(agent, literal)
    assert_same_standing(agent, literal, env)


# --- the instances can tell right from wrong -----------------------------------------------------------


def play(world, *setting):
    literal, env = world.literal(*setting), world.env()
    return literal, env, [literal.learn_episode(env) for _ in range(world.episodes)]


def test_rules_differ():
    world = WORLDS["two stages"]
    assert len({str(play(world, elimination, "greedy")[2]) for elimination in ELIMINATIONS}) == 3
    assert len({str(play(world, "paper", rule)[2]) for rule in RULES}) == 4


@pytest.mark.parametrize("name", ["one stage", "the theory's scale", "two stages", "two functions"])
def test_actions_are_eliminated(name):
    literal, env, _ = play(WORLDS[name])
    level_states = [literal.standing(env.observation(0, state), 0) for state in range(env.sizes[0])]
    left = [len(rung.allowed) for rungs in level_states for rung in rungs]
    assert env.actions in left and min(left) < env.actions


def test_levels_rise_and_fall():
    reached, drops = 0, 0
    for name in ("one stage", "three stages", "indicators, two stages"):
        literal, _, episodes = play(WORLDS[name])
        reached = max([reached, *(level for (_, level), data in literal.datasets.items() if len(data))])
        drops += sum(len({level for level in levels if level <= literal.levels}) > 1 for _, _, levels in episodes)
        assert all(levels == sorted(levels, reverse=True) for _, _, levels in episodes)
    assert reached >= 7 and drops >= 3


def count(world, question):
    """How often the answer is yes, over all levels and prefixes at all states."""
    literal, env, _ = play(world)
    times = 0
    for stage in range(literal.horizon):
        for state in range(env.sizes[stage]):
            rows = literal.rows(env.observation(stage, state), stage)
            for level in range(1, literal.levels + 1):
                data = literal.datasets[stage, level]
                times += sum(question(literal, rows, data, k, level) for k in range(len(data) + 1))
    return times


def test_widths_rise_with_more_data():
    def rises(literal, rows, data, k, level):
        return k > 0 and np.any(data.widths(rows, k)[0] > data.widths(rows, k - 1)[0])

    assert count(WORLDS["one stage"], rises) > 30


def test_a_state_that_is_covered_at_a_prefix_may_not_be_at_a_later_one():
    """So the first prefix must be looked for, and not by halving."""

    def lapses(literal, rows, data, k, level):
        everything = np.arange(literal.actions)
        covered = [not literal.uncovered(rows, data, i, level, everything).size for i in (k, k + 1) if i <= len(data)]
        return covered == [True, False]

    assert count(WORLDS["one stage"], lapses) > 0


def test_dependence_alone_decides_somewhere():
    def narrow_yet_independent(literal, rows, data, k, level):
        narrow = data.widths(rows, k)[0] <= 0.5**level
        return any(data.independent(row, k, 0.5**level) for row in rows[narrow])

    assert count(WORLDS["indicators"], narrow_yet_independent) > 0


def test_worlds_hold_what_their_names_say():
    literal, env, _ = play(WORLDS["agreement"])
    frozen = [literal.standing(env.observation(0, state), 0)[0].k for state in (0, 1)]
    assert frozen == [0, 0] and len(literal.standing(env.observation(0, 0), 0)) == literal.levels
    assert play(WORLDS["one episode"])[0].levels == 1
    literal, _, episodes = play(WORLDS["one function"])
    assert all(explored == -1 for _, explored, _ in episodes) and not any(map(len, literal.datasets.values()))
    assert episodes[-1][2] == [literal.levels + 1] * len(episodes[-1][2])


# --- the reference itself ------------------------------------------------------------------------------


def test_beta_by_hand():
    """H = 2, T = 10, delta = 0.4, level 3: the share is 0.4 / 72."""
    world = World(TWO, {"delta": 0.4, "scale": 1.0}, episodes=10)
    share = 0.4 / 72
    second = 2 * 5 / 100 * (16 + math.sqrt(16 * math.log(100 / share)))
    paper = World(TWO, world.settings | {"constants": "paper"}, episodes=10)
    assert paper.literal().beta(3, 5, 12) == pytest.approx(16 * math.log(12 / share) + second)
    second = 2 * 5 / 100 * (16 + math.sqrt(4 * math.log(100 / share)))
    assert world.literal().beta(3, 5, 12) == pytest.approx(4 * math.log(12 / share) + second)
    for mine in (world, paper):
        for level, k in ((1, 1), (3, 5), (2, 9)):
            assert mine.agent().beta(level, k) == pytest.approx(mine.literal().beta(level, k, 12), rel=1e-13)


def test_the_reference_by_hand():
    """Two candidates for two arms, and no noise: the one says 0.2 and 0.8, the other 0.8 and 0.2.

    Each pull tells them apart by 0.36. At level 1 a point is dependent as soon as 0.36 n > 1/4. The other candidate is
    out of F_n when 0.36 n > beta, and then both arms are known for ever at this level.
    """
    env, _ = bandit(0.2, 0.8)
    values = np.array([[0.8, 0.2], [0.2, 0.8]])  # arms × candidates
    literal = LiteralEluder(
        lambda observation, stage: values, actions=2, horizon=1, episodes=64, scale=0.1, explore="first"
    )
    takes = [math.ceil(max(literal.beta(level, 6, 2), 0.25**level) / 0.36) for level in (1, 2, 3)]
    assert takes == [3, 4, 5]
    episodes = [literal.learn_episode(env) for _ in range(12)]
    assert episodes[:7] == [([0], 0, [1])] * 3 + [([0], 0, [2])] * 4
    assert episodes[7:] == [([1], 0, [3])] * 5  # 0.6 behind is more than 2 / 4, so one arm is left
    first, second, third = literal.standing(0, 0)[:3]
    assert (first.k, second.k, third.k) == (3, 4, 5)
    assert [rung.allowed.tolist() for rung in (first, second, third)] == [[0, 1], [0, 1], [1]]


def test_ties_and_edges_are_ill_posed():
    literal = LiteralEluder(lambda observation, stage: None, actions=1, horizon=1, episodes=4)
    data = Functions(literal.above, lambda k: 0.3**2, 2, 1.0)
    data.append(np.array([0.2, 0.8]), 0, 0.5, 0)
    with pytest.raises(IllPosed, match="equally well"):
        data.best(1)
    edge = Functions(literal.above, lambda k: 0.6**2, 2, 1.0)
    edge.append(np.array([0.2, 0.8]), 0, 0.3, 0)
    with pytest.raises(IllPosed, match="edge"):
        edge.members(1)
    with pytest.raises(IllPosed, match="edge"):
        edge.independent(np.array([0.0, 0.5 * (1 + TIE)]), 0, 0.5)

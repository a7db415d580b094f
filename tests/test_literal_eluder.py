"""fpi.Eluder takes the same action as a literal search over all pairs of functions, at every step."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from literal import TIE, IllPosed
from literal_eluder import Functions, LiteralEluder
from support import worlds
from support.worlds import bandit
from test_literal_regret import (
    ELIMINATIONS,
    RULES,
    assert_actions_are_eliminated,
    assert_rules_differ,
    assert_same_run,
    highest_level_and_drops,
)

import fpi
from fpi.function_classes import FiniteClass


def as_tables(tables, **ends):
    return FiniteClass(tables, **ends)


def as_functions(tables, **ends):
    functions = [lambda observation, stage, table=table: table[stage, observation] for table in tables]
    return FiniteClass(functions, actions=tables.shape[-1], **ends)


def as_keyed_functions(tables, **ends):
    return as_functions(tables, key=lambda observation, stage: int(observation), **ends)


@dataclass(frozen=True)
class World(worlds.World):
    """Instead of features, random candidate functions of which the first is near the truth."""

    size: int = 12
    change: Callable[[Any], Any] = lambda tables: tables

    algorithm, reference = fpi.Eluder, LiteralEluder
    defaults: ClassVar = {"scale": 0.05, "elimination": "paper", "explore": "greedy"}

    def tables(self):
        """Q* of the first, divided by the span of rewards, a stage at a time from the last."""
        env, rng, horizon = self.env(), np.random.default_rng(5), self.arguments()["horizon"]
        tables = rng.uniform(*self.ends(), (self.size, horizon, max(env.sizes), env.actions))
        low, high = min(env.low, 0), max(env.high, 0)
        means = (env.low + (env.high - env.low) * env.mean) / (high - low)
        best = np.zeros(max(env.sizes))
        for stage in reversed(range(horizon)):
            after = np.where(env.ends[stage], 0.0, best[env.successor[stage]]) if stage < horizon - 1 else 0.0
            tables[0, stage] = means[stage] + after
            best = tables[0, stage].max(axis=-1)
        return self.change(tables)

    def ends(self):
        """The lowest and the highest value."""
        env, horizon = self.env(), self.arguments()["horizon"]
        low, high = min(env.low, 0), max(env.high, 0)
        return horizon * low / (high - low), horizon * high / (high - low)

    def known(self):
        low, high = self.ends()
        return self.features(self.tables(), min_value=low, max_value=high)

    def rows(self):
        tables = self.tables()
        return lambda observation, stage: tables[:, stage, observation].T

    def arguments(self, *rules):
        return super().arguments(*rules) | {"episodes": self.episodes}


def listed(mdp, settings=None, candidates=as_tables, episodes=150, **options):
    return World(candidates, settings or {}, mdp, episodes, **options)


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
    "one stage": listed(ONE, {"scale": 0.1}),
    "one stage, many functions": listed(ONE, {"scale": 0.05}, size=40, episodes=120),
    "the theory's scale": listed(ONE | {"states": 3, "actions": 2}, {"scale": 1.0}, size=4, episodes=300),
    "hardly any doubt": listed(ONE, {"scale": 1e-3}),
    "two stages": listed(TWO, {"scale": 0.02}),
    "two stages, functions": listed(TWO, {"scale": 0.02}, candidates=as_functions),
    "two stages, keyed functions": listed(TWO, {"scale": 0.02}, candidates=as_keyed_functions),
    "two stages, as in the paper": listed(TWO, {"scale": 0.02, "constants": "paper", "delta": 0.3}),
    "three stages": listed(THREE | {"rewards": "uniform"}, {"scale": 0.01}),
    "a short horizon": listed(THREE, {"scale": 0.02, "horizon": 2}),
    "two functions": listed(ONE | {"states": 2}, {"scale": 0.3}, size=2, episodes=300),
    "one function": listed(TWO, size=1, episodes=40),
    "copies": listed(ONE, change=twice),
    "agreement": listed(TWO | {"states": (9, 6)}, {"scale": 0.02}, change=agreed),
    "indicators": listed(ONE, {"scale": 1e-4}, change=indicators, episodes=100),
    "indicators, two stages": listed(TWO | {"states": (6, 20)}, {"scale": 1e-4}, size=25, change=indicators),
    "one episode": listed(TWO, episodes=1),
    "three episodes": listed(TWO, {"scale": 1e-3}, episodes=3),
    "rewards from -1 to 2": listed(
        TWO | {"rewards": "uniform", "reward_range": (-1, 2)}, {"reward_range": (-1, 2), "scale": 0.02}
    ),
    "rewards above 0": listed(TWO | {"rewards": "uniform", "reward_range": (1, 3)}, {"reward_range": (1, 3)}),
}


CASES = worlds.settings_of(WORLDS, ELIMINATIONS, RULES, count=1)
CASES |= {(name, each, rule) for name in ("one stage", "two stages") for each in ELIMINATIONS for rule in RULES}


def drawn(seed):
    """A tiny world, and the rules to play it by."""
    rng = np.random.default_rng(seed)
    mdp = worlds.drawn_mdp(rng)
    settings = {"scale": float(10 ** rng.uniform(-3, -1)), "reward_range": mdp["reward_range"]}
    candidates = [as_tables, as_functions, as_keyed_functions][int(rng.integers(3))]
    rules = [ELIMINATIONS[int(rng.integers(3))], RULES[int(rng.integers(5))]]
    return listed(mdp, settings, candidates, episodes=40, size=int(rng.integers(2, 9)), seed=seed), rules


@pytest.mark.parametrize("seed", range(20))
def test_same_action_in_tiny_worlds(seed):
    world, rules = drawn(seed)
    assert_same_run(world, rules)


@pytest.mark.long
@pytest.mark.parametrize(("name", "elimination", "explore"), sorted(CASES))
def test_same_action_at_every_step(name, elimination, explore):
    assert_same_run(WORLDS[name], (elimination, explore))


# --- the instances can tell right from wrong -----------------------------------------------------------


@pytest.mark.long
def test_rules_differ():
    assert_rules_differ(WORLDS["two stages"])


@pytest.mark.long
@pytest.mark.parametrize("name", ["one stage", "the theory's scale", "two stages", "two functions"])
def test_actions_are_eliminated(name):
    assert_actions_are_eliminated(WORLDS[name])


@pytest.mark.long
def test_levels_rise_and_fall():
    reached, drops = highest_level_and_drops(WORLDS, "one stage", "three stages", "indicators, two stages")
    assert reached >= 7 and drops >= 3


def count(world, question):
    """How often the answer is yes, over all levels and prefixes at all states."""
    literal, env, _ = world.play()
    times = 0
    for stage in range(literal.horizon):
        for state in range(env.sizes[stage]):
            rows = literal.rows(env.observation(stage, state), stage)
            for level in range(1, literal.levels + 1):
                data = literal.datasets[stage, level]
                times += sum(question(literal, rows, data, k, level) for k in range(len(data) + 1))
    return times


@pytest.mark.long
def test_widths_rise_with_more_data():
    def rises(literal, rows, data, k, level):
        return k > 0 and np.any(data.widths(rows, k)[0] > data.widths(rows, k - 1)[0])

    assert count(WORLDS["one stage"], rises) > 30


@pytest.mark.long
def test_a_state_that_is_covered_at_a_prefix_may_not_be_at_a_later_one():
    """So the first prefix must be looked for, and not by halving."""

    def lapses(literal, rows, data, k, level):
        everything = np.arange(literal.actions)
        covered = [not literal.uncovered(rows, data, i, level, everything).size for i in (k, k + 1) if i <= len(data)]
        return covered == [True, False]

    assert count(WORLDS["one stage"], lapses) > 0


@pytest.mark.long
def test_dependence_alone_decides_somewhere():
    def narrow_yet_independent(literal, rows, data, k, level):
        narrow = data.widths(rows, k)[0] <= 0.5**level
        return any(data.independent(row, k, 0.5**level) for row in rows[narrow])

    assert count(WORLDS["indicators"], narrow_yet_independent) > 0


@pytest.mark.long
def test_worlds_hold_what_their_names_say():
    literal, env, _ = WORLDS["agreement"].play()
    frozen = [literal.standing(env.observation(0, state), 0)[0].k for state in (0, 1)]
    assert frozen == [0, 0] and len(literal.standing(env.observation(0, 0), 0)) == literal.levels
    assert WORLDS["one episode"].play()[0].levels == 1
    literal, _, episodes = WORLDS["one function"].play()
    assert all(explored == -1 for _, explored, _ in episodes) and not any(map(len, literal.datasets.values()))
    assert episodes[-1][2] == [literal.levels + 1] * len(episodes[-1][2])


# --- the reference itself ------------------------------------------------------------------------------


def test_beta_by_hand():
    """H = 2, T = 10, delta = 0.4, level 3: the share is 0.4 / 72."""
    world = listed(TWO, {"delta": 0.4, "scale": 1.0}, episodes=10)
    share = 0.4 / 72
    second = 2 * 5 / 100 * (16 + math.sqrt(16 * math.log(100 / share)))
    paper = listed(TWO, world.settings | {"constants": "paper"}, episodes=10)
    assert paper.literal().beta(0, 3, 5, 12) == pytest.approx(16 * math.log(12 / share) + second)
    second = 2 * 5 / 100 * (16 + math.sqrt(4 * math.log(100 / share)))
    assert world.literal().beta(0, 3, 5, 12) == pytest.approx(4 * math.log(12 / share) + second)
    for mine in (world, paper):
        for level, k in ((1, 1), (3, 5), (2, 9)):
            for stage in range(2):
                expected = mine.literal().beta(stage, level, k, 12)
                assert mine.agent().beta(level, k, stage) == pytest.approx(expected, rel=1e-13)


def test_the_reference_by_hand():
    """Two candidates for two arms, and no noise: the one says 0.2 and 0.8, the other 0.8 and 0.2.

    Each pull tells them apart by 0.36. At level 1 a point is dependent as soon as 0.36 n > 1/4. The other candidate is
    out of F_n when 0.36 n > beta, and then both arms are known for ever at this level.
    """
    env = bandit(0.2, 0.8)
    values = np.array([[0.8, 0.2], [0.2, 0.8]])  # arms × candidates
    literal = LiteralEluder(
        lambda observation, stage: values, actions=2, horizon=1, episodes=64, scale=0.1, explore="first"
    )
    takes = [math.ceil(max(literal.beta(0, level, 6, 2), 0.25**level) / 0.36) for level in (1, 2, 3)]
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

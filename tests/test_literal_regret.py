"""fpi.Regret takes the same action as a literal Algorithm 2 at every step of thousands of episodes."""

import math
from typing import ClassVar

import layered
import numpy as np
import pytest
from layered import LayeredMDP
from literal import TIE, IllPosed
from literal_regret import LiteralRegret, Problem
from support import worlds
from support.agents import assert_same_data
from support.worlds import SEED, bandit, dense, keyed, one_hot, rbf, small, table, tiles

import fpi

RULES = ["greedy", "random", "first", "widest", "optimistic"]
ELIMINATIONS = ["paper", "stage", "interval"]


class World(worlds.World):
    algorithm, reference = fpi.Regret, LiteralRegret
    defaults: ClassVar = {"scale": 0.05, "elimination": "paper", "explore": "greedy"}


POINTS = {"observe": "point", "states": (60, 20, 20), "horizon": 3}
ONE = {"horizon": 1, "states": 40, "actions": 4}
TWO = {"horizon": 2, "states": (30, 10), "actions": 3, "early_end": 0.1}
THREE = {"horizon": 3, "states": (30, 10, 10), "actions": 3, "early_end": 0.1}
FOUR = {"horizon": 4, "states": (20, 8, 8, 8), "actions": 3, "early_end": 0.1}
WORLDS = {
    # scales, dimensions and horizons
    "one stage": World(table(dense(2)), {"scale": 0.1}, ONE, episodes=300),
    "the theory's scale": World(table(dense(1)), {"scale": 1.0}, ONE, episodes=300),
    "two stages": World(table(dense(2)), {}, TWO),
    "three stages": World(table(dense(3)), {"scale": 0.03}, THREE | {"rewards": "uniform"}),
    "four stages": World(table(dense(4)), {"scale": 0.01}, FOUR),
    "low rank": World(table(dense(12, rank=2)), {"ridge": 0.01}, TWO | {"rewards": "uniform"}),
    "many data": World(table(dense(2)), {"scale": 0.02, "ridge": 0.1}, ONE | {"states": 12}, episodes=600),
    # features
    "keyed": World(keyed, {}, TWO),
    "one argument": World(lambda mdp: layered.of_observation(layered.dense(mdp, 3)), {}, THREE),
    "one-hot": World(one_hot, {"scale": 0.02}, {"horizon": 2, "states": 4, "actions": 3, "early_end": 0.1}, 300),
    "width ties": World(one_hot, {"scale": 0.02}, {"horizon": 1, "states": 2, "actions": 3}, episodes=300),
    "tiles": World(tiles(2, 2), {"scale": 0.02}, POINTS | {"actions": 2, "early_end": 0.1, "dims": 1}, episodes=300),
    "many data on tiles": World(
        tiles(2, 2), {"scale": 0.02}, ONE | {"actions": 2, "observe": "point", "dims": 1}, episodes=500
    ),
    "RBF": World(rbf, {"scale": 0.02}, {**POINTS, "early_end": 0.1}),
    "copied actions": World(
        table(dense(3), layered.duplicated),
        {"reward_range": (-1, 2), "scale": 0.02},
        TWO | {"actions": 4, "rewards": "integer", "reward_range": (-1, 2)},
    ),
    "zero and tiny": World(table(dense(2), small(0.05)), {}, THREE | {"states": (15, 9, 9)}),
    "hardly anything": World(table(dense(2), small(1e-5)), {}, TWO | {"states": 9}, episodes=120),
    # settings
    "L-bar 2": World(table(dense(2)), {"misspecification": 1.0}, TWO, episodes=60),
    "L-bar 4": World(table(dense(2)), {"misspecification": 0.1}, TWO),
    "L-bar 8, as in the paper": World(table(dense(2)), {"misspecification": 0.01, "constants": "paper"}, TWO),
    "two levels": World(table(dense(2)), {"max_level": 2}, TWO),
    "other bounds": World(table(dense(3)), {"ridge": 2.0, "theta_bound": 0.1, "delta": 0.5, "scale": 0.2}, TWO),
    "a short horizon": World(table(dense(3)), {"horizon": 2, "constants": "paper"}, THREE),
    "rewards above 0": World(
        table(dense(2)), {"reward_range": (1, 3)}, TWO | {"rewards": "uniform", "reward_range": (1, 3)}
    ),
    "from level 3": World(table(dense(3)), {"first_level": 3, "scale": 0.05}, TWO),
    "from the first promising level": World(table(dense(3)), {"first_level": "auto", "scale": 0.1}, TWO),
    "rewards below 0": World(table(dense(2)), {"reward_range": (-2, -1)}, THREE | {"reward_range": (-2, -1)}),
}


CASES = worlds.settings_of(WORLDS, ELIMINATIONS, RULES, count=1)
CASES |= {("two stages", elimination, rule) for elimination in ELIMINATIONS for rule in RULES}


def drawn(seed):
    """A tiny world, and the rules to play it by."""
    rng = np.random.default_rng(seed)
    observe = str(rng.choice(["id", "id", "point"]))
    mdp, features = worlds.drawn_mdp(rng, observe), worlds.drawn_features(rng, observe)
    settings = {"scale": float(10 ** rng.uniform(-3, -1)), "ridge": float(rng.uniform(0.1, 2))}
    rules = [ELIMINATIONS[int(rng.integers(3))], RULES[int(rng.integers(5))]]
    return World(features, settings | {"reward_range": mdp["reward_range"]}, mdp, episodes=40, seed=seed), rules


@pytest.mark.filterwarnings("ignore::fpi.errors.CoverageWarning")
@pytest.mark.parametrize("seed", range(20))
def test_same_action_in_tiny_worlds(seed):
    world, rules = drawn(seed)
    assert_same_run(world, rules)


@pytest.mark.long
@pytest.mark.parametrize(("name", "elimination", "explore"), sorted(CASES))
def test_same_action_at_every_step(name, elimination, explore):
    assert_same_run(WORLDS[name], (elimination, explore))


def assert_same_run(world, rules):
    agent, episodes = world.agent(*rules), []

    def keep(episode):
        episodes.append((episode.actions.tolist(), episode.stored_stage, list(agent.played)))

    agent.learn(world.env(), world.episodes, seed=SEED, callback=keep)
    literal, env, played = world.play(*rules)
    for number, (done, expected) in enumerate(zip(episodes, played, strict=True)):
        assert done == expected, number
    assert agent.levels == literal.levels
    assert_same_data(agent, literal)
    assert_same_standing(agent, literal, env)


def assert_same_standing(agent, literal, env):
    """At a pool of states, visited or not: the action; and per level its set, prefix, values, widths and action."""
    for stage in range(literal.horizon):
        for state in range(env.sizes[stage]):
            observation = env.observation(stage, state)
            assert agent.decide(observation, stage) == literal.predict(observation, stage)
            assert agent.predict(observation, stage) == literal.predict(observation, stage)[0]
            assert agent.predict(observation, stage, explore=False) == literal.greedy(observation, stage)
            if state % 4 == 0:
                level_states, rungs = agent.level_states(observation, stage), literal.standing(observation, stage)
                assert len(level_states) == len(rungs)
                for level_state, rung in zip(level_states, rungs, strict=True):
                    assert_same_rung(level_state, rung, literal, literal.rows(observation, stage), stage)


def assert_same_rung(level_state, rung, literal, rows, stage):
    assert (level_state.level, level_state.covered, level_state.action) == (rung.level, rung.k, rung.action)
    np.testing.assert_array_equal(np.flatnonzero(level_state.allowed), rung.allowed)
    data = literal.datasets[stage, rung.level]
    k = len(data) if rung.k is None else rung.k
    uncovered = literal.uncovered(rows, data, k, rung.level, rung.allowed)
    np.testing.assert_array_equal(np.flatnonzero(level_state.uncovered & level_state.allowed), uncovered)
    values, widths = level_state.values / literal.unit, level_state.widths
    for found, expected in ((widths, data.widths(rows, k)), (values, data.values(rows, k))):
        expected = expected[0].astype(float)[rung.allowed]
        np.testing.assert_allclose(found[rung.allowed], expected, rtol=1e-8, atol=1e-9)
    if rung.k is not None:
        upper, bar, _ = literal.upper_ends(rows, data, stage, rung)
        assert level_state.threshold / literal.unit == pytest.approx(float(bar), abs=1e-8)
        upper_ends = (values + level_state.errors / literal.unit)[rung.allowed]
        np.testing.assert_allclose(upper_ends, upper.astype(float)[rung.allowed], rtol=0, atol=1e-8)


# --- the instances can tell right from wrong -----------------------------------------------------------


@pytest.mark.long
def test_rules_differ():
    """Otherwise the comparison above would prove little."""
    assert_rules_differ(WORLDS["two stages"])


def assert_rules_differ(world):
    assert len({str(world.play(elimination, "greedy")[2]) for elimination in ELIMINATIONS}) == 3
    assert len({str(world.play("paper", rule)[2]) for rule in RULES}) == len(RULES)


@pytest.mark.long
@pytest.mark.parametrize("name", ["one stage", "the theory's scale", "three stages", "tiles", "one-hot"])
def test_actions_are_eliminated(name):
    assert_actions_are_eliminated(WORLDS[name])


def assert_actions_are_eliminated(world):
    literal, env, _ = world.play()
    level_states = [literal.standing(env.observation(0, state), 0) for state in range(env.sizes[0])]
    left = [len(rung.allowed) for rungs in level_states for rung in rungs]
    assert env.actions in left and min(left) < env.actions


@pytest.mark.long
def test_levels_rise_and_fall():
    """High levels are stored, and episodes drop from a level that explored to a lower one."""
    reached, drops = highest_level_and_drops(WORLDS, "one stage", "three stages", "zero and tiny", "hardly anything")
    assert reached >= 15 and drops >= 50


def highest_level_and_drops(worlds, *names):
    reached, drops = 0, 0
    for name in names:
        literal, _, episodes = worlds[name].play()
        reached = max([reached, *(level for (_, level), data in literal.datasets.items() if len(data))])
        drops += sum(len({level for level in levels if level <= literal.levels}) > 1 for _, _, levels in episodes)
        assert all(levels == sorted(levels, reverse=True) for _, _, levels in episodes)
    return reached, drops


@pytest.mark.long
def test_worlds_hold_what_their_names_say():
    literal, _, episodes = WORLDS["L-bar 2"].play()
    assert literal.levels == 1 and not any(len(data) for (_, level), data in literal.datasets.items() if level > 1)
    assert any(explored < 0 and set(levels) == {2} for _, explored, levels in episodes)  # level L-bar, nothing stored
    assert WORLDS["L-bar 4"].play()[0].levels == 3

    data = WORLDS["width ties"].play()[0].datasets[0, 2]
    rows = np.eye(data.sigma.shape[0], dtype=np.longdouble)
    assert np.any(data.widths(rows, len(data))[0] == 0.25)  # exactly 2^-2

    for name in ("many data", "many data on tiles"):
        assert max(len(data) for data in WORLDS[name].play()[0].datasets.values()) > 128

    literal, env, _ = WORLDS["zero and tiny"].play()
    first, second, third = (literal.standing(env.observation(0, state), 0) for state in range(3))
    assert {rung.k for rung in first} == {0} and len(first) == 40  # zero features: sure at once, at every level
    assert second[0].k == 0 < third[0].k


# --- the reference itself ------------------------------------------------------------------------------


def test_the_constants_by_hand():
    """d = 3, H = 2, ridge 1/2, delta 0.1, kappa 0.1, level 2."""
    paper = Problem(2, 3, 0.5, 0.1, 0.1, 4.0, "paper")
    n = 96 * math.log(1 + 1024 / 0.25)
    assert paper.most_data(2) == pytest.approx(n)
    noise = math.sqrt(4 * (1.5 * math.log(1 + n / 1.5) + math.log(160)))
    alpha = noise + 0.1 * math.sqrt(n) + math.sqrt(0.5) * 4
    assert paper.gap(2, scale=1.0) == pytest.approx(alpha / 4 + 0.1)
    assert paper.gap(2, scale=0.1) == pytest.approx(alpha / 40 + 0.1)

    tight = Problem(2, 3, 0.5, 0.1, 0.1, 4.0, "tight")
    smaller = tight.most_data(2)
    assert smaller < n
    log_dets = [3 * math.log(1 + n / 1.5) - n * math.log(1 + 1 / 16) for n in (smaller, smaller + 1)]
    assert log_dets[0] >= 0 > log_dets[1]
    for stage in (0, 1):
        noise = math.sqrt((2 - stage) / 2 * (1.5 * math.log(1 + smaller / 1.5) + math.log(160)))
        alpha = noise + 0.1 * math.sqrt(smaller) + math.sqrt(0.5) * (4, 3)[stage]
        each = Problem(2, 3, 0.5, 0.1, 0.1, (4.0, 3.0), "tight")
        assert each.alpha(smaller, tight.largest_log_det(smaller), 2, stage) == pytest.approx(alpha)
        assert each.gap(2, 1.0, stage) == pytest.approx(alpha / 4 + 0.1)
    assert Problem(1, 1, 20.0, 0.1, 0.0, 1.0, "tight").most_data(1) == 0.0  # so much ridge covers everything


@pytest.mark.parametrize(
    ("horizon", "kappa", "levels"),
    [(1, 0.0, 40), (1, 5.0, 1), (1, 1.0, 1), (1, 0.5, 1), (1, 0.25, 2), (1, 0.2, 2), (4, 0.25, 3), (4, 0.1, 4)],
)
def test_the_number_of_levels_by_hand(horizon, kappa, levels):
    assert Problem(horizon, 2, 1.0, 0.1, kappa, 1.0, "tight").top_level() == levels
    constants = fpi.Regret(fpi.OneHot(1, 2), actions=2, horizon=horizon, misspecification=kappa)
    assert constants.levels == levels


@pytest.mark.parametrize("mode", ["tight", "paper"])
@pytest.mark.parametrize("ridge", [None, 0.01, 3.0])
def test_the_constants_are_those_of_fpi(mode, ridge):
    settings = {"horizon": 3, "ridge": ridge, "delta": 0.2, "misspecification": 1e-3, "constants": mode}
    bounds = 2.5, 2.0, 3.0
    agent = fpi.Regret(fpi.OneHot(2, 3), actions=3, scale=0.3, theta_bound=bounds, **settings)
    problem = Problem(3, 6, agent.ridge, 0.2, 1e-3, bounds, mode)
    for level in range(1, agent.levels + 1):
        gaps = [problem.gap(level, 0.3, stage) for stage in range(3)]
        assert agent.stage_gaps(level) == pytest.approx(gaps, rel=1e-11)
        assert agent.level_gap(level) == pytest.approx(max(gaps), rel=1e-11)
        assert agent.theory.dataset_bound(0.5**level) == pytest.approx(problem.most_data(level), rel=1e-11)


def orthogonal(observation, stage):
    return np.eye(2)


def test_the_reference_by_hand():
    """Ridge 1: a width of 2^-l takes 4^l - 1 data. Three of each action, then fifteen of the better one."""
    env = bandit(0.2, 0.8)
    literal = LiteralRegret(orthogonal, actions=2, horizon=1, scale=1e-3, explore="first")
    episodes = [literal.learn_episode(env) for _ in range(24)]
    assert episodes[:6] == [([0], 0, [1])] * 3 + [([1], 0, [1])] * 3
    assert episodes[6:] == [([1], 0, [2])] * 15 + [([1], 0, [3])] * 3
    assert [len(literal.datasets[0, level]) for level in (1, 2, 3)] == [6, 15, 3]
    first, second, third = literal.standing(0, 0)
    assert first.values.astype(float) == pytest.approx([0.15, 0.6])
    assert (first.k, second.k, third.k) == (6, 15, None)
    assert [rung.allowed.tolist() for rung in (first, second, third)] == [[0, 1], [1], [1]]
    assert literal.predict(0, 0) == (1, True)

    patient = LiteralRegret(orthogonal, actions=2, horizon=1, explore="first")  # at scale 1 both are kept
    assert [patient.learn_episode(env) for _ in range(36)][6:] == [([0], 0, [2])] * 15 + [([1], 0, [2])] * 15


def test_zero_features_play_at_the_highest_level_allowed_and_store_nothing():
    env = bandit(0.2, 0.8)
    literal = LiteralRegret(lambda observation, stage: np.zeros((2, 2)), actions=2, horizon=1)
    played = [literal.learn_episode(env) for _ in range(45)]
    assert played == [([0], -1, [min(t, 41)]) for t in range(1, 46)]
    assert not any(len(data) for data in literal.datasets.values())


def test_rewards_are_divided_by_their_span_and_early_ends_pay_nothing():
    """Rewards in [-1, 3] are divided by 4; the stages never reached pay 0."""
    env = LayeredMDP(0, horizon=3, states=1, actions=1, rewards="fixed", reward_range=(-1, 3))
    env.mean[:], env.ends[0] = 0.5, True
    literal = LiteralRegret(lambda observation, stage: np.eye(1), actions=1, horizon=3, ridge=1.0, reward_range=(-1, 3))
    assert literal.learn_episode(env) == ([0], 0, [1])
    assert literal.datasets[0, 1].targets == [0.25]


@pytest.mark.parametrize("distance", [0.0, 1e-15, -1e-15])
def test_a_width_at_the_edge_is_ill_posed(distance):
    literal = LiteralRegret(
        lambda observation, stage: np.array([[0.3, 0.4]]) * (1 + distance), actions=1, horizon=1, ridge=(1 + TIE) ** -2
    )
    with pytest.raises(IllPosed):
        literal.standing(0, 0)


@pytest.mark.parametrize("elimination", ELIMINATIONS)
def test_a_value_at_the_edge_is_ill_posed(elimination):
    """Nothing is eliminated before the value falls below the bar by the tie tolerance; just there, the test refuses."""
    env = bandit(0.0, 0.4)

    def left(scale):
        literal = LiteralRegret(orthogonal, actions=2, horizon=1, scale=scale, elimination=elimination, explore="first")
        for _ in range(6):
            literal.learn_episode(env)
        return literal.standing(0, 0)[1].allowed.tolist()

    low, high = 1e-4, 1.0
    assert left(low) == [1] and left(high) == [0, 1]
    with pytest.raises(IllPosed):
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if left(middle) == [1] else (low, middle)

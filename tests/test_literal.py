"""fpi.PAC takes the same action as a literal Algorithm 1 at every step of thousands of episodes."""

from typing import ClassVar

import layered
import numpy as np
import pytest
from layered import LayeredMDP
from literal import TIE, IllPosed, LiteralPAC, mix, pick
from support import worlds
from support.agents import assert_same_data
from support.worlds import SEED, dense, keyed, one_hot, rbf, small, table, tiles

import fpi

FREEZES = ["exact", "never", 5, 20]
RULES = ["random", "widest", "greedy", "first"]


class World(worlds.World):
    algorithm, reference = fpi.PAC, LiteralPAC
    defaults: ClassVar = {"freeze": "exact", "explore": "random"}


def at(epsilon, ridge, **settings):
    return {"epsilon": epsilon, "ridge": ridge, **settings}


POINTS = {"observe": "point", "states": (60, 20, 20), "horizon": 3}
FLOAT64 = {"dtype": np.float64}
WORLDS = {
    "two directions": World(table(dense(2)), at(0.3, 1.0), {"horizon": 3, "rewards": "uniform"}),
    "dense": World(table(dense(4)), at(0.3, 0.1), {"horizon": 3, "states": (60, 12, 12), "early_end": 0.1}),
    "forty directions": World(
        table(dense(40)), at(0.9, 0.25), {"states": (60, 30, 30, 30), "rewards": "uniform"}, precision=FLOAT64
    ),
    "low rank": World(table(dense(32, rank=3)), at(0.6, 1e-3), {"horizon": 3, "rewards": "uniform"}, episodes=120),
    "keyed": World(keyed, at(0.5, 0.1), {"horizon": 3, "states": (60, 20, 20)}),
    "one argument": World(
        lambda mdp: layered.of_observation(layered.dense(mdp, 8)), at(0.6, 0.1), {"rewards": "uniform"}
    ),
    "width ties": World(one_hot, at(0.5, 1.0), {"horizon": 1, "states": 12}, episodes=250),
    "one-hot": World(
        one_hot,
        at(0.6, 0.1, reward_range=(0, 3)),
        {"states": 6, "rewards": "integer", "reward_range": (0, 3), "early_end": 0.1},
        episodes=240,
    ),
    "copied actions": World(
        table(dense(5), layered.duplicated),
        at(0.5, 0.1, reward_range=(-1, 2)),
        {"actions": 4, "rewards": "integer", "reward_range": (-1, 2), "early_end": 0.15},
    ),
    "zero and tiny": World(table(dense(5), small(0.05)), at(0.5, 0.25), {"states": 15, "early_end": 0.1}),
    "rewards above 0": World(
        table(dense(4)),
        at(0.5, 1 / 3, reward_range=(1, 3), horizon=3),  # the MDP has four stages
        {"rewards": "uniform", "reward_range": (1, 3), "early_end": 0.25},
    ),
    "rewards below 0": World(
        table(dense(4)), at(0.5, 0.1, reward_range=(-2, -1)), {"reward_range": (-2, -1), "early_end": 0.25}
    ),
    "tiles": World(tiles(2, 2), at(1.0, 1e-3), {**POINTS, "actions": 2, "early_end": 0.1}, episodes=150),
    "Fourier": World(
        lambda mdp: fpi.Fourier([0, 0], [1, 1], order=2, actions=mdp.actions),
        at(0.5, 0.1),
        {**POINTS, "rewards": "uniform"},
        episodes=150,
        precision=FLOAT64,
    ),
    "RBF": World(rbf, at(0.4, 0.1), {**POINTS, "early_end": 0.1}, episodes=150),
    "many data": World(table(dense(3)), at(0.15, 0.1), {"horizon": 1, "states": 40}, episodes=250),
    "many data on tiles": World(
        tiles(2, 2),
        at(0.12, 0.1),
        {"horizon": 1, "states": 40, "actions": 2, "observe": "point", "dims": 1},
        episodes=240,
    ),
}


CASES = worlds.settings_of(WORLDS, FREEZES, RULES, count=2)
CASES |= {("dense", freeze, rule) for freeze in FREEZES for rule in RULES}


def drawn(seed):
    """A tiny world, and the rules to play it by."""
    rng = np.random.default_rng(seed)
    observe = str(rng.choice(["id", "id", "point"]))
    mdp, features = worlds.drawn_mdp(rng, observe), worlds.drawn_features(rng, observe)
    settings = at(float(rng.uniform(0.3, 1)), float(rng.uniform(0.05, 1)), reward_range=mdp["reward_range"])
    rules = [FREEZES[int(rng.integers(3))], RULES[int(rng.integers(4))]]
    return World(features, settings, mdp, episodes=40, seed=seed), rules


@pytest.mark.filterwarnings("ignore::fpi.errors.CoverageWarning")
@pytest.mark.parametrize("seed", range(20))
def test_same_action_in_tiny_worlds(seed):
    world, rules = drawn(seed)
    assert_same_run(world, rules)


@pytest.mark.long
@pytest.mark.parametrize(("name", "freeze", "explore"), sorted(CASES, key=str))
def test_same_action_at_every_step(name, freeze, explore):
    assert_same_run(WORLDS[name], (freeze, explore))


def assert_same_run(world, rules):
    agent, episodes = world.agent(*rules), []
    agent.learn(world.env(), world.episodes, seed=SEED, callback=episodes.append)
    literal, env, played = world.play(*rules)
    for episode, expected in zip(episodes, played, strict=True):
        assert (episode.actions.tolist(), episode.stored_stage) == expected, episode.number
    assert_same_data(agent, literal)
    assert_same_policy(agent, literal, env)


def assert_same_policy(agent, literal, env):
    """At a pool of states, visited or not: the action, the prefix it rests on, widths and values there."""
    for stage in range(literal.horizon):
        for state in range(0, env.sizes[stage], 4):
            observation = env.observation(stage, state)
            action, explores = literal.act(observation, stage)
            best, k = literal.greedy(observation, stage)
            known = agent.explain(observation, stage)
            assert agent.pi(observation, stage) == agent.decide(observation, stage) == (action, not explores)
            assert agent.predict(observation, stage) == known.action == action
            assert agent.predict(observation, stage, explore=False) == best
            assert known.prefix == k
            rows, data = literal.rows(observation, stage), literal.datasets[stage]
            np.testing.assert_allclose(known.widths, data.widths(rows, k)[0].astype(float), rtol=1e-8)
            np.testing.assert_allclose(known.values, literal.unit * data.values(rows, k)[0].astype(float), atol=1e-8)
            assert known.freezing_index == literal.first_cover(rows, data)
            assert np.all(known.value_error >= 0)


# --- the instances can tell right from wrong -----------------------------------------------------------


@pytest.mark.long
def test_ways_of_freezing_and_exploring_differ():
    """Otherwise the comparison above would prove little."""
    freezing = {str(WORLDS["dense"].play(freeze, "random")[2]) for freeze in FREEZES}
    assert len(freezing) == len(FREEZES)
    exploring = {str(WORLDS["dense"].play("exact", rule)[2]) for rule in RULES}
    assert len(exploring) == len(RULES)


@pytest.mark.long
def test_worlds_hold_what_their_names_say():
    def data(name):
        return WORLDS[name].play()[0]

    ties = data("width ties").datasets[0]
    rows = np.eye(ties.sigma.shape[0], dtype=np.longdouble)
    assert np.any(ties.widths(rows, len(ties))[0] == 0.5)  # exactly epsilon

    literal, env = data("zero and tiny"), WORLDS["zero and tiny"].env()
    assert len(literal.datasets[0]) > 0
    start = [literal.greedy(env.observation(0, state), 0)[1] for state in range(15)]
    assert start[0] == 0 and start[1] == 0 and start[2] > 0  # zero, tiny, and a state that needs data

    for name in ("many data", "many data on tiles"):
        assert len(data(name).datasets[0]) > 128

    literal = data("copied actions")
    values, _ = literal.datasets[0].values(literal.rows(1, 0), 20)
    assert values[0] == values[-1] != values[1]


# --- the reference itself ------------------------------------------------------------------------------


def test_the_hash_is_splitmix64():
    """First outputs of the published generator with seed 0."""
    assert mix(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    assert mix((2 * 0x9E3779B97F4A7C15) % 2**64) == 0x6E789E6AA1B965F4
    assert [pick(0, 0, stage, 5) for stage in range(5)] != [pick(1, 0, stage, 5) for stage in range(5)]


def test_the_reference_by_hand():
    """One state, two orthogonal actions, ridge 1 and epsilon 0.6: two data each, then the better one."""
    env = LayeredMDP(0, horizon=1, states=1, actions=2, rewards="fixed")
    env.mean[0, 0] = 0.2, 0.8
    literal = LiteralPAC(
        lambda observation, stage: np.eye(2), actions=2, horizon=1, epsilon=0.6, ridge=1.0, explore="first"
    )
    assert [literal.learn_episode(env) for _ in range(6)] == [([0], 0)] * 2 + [([1], 0)] * 2 + [([1], -1)] * 2
    assert literal.datasets[0].targets == pytest.approx([0.2, 0.2, 0.8, 0.8])
    values, _ = literal.datasets[0].values(np.eye(2), 4)
    assert values.astype(float) == pytest.approx([0.4 / 3, 1.6 / 3])
    assert literal.greedy(0, 0) == (1, 4)


def test_rewards_are_divided_by_their_span_and_early_ends_pay_nothing():
    """Rewards in [-1, 3] are divided by 4; the stages never reached pay 0."""
    env = LayeredMDP(0, horizon=3, states=1, actions=1, rewards="fixed", reward_range=(-1, 3))
    env.mean[:], env.ends[0] = 0.5, True
    literal = LiteralPAC(
        lambda observation, stage: np.eye(1),
        actions=1,
        horizon=3,
        epsilon=0.6,
        ridge=1.0,
        reward_range=(-1, 3),
    )
    assert literal.learn_episode(env) == ([0], 0)
    assert literal.datasets[0].targets == [0.25]


@pytest.mark.parametrize("distance", [0.0, 1e-15, -1e-15])
def test_a_comparison_at_the_edge_is_ill_posed(distance):
    literal = LiteralPAC(
        lambda observation, stage: np.array([[0.6, 0.8]]),
        actions=1,
        horizon=1,
        epsilon=(1 + distance) / (1 + TIE),
        ridge=1.0,
    )
    with pytest.raises(IllPosed):
        literal.act(0, 0)


def test_a_tie_within_the_tolerance_is_well_posed():
    literal = LiteralPAC(
        lambda observation, stage: np.array([[0.6, 0.8]]), actions=1, horizon=1, epsilon=1.0, ridge=1.0
    )
    assert literal.act(0, 0) == (0, False)
    assert literal.closest > 1e4

"""Access as types: what methods may do, what they pay, and that nobody can cheat."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest

import fpi
from fpi import baselines, testbeds
from fpi.baselines import BudgetSpent, ForeignView, Generative, GymWorld, Local, Method, Online, Oracle, View
from fpi.baselines.access import Bill
from fpi.baselines.worlds import TestbedWorld as World
from fpi.errors import EnvironmentMismatch, InputError

SEA = testbeds.DeepSea(4)
HUBS = testbeds.HubNet(B=2, m=3, K=3)


def access(kind, testbed=SEA, seed=0, **budget):
    return kind(World(testbed, seed, online=kind in (Online, Oracle)), **budget)


def walk(given, action=0):
    """The views of one episode."""
    views = [given.reset()]
    while (after := given.step(action)[1]) is not None:
        views.append(after)
    return views


# What each type can do


@pytest.mark.parametrize(
    ("kind", "can"),
    [
        (Online, {"reset", "step"}),
        (Local, {"reset", "step", "restore"}),
        (Generative, {"reset", "step", "restore", "states", "jump"}),
        (Oracle, {"reset", "step", "range"}),
    ],
)
def test_a_type_has_its_methods_and_no_more(kind, can):
    assert {name for name in dir(kind) if not name.startswith("_")} == can


def test_a_view_shows_a_stage_and_features_and_nothing_else():
    view = access(Local).reset()
    assert {name for name in dir(view) if not name.startswith("_")} == {"stage", "features"}
    assert [each.name for each in dataclasses.fields(view)] == ["stage", "features"]
    assert not hasattr(view, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.stage = 3
    with pytest.raises(ValueError, match="read-only"):
        view.features[0, 0] = 7.0


def test_views_are_those_of_the_testbed():
    given = access(Generative, HUBS)
    start = HUBS.start(np.random.default_rng((0, 0)), 0)
    online = access(Online, HUBS).reset()
    assert online.stage == 0 and np.array_equal(online.features, HUBS.phi(start))
    for stage in (1, 2):
        shown = {view.features.tobytes() for view in given.states(stage)}
        assert shown == {HUBS.phi((stage, hub)).tobytes() for hub in range(3)}


# Cheating


class Restores(Method):
    def run(self, access):
        view = access.reset()
        access.step(0)
        access.restore(view)
        yield lambda view: 0


class ReadsStates(Method):
    def run(self, access):
        view = access.reset()
        yield lambda _: view.state[1]


class AsksForStates(Method):
    def run(self, access):
        access.states(0)
        yield lambda view: 0


@pytest.mark.parametrize("method", [Restores, ReadsStates, AsksForStates])
def test_an_online_method_that_cheats_fails(method):
    with pytest.raises(AttributeError, match="restore|states|state"):
        baselines.play(method(), SEA, seed=0, steps=100)


def test_a_view_of_another_run_is_refused():
    one, other = access(Local), access(Local)
    view = one.reset()
    other.reset()
    with pytest.raises(ForeignView, match="not shown by this access object"):
        other.restore(view)
    with pytest.raises(ForeignView):
        one.restore(View(view.stage, view.features))  # made by hand
    assert one.bill.restores == other.bill.restores == 0
    with pytest.raises(ForeignView):
        access(Generative).jump(view)
    with pytest.raises(ForeignView):
        access(Oracle).range(view)


def test_what_the_judge_shows_is_no_way_to_held_out_states():
    """A policy that keeps the views it is judged on cannot go there."""

    class Keeps(Method):
        access = Local

        def run(self, access):
            kept = []
            while True:
                for _ in range(40):
                    walk(access)
                yield lambda view: kept.append(view) or 0
                if kept:
                    access.restore(kept[0])

    with pytest.raises(ForeignView):
        baselines.play(Keeps(), SEA, seed=0, steps=1_000)


def test_a_method_gets_exactly_what_it_declares():
    seen = []

    class Declares(Method):
        def run(self, access):
            seen.append(type(access))
            access.reset()
            access.step(0)
            yield lambda view: 0

    for kind in (Online, Local, Generative, Oracle):
        Declares.access = kind
        baselines.play(Declares(), SEA, seed=0, steps=10)
    assert seen == [Online, Local, Generative, Oracle]


# The bill


def test_the_bill():
    given = access(Generative)
    views = walk(given)
    assert given.bill == Bill(steps=4, episodes=1)
    given.restore(views[1])
    given.step(1)
    given.jump(given.states(3)[0])
    _, end = given.step(0)
    assert end is None
    assert given.bill == Bill(steps=6, episodes=1, restores=1, jumps=1)


def test_an_abandoned_episode_is_paid_to_its_end():
    given = access(Online)
    given.reset()
    given.step(0)
    given.reset()
    assert given.bill == Bill(steps=4, episodes=2)
    walk(given)
    assert given.bill.steps == 4 + 4 + 4  # the one left at its start, too


def test_the_budget_ends_a_run_inside_of_an_episode():
    given = access(Online, steps=6, episodes=5)
    walk(given)
    given.reset()
    given.step(0)
    given.step(0)
    with pytest.raises(BudgetSpent, match="6 steps"):
        given.step(0)
    short = access(Online, episodes=1)
    walk(short)
    with pytest.raises(BudgetSpent, match="1 episodes"):
        short.reset()


@pytest.mark.parametrize("action", [-1, 2, 0.5, None])
def test_actions_that_do_not_exist_are_refused(action):
    given = access(Online)
    with pytest.raises(InputError, match="reset"):
        given.step(0)
    given.reset()
    with pytest.raises(InputError, match="is not one of 0 to 1"):
        given.step(action)
    assert given.bill.steps == 0


# The same contexts for all


def test_all_methods_of_a_seed_meet_the_same_starts():
    def starts(action, steps):
        given = access(Online, HUBS, seed=3)
        seen = []
        for _ in range(5):
            seen.append(given.reset().features.tobytes())
            for _ in range(steps):
                given.step(action)
        return seen

    assert starts(0, 3) == starts(2, 1)
    assert starts(0, 3) != [access(Online, HUBS, seed=4).reset().features.tobytes()] * 5


def test_losses_are_those_of_the_evaluator():
    world = World(HUBS, 0)
    given = Online(world)
    for _ in range(3):
        walk(given, action=1)
    rng = np.random.default_rng((0, 0))
    expected = [HUBS.regret(HUBS.draw(rng), [1, 1, 1]) for _ in range(3)]
    assert world.losses == pytest.approx(expected)


def test_the_oracle_knows_where_the_action_matters():
    for testbed in (testbeds.HubCorridor(B=1, m=2, K=3, junk=2), testbeds.DeepSea(5), testbeds.Trap()):
        given = access(Oracle, testbed)
        for states in testbeds.pool_of(testbed, 30, np.random.default_rng(0), 0):
            for state in states:
                spread = 0.0
                for seed in range(6):
                    values = testbed.action_values(state, testbeds.random_policy(testbed.actions, seed))
                    spread = max(spread, float(np.ptp(values)))
                told = given.range(given._show(state))
                assert told >= spread - 1e-9
                if told < 0.05:
                    assert told < 1e-9 and spread < 1e-9


# Gymnasium


def tiles(env):
    features = fpi.TileCoding.for_env(env, tiles=2, tilings=1)
    return lambda observation, stage: features(observation, stage)


def same_twice(env, features, steps=6):
    """The bits after a restore are those of the first time."""
    given = Local(GymWorld(env, features, seed=0, horizon=20, restorable=True))
    view = given.reset()
    given.step(0)
    runs = []
    for _ in range(2):
        given.restore(view)
        runs.append([(reward, after.features.tobytes()) for reward, after in (given.step(1) for _ in range(steps))])
    assert given.bill == Bill(steps=1 + 2 * steps, episodes=1, restores=2)
    return runs[0] == runs[1]


def test_cartpole_can_be_restored():
    env = gym.make("CartPole-v1")
    assert same_twice(env, lambda observation, stage: np.outer([1.0, 0.5], observation))
    online = Online(GymWorld(env, tiles(env), seed=0))
    assert online.horizon == 500
    assert online.reset().features.shape == (2, online.dim)
    assert online.step(1)[0] == 1.0


def test_toy_text_can_be_restored_and_goes_on_by_its_own_chance():
    env = gym.make("FrozenLake-v1", is_slippery=False)
    assert same_twice(env, lambda observation, stage: np.outer(np.ones(4), [1.0, float(observation)]), steps=2)
    slippery = gym.make("FrozenLake-v1", is_slippery=True)
    given = Local(GymWorld(slippery, lambda seen, stage: np.outer(np.ones(4), [1.0, float(seen)]), 0, restorable=True))
    view = given.reset()
    reached = set()
    for _ in range(20):
        given.restore(view)
        reached.add(given.step(1)[1].features.tobytes())
    assert len(reached) > 1


def test_mujoco_is_restored_through_its_full_state():
    env = fpi.ActionGrid(gym.make("InvertedPendulum-v5"), 3)
    assert same_twice(env, lambda observation, stage: np.outer([1.0, 0.5, 0.2], observation))


def test_an_environment_that_cannot_be_restored_says_so():
    class Forgets(gym.Env):
        action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Box(0, 1, (1,))

        def __init__(self):
            self.state, self.secret = 0, 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.secret += 1
            return np.array([1 / self.secret], np.float32), 0.0, False, False, {}

    def features(observation, stage):
        return np.ones((2, 1))

    with pytest.raises(EnvironmentMismatch, match="cannot be restored exactly"):
        GymWorld(Forgets(), features, 0, horizon=5, restorable=True)
    del Forgets.__init__
    with pytest.raises(InputError, match="how to save the state of Forgets is not known"):
        GymWorld(Forgets(), features, 0, horizon=5, restorable=True)
    with pytest.raises(EnvironmentMismatch, match="give the horizon"):
        GymWorld(Forgets(), features, 0)

"""The testbeds for classes of functions: Q^pi of every policy is in the class, and everything else is exact as well."""

import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from fpi import testbeds
from fpi.errors import InputError
from fpi.function_classes import FiniteClass, GeneralizedLinear, LinearBall

SMALL = [
    testbeds.TableBandit(contexts=3, K=2, N=5, seed=1),
    testbeds.TableBandit(contexts=1, K=4, N=1),
    testbeds.TableHubs(contexts=2, m=2, K=2, R=3, seed=2),
    testbeds.TableHubs(contexts=3, m=1, K=2, R=2, seed=3),
    testbeds.TableHubs(contexts=1, m=3, K=2, R=2, seed=4),
]
listed = pytest.mark.parametrize("testbed", SMALL, ids=str)


def states_of(testbed):
    """All states, stage by stage."""
    starts = [(0, context) for context in range(testbed.contexts)]
    return [starts, [(1, hub) for hub in range(testbed.m)]] if testbed.horizon == 2 else [starts]


@listed
def test_q_of_every_policy_is_one_of_the_candidates(testbed):
    candidates = FiniteClass(testbed.tables, max_value=testbed.horizon)
    assert candidates.size == (testbed.N if testbed.horizon == 1 else testbed.R * testbed.K**testbed.m)
    assert candidates.actions == testbed.actions
    layers = states_of(testbed)
    states = list(itertools.chain(*layers))
    used = set()
    for table in itertools.product(range(testbed.actions), repeat=len(states)):
        policy = dict(zip(states, table, strict=True)).__getitem__
        for layer in layers:
            q = np.concatenate([testbed.action_values(state, policy) for state in layer])
            rows = [candidates.rows(testbed.observation(state), state[0]) for state in layer]
            errors = np.abs(np.concatenate(rows) - q[:, None]).max(axis=0)
            assert errors.min() < 1e-12
            used |= set(np.flatnonzero(errors < 1e-12).tolist())
    if (
        testbed.horizon == 2
    ):  # one candidate for each choice at the hubs that can be reached, all of the true hypothesis
        assert {number // testbed.K**testbed.m for number in used} == {testbed._true}
        assert len(used) == testbed.K**testbed.m


@listed
def test_values_are_exact(testbed):
    assert testbed.verify(policies=3, pool=20).problems == ()
    for start in testbed.held_out(5):
        best = 0.0
        for actions in itertools.product(range(testbed.actions), repeat=testbed.horizon):
            total, state = 0.0, start
            for action in actions:
                total += testbed.mean(state, action)
                state = testbed.next(state, action)
            assert state is None
            best = max(best, total)
            assert testbed.regret(start, actions) == pytest.approx(testbed.optimal_value(start) - total)
        assert testbed.optimal_value(start) == pytest.approx(best)


def test_candidates_differ_and_one_of_them_is_true():
    testbed = testbeds.TableBandit(contexts=20, K=4, N=50)
    flat = testbed.tables.reshape(50, -1)
    assert (flat > 0).all() and (flat < 1).all()
    assert np.abs(flat[:, None] - flat[None]).max(axis=2)[~np.eye(50, dtype=bool)].min() > 0.5
    means = [[testbed.mean((0, context), action) for action in range(4)] for context in range(20)]
    matching = [number for number in range(50) if (testbed.tables[number, 0] == means).all()]
    assert matching == [testbed._true]
    assert {testbeds.TableBandit(seed=seed)._true for seed in range(20)} != {testbed._true}
    assert {context for _, context in testbed.held_out(300)} == set(range(20))


def test_a_thousand_candidates_over_two_stages():
    testbed = testbeds.TableHubs(contexts=30, m=2, K=5, R=40)
    assert testbed.tables.shape == (1_000, 2, 30, 5)
    assert testbed.tables.min() >= 0 and testbed.tables.max() <= 2
    assert len({testbed.next((0, context), action) for context in range(30) for action in range(5)}) == 2


@pytest.mark.parametrize("radius", [0.5, 2.0, 6.0])
def test_the_logistic_bandit(radius):
    testbed = testbeds.LogitBandit(d=4, K=3, radius=radius, seed=5)
    glm = GeneralizedLinear(testbed.arms, radius=radius)
    theta = radius * testbed._arm_weights[0]
    assert np.linalg.norm(theta) == pytest.approx(radius)
    for state in testbed.held_out(20):
        arms = glm.rows(testbed.observation(state), 0)
        np.testing.assert_allclose(np.linalg.norm(arms, axis=1), 1)
        means = [testbed.mean(state, action) for action in range(3)]
        np.testing.assert_allclose(glm.link(arms @ theta), means, atol=1e-14)
        assert testbed.optimal_value(state) == max(means)
    # the chord that linear agents get, and how far it is off
    x = np.linspace(-radius, radius, 20_001)
    chord = 0.5 + x / radius * (1 / (1 + np.exp(-radius)) - 0.5)
    assert np.abs(1 / (1 + np.exp(-x)) - chord).max() == pytest.approx(testbed.misspecification, rel=1e-6)
    assert testbed.verify(policies=2, pool=100).problems == ()


def test_parameters_of_linear_testbeds_lie_in_the_ball():
    for testbed in (testbeds.LinBandit(d=4, K=3), testbeds.HubCorridor(B=1, m=2, K=2, seed=1)):
        ball = LinearBall(testbed.features, radius=testbed.theta_bound, max_value=testbed.horizon)
        for seed in range(5):
            policy = testbeds.random_policy(testbed.actions, seed)
            for start in testbed.held_out(5):
                for state, _ in testbed.path(start, policy):
                    theta = testbed.theta(state[0], policy)
                    assert np.linalg.norm(theta) <= ball.radius * (1 + 1e-12)
                    rows = ball.rows(testbed.observation(state), state[0])
                    np.testing.assert_allclose(rows @ theta, testbed.action_values(state, policy), atol=1e-12)


@pytest.mark.parametrize("name", ["TableBandit", "TableHubs", "LogitBandit"])
def test_as_gymnasium_environments(name):
    env = gym.make(f"fpi/{name}-v0", seed=3, noise="none")
    check_env(env.unwrapped, skip_render_check=True)
    testbed = env.unwrapped.testbed
    assert testbed == testbeds.make(name, seed=3)
    observation, _ = env.reset(seed=0)
    start, total, ended = testbed.state(observation), 0.0, False
    while not ended:
        observation, reward, ended, _, _ = env.step(1)
        total += reward
    assert total == pytest.approx(testbed.value(start, lambda state: 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: testbeds.TableBandit(contexts=0), "contexts is 0"),
        (lambda: testbeds.TableBandit(N=10**6), "N=1,000,000, seed=0 is too large a testbed"),
        (lambda: testbeds.TableBandit(N=200_000), "200,000 candidate functions"),
        (lambda: testbeds.TableHubs(m=9, K=9), "candidate functions"),
        (lambda: testbeds.TableHubs(R=0), "R is 0"),
        (lambda: testbeds.LogitBandit(radius=0.0), "radius=0"),
        (lambda: testbeds.LogitBandit(radius=99.0), "radius is 99"),
        (lambda: testbeds.LogitBandit(K=1), "K is 1"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()

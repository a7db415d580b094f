"""Instances of `fpi verify` with other features, rewards and first levels are what they say."""

import numpy as np
import pytest

from fpi.testbeds import random_policy
from fpi.verify import instances

CHANGED = [each for each in instances.FULL if each.described or each.paid != (0.0, 1.0)]
LATER = [each for each in instances.FULL if each.first_level != 1]
named = pytest.mark.parametrize("instance", CHANGED, ids=lambda instance: instance.name)


def test_there_are_such_instances():
    assert {each.described for each in CHANGED} >= {"one-hot", "tilings", "cosines"}
    assert {(min(each.paid), max(each.paid)) for each in CHANGED} >= {(-1, 0), (-1, 1), (0.5, 1)}
    assert {each.algorithm for each in CHANGED if each.paid != (0.0, 1.0)} == {"PAC", "Regret", "Eluder"}
    assert {each.first_level for each in LATER} == {3, "auto"}


@named
def test_values_are_linear_under_every_policy(instance):
    testbed = instance.testbed()
    for seed in range(3):
        policy = random_policy(testbed.actions, seed)
        for start in testbed.held_out(4):
            for state, _ in testbed.path(start, policy):
                theta = testbed.theta(state[0], policy)
                assert testbed.phi(state) @ theta == pytest.approx(testbed.action_values(state, policy), abs=1e-9)
                assert testbed.weights(state[0], testbed.values(policy)) == pytest.approx(theta, abs=1e-9)
                assert np.linalg.norm(theta) <= testbed.theta_bound + 1e-9


@named
def test_agents_have_these_features(instance):
    testbed = instance.testbed()
    for start in testbed.held_out(5):
        for state, _ in testbed.path(start, random_policy(testbed.actions, 0)):
            seen = testbed.observation(state)
            assert testbed.state(seen) == state
            assert testbed.features(seen, state[0]) == pytest.approx(testbed.phi(state), abs=1e-12)


@named
def test_rewards_have_the_means_and_the_range_that_monitors_know(instance):
    testbed, (zero, one) = instance.testbed(), instance.paid
    span = max(zero, one, 0) - min(zero, one, 0)
    assert instance.agent(testbed).rewards.span == span
    env, bernoulli = testbed.env("none"), testbed.env("bernoulli")
    for seed in range(5):
        seen, _ = env.reset(seed=seed)
        bernoulli.reset(seed=seed)
        reward = env.step(0)[1]
        assert reward == pytest.approx(span * testbed.mean(testbed.state(seen), 0), abs=1e-12)
        assert bernoulli.step(0)[1] in (zero, one)


@pytest.mark.parametrize("instance", LATER, ids=lambda instance: instance.name)
def test_agents_begin_at_a_later_level(instance):
    testbed = instance.testbed()
    agent = instance.agent(testbed)
    agent.learn(testbed.env(), 3, seed=0)
    data = agent.datasets.sizes().sum(axis=1)
    assert agent.first_level > 1 and data[: agent.first_level - 1].sum() == 0 < data[agent.first_level - 1]

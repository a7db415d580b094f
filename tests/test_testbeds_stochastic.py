"""Gate and Slip, the testbeds with random transitions, and what every testbed declares of itself."""

import warnings

import numpy as np
import pytest

import fpi
from fpi import determinism, testbeds
from fpi.errors import InputError, NondeterminismWarning

GATE, SLIP = testbeds.Gate(), testbeds.Slip(B=2, m=3, K=3, slip=0.4, seed=1)
POLICIES = [testbeds.random_policy(4, seed) for seed in range(3)]


def test_gate_is_as_described():
    assert GATE.optimal_value((0, 0)) == 0.5
    assert GATE.optimal_action_values((0, 0)).tolist() == [0.5, 0.3, 0.3, 0.3]
    assert GATE.gap((0, 0), lambda state: 1) == pytest.approx(0.2)
    assert not GATE.phi((1, 0)).any()
    assert np.linalg.matrix_rank(GATE.phi((1, 1))) == 4
    for policy in POLICIES:
        assert GATE.phi((0, 0)) @ GATE.theta(0, policy) == pytest.approx(GATE.action_values((0, 0), policy))


def test_slip_without_slipping_is_hubnet():
    slip, hubs = testbeds.Slip(B=2, m=3, K=3, slip=0.0, seed=1), testbeds.HubNet(B=2, m=3, K=3, seed=1)
    policy = testbeds.random_policy(3, 0)
    for start in hubs.held_out(5):
        assert np.array_equal(slip.phi(start), hubs.phi(start))
        assert slip.value(start, policy) == pytest.approx(hubs.value(start, policy))
        assert slip.optimal_value(start) == pytest.approx(hubs.optimal_value(start))
    assert slip.deterministic and not SLIP.deterministic


def test_chances_add_up_and_are_drawn_so():
    rng = np.random.default_rng(0)
    start = SLIP.held_out(1)[0]
    for action in range(3):
        outcomes = SLIP.outcomes(start, action)
        assert sum(chance for chance, _ in outcomes) == pytest.approx(1)
        drawn = [SLIP.draw_next(start, action, rng) for _ in range(3_000)]
        for chance, after in outcomes:
            assert drawn.count(after) / 3_000 == pytest.approx(chance, abs=0.04)  # over four standard deviations


@pytest.mark.parametrize("testbed", [GATE, SLIP], ids=str)
def test_values_are_means_of_what_is_played(testbed):
    """By playing, which knows nothing of the recursion."""
    rng = np.random.default_rng(1)
    start, policy = testbed.held_out(1)[0], testbeds.random_policy(testbed.actions, 5)
    returns = []
    for _ in range(3_000):
        here, total = start, 0.0
        while here is not None:
            action = policy(here)
            total += testbed.mean(here, action)
            here = testbed.draw_next(here, action, rng)
        returns.append(total)
    assert np.mean(returns) == pytest.approx(testbed.value(start, policy), abs=0.04)
    for seed in range(20):
        assert testbed.value(start, testbeds.random_policy(testbed.actions, seed)) <= testbed.optimal_value(start)
    assert testbed.value(start, testbed.optimal_action) == pytest.approx(testbed.optimal_value(start))


@pytest.mark.parametrize("testbed", [GATE, SLIP], ids=str)
def test_what_was_earned_tells_the_loss_of_every_step(testbed):
    rng = np.random.default_rng(2)
    for _ in range(20):
        here = testbed.draw(rng)
        lost, expected = testbed.optimal_value(here), 0.0
        while here is not None:
            action = int(rng.integers(testbed.actions))
            after = testbed.draw_next(here, action, rng)
            lost -= testbed.earned(here, action, after)
            expected += testbed.optimal_value(here) - testbed.optimal_action_values(here)[action]
            here = after
        assert lost == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("testbed", [GATE, SLIP, testbeds.Slip(slip=0.9)], ids=str)
def test_they_verify(testbed):
    seen = testbed.verify(policies=4, pool=60)
    assert seen.problems == ()
    assert max(seen.residual, seen.closed_form_residual, seen.bellman_residual) < 1e-12


def test_what_needs_one_path_is_refused():
    with pytest.raises(InputError, match="random transitions"):
        GATE.next((0, 0), 0)
    with pytest.raises(InputError, match="random transitions"):
        GATE.regret((0, 0), [0, 0])
    with pytest.raises(InputError, match="no one path"):
        list(GATE.path((0, 0), POLICIES[0]))


@pytest.mark.parametrize("testbed", [GATE, SLIP], ids=str)
def test_check_and_learn_say_that_transitions_are_random(testbed):
    report = determinism.check(testbed.env(), episodes=60)  # one in eight shows it at Gate
    assert report.deterministic is False and not report.ok
    assert "its transitions are random" in report.verdict
    agent = fpi.PAC(testbed.features, actions=testbed.actions, horizon=testbed.horizon, epsilon=0.3, ridge=0.5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent.learn(testbed.env(), 300, seed=0)
    assert any(issubclass(each.category, NondeterminismWarning) for each in caught)


@pytest.mark.parametrize("name", [*testbeds.standard(), "gate", "slip", "slip-0"])
def test_testbeds_declare_what_is_true_of_them(name):
    more = {"gate": GATE, "slip": SLIP, "slip-0": testbeds.Slip(slip=0.0)}
    testbed = (testbeds.standard() | more)[name]
    seen = testbed.verify(policies=3, pool=60)
    holds = testbed.holds
    assert ("linear" in holds) == (seen.residual < 1e-9)
    assert ("complete" in holds) == (seen.bellman_residual < 1e-9 and testbed.misspecification == 0)
    assert ("fixed start" in holds) == (len(set(testbed.held_out(50))) == 1)
    assert ("one stage" in holds) == (testbed.horizon == 1)
    pairs = [(state, action) for state in testbed.held_out(20) for action in range(testbed.actions)]
    chancy = any(0 < chance < 1 for pair in pairs for chance, _ in testbed.outcomes(*pair))
    assert ("deterministic" in holds) == (not chancy)

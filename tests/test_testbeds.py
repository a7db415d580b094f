"""The testbeds are exact: closed forms, brute force over all policies, and measurements that a planted error upsets."""

import dataclasses
import hashlib
import itertools
import math
import os
import re
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from literal import mix

import fpi
from benchmarks.testbeds import time_table, verification_table
from fpi import testbeds
from fpi.determinism import check, replay
from fpi.errors import InputError
from fpi.generators import get_generator
from fpi.testbeds import _hash

REPOSITORY = Path(__file__).parents[1]

SMALL = [
    testbeds.Diamond(3),
    testbeds.LinBandit(d=4, K=5),
    testbeds.LinBandit(d=2, K=2, seed=3),
    testbeds.HubNet(B=2, m=3, K=3, p=2, seed=1),
    testbeds.HubCorridor(B=2, m=2, K=3, p=2, q=1, seed=2),
    testbeds.HubCorridor(B=1, m=3, K=2, junk=3, seed=4),
    testbeds.Rotated(testbeds.HubCorridor(B=1, m=2, K=3, junk=2), seed=5),
    testbeds.DeepSea(5, seed=6),
    testbeds.DeepSea(1),
    testbeds.DeepSea(5, starts=3, junk=2, distract=0.3),
    testbeds.DeepSea(5, cost=0.2, starts=3),
    testbeds.DeepSea(1, cost=0.5),
    testbeds.Trap(M=3, Lc=2, K=3, w=0.4),
    testbeds.Trap(M=2, Lc=1, phase=5),
]
IDS = [
    "Diamond-v0",
    "LinBandit-v0",
    "HubNet-v0",
    "HubCorridor-v0",
    "DeepSea-v0",
    "DeepSeaCost-v0",
    "Trap-v0",
]

small = pytest.mark.parametrize("testbed", SMALL, ids=str)


def reachable(testbed, starts):
    """All states that can follow, stage by stage."""
    layers = [list(dict.fromkeys(starts))]
    while layers[-1]:
        reached = {testbed.next(state, action) for state in layers[-1] for action in range(testbed.actions)}
        layers.append(sorted(reached - {None}))
    return layers[:-1]


# Closed forms


def test_diamond_is_the_figure_of_the_paper():
    diamond = testbeds.Diamond(2)
    assert [diamond.mean((0, 0), a) for a in range(2)] == [0.1, 0.2]
    assert [diamond.mean((1, way), 0) for way in range(2)] == [0.9, 0.8]
    assert [diamond.next((0, 0), a) for a in range(2)] == [(1, 0), (1, 1)]
    assert diamond.next((1, 0), 1) is None
    np.testing.assert_array_equal(diamond.phi((0, 0)), [[1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(diamond.phi((1, 1)), [[0, 0, 1], [0, 0, 1]])
    assert diamond.optimal_value((0, 0)) == 1
    for actions in itertools.product(range(2), repeat=2):
        assert diamond.regret((0, 0), actions) == 0


def test_the_arms_of_the_bandit_and_their_means():
    bandit = testbeds.LinBandit(d=6, K=10, seed=7)
    theta = bandit.theta(0, testbeds.random_policy(10, 0))
    assert theta[0] == pytest.approx(np.sqrt(0.5))
    assert np.linalg.norm(theta) == pytest.approx(1) == bandit.theta_bound
    for state in bandit.held_out(50):
        phi = bandit.phi(state)
        assert phi.shape == (10, 6)
        np.testing.assert_array_equal(phi[:, 0], np.sqrt(0.5))
        np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1, atol=1e-14)
        means = [bandit.mean(state, arm) for arm in range(10)]
        np.testing.assert_allclose(phi @ theta, means, atol=1e-14)
        assert bandit.optimal_value(state) == max(means)
        assert bandit.optimal_action(state) == np.argmax(means)


def test_every_way_through_a_corridor_is_worth_the_same():
    testbed = testbeds.HubCorridor(B=2, m=3, K=4, seed=1)
    assert (testbed.horizon, testbed.dim) == (7, 11)
    for policy in (testbeds.random_policy(4, 1), testbed.optimal_action):
        for context in testbed.held_out(20):
            for action in range(4):
                inside = testbed.next(context, action)
                values = testbed.action_values(inside, policy)
                np.testing.assert_allclose(values, values[0], atol=1e-14)
                rewards = [testbed.mean(inside, a) for a in range(4)]
                assert np.ptp(rewards) > 0.01
                assert min(rewards) >= 0.05 and max(rewards) <= 0.45
                hub = testbed.next(testbed.next(inside, 2), 3)
                assert hub[0] == 3 and 0 <= hub[1] < 3 and hub[2:] == (-1, -1)
                c = values[0] - testbed.value(hub, policy)
                assert 0.6 <= c <= 0.9
                assert testbed.next(testbed.next(inside, 0), 1) == hub


@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_sea_without_cost(n):
    sea = testbeds.DeepSea(n, distract=0.25, seed=3)
    rights = []
    state = (0, 0)
    while state is not None:
        assert sea.optimal_value(state) == 1
        right = next(a for a in range(2) if (after := sea.next(state, a)) is None or after[1] == state[1] + 1)
        if state[0] == n - 1:
            right = int(sea.mean(state, 1) == 1)
        assert sea.mean(state, 1 - right) == 0.25
        np.testing.assert_array_equal(sea.phi(state)[[right, 1 - right]], np.eye(2))
        rights.append(right)
        state = sea.next(state, right)
    assert sea.regret((0, 0), rights) == 0
    if n > 1:
        beside = sea.next((0, 0), 1 - rights[0])
        assert sea.optimal_value(beside) == 0
        np.testing.assert_array_equal(sea.phi(beside), 0)
        assert sea.regret((0, 0), [1 - rights[0], *rights[1:]]) == 0.75
    if n == 7:
        assert len(set(rights)) == 2  # the meaning of actions differs between cells


def test_the_sea_with_cost():
    sea = testbeds.DeepSea(6, cost=0.3, seed=3)
    assert sea.dim == 8
    assert sea.optimal_value((0, 0)) == pytest.approx(1)

    def left(state):
        return next(a for a in range(2) if sea.mean(state, a) == pytest.approx(0.05))

    assert sea.value((0, 0), left) == pytest.approx(0.3)
    assert sea.value((0, 0), lambda state: 1 - left(state)) == 1


def test_the_treasure_is_out_of_reach_from_all_columns_but_one():
    for cost, otherwise in ((0.0, 0.0), (0.2, 0.2)):
        sea = testbeds.DeepSea(5, cost=cost, starts=4)
        assert [sea.optimal_value((0, column)) for column in range(4)] == pytest.approx([otherwise] * 3 + [1])
        assert {state[1] for state in sea.held_out(200)} == {0, 1, 2, 3}


def test_a_deep_sea_needs_no_deep_recursion():
    assert testbeds.DeepSea(300).optimal_value((0, 0)) == 1


def test_trap():
    trap = testbeds.Trap(M=4, Lc=2, w=1.0)
    assert [trap.optimal_value((0, j)) for j in range(5)] == [0.5] * 4 + [0.9]
    assert trap.next((0, 1), 0) is None and trap.next((0, 4), 1) is None
    assert trap.next((0, 1), 1) == (1, 1) and trap.next((1, 1), 0) == (2, 1) and trap.next((2, 1), 0) is None
    paying, corridors = trap.phi((0, 0))[0], sum(trap.phi((0, j))[1] for j in range(4))
    np.testing.assert_allclose(trap.phi((0, 4))[1], 1.8 * paying - corridors, atol=1e-15)
    assert np.linalg.norm(trap.phi((0, 4))[1]) == pytest.approx(1)
    assert trap.regret((0, 4), [0]) == pytest.approx(0.4)
    assert trap.regret((0, 2), [1, 0, 1]) == 0.5


@small
def test_theta_in_closed_form(testbed):
    layers = reachable(testbed, testbed.held_out(15))
    policies = [testbeds.random_policy(testbed.actions, seed) for seed in range(3)]
    for policy in [*policies, testbed.optimal_action]:
        for stage, states in enumerate(layers):
            theta = testbed.theta(stage, policy)
            assert np.linalg.norm(theta) <= testbed.theta_bound * (1 + 1e-12)
            for state in states[:60]:
                phi = testbed.phi(state)
                assert phi.shape == (testbed.actions, testbed.dim)
                assert np.linalg.norm(phi, axis=1).max() <= 1 + 1e-12
                np.testing.assert_allclose(phi @ theta, testbed.action_values(state, policy), atol=1e-13)
    assert testbed.theta_bound <= np.sqrt(testbed.dim) * testbed.horizon


# Brute force


TINY = [
    testbeds.Diamond(2),
    testbeds.LinBandit(d=3, K=4),
    testbeds.HubNet(B=2, m=2, K=2, seed=1),
    testbeds.HubCorridor(B=1, m=2, K=2, seed=8),
    testbeds.Misspecified(testbeds.HubCorridor(B=1, m=2, K=2, seed=8), 0.5),
    testbeds.DeepSea(4, seed=1),
    testbeds.DeepSea(4, cost=0.4),
    testbeds.Trap(M=1, Lc=3),
]


@pytest.mark.parametrize("testbed", TINY, ids=str)
def test_the_optimal_value_is_the_best_of_all_policies(testbed):
    for start in {testbed.held_out(1, seed)[0] for seed in range(3)}:
        states = list(itertools.chain(*reachable(testbed, [start])))
        tables = itertools.product(range(testbed.actions), repeat=len(states))
        values = []
        for table in tables:
            choice = dict(zip(states, table, strict=True))
            total, state = 0.0, start
            while state is not None:
                total += testbed.mean(state, choice[state])
                state = testbed.next(state, choice[state])
            values.append(total)
        assert testbed.optimal_value(start) == pytest.approx(max(values), abs=1e-13)
        assert testbed.value(start, testbed.optimal_action) == pytest.approx(max(values), abs=1e-13)
        assert testbed.gap(start, testbed.optimal_action) == pytest.approx(0, abs=1e-13)


@small
def test_regret_is_the_gap_of_the_actions_played(testbed):
    for start in testbed.held_out(10):
        policy = testbeds.random_policy(testbed.actions, 2)
        actions = [action for _, action in testbed.path(start, policy)]
        assert testbed.regret(start, actions) == pytest.approx(testbed.gap(start, policy), abs=1e-13)
        assert testbed.gap(start, policy) >= -1e-13
        assert testbed.gaps([start], policy) == testbed.gap(start, policy)
        assert testbed.value(start, policy) == pytest.approx(testbed.action_values(start, policy)[actions[0]])
        optimal = testbed.optimal_action_values(start)
        assert optimal.max() == pytest.approx(testbed.optimal_value(start))
        np.testing.assert_allclose(optimal, testbed.action_values(start, testbed.optimal_action), atol=1e-13)
        with pytest.raises(InputError, match=f"ends after {len(actions)} of them"):
            testbed.regret(start, [*actions, 0])


def test_values_skip_only_actions_that_are_worth_the_same():
    """The recursion looks at one action inside corridors; looking at all changes nothing."""
    testbed = testbeds.HubCorridor(B=2, m=3, K=3, seed=5)
    thorough = testbeds.Misspecified(testbed, 0.0)
    assert any(len(testbed.choices(state)) == 1 for layer in reachable(testbed, testbed.held_out(1)) for state in layer)
    for start in testbed.held_out(20):
        assert len(thorough.choices(testbed.next(start, 0))) == 3
        assert testbed.optimal_value(start) == pytest.approx(thorough.optimal_value(start), abs=1e-14)


# Self-verification


def numbers(text):
    return [float(number) for number in re.findall(r"[\d.]+", text)]


@pytest.mark.slow
def test_the_standard_suite_verifies_and_the_figures_are_those_of_the_docs():
    written = (REPOSITORY / "docs" / "testbeds.md").read_text()
    printed = list(verification_table(pool=700))
    assert len(printed) == 2 + len(testbeds.standard())
    for line in printed[2:]:
        name, *counts, fit, closed_form, bellman, norm, theta = [cell.strip() for cell in line.strip("|").split("|")]
        row = next(line for line in written.splitlines() if line.startswith(f"| {name} |"))
        documented = [cell.strip() for cell in row.strip("|").split("|")]
        assert counts == documented[1:6]
        residuals = [float(cell) for cell in documented[6:9]]
        assert [float(fit), float(closed_form), float(bellman)] == pytest.approx(residuals, rel=0.1, abs=1e-12)
        assert float(norm) == pytest.approx(float(documented[9]), abs=0.0015)  # the last digit may be rounded elsewhere
        assert numbers(theta) == pytest.approx(numbers(documented[10]), abs=0.15)


@pytest.mark.parametrize(
    ("testbed", "fit", "bellman"),
    [
        (testbeds.Diamond(2), 1e-12, (0.3, 1.5)),
        (testbeds.Diamond(12), 1e-12, (0.3, 1.5)),
        (testbeds.HubNet(B=3, m=4, K=6), 1e-12, (0, 1e-12)),
        (testbeds.HubCorridor(B=2, m=3, K=4), 1e-12, (0.2, 0.8)),
        (testbeds.HubCorridor(B=2, m=3, K=4, junk=4), 1e-12, (0.2, 0.8)),
        (testbeds.HubCorridor(B=3, m=3, K=3, junk=8), 1e-12, (0.2, 0.8)),
        (testbeds.DeepSea(16), 1e-12, (0, 1e-12)),
        (testbeds.DeepSea(12, cost=0.01), 1e-12, (0, 1e-12)),
        (testbeds.DeepSea(8, junk=3), 1e-12, (0.2, 2)),
        (testbeds.Trap(M=4, Lc=2), 1e-12, (0.1, 0.5)),
        (testbeds.Misspecified(testbeds.HubCorridor(B=2, m=3, K=4, junk=2), 0.05), 0.05, (0.2, 0.8)),
    ],
    ids=str,
)
def test_realizable_always_and_bellman_complete_as_designed(testbed, fit, bellman):
    for seed in range(2):
        seen = testbed.verify(policies=4, pool=100, seed=seed)
        assert seen.problems == ()
        assert seen.residual <= fit
        assert bellman[0] <= seen.bellman_residual <= bellman[1]


class Broken(testbeds.Misspecified):
    """A testbed with one thing wrong."""

    def __init__(self, base, **wrong):
        super().__init__(base, 0.0)
        for name, method in wrong.items():
            setattr(self, name, method)


def planted(name):
    base = testbeds.HubCorridor(B=1, m=2, K=3, seed=1)

    def phi(state):
        rows = base.phi(state)
        if state[0] == 3:
            rows[1, 2] += 0.05
        return rows

    def long_phi(state):
        return base.phi(state) * (1.2 if state[0] == 2 else 1.0)

    def mean(state, action):
        return base.mean(state, action) + 0.01 * (state[0] == 2 and action == 1)

    def large_mean(state, action):
        return base.mean(state, action) + 0.5

    def theta(stage, policy):
        return base.theta(stage, policy) + 1e-6

    return Broken(
        base,
        **{"large_mean": {"mean": large_mean}, "long_phi": {"phi": long_phi}}.get(name, {name: locals().get(name)}),
    )


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("phi", "from its linear fit"),
        ("long_phi", "norms up to 1.10"),
        ("mean", "from its closed form"),
        ("large_mean", "means go from"),
        ("theta", "from its closed form"),
    ],
)
def test_verification_finds_a_planted_error(name, complaint):
    assert Broken(testbeds.HubCorridor(B=1, m=2, K=3, seed=1)).verify(pool=60).problems == ()
    seen = planted(name).verify(pool=60)
    assert any(complaint in problem for problem in seen.problems), seen
    assert "PROBLEMS" in str(seen) and complaint in str(seen)


def test_verification_finds_a_bound_that_is_too_small_or_beyond_the_theory():
    testbed = testbeds.HubNet(B=2, m=2, K=2)
    seen = testbed.verify(pool=30)
    assert "everything holds" in str(seen)
    small_bound = dataclasses.replace(seen, theta_bound=seen.theta / 2)
    assert ["above the bound" in problem for problem in small_bound.problems] == [True]
    large_bound = dataclasses.replace(seen, theta_bound=seen.theory_bound + 1)
    assert ["is above sqrt(d) H" in problem for problem in large_bound.problems] == [True]


def test_verification_finds_more_choices_than_features_allow():
    """One feature for all cells of a stage of the sea with cost: the structure fact is violated."""
    sea = testbeds.DeepSea(4, cost=0.4)
    seen = Broken(sea, phi=lambda state: sea.phi(state)[:, -2:], theta=lambda *_: np.zeros(2), dim=2).verify()
    assert "a stage has more choice states than the one before has feature directions" in seen.problems
    assert sea.verify().problems == ()


def test_the_structure_of_choices():
    assert testbeds.DeepSea(6).verify().choices == (1,) * 6
    assert testbeds.DeepSea(4, cost=0.1).verify().choices == (1, 2, 3, 4)
    assert testbeds.HubCorridor(B=2, m=3, K=4).verify(pool=80).choices == (80, 0, 0, 3, 0, 0, 3)
    assert testbeds.Diamond(5).verify().choices == (0, 0)


# Knobs


@pytest.mark.parametrize("kappa", [0.05, 0.2, 2.0])
@pytest.mark.parametrize(
    "base", [testbeds.HubCorridor(B=1, m=2, K=3, junk=2), testbeds.DeepSea(4), testbeds.Trap(M=2, Lc=2)], ids=str
)
def test_kappa_bounds_the_misspecification_of_every_policy(base, kappa):
    testbed = testbeds.Misspecified(base, kappa, seed=1)
    assert testbed.misspecification == kappa
    largest = shift = 0.0
    for policy in (testbeds.random_policy(base.actions, 1), testbed.optimal_action):
        for stage, states in enumerate(reachable(testbed, testbed.held_out(30))):
            theta = testbed.theta(stage, policy)
            for state in states[:80]:
                np.testing.assert_array_equal(testbed.phi(state), base.phi(state))
                error = np.abs(testbed.phi(state) @ theta - testbed.action_values(state, policy)).max()
                largest = max(largest, error)
                for action in range(base.actions):
                    shift = max(shift, abs(testbed.mean(state, action) - base.mean(state, action)))
                    assert 0 <= testbed.mean(state, action) <= 1
    assert 0.05 * kappa < largest <= kappa + 1e-13
    assert 0.5 * kappa / base.horizon < shift <= kappa / base.horizon


@pytest.mark.slow
def test_the_realised_misspecification_is_about_two_fifths_of_kappa():
    base = testbeds.HubCorridor(B=2, m=3, K=4, junk=2, seed=1)
    for kappa in (0.05, 0.2):
        assert 0.3 * kappa < testbeds.Misspecified(base, kappa).verify(pool=300).residual < 0.5 * kappa
    corridor = base.next(base.held_out(1)[0], 0)
    values = testbeds.Misspecified(base, 0.2).action_values(corridor, testbeds.random_policy(4, 0))
    assert 0 < np.ptp(values) < 0.4


def test_rotation_hides_the_blocks_and_changes_no_value():
    base = testbeds.HubNet(B=2, m=4, K=5)
    testbed = testbeds.Rotated(base, seed=9)
    for stage in range(3):
        matrix = _hash.rotation(9, stage, base.dim)
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(base.dim), atol=1e-13)
        assert np.abs(matrix - _hash.rotation(9, (stage + 1) % 3, base.dim)).max() > 0.1
    for start in testbed.held_out(5):
        assert testbed.optimal_value(start) == base.optimal_value(start)
        assert (base.phi(start) == 0).sum() == 3 * 5 and (testbed.phi(start) == 0).sum() == 0
        np.testing.assert_allclose(np.linalg.norm(testbed.phi(start), axis=1), np.linalg.norm(base.phi(start), axis=1))
    assert testbed.theta_bound == base.theta_bound


# Starts


def test_held_out_starts_are_fixed_and_contexts_do_not_repeat():
    testbed = testbeds.HubCorridor()
    assert testbed.held_out(300) == testbed.held_out(300)
    assert testbed.held_out(300)[:10] == testbed.held_out(10)
    assert testbed.held_out(300, seed=1) != testbed.held_out(300)
    assert len(set(testbed.held_out(3000))) == 3000


def test_the_phases_of_the_trap():
    env = testbeds.Trap(M=3, Lc=1, phase=7).env()
    starts = [int(env.reset(seed=0 if episode == 0 else None)[0][1]) for episode in range(10)]
    assert starts == [0, 1, 2, 0, 1, 2, 0, 3, 3, 3]
    random = testbeds.Trap(M=3, p=0.25)
    share = np.mean([state == (0, 3) for state in random.held_out(4000)])
    assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)


def test_drifting_contexts_come_along_one_axis_after_another():
    bandit = testbeds.LinBandit(d=4, K=3, order="drifting")
    env = bandit.env()
    best = []
    for episode in range(63):
        observation, _ = env.reset(seed=1 if episode == 0 else None)
        state = bandit.state(observation)
        best.append(np.abs(bandit.phi(state)[bandit.optimal_action(state), 1:]) * np.sqrt(2))
    for phase in range(2, 6):
        mean = np.mean(best[2**phase - 1 : 2 ** (phase + 1) - 1], axis=0)
        assert mean.argmax() == phase % 3 and mean.max() > 0.8
    assert len({tuple(row) for row in best}) == 63


@pytest.mark.parametrize("noise", ["none", "bernoulli"])
def test_ordered_starts_can_be_replayed_and_begin_again_with_a_seed(noise):
    bandit = testbeds.LinBandit(d=3, K=2, order="drifting")
    starts = [bandit.start(np.random.default_rng(), episode) for episode in range(6)]
    assert len(set(starts)) == 6
    env = bandit.env(noise)
    seen = []
    for episode in range(6):
        before = get_generator(env) if episode else None
        observation, _ = env.reset(seed=3 if episode == 0 else None)
        seen.append(bandit.state(observation))
        env.step(np.int64(1))
        if before is not None:
            report = replay(env, before, [np.int64(1)], [observation])
            assert report is not None and report.agrees
    assert seen == starts
    assert bandit.state(env.reset(seed=3)[0]) == starts[0]
    assert check(env).verdict.startswith("Fit for FPI with changes: choose a horizon")


# Environments


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_accepts_the_environment(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(spec|render).*")
        check_env(gym.make(f"fpi/{name}").unwrapped)
        check_env(gym.make(f"fpi/{name}", kappa=0.1, rotate=True, noise="uniform").unwrapped)


def test_arguments_reach_the_testbed():
    env = gym.make("fpi/LinBandit-v0", d=4, K=7, seed=3, noise="none")
    assert env.unwrapped.testbed == testbeds.LinBandit(d=4, K=7, seed=3)
    assert env.get_wrapper_attr("testbed").actions == env.action_space.n == 7
    assert gym.make(env.spec).unwrapped.testbed == env.unwrapped.testbed
    assert gym.make("fpi/DeepSeaCost-v0", N=5).unwrapped.testbed == testbeds.DeepSea(5, cost=0.01)
    assert gym.make("fpi.testbeds:fpi/Trap-v0").unwrapped.testbed == testbeds.Trap()
    shifted = gym.make("fpi/HubNet-v0", seed=2, kappa=0.1, rotate=True).unwrapped.testbed
    assert shifted == testbeds.Misspecified(testbeds.Rotated(testbeds.HubNet(seed=2), 2), 0.1, 2)


@small
def test_environments_follow_the_testbed_and_say_nothing_more(testbed):
    env = testbed.env(noise="none")
    rng = np.random.default_rng(0)
    for episode in range(20):
        observation, info = env.reset(seed=0 if episode == 0 else None)
        state, rewards, actions = testbed.state(observation), [], []
        start, ended = state, False
        while not ended:
            assert observation.dtype == np.int64 and env.observation_space.contains(observation)
            assert info == {}
            action = rng.integers(testbed.actions)
            rewards.append(testbed.mean(state, action))
            actions.append(int(action))
            state = testbed.next(state, int(action))
            observation, reward, ended, truncated, info = env.step(action)
            assert reward == rewards[-1] and not truncated and ended == (state is None)
            assert ended or testbed.state(observation) == state
        assert observation[0] == testbed.horizon and env.observation_space.contains(observation)
        assert len(rewards) <= testbed.horizon
        assert testbed.regret(start, actions) == pytest.approx(testbed.optimal_value(start) - sum(rewards))
    with pytest.raises(InputError, match="reset"):
        env.step(0)
    env.reset()
    with pytest.raises(InputError, match=f"action {testbed.actions} is not one of 0 to {testbed.actions - 1}"):
        env.step(testbed.actions)


@pytest.mark.parametrize(("noise", "deviation"), [("bernoulli", 0.5), ("uniform", 0.3)])
def test_rewards_are_drawn_around_the_mean(noise, deviation):
    testbed = testbeds.LinBandit(d=3, K=2, seed=1)
    testbed.draw = lambda rng: (0, 5)
    env = testbed.env(noise)
    for action in range(2):
        mean = testbed.mean((0, 5), action)
        env.reset(seed=4)
        rewards = []
        for _ in range(3000):
            env.reset()
            rewards.append(env.step(action)[1])
        assert abs(np.mean(rewards) - mean) < 5 * deviation / np.sqrt(3000)
        assert min(rewards) >= 0 and max(rewards) <= 1
        assert (len(set(rewards)) == 2) == (noise == "bernoulli")
        if noise == "uniform":
            assert np.ptp(rewards) > 1.9 * min(mean, 1 - mean)
    with pytest.raises(InputError, match="noise is 'loud'; choose one of bernoulli, uniform, none"):
        testbed.env("loud")


# Agents


def test_features_for_agents():
    for testbed in SMALL:
        features = testbed.features
        assert isinstance(features, fpi.FeatureMap)
        assert (features.actions, features.dim, features.separate) == (testbed.actions, testbed.dim, False)
        state = testbed.held_out(1)[0]
        np.testing.assert_array_equal(features(testbed.observation(state), 0), testbed.phi(state))
        assert hasattr(features, "key") == testbed.finite
    sea = testbeds.DeepSea(3).features
    assert sea.key(np.array([1, 0]), 1) == (1, 0) != sea.key(np.array([1, 1]), 1)
    with pytest.raises(InputError, match=r"observation \(1, 0\) belongs to stage 1, but stage 2 was asked for"):
        sea(np.array([1, 0]), 2)
    for wrong in (np.array([0.0, 1.0]), np.array([0, 1, 2]), 3):
        with pytest.raises(InputError, match="are 2 whole numbers"):
            sea(wrong, 0)


def test_an_agent_learns_a_testbed_and_comes_back_from_a_file(tmp_path):
    testbed = testbeds.LinBandit(d=3, K=4, seed=1)
    agent = fpi.PAC(testbed.features, actions=4, horizon=1, epsilon=0.3, ridge=1.0, theta_bound=testbed.theta_bound)
    env = testbed.env()
    agent.learn(env, 150, seed=0)
    starts = testbed.held_out(200)
    learned = testbed.gaps(starts, testbed.policy(agent.predict)).mean()
    assert learned < 0.1 < testbed.gaps(starts, testbeds.random_policy(4, 0)).mean()
    agent.save(tmp_path / "bandit.fpi")
    again = fpi.load(tmp_path / "bandit.fpi", features=testbed.features)
    assert testbed.gaps(starts, testbed.policy(again.predict)).mean() == learned


def test_an_agent_finds_the_treasure():
    sea = testbeds.DeepSea(12, seed=2)
    agent = fpi.PAC(sea.features, actions=2, horizon=12, epsilon=0.5, ridge=1 / 12)
    agent.learn(sea.env(), 200, seed=0)
    assert sea.gap((0, 0), sea.policy(agent.predict)) == 0


# Hashes


DIGEST = """
import hashlib, numpy as np
from fpi import testbeds
digest = hashlib.sha256()
for family, arguments in (
    ("LinBandit", {"K": 4}), ("HubNet", {}), ("HubCorridor", {"junk": 3}), ("DeepSea", {"junk": 2}), ("Trap", {})
):
    testbed = testbeds.make(family, rotate=True, kappa=0.1, **arguments)
    states = [(0, 3), (0, 2**62 - 1)] if family == "LinBandit" else testbed.held_out(3)
    for state in states:
        while state is not None:
            digest.update(testbed.phi(state).tobytes())
            digest.update(np.array([testbed.mean(state, 1), *state]).tobytes())
            state = testbed.next(state, testbeds.random_policy(testbed.actions, 1)(state))
print(digest.hexdigest())
"""


@pytest.mark.process
def test_processes_agree_whatever_the_seed_of_python_hashes():
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1"}
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_the_numbers_are_the_same_for_ever():
    """Splitmix64 and arithmetic that every machine rounds alike: written down once, they must not change."""
    bandit = testbeds.LinBandit(d=6, K=10, seed=0)
    state = (0, 123456789)
    assert [bandit.mean(state, arm) for arm in range(3)] == [0.8346917867004964, 0.3783795573188399, 0.3203507150013952]
    corridor = testbeds.Rotated(testbeds.HubCorridor(junk=4, seed=1), 1)
    digest = hashlib.sha256()
    for state in ((0, 99, -1, -1), (1, 99, 2, -1), (2, 99, 2, 1), (3, 0, -1, -1)):
        digest.update(corridor.phi(state).tobytes())
    assert digest.hexdigest()[:16] == "a7b0dc63654b66f6"


def literal_direction(seed, purpose, state, action, dim):
    """A point of the sphere in plain Python: whole numbers and one rounding per operation."""
    golden = 0x9E3779B97F4A7C15
    z = mix((seed + golden * (purpose + 1)) % 2**64)
    for entry in (*state, action):
        z = mix((z + golden * (entry + 2)) % 2**64)
    stream = ((mix((z + i * golden) % 2**64) >> 12) * 2 + 1 for i in itertools.count(1))
    uniform = (number / 2**53 for number in stream)
    pairs = (dim + 1) // 2
    cuts = [0.0, *sorted(next(uniform) for _ in range(pairs - 1)), 1.0]
    point = []
    for low, high in itertools.pairwise(cuts):
        square = 2.0
        while square > 1:
            x, y = 2 * next(uniform) - 1, 2 * next(uniform) - 1
            square = x * x + y * y
        radius = math.sqrt((high - low) / square)
        point += [radius * x, radius * y]
    point = np.array(point[:dim])
    return point / np.linalg.norm(point)


@pytest.mark.parametrize("dim", [1, 2, 3, 6, 9])
def test_directions_are_those_of_plain_python(dim):
    for arguments in ((0, 0, (0, 0), 0), (2**62 - 1, 11, (7, 2**62 - 1, -1, -1), 3), (5, 3, (1,), 999)):
        expected = literal_direction(*arguments, dim)
        np.testing.assert_allclose(_hash.direction(*arguments, dim), expected, rtol=1e-14)


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 8])
def test_directions_are_uniform_on_the_sphere(dim):
    n = 20_000
    points = np.array([_hash.direction(1, _hash.ARM, (0, i), 2, dim) for i in range(n)])
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-14)
    assert np.abs(points.mean(axis=0)).max() < 5 / np.sqrt(n * dim)
    fourth = np.einsum("ni,nj->ij", points**2, points**2) / n
    expected = (np.ones((dim, dim)) + 2 * np.eye(dim)) / (dim * (dim + 2))
    deviation = np.sqrt(105 / (dim * (dim + 2) * (dim + 4) * (dim + 6)) / n)
    assert np.abs(fourth - expected).max() < 5 * deviation


def test_hashes_depend_on_every_argument():
    base = (1, _hash.GOAL, (2, 3, 4, -1), 5)
    others = [
        (2, _hash.GOAL, (2, 3, 4, -1), 5),
        (1, _hash.SIDE, (2, 3, 4, -1), 5),
        (1, _hash.GOAL, (3, 3, 4, -1), 5),
        (1, _hash.GOAL, (3, 2, 4, -1), 5),
        (1, _hash.GOAL, (2, 3, 4, 0), 5),
        (1, _hash.GOAL, (2, 3, 4), 5),
        (1, _hash.GOAL, (2, 3, 4, -1), 4),
    ]
    assert len({int(_hash.key(*arguments)) for arguments in [base, *others]}) == 8
    counts = np.bincount([_hash.below(0, _hash.GOAL, (0, i), 0, 7) for i in range(7000)], minlength=7)
    assert ((counts - 1000) ** 2 / 1000).sum() < 22.5  # chi-squared with 6 degrees of freedom at 0.001


@pytest.mark.parametrize(
    "testbed",
    [testbeds.LinBandit(), testbeds.HubNet(), testbeds.HubCorridor(junk=2)],
    ids=lambda each: type(each).__name__,
)
def test_contexts_cost_no_memory(testbed):
    testbed = testbeds.Misspecified(testbed, 0.1)
    features, policy = testbed.features, testbeds.random_policy(testbed.actions, 0)

    def meet(n, seed):
        for state in testbed.held_out(n, seed):
            testbed.gap(state, policy)
            for here, _ in testbed.path(state, policy):
                features(testbed.observation(here), here[0])

    meet(300, 0)  # all hubs are known now
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        meet(300, 1)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 300 * 16


# Input and commands


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: testbeds.Diamond(1), "n is 1; pass a whole number of at least 2"),
        (lambda: testbeds.LinBandit(d=1), "d is 1; pass"),
        (lambda: testbeds.LinBandit(K=2.0), "K is 2.0; pass"),
        (lambda: testbeds.LinBandit(order="sorted"), 'choose "random" or "drifting"'),
        (lambda: testbeds.HubNet(seed=-1), "seed is -1; pass"),
        (lambda: testbeds.HubCorridor(m=0), "m is 0; pass"),
        (lambda: testbeds.DeepSea(0), "N is 0; pass"),
        (lambda: testbeds.DeepSea(3, cost=2), "cost is 2; pass a number from 0 to 1"),
        (lambda: testbeds.DeepSea(3, cost=0.1, junk=1), "junk features stand where"),
        (lambda: testbeds.Trap(p=float("nan")), "p is nan; pass"),
        (lambda: testbeds.Trap(phase=-1), "phase is -1; pass"),
        (lambda: testbeds.Misspecified(testbeds.DeepSea(4), -0.1), "kappa is -0.1; pass a number from 0 to 4"),
        (lambda: testbeds.make("Lake"), "choose one of Diamond, LinBandit"),
        (lambda: gym.make("fpi/HubNet-v0", q=3), r"q: unknown argument; the testbed is HubNet\(B: "),
        (lambda: testbeds.Diamond().verify(policies=0), "policies=0"),
    ],
)
def test_bad_arguments_are_named(make, complaint):
    with pytest.raises(InputError, match=complaint):
        make()


def test_the_time_table(monkeypatch):
    monkeypatch.setattr("benchmarks.testbeds.EPISODES", 2)
    lines = list(time_table())
    assert len(lines) == 2 + len(testbeds.standard())
    assert all(re.fullmatch(r"\| [\w.-]+ (\| \d+\.\d ){3}\|", line) for line in lines[2:])


def test_the_worst_perturbation_shifts_starts_and_plays_the_better_half():
    base = testbeds.LinBandit(d=4, K=3)
    worst = testbeds.Misspecified(base, 0.1, adversarial=True)
    rng = np.random.default_rng(0)
    shifts = [worst.mean(state, 0) - base.mean(state, 0) for state in (worst.start(rng, 0) for _ in range(50))]
    assert max(shifts) == pytest.approx(0.1) and min(shifts) >= 0
    shifts = [worst.mean(state, 0) - base.mean(state, 0) for state in worst.held_out(50)]
    assert max(shifts) == pytest.approx(0.1) and min(shifts) == pytest.approx(-0.1)
    assert worst.misspecification == 0.1


def test_an_adversary_starts_where_most_is_lost():
    bandit = testbeds.WorstStarts(testbeds.LinBandit(d=4, K=3), candidates=5)
    first = bandit.base.start(np.random.default_rng(0), 0)
    assert bandit.start(np.random.default_rng(0), 0) == first  # without a loss all are alike
    bandit.loss = lambda state: -state[1]
    rng = np.random.default_rng(0)
    assert bandit.start(np.random.default_rng(0), 0) == min(bandit.base.start(rng, 0) for _ in range(5))

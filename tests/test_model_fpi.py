"""`fpi.ModelFPI` and its rooms, each compared with something that shares no code."""

import itertools
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from scipy.spatial.distance import cdist

import fpi
from fpi import baselines, model_files
from fpi.baselines.in_model import imagine as imagine_by_method
from fpi.data import Trajectory
from fpi.errors import EnvironmentMismatch, InputError, ModelFileError
from fpi.kernels import search, smooth, windows
from fpi.modelling import coordinates, dynamics, ends, known, planners
from fpi.modelling.certificate import Certificate
from fpi.modelling.experience import Experience, Observations
from fpi.modelling.model import reward_bounds
from fpi.modelling.table import plan_table
from fpi.settings import ModelSettings

RNG = np.random.default_rng


class Slope(gym.Env):
    """A point on a slope with a wall on the left and a goal on the right; 3 forces, -1 a step."""

    def __init__(self, noise=0.0):
        self.observation_space = gym.spaces.Box(-5, 5, (2,), np.float64)
        self.action_space = gym.spaces.Discrete(3)
        self.noise = noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.array([self.np_random.uniform(-0.6, -0.4), 0.0])
        return self.state.copy(), {}

    def step(self, action):
        x, v = self.state
        v = v + 0.1 * (action - 1) - 0.05 * np.sin(2 * x)
        x = x + 0.2 * v
        if x < -1.5:
            x, v = -1.5, 0.0
        self.state = np.array([x, v])
        reward = -1.0 + self.noise * self.np_random.normal()
        return self.state.copy(), reward, bool(x > 1.5), False, {}


def slope(noise=0.0, steps=60):
    return gym.wrappers.TimeLimit(Slope(noise), steps)


def learned(env, episodes, seed=0, **settings):
    agent = fpi.ModelFPI.for_env(env, **settings)
    agent.learn(env, episodes, seed=seed)
    return agent


@pytest.fixture(scope="module")
def slope_agent():
    return learned(slope(), 4, window=12)


def kernel(a, b):
    return (1 + cdist(a, b, "sqeuclidean")) ** -2


# Compiled regression


def test_factor_and_solutions_are_those_of_numpy():
    points = RNG(0).normal(size=(30, 3))
    targets = RNG(1).normal(size=(30, 2))
    matrix = smooth.gram(np.ascontiguousarray(points.T), np.zeros((1, 1)), np.zeros(30, np.int64), 0.1)
    np.testing.assert_allclose(matrix, kernel(points, points) + 0.1 * np.eye(30), atol=1e-14)
    factor = matrix.copy()
    assert smooth.factorise(factor)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), atol=1e-12)
    solved = targets.copy()
    smooth.solve_lower(factor, solved)
    smooth.solve_upper(factor, solved)
    np.testing.assert_allclose(solved, np.linalg.solve(matrix, targets), atol=1e-9)
    assert not smooth.factorise(-matrix)
    assert smooth.weighted_sum(matrix, 2, targets[:, 0].copy()) == pytest.approx(matrix[2] @ targets[:, 0])


def test_the_widest_are_chosen_first_and_widths_are_those_of_the_regression():
    points, labels = RNG(0).normal(size=(40, 2)), RNG(1).integers(0, 2, 40)
    offsets = np.array([[0.0, 0.5], [0.5, 0.0]])
    chosen, rows = smooth.choose_widest(np.ascontiguousarray(points.T), offsets, labels, 10, 1e-9)
    full = (1 + cdist(points, points, "sqeuclidean") + offsets[labels][:, labels]) ** -2
    taken = []
    for k, pivot in enumerate(chosen):
        inner = full[np.ix_(taken, taken)]
        widths = 1 - np.einsum("ij,ji->i", full[:, taken], np.linalg.solve(inner, full[taken]))
        assert widths[pivot] == pytest.approx(widths.max(), abs=1e-9), k
        taken.append(int(pivot))
    np.testing.assert_allclose(rows[:, chosen].T @ rows[:, chosen], full[np.ix_(chosen, chosen)], atol=1e-9)


def test_the_likelihood_is_that_of_a_gaussian_process():
    points, targets = RNG(0).normal(size=(20, 2)), RNG(1).normal(size=(20, 2))
    found = smooth.log_likelihood(
        np.ascontiguousarray(points.T), np.zeros((1, 1)), np.zeros(20, np.int64), targets, 0.1, 0.0
    )
    matrix = kernel(points, points) + 0.1 * np.eye(20)
    expected = 0.0
    for column in targets.T:
        amplitude = column @ np.linalg.solve(matrix, column) / 20
        expected -= 0.5 * np.linalg.slogdet(amplitude * matrix)[1]
    assert found == pytest.approx(expected)


def test_products_are_those_of_numpy():
    left, right = RNG(0).normal(size=(5, 7)), RNG(1).normal(size=(7, 3))
    np.testing.assert_allclose(smooth.product(left, right), left @ right, atol=1e-12)
    np.testing.assert_allclose(
        smooth.normal_matrix(left, 0.5)[np.tril_indices(5)], (left @ left.T + 0.5 * np.eye(5))[np.tril_indices(5)]
    )


# Experience and coordinates


def experience_of(*episodes, size=2, stages=100, actions=3):
    kept = Experience(Observations(size=size), stages, actions)
    for each in episodes:
        kept.append(each)
    return kept


def test_decisions_are_stretches_of_equal_actions():
    seen = np.arange(7.0)[:, None]
    kept = experience_of(Trajectory(seen, np.array([1, 1, 1, 0, 0, 2]), np.arange(6.0), True), size=1)
    found = kept.decisions(2)
    assert found.before[:, 0].tolist() == [0, 1, 3, 5]
    assert found.after[:, 0].tolist() == [2, 3, 5, 6]
    assert found.actions.tolist() == [1, 1, 0, 2]
    assert found.rewards.tolist() == [1, 3, 7, 5]
    assert found.ends.tolist() == [False, False, False, True]
    assert found.whole.tolist() == [True, True, True, False]
    unfinished = experience_of(Trajectory(seen, np.array([1, 1, 1, 0, 0, 2]), np.arange(6.0), False), size=1)
    assert unfinished.decisions(2).before[:, 0].tolist() == [0, 1, 3]
    assert len(experience_of(size=1).decisions(2).actions) == 0


def test_pairs_on_a_circle_are_found():
    angle, other = RNG(0).uniform(-3, 3, (2, 50))
    seen = np.column_stack([other, np.cos(angle), np.sin(angle), np.ones(50), np.zeros(50)])
    assert coordinates.find_circles(seen).tolist() == [[1, 2]]
    seen[0, 1] += 1e-3
    assert coordinates.find_circles(seen).tolist() == []


def test_how_long_decisions_last():
    """One step where that is a long way already; at least three where every step costs the same up to the end."""

    def interval(x, rewards, terminated):
        seen = np.column_stack([x, np.zeros(41)])
        kept = experience_of(Trajectory(seen, np.zeros(40, np.int64), rewards, terminated))
        return coordinates.choose_coordinates(kept, ModelSettings(actions=3, horizon=100)).interval

    steps, costs = np.arange(41.0), np.full(40, -1.0)
    paid = np.append(costs[1:], 0.0)
    for x, usual, to_end in ((steps, 4, 4), (np.abs(steps % 16 - 8), 2, 3), (steps % 2, 1, 3)):
        assert interval(x, paid, False) == interval(x, -costs, True) == usual
        assert interval(x, costs, False) == interval(x, paid, True) == to_end


def test_rewards_have_the_range_that_was_seen():
    def bounds(*rewards, observations=None, **given):
        n = len(rewards)
        kept = Experience(observations or Observations(size=2), 5, 1)
        kept.episodes = [Trajectory(np.zeros((n + 1, 2)), np.zeros(n, np.int64), np.array(rewards), False)]
        return reward_bounds(kept, ModelSettings(actions=1, horizon=5, **given))

    assert bounds(-1.0, -3.0) == (-3, 0)
    assert bounds(1.0, 1.0) == (0, 1)
    assert bounds(0.0) == (0, 1)
    assert bounds(0.0, reward_range=(2, 5)) == (0, 5)
    states = Observations(states=2)
    assert bounds(-1.0, observations=states) == (-1, 1)
    assert bounds(3.0, observations=states) == (0, 3)


# The model


def planted(n=400, seed=0):
    """Decisions in a smooth world with an angle."""
    rng = RNG(seed)
    angle, speed = rng.uniform(-3, 3, n), rng.uniform(-2, 2, n)
    actions = rng.integers(0, 2, n)
    before = np.column_stack([np.cos(angle), np.sin(angle), speed])
    speed = speed + 0.3 * np.sin(angle) + 0.2 * (actions - 0.5)
    angle = angle + 0.1 * speed
    return before, actions, speed**2, np.column_stack([np.cos(angle), np.sin(angle), speed])


ANGLE = dynamics.Actions(2, 3)
CIRCLE, NO_CIRCLES = np.array([[0, 1]]), np.empty((0, 2), np.int64)


def test_a_smooth_world_is_learned():
    before, actions, rewards, after = planted()
    made = dynamics.fit_dynamics(before, actions, rewards, after, CIRCLE, ANGLE)
    rule = ends.fit_ends(after[:0], rewards[:0], before)
    assert len(made.odd_actions) == 0
    seen = np.empty(3)
    for x, a, reward, y in zip(*planted(50, seed=1), strict=True):
        found, end, sure = windows.decide(made, rule, np.nan, x, a, seen)
        np.testing.assert_allclose(seen, y, atol=0.01)
        assert found == pytest.approx(reward, abs=0.05) and not end and sure
    windows.decide(made, rule, np.nan, np.array([1.0, 0.0, 60.0]), 0, seen)
    assert not windows.decide(made, rule, np.nan, np.array([1.0, 0.0, 60.0]), 0, seen)[2]


def test_what_an_end_pays_leaves_the_other_rewards_alone():
    before, actions, _, after = planted()
    ended = after[:, 2] > 1.5
    made = dynamics.fit_dynamics(before, actions, 1.0 - ended, after, CIRCLE, ANGLE, ended)
    fresh = planted(200, seed=1)
    np.testing.assert_allclose(dynamics.predict_targets(made, fresh[0], fresh[1])[:, -1], 1.0, atol=1e-3)
    alone = dynamics.fit_dynamics(before, actions, 1.0 - ended, after, CIRCLE, ANGLE, np.ones(400, np.bool_))
    assert dynamics.predict_targets(alone, fresh[0], fresh[1])[:, -1].min() < 0.5  # nothing but ends: theirs count


def test_few_data_do_not_say_how_fast_a_function_varies():
    before, actions, rewards, after = planted(12)
    made = dynamics.fit_dynamics(before, actions, rewards, after, CIRCLE, ANGLE)
    assert (made.rates == dynamics.FIRST_RATE).all()


def test_rewards_are_learned_as_means():
    before, actions, rewards, after = planted(1500)
    noisy = rewards + RNG(5).normal(size=len(rewards))
    made = dynamics.fit_dynamics(before, actions, noisy, after, CIRCLE, ANGLE)
    fresh = planted(200, seed=2)
    errors = dynamics.predict_targets(made, fresh[0], fresh[1])[:, -1] - fresh[2]
    assert np.abs(errors).mean() < 0.5


def test_rewards_are_learned_of_ends_where_all_other_data_are_unexplained():
    z, after = np.zeros((20, 1)), np.full((20, 1), 0.1)
    after[7] = 5.0
    ended = np.arange(20) != 7
    made = dynamics.fit_dynamics(
        z, np.zeros(20, np.int64), np.ones(20), after, NO_CIRCLES, dynamics.Actions(1, 1), ended
    )
    assert made.odd_reward.size == 1 and dynamics.predict_targets(made, z, np.zeros(20, np.int64))[0, -1] > 0.9


def test_what_no_smooth_function_explains_answers_only_for_what_is_nearest_to_it():
    """One unexplained datum amid explained ones leaves their neighbourhoods alone, few as the inducing data are."""
    z = np.linspace(-1, 1, 201)[:, None]
    after = z + 0.1
    after[100] = 5.0
    made = dynamics.fit_dynamics(z, np.zeros(201, np.int64), np.zeros(201), after, NO_CIRCLES, dynamics.Actions(1, 1))
    assert made.odd_reward.size == 1 and made.points.shape[1] < 50
    rule, seen = ends.fit_ends(after[:0], np.zeros(0), z), np.empty(1)
    for place, expected in ((0.0, 5.0), (0.011, 0.111), (-0.3, -0.2)):
        windows.decide(made, rule, np.nan, np.array([place]), 0, seen)
        assert seen[0] == pytest.approx(expected, abs=1e-3)


def test_a_decision_is_steps_one_after_the_other():
    before, actions, rewards, after = planted()
    once = dynamics.fit_dynamics(before, actions, rewards, after, CIRCLE, ANGLE)
    ended = after[:, 2] > 1.5
    rule = ends.fit_ends(after[ended], np.full(ended.sum(), 7.0), after[~ended])
    for x, a, *_ in zip(*planted(100, seed=1), strict=True):
        state, total, end = x, 0.0, False
        for _ in range(3):
            following = np.empty(3)
            reward, end, sure = windows.decide(once, rule, np.nan, state, a, following)
            state, total = following, total + reward
            if end or not sure:
                break
        found = np.empty(3)
        assert windows.decide(once._replace(interval=3), rule, np.nan, x, a, found) == (pytest.approx(total), end, sure)
        np.testing.assert_array_equal(found, state)


def test_neighbours_on_a_grid_do_nearly_the_same():
    """An action that was never taken is known from those beside it, which numbered actions are not."""
    rng = RNG(0)
    z, actions = rng.uniform(-1, 1, (300, 1)), rng.choice([0, 2, 4], 300)
    grid = [[-2.0], [-1.0], [0.0], [1.0], [2.0]]
    after = z + 0.1 * np.array(grid)[actions]
    rule, seen = ends.fit_ends(after[:0], np.zeros(0), z), np.empty(1)
    for given, near in ((grid, True), (None, False)):
        kinds = dynamics.Actions(5, 1, given)
        made = dynamics.fit_dynamics(z, actions, np.zeros(300), after, NO_CIRCLES, kinds)
        assert windows.decide(made, rule, np.nan, np.array([0.3]), 1, seen)[2] == near
        if near:
            assert seen[0] == pytest.approx(0.2, abs=1e-3)


def test_a_coordinate_that_nothing_depends_on_has_no_influence():
    rng = RNG(0)
    z, actions = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    after = z + np.column_stack([0.3 * z[:, 1], 0.1 * (actions - 0.5)])
    found = dynamics.influences(z, actions, np.ones(200), after, NO_CIRCLES, dynamics.Actions(2, 2))
    assert found[0] < 0.1 and found[1] == 1.0


def test_a_wall_is_kept_as_exceptions():
    rng = RNG(0)
    z, actions = rng.uniform(-1, 1, (500, 1)), rng.integers(0, 2, 500)
    after = z + 0.6 * (2 * actions[:, None] - 1)
    hit = after[:, 0] < -1.45
    after[hit] = 0.0
    made = dynamics.fit_dynamics(z, actions, np.zeros(500), after, NO_CIRCLES, dynamics.Actions(2, 1))
    assert hit.sum() <= len(made.odd_actions) <= hit.sum() + 20
    rule = ends.fit_ends(after[:0], np.zeros(0), z)
    seen = np.empty(1)
    windows.decide(made, rule, np.nan, np.array([-0.9]), 0, seen)
    assert seen[0] == 0.0
    windows.decide(made, rule, np.nan, np.array([-0.9]), 1, seen)
    assert seen[0] == pytest.approx(-0.3, abs=0.01)


def test_an_exception_answers_within_half_a_unit_only():
    """Where no other datum is near it, too, and however slowly the function varies that explains the others."""
    z = np.concatenate([np.linspace(-6, 2, 40), np.linspace(6, 9, 20), [4.0]])[:, None]
    after = z + 0.1
    after[-1] = 0.0
    made = dynamics.fit_dynamics(z, np.zeros(61, np.int64), np.zeros(61), after, NO_CIRCLES, dynamics.Actions(1, 1))
    assert made.odd_reward.size == 1
    rule, seen = ends.fit_ends(after[:0], np.zeros(0), z), np.empty(1)
    for place, expected in ((4.0, 0.0), (4.4, 0.0), (4.6, 4.7), (3.4, 3.5)):
        windows.decide(made, rule, np.nan, np.array([place]), 0, seen)
        assert seen[0] == pytest.approx(expected, abs=0.01)


def test_actions_that_do_the_same_are_learned_to():
    """An action is known from others where what is curved depends on it little, and where it was never taken."""
    z, actions = RNG(0).uniform(-3, 3, (300, 1)), RNG(1).integers(0, 2, 300)
    use = (z[:, 0] > 0) | (actions == 0)  # action 1 on the right only
    z, actions = z[use], actions[use]
    seen, curve, apart = np.empty(1), 0.3 * np.sin(3 * z), []
    for sign in (1, 2 * actions[:, None] - 1):
        after = z + sign * curve + 0.1 * actions[:, None]
        made = dynamics.fit_dynamics(z, actions, np.zeros(len(z)), after, NO_CIRCLES, dynamics.Actions(2, 1))
        apart.append(made.offsets.max())
        if len(apart) == 1:
            rule = ends.fit_ends(z[:0], np.zeros(0), z)
            assert windows.decide(made, rule, np.nan, np.array([-1.0]), 1, seen)[2]
            assert seen[0] == pytest.approx(-1.0 + 0.3 * np.sin(-3) + 0.1, abs=0.1)
    assert apart[0] < 0.1 < 3 * apart[0] < apart[1]


def test_rewards_far_from_data_are_doubted():
    before, actions, rewards, after = planted()
    made = dynamics.fit_dynamics(before, actions, rewards, after, CIRCLE, ANGLE)._replace(interval=1)
    rule = ends.fit_ends(after[:0], rewards[:0], before)
    shares, seen = [], np.empty(3)
    for z, *_ in zip(*planted(20, seed=1), strict=True):
        z = z * [1.0, 1.0, 1.5]
        share = known.distances(made, z)[0] ** 2
        plain, _, sure = windows.decide(made, rule, np.nan, z, 0, seen)
        doubted, *_ = windows.decide(made, rule, -7.0, z, 0, seen)
        shares.append(share)
        assert sure and doubted == pytest.approx((1 - share) * plain - 7.0 * share)
    assert min(shares) < 0.01 < 0.05 < max(shares)


def targets_at(made, z, after):
    return dynamics.targets_of(z, np.zeros(len(z)), after, made.plain, made.circles)


def test_an_action_that_was_never_taken_is_not_known():
    """However alike the others are, and nothing is certified of it."""
    rng = RNG(0)
    z, actions = rng.uniform(-1, 1, (200, 2)), rng.integers(0, 2, 200)
    after = z + 0.3 * np.sin(2 * z) + 0.1 * actions[:, None]
    made = dynamics.fit_dynamics(z, actions, np.zeros(200), after, NO_CIRCLES, dynamics.Actions(3, 2))
    assert made.offsets[:2].max() < 0.1
    rule, seen, x = ends.fit_ends(z[:0], np.zeros(0), z), np.empty(2), np.array([0.2, 0.3])
    assert [windows.decide(made, rule, np.nan, x, a, seen)[2] for a in range(3)] == [True, True, False]
    assert (known.distances(made, x) < 1.0).tolist() == [True, True, False]
    assert np.isnan([Certificate(made)(x, a) for a in range(3)]).tolist() == [False, False, True]


def test_a_step_is_off_by_no_more_than_is_certified():
    """Of a function of the kernel's space with a norm that is known: twice what the data need, at most."""
    rng = RNG(0)
    z, actions = rng.uniform(-2, 2, (120, 2)), np.zeros(120, np.int64)

    def follow(z):
        return z + 0.5 * np.column_stack([np.sin(2 * z[:, 0]) * np.cos(z[:, 1]), np.cos(2 * z[:, 1])])

    made = dynamics.fit_dynamics(z, actions, np.zeros(120), follow(z), NO_CIRCLES, dynamics.Actions(1, 2))
    assert made.odd_reward.size == 0
    fresh = rng.uniform(-2, 2, (200, 2))
    targets = dynamics.targets_of(fresh, np.zeros(200), follow(fresh), made.plain, made.circles)
    errors = dynamics.target_errors(made, fresh, np.zeros(200, np.int64), targets)
    certificate = Certificate(made)
    bounds = np.array([certificate(each, 0) for each in fresh])
    assert (errors <= bounds + 1e-9).all()
    assert np.median(bounds) < 0.3  # of increments up to 0.7
    at_data = np.array([certificate(each, 0) for each in z[:30]])
    assert np.median(at_data) < 0.3 * np.median(bounds)
    assert np.isnan(certificate(np.array([60.0, 60.0]), 0))  # not known
    flat = made._replace(weights=np.zeros_like(made.weights))  # a regression that is off by all that the trend leaves
    rest = np.abs(targets_at(made, z, follow(z)) - dynamics.predict_targets(flat, z, actions))[:, :-1].max(axis=1)
    told = np.array([Certificate(flat)(each, 0) for each in z[:30]])
    assert (told >= 0.9 * rest[:30]).all() and (told <= 1.1 * rest[:30] + 0.2).all()
    spoiled = follow(z)
    spoiled[5] += 4.0
    made = dynamics.fit_dynamics(z, actions, np.zeros(120), spoiled, NO_CIRCLES, dynamics.Actions(1, 2))
    certificate = Certificate(made)
    assert np.isnan(certificate(z[5], 0)) and not np.isnan(certificate(z[6], 0))


def ended(rule, points):
    return np.array([windows.ended(rule, point) for point in points]) == windows.END


def test_ends_are_thresholds_where_these_do():
    points = RNG(0).uniform(-1, 1, (400, 3))
    inside = (points[:, 0] > 0.7) | (points[:, 2] < -0.8)
    rule = ends.fit_ends(points[inside], np.ones(inside.sum()), points[~inside])
    assert sorted(rule.coordinate) == [0, 2] and not rule.curve.size and not rule.nearest
    fresh = RNG(1).uniform(-1, 1, (400, 3))
    assert np.mean(ended(rule, fresh) == ((fresh[:, 0] > 0.7) | (fresh[:, 2] < -0.8))) > 0.97


def test_between_the_nearest_end_and_the_farthest_other_state_nobody_knows():
    others = np.array([[-1.0, 0.0], [0.5, 0.5], [0.2, -0.5]])
    rule = ends.fit_ends(np.array([[0.9, 0.1], [0.8, 0.0]]), np.ones(2), others)
    told = {place: windows.ended(rule, np.array([place, 0.0])) for place in (0.5, 0.6, 0.8)}
    assert told == {0.5: windows.NO_END, 0.6: windows.UNSURE, 0.8: windows.END}


def test_an_end_that_two_coordinates_explain_is_not_known_before_another_end_tells():
    others = RNG(0).uniform(-1, 1, (50, 2))
    first, second = np.array([[2.0, 2.0]]), np.array([[-2.0, 0.0]])
    rule = ends.fit_ends(first, np.ones(1), others)
    assert sorted(rule.coordinate) == [0, 1]
    told = [windows.ended(rule, np.array(z)) for z in ([2.5, 2.5], [2.5, 0.0], [0.0, 2.5])]
    assert told == [windows.END, windows.UNSURE, windows.UNSURE]
    rule = ends.fit_ends(np.concatenate([first, second]), np.ones(2), others)
    assert set(rule.coordinate) == {0}  # the reason of the second end, so that of the first, too
    assert windows.ended(rule, np.array([0.0, 2.5])) == windows.NO_END


def test_ends_are_a_quadric_else_and_the_nearest_if_nothing_separates():
    points = RNG(0).uniform(-1, 1, (300, 2))
    inside = points[:, 0] * points[:, 1] > 0.3
    rule = ends.fit_ends(points[inside], np.ones(inside.sum()), points[~inside])
    assert not rule.coordinate.size and rule.curve.size
    assert (ended(rule, points) == inside).all()
    points = 9 * points
    waves = np.sin(points[:, 0]) * np.sin(points[:, 1]) > 0.2
    rule = ends.fit_ends(points[waves], np.ones(waves.sum()), points[~waves])
    assert rule.nearest
    assert np.mean(ended(rule, points) == waves) > 0.9
    assert not ended(ends.fit_ends(points[:0], np.zeros(0), points), points).any()


def test_a_net_is_apart_and_everywhere_near():
    points = RNG(0).normal(size=(500, 2))
    net, radius = known.make_net(points, 0.5, 500)
    apart = cdist(net, net)[np.triu_indices(len(net), 1)]
    assert radius == 0.5 and apart.min() > 0.5 and cdist(points, net).min(axis=1).max() <= 0.5
    few, wider = known.make_net(points, 0.5, 10)
    assert len(few) <= 10 and wider > 0.5 and cdist(points, few).min(axis=1).max() <= wider
    more = known.add_to_net(net, points + 3.0, 0.5, len(net) + 2)
    assert len(more) == len(net) + 2 and (more[: len(net)] == net).all()


# Planning


def imagined(plan, z, first, stage):
    """The return of a window, step by step in plain numpy from what the model says of one decision."""
    model, total = plan.model, 0.0
    scales = model.coordinates.scales
    for h in range(stage, plan.horizon):
        near = kernel((z * plan.stages.rates)[None], plan.stages.cover.T)[0]
        action = first if h == stage else int(np.argmax(plan.stages.means[h] + plan.stages.weights[h] @ near))
        after, reward, end, sure = model.step(z * scales, action, plan.stages.unknown)
        if not sure:
            return total + (plan.horizon - h) * plan.stages.unknown
        total += reward
        if end:
            return total
        z = model.coordinates(after)
    return total


def test_stages_are_frozen_returns_of_later_ones(slope_agent):
    """Every stored return comes back when the final policies are rolled out again: none went stale (Lemma 2)."""
    plan = slope_agent.plan
    n = len(plan.points)
    matrix = kernel(plan.stages.cover.T, plan.stages.cover.T) + planners.RIDGE * np.eye(n)
    for stage in (0, 5, plan.horizon - 1):
        for action in range(3):
            for i in range(0, n, 7):
                expected = imagined(plan, plan.points[i], action, stage)
                assert plan.targets[stage, action, i] == pytest.approx(expected, abs=1e-9)
            mean = plan.targets[stage, action].mean()
            assert plan.stages.means[stage, action] == pytest.approx(mean)
            weights = np.linalg.solve(matrix, plan.targets[stage, action] - mean)
            np.testing.assert_allclose(plan.stages.weights[stage, action], weights, atol=1e-6)


@pytest.mark.parametrize("planner", list(planners.PLANNERS))
def test_a_window_is_worth_what_it_is_said_to_be(slope_agent, planner):
    agent = learned(slope(), 3, window=12, planner=planner)
    plan = agent.plan
    z = plan.points[len(plan.points) // 2]
    window = plan.choose(z, np.empty(0, np.int64), 0, 0, 0)
    assert window.value == pytest.approx(window.values.max())
    played, path = np.empty(12, np.int64), np.empty((13, 2))
    value, _, _ = windows.imagine(
        plan.model.dynamics,
        plan.model.ends,
        plan.stages,
        z,
        0,
        window.actions,
        len(window.actions),
        -np.inf,
        played,
        path,
    )
    assert value == pytest.approx(window.value)
    kept = plan.choose(z, window.actions, 0, 0, 0)
    assert kept.actions[0] == window.actions[0]


def every_window(plan, z):
    """All sequences of decisions, and what each is worth."""
    sequences = np.array(list(itertools.product(range(3), repeat=plan.horizon)))
    values = np.empty(len(sequences))
    search.value_of(plan.model.dynamics, plan.model.ends, plan.stages, z, sequences, values, 0.0)
    return sequences, values


NONE = np.empty(0, np.int64)


def test_a_wide_search_finds_the_best_window(slope_agent):
    """By trying all; without a search the policies of the stages are all there is, and they miss some."""
    wide = planners.FrozenStages(width=400).prepare(slope_agent.plan.model, 6, 0.5)
    bare = replace(wide, planner=planners.FrozenStages(width=0))
    missed = []
    for z in wide.points[::8]:
        best = every_window(wide, z)[1].max()
        found = wide.choose(z, NONE, 0, 0, 0)
        assert found.value == pytest.approx(best, abs=0.02)  # states nearer than APART count as one
        assert found.value >= bare.choose(z, NONE, 0, 0, 0).value - 1e-9
        missed.append(best - bare.choose(z, NONE, 0, 0, 0).value)
    assert max(missed) > 0.1


def test_the_stages_guide_the_search(slope_agent):
    """By their estimates: policies that always take action 0 lead nowhere, in both of these plans."""
    plan = planners.FrozenStages(width=3).prepare(slope_agent.plan.model, 12, 0.5)
    means = plan.stages.means.copy()
    means[:, 1:] -= 100.0
    left = replace(plan, stages=plan.stages._replace(means=means))
    blind = replace(left, stages=left.stages._replace(weights=np.zeros_like(plan.stages.weights)))
    found = [np.mean([each.choose(z, NONE, 0, 0, 0).value for z in plan.points[::4]]) for each in (left, blind)]
    assert found[0] > found[1] + 3.0


def test_a_window_in_hand_is_followed_between_searches(slope_agent):
    """As long as it runs its course; one that leaves the known set or ends is not."""
    plan = planners.FrozenStages(every=4).prepare(slope_agent.plan.model, 6, 0.5)
    model, played, path, courses = plan.model, np.empty(6, np.int64), np.empty((7, 2)), set()
    for z in plan.points[::4]:
        sequences, values = every_window(plan, z)
        worst = sequences[values.argmin()]
        _, taken, left = windows.imagine(model.dynamics, model.ends, plan.stages, z, 0, worst, 6, -np.inf, played, path)
        if values.max() < values.min() + 2 * plan.margin:
            continue
        courses.add(bool(taken == 6 and not left))
        searched = plan.choose(z, worst, 0, 0, 4)
        assert searched.value > values.min() + plan.margin
        followed = plan.choose(z, worst, 0, 0, 5)
        if taken == 6 and not left:
            assert followed.actions.tolist() == worst.tolist()
        else:
            assert followed.value == searched.value
    assert courses == {True, False}


# Methods of fpi.baselines as planners

LAKE = {"is_slippery": False, "desc": ["SFF", "HFH", "FFG"], "max_episode_steps": 5}


@pytest.mark.parametrize("method", [baselines.BackwardSweep(rollouts=1), baselines.CAPI(rollouts=1, fresh=1)])
def test_a_planner_of_table_1_runs_online(method, tmp_path):
    env = gym.make("FrozenLake-v1", **LAKE)
    planner = baselines.MethodPlanner(method)
    agent = learned(env, 20, planner=planner)
    assert fpi.evaluate(agent, env, 1).mean == 1.0
    why = agent.explain(0, 0)
    assert why.exact and why.values.max() == 1.0
    bill = agent.plan.bill
    assert bill.steps > 0 and bill.restores + bill.jumps > 0 and bill.seconds > 0 and bill.numbers > 0
    agent.save(tmp_path / "a.fpi")
    with pytest.raises(ModelFileError, match=r"a planner of your own, .* fpi.load\(path, planner=...\)"):
        fpi.load(tmp_path / "a.fpi")
    for wrong in (len, baselines.MethodPlanner):
        with pytest.raises(ModelFileError, match=r"planner=...\). What was passed, .*, is none"):
            fpi.load(tmp_path / "a.fpi", planner=wrong)
    assert (fpi.load(tmp_path / "a.fpi", planner=planner).plan.values == agent.plan.values).all()


def test_a_method_plans_in_a_smooth_model_as_windows_are_imagined(slope_agent):
    planner = baselines.MethodPlanner(baselines.BackwardSweep(rollouts=1, design="spanner"), centres=4)
    model = slope_agent.plan.model
    strict = replace(model, dynamics=model.dynamics._replace(reach=0.2))  # so that all is met
    plan = planner.prepare(strict, 8, 0.5)
    assert plan.bill.jumps == 8 * 3 * 5  # stages, actions, and 1 with 4 centres
    played, path, left = np.empty(8, np.int64), np.empty((9, 2)), set()
    for i, z in enumerate(plan.points[::4]):
        given = RNG(i).integers(0, 3, 8)
        worth, taken, unknown = windows.imagine(
            plan.model.dynamics, plan.model.ends, plan.stages, z, 0, given, 8, -np.inf, played, path
        )
        left.add((bool(unknown), taken == 8))
        assert imagine_by_method(plan, z, given)[1] == pytest.approx(worth)
    assert left == {(False, True), (False, False), (True, False)}  # whole windows, ends, and the unknown
    window = plan.choose(plan.points[0], np.empty(0, np.int64), 0, 0, 0)
    assert window.value == window.values.max() and np.isfinite(window.values).all()
    worst = np.full(1, window.values.argmin())
    assert plan.choose(plan.points[0], worst, 0, 0, 0).value == pytest.approx(
        max(window.value, window.values.min() + plan.margin)
    )


def test_what_a_method_loses_in_a_table_is_said():
    kept = Experience(Observations(states=2), 3, 2)
    kept.append(Trajectory(np.array([[0], [0], [0]]), np.array([0, 1]), np.array([0.0, 1.0]), False))

    class Worst(baselines.Method):
        def run(self, access):
            yield lambda view: 0

    plan = baselines.MethodPlanner(Worst()).prepare_table(plan_table(kept, (0.0, 1.0), 1.0))
    assert plan.values[:, 0].tolist() == [[0.0, 1.0]] * 3
    assert plan.promise(0, 0) == (False, "heuristic: in the table, the policy of the method earns 3 less than the best")


def test_with_pessimism_nothing_is_exact_that_was_not_tried():
    agent = learned(gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20), 3, pessimism=1.0)
    assert "with pessimism" in str(agent.explain(0, 0)) and not agent.explain(0, 0).exact


def test_a_table_says_why_its_values_may_not_be_exact():
    kept = Experience(Observations(states=3), 2, 2)
    kept.append(Trajectory(np.array([[0], [1], [2]]), np.array([0, 0]), np.array([0.0, 0.0]), True))
    plan = plan_table(kept, (0.0, 1.0), 0.0)
    assert plan.promise(0, 0) == (False, "optimistic: the best actions lead to some that were never tried")
    for first, last in ((1, 0), (1, 1)):  # from 0 to 1 by both actions, where one earns 1 at the end
        kept.append(Trajectory(np.array([[0], [1], [2]]), np.array([first, last]), np.array([0.0, last]), True))
    plan = plan_table(kept, (0.0, 1.0), 0.0)
    assert plan.promise(0, 0)[1].startswith("exact: ") and plan.values[0, 0].tolist() == [1.0, 1.0]
    kept.append(Trajectory(np.array([[0], [2], [2]]), np.array([0, 0]), np.array([0.0, 0.0]), False))
    plan = plan_table(kept, (0.0, 1.0), 0.0)
    assert plan.promise(0, 0) == (
        False,
        "1 transitions contradicted earlier ones: they are not deterministic",
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"grid": [[0.0]]}, "grid has 1 rows, but there are 2 actions"),
        ({"grid": [0.0, 1.0]}, r"grid is \[0.0, 1.0\]; pass None, or a list of lists of numbers"),
        ({"angles": 3}, "angles is 3; pass None, or a list of lists of numbers"),
    ],
)
def test_tables_of_numbers_among_the_settings_are_checked(settings, says):
    with pytest.raises(InputError, match=says):
        fpi.ModelFPI(Observations(size=1), actions=2, horizon=3, **settings)


def test_methods_that_cannot_plan_in_a_model_are_refused():
    with pytest.raises(InputError, match="no model answers an Oracle"):
        baselines.MethodPlanner(baselines.OracleSkip())
    env = gym.make("FrozenLake-v1", **LAKE)
    for wrong in (3, baselines.MethodPlanner):
        with pytest.raises(InputError, match="planner is .*; choose one of frozen, .*, or pass a planner"):
            fpi.ModelFPI.for_env(env, planner=wrong)
    for wrong in ({"steps": "a"}, {"centres": 0}):
        with pytest.raises(InputError, match="pass a whole number of at least 1"):
            baselines.MethodPlanner(baselines.CAPI(), **wrong)
    for method, says in (
        (baselines.BackwardSweep(), "no policy within 9 steps"),
        (baselines.OFULMethod(), "one stage"),
    ):
        with pytest.raises(InputError, match=says):
            _ = learned(env, 1, planner=baselines.MethodPlanner(method, steps=9)).plan


def test_a_window_is_kept_unless_another_is_clearly_better(slope_agent):
    plan = slope_agent.plan
    z = plan.points[0]
    best = plan.choose(z, np.empty(0, np.int64), 0, 0, 0)
    worst = np.full(12, int(np.argmin(best.values)))
    again = plan.choose(z, worst, 0, 0, 0)
    lost = (
        best.value
        - windows.imagine(
            plan.model.dynamics,
            plan.model.ends,
            plan.stages,
            z,
            0,
            worst,
            12,
            -np.inf,
            np.empty(12, np.int64),
            np.empty((13, 2)),
        )[0]
    )
    assert (again.actions[0] == worst[0]) == (lost <= plan.margin)


def test_an_untried_action_that_changes_nothing_is_not_repeated():
    """In Taxi most actions change nothing, and each would use up an episode."""
    agent = learned(gym.make("Taxi-v4"), 3)
    tried = set()
    for each in agent.datasets.episodes:
        pairs = list(zip(each.observations[:-1, 0].astype(int), each.actions.tolist(), strict=True))
        for at, (state, action) in enumerate(pairs):
            if (
                tried and (state, action) in pairs[:at] and (state, action) not in tried
            ):  # the first is played at random
                assert all((state, other) in {*pairs[:at], *tried} for other in range(6))
        tried |= set(pairs)
    assert len(tried) > 150


def test_tables_hold_the_best_policy():
    """Against all policies of a world drawn at random, once everything was tried."""
    rng = RNG(0)
    after, rewards = rng.integers(-1, 4, (4, 2)), rng.integers(-3, 4, (4, 2)).astype(float)
    kept = Experience(Observations(states=4), 3, 2)
    for s in range(4):
        for a in range(2):
            end = after[s, a] < 0
            kept.append(
                Trajectory(np.array([[s], [max(after[s, a], 0)]]), np.array([a]), rewards[s, a : a + 1], bool(end))
            )
    plan = plan_table(kept, (-3.0, 3.0), 0.0)

    def best(s, h):
        return 0.0 if h == 3 or s < 0 else max(rewards[s, a] + best(after[s, a], h + 1) for a in range(2))

    for s in range(4):
        assert plan.values[0, s].max() == pytest.approx(best(s, 0))
        assert plan.known(s) and plan.certain(s, 0)
    assert plan.contradictions == 0


def test_untried_actions_are_worth_what_pessimism_says():
    kept = Experience(Observations(states=3), 4, 2)
    kept.append(Trajectory(np.array([[0], [1], [0]]), np.array([0, 1]), np.array([1.0, -1.0]), False))
    for pessimism, unknown in ((0.0, 2.0), (0.5, 0.0), (1.0, -2.0)):
        plan = plan_table(kept, (-2.0, 2.0), pessimism)
        assert plan.values[1, 2].tolist() == [3 * unknown] * 2
        assert plan.values[0, 0, 1] == 4 * unknown
    assert not plan.known(0)
    kept.append(Trajectory(np.array([[0], [2]]), np.array([0]), np.array([1.0]), False))
    assert plan_table(kept, (-2.0, 2.0), 0.0).contradictions == 1


# The agent


@pytest.mark.parametrize(("name", "best"), [("CliffWalking-v1", -13.0), ("FrozenLake-v1", 1.0)])
def test_toy_text_is_solved_exactly(name, best):
    extra = {"is_slippery": False} if name.startswith("Frozen") else {}
    env = gym.make(name, max_episode_steps=40, **extra)
    agent = learned(env, 100)
    assert fpi.evaluate(agent, env, 1).mean == best
    why = agent.explain(env.reset(seed=0)[0], 0)
    assert why.exact and why.values.max() == best and "exact" in str(why)
    with pytest.raises(InputError, match="nothing to report"):
        agent.report()


def test_a_slope_is_climbed_in_a_few_episodes(slope_agent):
    env = slope()
    random = fpi.evaluate(fpi.baselines.Uniform(actions=3, horizon=60), env, 10).mean
    assert fpi.evaluate(slope_agent, env, 10).mean > random + 15
    why = slope_agent.explain(env.reset(seed=0)[0], 0)
    assert 0 < why.step_error < 1 and "at most twice the norm" in why.promise
    assert why.known and not why.exact and "heuristic" in why.promise and why.values.shape == (3,)
    far = slope_agent.explain(np.array([4.0, 4.0]), 0)
    assert not far.known and far.distance > 1 and np.isnan(far.values).all()
    assert "no model yet" in fpi.ModelFPI.for_env(env).explain(np.zeros(2), 0).promise


def test_the_report_is_on_data_that_the_model_had_not_seen(slope_agent):
    report = slope_agent.report()
    assert 0 <= report.known_share <= 1 and report.decision_error < 0.1 < 5 and report.window_error < 1
    assert report.unexplained < 0.1 and "are random" not in str(report)
    assert 0.5 < report.certified <= 1 and "explain states held for" in str(report)
    with pytest.raises(InputError, match="two episodes"):
        learned(slope(), 1, window=3).report()


def test_random_transitions_are_noticed():
    class Shaken(Slope):
        def step(self, action):
            _, *rest = super().step(action)
            if self.np_random.random() < 0.15:
                self.state = self.np_random.uniform(-1, 1, 2)
            return self.state.copy(), *rest

    with pytest.warns(fpi.errors.NondeterminismWarning):
        agent = learned(gym.wrappers.TimeLimit(Shaken(), 60), 4, window=3)
    assert agent.report().unexplained > 0.2 and "transitions are random" in str(agent.report())


def test_random_rewards_do_no_harm():
    agent = learned(slope(noise=0.2), 5, window=12)
    assert fpi.evaluate(agent, slope(), 10).mean > -45


def test_evaluation_plays_as_learning_does(slope_agent):
    """Decisions last, windows are kept; `predict` is asked about one state by itself."""
    env = slope()
    policy, (observation, _) = slope_agent.policy(), env.reset(seed=3)
    actions = []
    for _ in range(20):
        actions.append(policy(observation))
        observation, *_ = env.step(actions[-1])
    interval = slope_agent.plan.model.coordinates.interval
    assert interval > 1
    assert all(len(set(actions[i : i + interval])) == 1 for i in range(0, 20, interval))


def test_continuous_actions_become_a_grid():
    env = gym.make("Pendulum-v1", max_episode_steps=20)
    agent = fpi.ModelFPI.for_env(env, window=3)
    np.testing.assert_allclose(agent.action_grid, [[-2], [0], [2]], rtol=1e-6)
    history = agent.learn(env, 2, seed=0)
    assert len(history) == 2 and fpi.evaluate(agent, env, 1).returns[0] < 0
    wide = gym.spaces.Box(-1, 1, (4,))
    many = fpi.envs.small_grid(gym.wrappers.TransformAction(env, lambda a: a[:1], wide))
    assert many.shape == (9, 4)


def test_a_file_brings_back_an_agent_that_goes_on(slope_agent, tmp_path):
    slope_agent.save(tmp_path / "a.fpi")
    again = fpi.load(tmp_path / "a.fpi")
    twin = learned(slope(), 4, window=12)
    assert again.plan.targets.tobytes() == slope_agent.plan.targets.tobytes()
    assert again.learn(slope(), 2).returns.tolist() == twin.learn(slope(), 2).returns.tolist()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("actions", np.array([7]), "actions"),
        ("lengths", np.array([0]), "lengths"),
        ("rewards", np.array([np.nan]), "not finite"),
        ("observations", np.array([[np.nan, 0.0]]), "finite"),
    ],
)
def test_files_that_do_not_fit_are_refused(slope_agent, tmp_path, name, value, says):
    slope_agent.save(tmp_path / "a.fpi")
    tensors, meta = model_files.read(tmp_path / "a.fpi")
    tensors = {key: tensor.copy() for key, tensor in tensors.items()}
    tensors[f"data.{name}"][:1] = value
    model_files.write(tmp_path / "b.fpi", tensors, meta)
    with pytest.raises(ModelFileError, match=says):
        fpi.load(tmp_path / "b.fpi")


def test_what_does_not_fit_is_said():
    env = slope()
    with pytest.raises(InputError, match="scales has 3 numbers"):
        fpi.ModelFPI.for_env(env, scales=(1, 1, 1))
    with pytest.raises(InputError, match="pairs of entries"):
        fpi.ModelFPI.for_env(env, angles=((0, 2),))
    with pytest.raises(InputError, match="there is no preset"):
        fpi.ModelFPI.for_env(env, preset=True)
    with pytest.raises(EnvironmentMismatch, match="no time limit"):
        fpi.ModelFPI.for_env(Slope())
    with pytest.raises(InputError, match="for_env"):
        fpi.ModelFPI(3, actions=2, horizon=3)
    with pytest.raises(InputError, match="not both"):
        Observations(size=2, states=3)
    with pytest.raises(EnvironmentMismatch, match="not in reward_range"):
        learned(env, 1, reward_range=(0, 1))


def test_presets_make_agents():
    env = gym.make("CartPole-v1")
    agent = fpi.ModelFPI.for_env(env, preset=True, window=3)
    assert agent.settings.interval == 2 and agent.settings.window == 3


@pytest.mark.slow
def test_cartpole_is_solved_with_nothing_set_by_hand():
    env = gym.make("CartPole-v1")
    agent = fpi.ModelFPI.for_env(env)
    stopped = agent.learn(env, 12, seed=0, callback=lambda episode: episode.total_reward >= 500)
    assert len(stopped) < 12


def test_a_table_that_no_memory_holds_is_refused():
    with pytest.raises(InputError, match="10,000,000 states, 4 actions and 12 stages holds a value for each"):
        fpi.ModelFPI(Observations(states=10**7), actions=4, horizon=12)

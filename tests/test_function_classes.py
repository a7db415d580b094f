"""The function classes against explicit search and brute force, their constants against numbers worked out by hand."""

import doctest
import functools
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from test_eluder_dimension import greedy_sequence

import fpi
from benchmarks.function_classes import QUESTIONS, ball, looseness
from fpi import function_classes, testbeds
from fpi.errors import InputError
from fpi.function_classes import Aggregation, FiniteClass, GeneralizedLinear, LinearBall
from fpi.function_classes.confidence import most_gains

ROOT = Path(__file__).parents[1]


def linear(dim, radius=1.0, max_value=1.0, kind=LinearBall, **settings):
    made = kind(lambda observation: np.zeros((1, dim)), actions=1, radius=radius, max_value=max_value, **settings)
    made.rows(None, 0)
    return made


def filled(function_class, rows, targets, epsilon, beta):
    prefixes = function_class.prefixes(epsilon, beta)
    for row, target in zip(rows, targets, strict=True):
        prefixes.append(row, target)
    return prefixes


def sphere(rng, count, dim):
    rows = rng.normal(size=(count, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# A finite class, by explicit search


def search(values, targets, query, k, epsilon, beta):
    """Estimate, width, dependence and F_k at prefix k; values and query have a row per function."""
    data = [values[:, i] for i in range(k)]
    losses = [
        sum((column[f] - q) ** 2 for column, q in zip(data, targets[:k], strict=True)) for f in range(len(values))
    ]
    best = losses.index(min(losses))
    close = [f for f in range(len(values)) if sum((c[f] - c[best]) ** 2 for c in data) <= beta(k) or k == 0]
    width = max(query[f] - query[g] for f in close for g in close)
    dependent = all(
        abs(query[f] - query[g]) <= epsilon * (1 + 1e-9) or sum((c[f] - c[g]) ** 2 for c in data) > epsilon**2
        for f, g in itertools.combinations(range(len(values)), 2)
    )
    return query[best], width, dependent, close


@pytest.mark.parametrize("seed", range(6))
def test_finite_classes_agree_with_an_explicit_search(seed):
    rng = np.random.default_rng(seed)
    size, states, actions, count = int(rng.integers(2, 70)), 3, 2, 12
    tables = rng.random((size, states, actions))
    if seed % 2:
        tables = np.round(8 * tables) / 8  # ties, and differences of exactly epsilon
    epsilon, beta = 0.25, lambda k: 0.2 + 0.05 * k
    candidates = FiniteClass(tables, max_value=1.0)
    visits = [(int(rng.integers(states)), int(rng.integers(actions))) for _ in range(count)]
    targets = rng.random(count)
    rows = [candidates.rows(state, 0)[action] for state, action in visits]
    prefixes = candidates.prefixes(epsilon, beta)
    asked_early = {}
    for k in range(count + 1):
        for state in range(states):
            query = candidates.rows(state, 0)
            asked_early[k, state] = [ask(query, k) for ask in (prefixes.estimates, prefixes.widths, prefixes.dependent)]
        if k < count:
            prefixes.append(rows[k], targets[k])
    sizes = set()
    for (k, state), early in asked_early.items():
        query = candidates.rows(state, 0)
        late = [ask(query, k) for ask in (prefixes.estimates, prefixes.widths, prefixes.dependent)]
        for was, now in zip(early, late, strict=True):
            np.testing.assert_array_equal(was, now)
        for action in range(actions):
            found = search(np.array(rows).T, targets, tables[:, state, action], k, epsilon, beta)
            assert (late[0][action], late[1][action], late[2][action]) == found[:3]
            assert np.flatnonzero(prefixes.members(k)).tolist() == found[3]
            sizes.add(len(found[3]))
    assert len(sizes) > 1


class Plain:
    """Prefixes without a search of their own."""

    def __init__(self, prefixes):
        self.epsilon, self.widths, self.dependent = prefixes.epsilon, prefixes.widths, prefixes.dependent
        self.length = len(prefixes)

    def __len__(self):
        return self.length


def random_prefixes(kind, rng):
    count = 40
    if kind == "finite":
        candidates = FiniteClass(rng.random((30, 5, 3)), max_value=1.0)
        queries = [candidates.rows(state, 0) for state in range(5)]
        rows = [queries[rng.integers(5)][rng.integers(3)] for _ in range(count)]
        return filled(candidates, rows, rng.random(count), 0.4, lambda k: 0.3 + 0.01 * k), queries
    if kind == "cells":
        cells = Aggregation(lambda observation, stage: [0], cells=4, actions=1, max_value=1.0)
        queries = [rng.integers(4, size=(2, 1)).astype(float) for _ in range(5)]
        return filled(
            cells, rng.integers(4, size=(count, 1)), rng.random(count), 0.5, lambda k: 0.3 + 0.01 * k
        ), queries
    made = linear(2, radius=1.5, kind=kind)
    queries = [0.5 * sphere(rng, 3, 2) for _ in range(5)]
    beta = lambda k: 0.002 * (10 + k)  # noqa: E731
    return filled(made, sphere(rng, count, 2), rng.random(count), 0.25, beta), queries


@pytest.mark.parametrize("kind", ["finite", "cells", LinearBall, GeneralizedLinear])
def test_the_first_cover_is_the_first(kind):
    rng = np.random.default_rng(3)
    found = set()
    for _ in range(4):
        prefixes, queries = random_prefixes(kind, rng)
        for rows, after in itertools.product(queries, (0, 7, 25)):
            for allowed in (np.ones(len(rows), bool), np.arange(len(rows)) == 1):
                first = function_classes.first_cover(prefixes, rows, allowed, after)
                assert first == function_classes.first_cover(Plain(prefixes), rows, allowed, after)
                found.add(first)
    assert len(found) > 2  # 0 or None, 7, 25 and something between


def test_widths_can_rise_with_more_data():
    """Three constants 0, 0.5, 1. Target 0 leaves {0, 0.5}; after 1 as well 0.5 is best and alone; then beta rises."""
    constants = FiniteClass(np.array([[[0.0]], [[0.5]], [[1.0]]]), max_value=1.0)
    row = constants.rows(0, 0)
    prefixes = constants.prefixes(0.6, lambda k: [0.3, 0.3, 3.0][k - 1])
    for target in (0.0, 1.0, 0.5):
        prefixes.append(row[0], target)
    assert [prefixes.widths(row, k)[0] for k in range(4)] == [1.0, 0.5, 0.0, 1.0]
    assert prefixes.estimates(row, 1)[0] == 0 and prefixes.estimates(row, 2)[0] == 0.5
    every = np.ones(1, bool)
    # one datum is enough for dependence: only 0 and 1 are more than 0.6 apart, there too
    assert [prefixes.dependent(row, k)[0] for k in range(4)] == [False, True, True, True]
    assert [prefixes.first_cover(row, every, after) for after in range(4)] == [1, 1, 2, None]


def test_stretches_without_a_cover_are_skipped_and_nothing_else():
    """Widths of a ball fall, rise when beta jumps, and fall again; asked from every prefix on."""
    rng = np.random.default_rng(12)
    for dim in (1, 3):
        jumps = lambda k, dim=dim: (0.01, 0.6, 1.2, 1.2)[k // 60] / dim  # noqa: E731
        prefixes = filled(linear(dim), sphere(rng, 200, dim), np.zeros(200), 0.25, jumps)
        rows = sphere(rng, 2, dim)
        covered = [
            bool((prefixes.widths(rows, k) <= 0.25 * (1 + 1e-9)).all() and prefixes.dependent(rows, k).all())
            for k in range(201)
        ]
        assert np.abs(np.diff(covered)).sum() >= 3  # covered and not in turn
        for after in range(201):
            first = next((k for k in range(after, 201) if covered[k]), None)
            assert prefixes.first_cover(rows, np.ones(2, bool), after) == first


def test_two_thousand_functions():
    rng = np.random.default_rng(0)
    tables = rng.random((2_000, 10, 2))
    candidates = FiniteClass(tables, max_value=1.0)
    prefixes = candidates.prefixes(0.25, lambda k: 2.0)
    for _ in range(60):
        state, action = rng.integers(10), rng.integers(2)
        prefixes.append(candidates.rows(state, 0)[action], tables[17, state, action])
    every = np.ones(2, bool)
    covers = [prefixes.first_cover(candidates.rows(state, 0), every) for state in range(10)]
    assert all(cover is not None for cover in covers)
    for state, k in enumerate(covers):
        np.testing.assert_array_equal(prefixes.estimates(candidates.rows(state, 0), k), tables[17, state])


def test_functions_and_their_tables_are_the_same_class():
    rng = np.random.default_rng(1)
    tables = rng.random((4, 2, 3, 2))  # functions, stages, states, actions
    by_table = FiniteClass(tables, max_value=1.0)
    functions = [lambda state, stage, table=table: table[stage, state] for table in tables]
    by_function = FiniteClass(functions, actions=2, max_value=1.0, key=lambda state, stage: state)
    for stage, state in itertools.product(range(2), range(3)):
        np.testing.assert_array_equal(by_table.rows(state, stage), by_function.rows(state, stage))
        np.testing.assert_array_equal(by_table.rows(state, stage), by_table.rows(np.array([stage, state]), stage))
        assert by_table.key(state, stage) == by_function.key(state, stage) == state
    assert not hasattr(FiniteClass(functions, actions=2, max_value=1.0), "key")


# Brute force


def test_functions_of_the_observation_alone():
    for_stages = FiniteClass([lambda x, stage: [x, 0.5], lambda x, stage: [0.5, x]], max_value=1.0, actions=2)
    alone = FiniteClass([lambda x: [x, 0.5], lambda x: [0.5, x]], max_value=1.0, actions=2, key=lambda x: x)
    np.testing.assert_array_equal(alone.rows(0.25, 3), for_stages.rows(0.25, 3))
    assert alone.key(0.25, 3) == 0.25
    cells = Aggregation(lambda x: [x, 1 - x], cells=2, actions=2, max_value=1.0)
    np.testing.assert_array_equal(cells.rows(1, 3), [[1], [0]])
    with pytest.raises(InputError, match=r"must take \(observation\) or \(observation, stage\)"):
        FiniteClass([lambda: [0, 0]], max_value=1.0, actions=2)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", [LinearBall, GeneralizedLinear, Aggregation])
def test_brute_force_never_exceeds_an_answer_and_attains_the_exact_ones(kind, question):
    seen = looseness(kind, question, instances=6, seed=1)
    assert seen.min() >= 1 - 1e-6
    if kind.exact[question] in ("exact", "local minimum"):  # on these instances there is but one
        assert seen.max() <= 1 + 1e-6
    else:
        assert seen.max() > 1.01
    assert seen.max() < 5


def test_the_ridge_width_is_at_most_root_two_too_wide_for_its_pairs():
    """Pairs of F_k lie at most 2 sqrt(beta) apart on the data: the dual search with that distance is a finer bound."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        instance = ball(False, rng)
        wide = instance.prefixes.widths(instance.query, len(instance.rows))[0]
        finer = instance.function_class.prefixes(2 * math.sqrt(instance.beta), lambda k: 1.0)
        for row in instance.rows:
            finer.append(row, 0.0)
        dual = finer.differences(instance.query, len(instance.rows))[0]
        assert dual <= wide * (1 + 1e-9) <= math.sqrt(2) * dual * (1 + 1e-8)


def test_a_small_ridge_width_implies_dependence_if_beta_is_not_tiny():
    rng = np.random.default_rng(6)
    small = 0
    for kind in (LinearBall, GeneralizedLinear):
        made = linear(3, radius=1.0, kind=kind)
        for _ in range(200):
            epsilon, count = 2.0 ** -rng.integers(1, 4), int(rng.integers(1, 200))
            beta = epsilon**2 / 4 * rng.uniform(1, 1.2)
            rows = sphere(rng, count, 3)
            prefixes = filled(made, rows, np.zeros(count), epsilon, lambda k, beta=beta: beta)
            queries = sphere(rng, 5, 3) * rng.uniform(0.05, 1, (5, 1))
            narrow = prefixes.widths(queries, count) <= epsilon
            assert prefixes.dependent(queries[narrow], count).all()
            small += narrow.sum()
    assert small > 100


# Classes with a ball of parameters


def test_least_squares_in_the_ball():
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(20, 4)), rng.normal(size=20)
    inside = filled(linear(4, radius=10.0), rows, targets, 0.1, lambda k: 1.0).theta(20)
    np.testing.assert_allclose(inside, np.linalg.lstsq(rows, targets)[0], atol=1e-10)
    few = filled(linear(4, radius=10.0), rows[:2], targets[:2], 0.1, lambda k: 1.0).theta(2)
    np.testing.assert_allclose(few, np.linalg.pinv(rows[:2]) @ targets[:2], atol=1e-10)  # the shortest of many
    prefixes = filled(linear(4, radius=0.1), rows, targets, 0.1, lambda k: 1.0)
    edge = prefixes.theta(20)
    assert np.linalg.norm(edge) == pytest.approx(0.1)
    gradient = rows.T @ (rows @ edge - targets)
    np.testing.assert_allclose(gradient / np.linalg.norm(gradient), -edge / 0.1, atol=1e-8)  # straight out of the ball
    np.testing.assert_array_equal(prefixes.theta(0), 0)


def test_estimates_are_clipped_and_the_class_is_not():
    prefixes = filled(linear(1, radius=5.0, max_value=2.0), np.ones((3, 1)), [4.0, 4.0, 4.0], 0.5, lambda k: 1.0)
    assert prefixes.theta(3) == pytest.approx([4.0])
    np.testing.assert_array_equal(prefixes.estimates(np.array([[1.0], [-1.0], [0.25]]), 3), [2.0, 0.0, 1.0])
    assert prefixes.widths(np.array([[1.0]]), 0) == pytest.approx([10.0])  # 2 B, although top is 2


def lowered(kind, by):
    """A class with values from -by to 1 - by, and rows to ask it about."""
    ends = {"min_value": -by, "max_value": 1.0 - by}
    rng = np.random.default_rng(4)
    if kind is FiniteClass:
        tables = rng.random((6, 12, 1))
        made = FiniteClass(tables - by, **ends)
        return made, np.concatenate([made.rows(state, 0) for state in range(12)])
    if kind is Aggregation:
        made = Aggregation(lambda observation, stage: [0], cells=3, actions=1, **ends)
        return made, rng.integers(0, 3, (12, 1)).astype(float)
    return linear(3, radius=2.0, kind=GeneralizedLinear, **ends), sphere(rng, 12, 3)


@pytest.mark.parametrize("by", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", [FiniteClass, Aggregation, GeneralizedLinear])
def test_a_class_that_lies_lower_answers_the_same_and_lower(kind, by):
    (plain, rows), (low, low_rows) = lowered(kind, 0.0), lowered(kind, by)
    targets, beta = np.random.default_rng(5).random(12), lambda k: 0.1 * k
    above = filled(plain, rows, targets, 0.3, beta)
    below = filled(low, low_rows, targets - by, 0.3, beta)
    for k in (0, 1, 5, 12):
        np.testing.assert_allclose(below.estimates(low_rows, k), above.estimates(rows, k) - by, atol=1e-7)
        np.testing.assert_allclose(below.widths(low_rows, k), above.widths(rows, k), atol=1e-12)
        np.testing.assert_array_equal(below.dependent(low_rows, k), above.dependent(rows, k))
    assert low.log_covering(0.01) == pytest.approx(plain.log_covering(0.01))
    assert low.eluder_bound(0.1) == pytest.approx(plain.eluder_bound(0.1), abs=1)
    assert low.eluder_bound(1.0) == plain.eluder_bound(1.0)
    assert below.estimates(low_rows, 12).min() >= -by and below.estimates(low_rows, 12).max() <= 1 - by


def test_linear_estimates_are_clipped_at_both_ends():
    low = linear(1, radius=5.0, min_value=-2.0, max_value=0.5)
    prefixes = filled(low, np.ones((3, 1)), [-4.0] * 3, 0.5, lambda k: 1.0)
    np.testing.assert_array_equal(prefixes.estimates(np.array([[1.0], [-1.0], [0.25]]), 3), [-2.0, 0.5, -1.0])


@pytest.mark.parametrize("ends", [(0.0, 0.0), (1.0, 0.5), (math.nan, 1.0), (0.0, math.inf), ("0", 1.0)])
def test_the_ends_of_a_class_are_two_numbers_in_order(ends):
    with pytest.raises(InputError, match="pass two finite numbers, the smaller first"):
        Aggregation(lambda o: [0], cells=1, actions=1, min_value=ends[0], max_value=ends[1])


def test_a_straight_link_makes_a_linear_class():
    """0.5 + x / 4 with |theta| <= 2 is 0.5 + x with |theta| <= 0.5."""
    rng = np.random.default_rng(2)
    rows, targets, beta = sphere(rng, 30, 3), rng.random(30), lambda k: 0.01 * k
    bent = linear(3, radius=2.0, kind=GeneralizedLinear, link=(lambda x: 0.5 + x / 4, 0.25, 0.25))
    straight = linear(3, radius=0.5)
    one, other = filled(bent, rows, targets, 0.3, beta), filled(straight, rows, targets - 0.5, 0.3, beta)
    queries = sphere(rng, 10, 3)
    for k in (0, 1, 2, 10, 30):
        np.testing.assert_allclose(one.widths(queries, k), np.minimum(other.widths(queries, k), 1), rtol=1e-9)
        np.testing.assert_array_equal(one.dependent(queries, k), other.dependent(queries, k))
        np.testing.assert_allclose(one.estimates(queries, k), 0.5 + queries @ other.theta(k), atol=1e-7)
    assert bent.eluder_bound(0.1) == straight.eluder_bound(0.1)
    assert bent.log_covering(0.1) == straight.log_covering(0.1)


def test_a_logistic_fit_finds_the_parameter():
    world = testbeds.LogitBandit(d=3, K=4, radius=2.0, seed=1)
    glm = GeneralizedLinear(world.arms, radius=2.0)
    states = world.held_out(200)
    rows = [glm.rows(world.observation(state), 0)[0] for state in states]
    prefixes = filled(glm, rows, [world.mean(state, 0) for state in states], 0.25, lambda k: 1.0)
    np.testing.assert_allclose(prefixes.theta(200), 2.0 * world._arm_weights[0], atol=1e-6)
    for state in states[:10]:
        means = [world.mean(state, action) for action in range(4)]
        estimates = prefixes.estimates(glm.rows(world.observation(state), 0), 200)
        np.testing.assert_allclose(estimates, means, atol=1e-6)


@pytest.mark.parametrize("seed", [190, 215, 257])
def test_a_logistic_fit_that_must_shorten_its_steps(seed):
    """With few targets of 0 and 1 and a large ball full steps go too far; no point nearby may be better in the end."""
    rng = np.random.default_rng(seed)
    count, dim = int(rng.integers(3, 12)), int(rng.integers(1, 3))
    rows = sphere(rng, count, dim) * rng.uniform(0.2, 1, (count, 1))
    targets = (rng.random(count) < 0.5).astype(float)
    glm = linear(dim, radius=15.0, kind=GeneralizedLinear)
    loss = lambda theta: ((glm.link(rows @ theta) - targets) ** 2).sum()  # noqa: E731
    theta = glm.fit(rows, targets)
    ball = {"type": "ineq", "fun": lambda theta: 1 - theta @ theta / 15**2}
    assert loss(theta) <= minimize(loss, theta, constraints=ball, tol=1e-12).fun * (1 + 1e-6)


@pytest.mark.parametrize("kind", ["finite", "cells", LinearBall, GeneralizedLinear])
def test_answers_are_the_same_bits_whatever_was_asked_before_and_beside(kind):
    prefixes, queries = random_prefixes(kind, np.random.default_rng(8))
    again, _ = random_prefixes(kind, np.random.default_rng(8))
    for rows in queries:
        for k in (40, 3, 17, 0):
            for ask in ("estimates", "widths", "dependent"):
                together = getattr(prefixes, ask)(rows, k)
                alone = [getattr(again, ask)(rows[i : i + 1], k)[0] for i in reversed(range(len(rows)))]
                np.testing.assert_array_equal(together, alone[::-1])


def test_cells_by_hand():
    """Targets 0.1, 0.3 and then 1 in cell 2, beta = 0.02: means 0.1, 0.2, 1.4 / 3, and sqrt(0.02 / n) to both sides."""
    cells = Aggregation(lambda observation, stage: [observation, 0], cells=3, actions=2, max_value=1.0)
    np.testing.assert_array_equal(cells.rows(2, 0), [[2.0], [0.0]])
    rows = cells.rows(2, 0)
    prefixes = filled(cells, [rows[0]] * 3, [0.1, 0.3, 1.0], 0.25, lambda k: 0.02)
    expected = {0: (0.5, 1.0), 1: (0.1, 0.1 + math.sqrt(0.02)), 2: (0.2, 0.2), 3: (1.4 / 3, 2 * math.sqrt(0.02 / 3))}
    for k, (mean, width) in expected.items():
        assert prefixes.estimates(rows, k) == pytest.approx([mean, 0.5])
        assert prefixes.widths(rows, k) == pytest.approx([width, 1.0])
        assert prefixes.dependent(rows, k).tolist() == [k > 0, False]


# Constants


def test_beta_by_hand():
    """H = 2, N = 10, delta = 0.1, alpha = 0.01, k = 5.

    8 * 2 * ln(10 / 0.1) = 16 * 4.605170 = 73.682723, and 2 * 0.01 * 5 * (16 + sqrt(16 * ln(4 * 25 / 0.1)))
    = 0.1 * (16 + sqrt(16 * 6.907755)) = 0.1 * (16 + 10.513053) = 2.651305. With H / 4 for the noise the first is
    4 * 4.605170 = 18.420681, and the root sqrt(4 * 6.907755) = 5.256527: 0.1 * 21.256527 = 2.125653.
    """
    assert function_classes.beta(5, math.log(10), 2, 0.1, 0.01) == pytest.approx(73.682723 + 2.651305, abs=1e-5)
    assert function_classes.beta(5, math.log(10), 2, 0.1, 0.01, mode="tight") == pytest.approx(
        18.420681 + 2.125653, abs=1e-5
    )
    assert function_classes.beta(0, math.log(10), 2, 0.1, 0.01) == pytest.approx(73.682723, abs=1e-5)
    assert function_classes.beta(9, math.log(10), 2, 0.1, 0.0) == pytest.approx(73.682723, abs=1e-5)


def test_beta_of_less_noise_and_of_values_far_apart_by_hand():
    """H = 2, k = 5, N = 10, delta = 0.1, alpha = 0.01: C is H or more, and the variance proxy 2 noise^2."""
    rest = math.sqrt(8 * 2 / 16 * math.log(1_000))
    quiet = 8 * 2 / 16 * math.log(100) + 2 * 0.01 * 5 * (16 + rest)
    beta = functools.partial(function_classes.beta, 5, math.log(10), 2, 0.1, 0.01)
    assert beta(mode="tight", noise=0.25) == beta(mode="tight", noise=0.25, apart=1.5) == pytest.approx(quiet)
    assert beta(mode="tight", noise=0.25, apart=3.0) == pytest.approx(quiet + 2 * 0.01 * 5 * 8)
    assert beta(noise=0.25) == beta()  # the paper has its own
    assert function_classes.level_delta(0.1, 3, 2) == pytest.approx(0.1 / 48)


def test_the_shares_of_all_levels_and_stages_are_at_most_delta():
    failures = sum(2 * function_classes.level_delta(0.1, 4, level) for level in range(1, 10_000) for _ in range(4))
    assert 0.08 < failures < 0.1


def test_covering_numbers_by_hand():
    assert FiniteClass(np.zeros((7, 1, 1)), max_value=1.0).log_covering(0.1) == math.log(7)
    assert linear(3, radius=2.0).log_covering(0.01) == pytest.approx(3 * math.log(401))  # 1 + 2 * 2 / 0.01
    glm = linear(3, radius=2.0, kind=GeneralizedLinear)
    assert glm.log_covering(0.01) == pytest.approx(3 * math.log(101))  # slopes of at most 1/4
    cells = Aggregation(lambda observation, stage: [0], cells=4, actions=1, max_value=1.0)
    assert cells.log_covering(0.1) == pytest.approx(4 * math.log(5))  # values 0.1, 0.3, 0.5, 0.7, 0.9
    assert cells.log_covering(0.5) == 0


def test_the_slopes_of_the_logistic_link():
    glm = linear(1, radius=2.0, kind=GeneralizedLinear, max_value=3.0)
    x = np.linspace(-2, 2, 4001)
    slopes = np.diff(glm.link(x)) / np.diff(x)
    assert slopes.min() == pytest.approx(glm.slopes[0], rel=1e-2) and slopes.min() >= glm.slopes[0]
    assert slopes.max() == pytest.approx(glm.slopes[1]) and slopes.max() <= glm.slopes[1]


def test_dataset_bound_by_hand():
    """dim = 3, epsilon = 1/2, beta = 1: (1 + 16) * 3 + 3 = 54.

    With beta_D = 1 + D / 100 the lemma reads D <= 54 + 0.48 D, that is D <= 103.8.
    """
    any_class = FiniteClass(np.zeros((2, 1, 1)), max_value=1.0)
    assert function_classes.dataset_bound(any_class, 0.5, lambda k: 1.0, 10_000, dim=3) == 54
    assert function_classes.dataset_bound(any_class, 0.5, lambda k: 1 + k / 100, 10_000, dim=3) == 103
    assert (
        function_classes.dataset_bound(any_class, 0.5, lambda k: 1 + k / 100, 60, dim=3) == 60
    )  # one datum an episode
    assert function_classes.dataset_bound(any_class, 0.5, lambda k: 1.0, 10_000) == 18  # one pair of functions: dim 1
    with pytest.raises(InputError, match="dim="):
        function_classes.dataset_bound(object(), 0.5, lambda k: 1.0, 100)


def test_most_gains_by_hand():
    """dim = 2, gain = 1/2, ratio = 4: 1.5^(n/2) <= 1 + 2 n holds for n = 13 (13.97 <= 27) ... n = 17 (31.4 <= 35), and
    fails for n = 18 (38.4 > 37)."""
    assert most_gains(2, 0.5, 4.0) == 17
    assert most_gains(2, 0.5, 0.4) == 0
    closed_form = 3 * 4 * math.e / (math.e - 1) * math.log(3 + 3 * (2 / 0.1) ** 2) + 1  # Russo and Van Roy, d = 4
    assert 0.2 * closed_form < linear(4).eluder_bound(0.1) <= closed_form


@pytest.mark.parametrize("kind", ["finite", "cells", LinearBall, GeneralizedLinear])
def test_no_dataset_outgrows_its_bound(kind):
    """Whatever is not covered is stored, from an endless supply; the bound holds."""
    rng = np.random.default_rng(4)
    epsilon, beta = 0.5, lambda k: 0.1 + 0.001 * k
    if kind == "finite":
        made = FiniteClass(rng.random((6, 40, 1)), max_value=1.0)
        supply = [made.rows(state, 0) for state in range(40)] * 30
    elif kind == "cells":
        made = Aggregation(lambda observation, stage: [0], cells=3, actions=1, max_value=1.0)
        supply = [np.array([[float(rng.integers(3))]]) for _ in range(500)]
    else:
        made = linear(2, radius=0.7 if kind is LinearBall else 3.0, kind=kind)
        supply = list(sphere(rng, 4_000, 2)[:, None])
    prefixes = made.prefixes(epsilon, beta)
    for rows in supply:
        n = len(prefixes)
        if not (prefixes.widths(rows, n)[0] <= epsilon and prefixes.dependent(rows, n)[0]):
            prefixes.append(rows[0], float(rng.random()))
    bound = function_classes.dataset_bound(made, epsilon, beta, len(supply))
    assert 0 < len(prefixes) <= bound <= len(supply)


@pytest.mark.parametrize("mode", ["paper", "tight"])
def test_the_truth_stays_in_every_confidence_set(mode):
    """Bernoulli rewards, 40 candidates, delta = 0.2; the tight radius is a quarter and still fails in no run of 100."""
    rng = np.random.default_rng(9)
    tables = rng.random((40, 5, 1))
    candidates = FiniteClass(tables, max_value=1.0)
    beta = lambda k: function_classes.beta(k, math.log(40), 1, 0.2, 0.0, mode=mode)  # noqa: E731
    lost = excluded = 0
    for _ in range(100):
        prefixes = candidates.prefixes(0.25, beta)
        for state in rng.integers(5, size=200):
            prefixes.append(candidates.rows(state, 0)[0], float(rng.random() < tables[7, state, 0]))
        members = np.array([prefixes.members(k) for k in range(201)])
        lost += not members[:, 7].all()
        excluded += int((~members[-1]).sum())
    assert lost == 0
    assert excluded > (100 if mode == "paper" else 1_500)


# Shapes, ranges, and what an error leaves behind


TABLES = np.array([[[0.1, 0.9]], [[0.5, 0.5]]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FiniteClass(TABLES * 3, max_value=1.0), "not from min_value=0 to max_value=1"),
        (lambda: FiniteClass(TABLES * np.nan, max_value=1.0), "not from min_value=0 to max_value=1"),
        (lambda: FiniteClass(TABLES[0], max_value=1.0), "tables have the shape"),
        (lambda: FiniteClass(TABLES, max_value=1.0, actions=3), "tables have the shape"),
        (lambda: FiniteClass(TABLES, max_value=-1.0), "min_value is 0.0 and max_value -1.0; pass two finite"),
        (lambda: FiniteClass([], max_value=1.0, actions=2), "at least one function"),
        (lambda: FiniteClass([1, 2], max_value=1.0, actions=2), "at least one function"),
        (lambda: FiniteClass([lambda o, s: [0.1]], max_value=1.0), "actions is None"),
        (
            lambda: FiniteClass([lambda o, s: [0.1]], max_value=1.0, actions=2).rows(0, 0),
            r"function 0 gave the shape \(1,\)",
        ),
        (lambda: FiniteClass([lambda o, s: [0.1, 7.0]], max_value=1.0, actions=2).rows(0, 0), "has the value 7.0"),
        (lambda: FiniteClass(TABLES, max_value=1.0).rows(1, 0), "state 1 at stage 0 is not in the tables"),
        (lambda: FiniteClass(TABLES[:, None], max_value=1.0).rows(0.5, 0), "number of a state"),
        (lambda: FiniteClass(TABLES, max_value=1.0).prefixes(0.0, lambda k: 1.0), "epsilon is 0.0"),
        (lambda: LinearBall(lambda o: [[1.0]], radius=1.0, max_value=1.0), "pass actions="),
        (
            lambda: LinearBall(lambda o: [[1.0]], radius=1.0, max_value=1.0, actions=1).log_covering(0.1),
            "call `rows` once",
        ),
        (lambda: linear(300).prefixes(0.1, lambda k: 1.0), "300 features are more than"),
        (lambda: linear(2, radius=math.inf), "radius is inf"),
        (lambda: linear(2, kind=GeneralizedLinear, link="probit"), "link is 'probit'"),
        (lambda: linear(2, kind=GeneralizedLinear, link=(np.tanh, 0.1, 1.0)), "outside of min_value=0 to max_value"),
        (lambda: linear(2, kind=GeneralizedLinear, link=(lambda x: 0.5 + x / 4, 0.3, 0.4)), "must have slopes"),
        (lambda: linear(2, kind=GeneralizedLinear, link=(lambda x: 0.5, 0.3, 0.4)), "must have slopes"),
        (lambda: Aggregation(lambda o, s: [3], cells=3, actions=1, max_value=1.0).rows(0, 0), "from 0 to 2"),
        (lambda: Aggregation(lambda o, s: [0.5], cells=3, actions=1, max_value=1.0).rows(0, 0), "whole numbers"),
        (lambda: Aggregation(lambda o, s: [0], cells=0, actions=1, max_value=1.0), "cells is 0"),
        (lambda: function_classes.beta(1, 1.0, 1, 2.0, 0.1), "0 < delta < 1"),
        (lambda: function_classes.beta(1, math.inf, 1, 0.1, 0.1), "finite ln N"),
        (lambda: function_classes.beta(1, 1.0, 1, 0.1, 0.1, mode="loose"), "mode is 'loose'"),
        (lambda: function_classes.from_config({"type": "Nonsense", "features": {}}), "unknown|does not fit"),
        (lambda: function_classes.from_config({}), "does not fit"),
    ],
)
def test_bad_input_is_refused_with_a_reason(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("kind", ["finite", "cells", LinearBall, GeneralizedLinear])
def test_a_refused_datum_leaves_no_trace(kind):
    prefixes, queries = random_prefixes(kind, np.random.default_rng(2))
    untouched, _ = random_prefixes(kind, np.random.default_rng(2))
    row = queries[0][0]
    for bad, target in ((row, math.nan), (row[:-1], 0.5), (row * np.nan, 0.5), (np.append(row, 1.0), 0.5)):
        with pytest.raises(InputError, match="a datum"):
            prefixes.append(bad, target)
    prefixes._beta = lambda k: math.nan
    with pytest.raises(InputError, match="beta"):
        prefixes.append(row, 0.5)
    for k in (-1, 41):
        for ask in (prefixes.estimates, prefixes.widths, prefixes.dependent):
            with pytest.raises(InputError, match="there are 40 data"):
                ask(queries[0], k)
    if kind in (LinearBall, GeneralizedLinear):
        prefixes._beta = lambda k: 1e-9
        with pytest.raises(InputError, match="never fall"):
            prefixes.append(row, 0.5)
    prefixes._beta = untouched._beta
    for each in (prefixes, untouched):
        each.append(row, 0.5)
    assert len(prefixes) == 41
    for rows in queries:
        for ask in ("estimates", "widths", "dependent"):
            np.testing.assert_array_equal(getattr(prefixes, ask)(rows, 41), getattr(untouched, ask)(rows, 41))


def test_descriptions_make_the_same_class_again():
    tiles = fpi.TileCoding([0.0], [1.0], tiles=4, tilings=2, actions=2)
    for made in (
        FiniteClass(TABLES, max_value=1.0),
        LinearBall(tiles, radius=2.0, min_value=-1.0, max_value=3.0),
        GeneralizedLinear(tiles, radius=2.0, max_value=3.0),
    ):
        again = function_classes.from_config(made.to_config())
        ends = again.min_value, again.max_value, again.actions
        assert type(again) is type(made) and ends == (made.min_value, made.max_value, made.actions)
        np.testing.assert_array_equal(again.rows(0, 0), made.rows(0, 0))
        assert again.key(0, 0) == made.key(0, 0)
        assert again.to_config() == made.to_config() and again.eluder_bound(0.1) == made.eluder_bound(0.1)
        assert isinstance(made, function_classes.FunctionClass)
    assert linear(2).to_config() is None
    assert FiniteClass(np.zeros((1_000, 101, 1)), max_value=1.0).to_config() is None
    assert FiniteClass([lambda o, s: [0.1]], actions=1, max_value=1.0).to_config() is None
    assert GeneralizedLinear(tiles, radius=1.0, link=(lambda x: 0.5 + x / 4, 0.25, 0.25)).to_config() is None


def test_the_example_of_the_module_runs():
    result = doctest.testmod(function_classes)
    assert result.attempted > 0 and result.failed == 0


# The class of one's own that the documentation shows


def test_the_class_in_the_documentation():
    scope = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs/function_classes.md").read_text(), re.DOTALL):
        exec(block, scope)
    shape = lambda state, stage: np.array([0.2, 0.5, 1.0])[state] * np.array([1.0, 0.7])  # noqa: E731
    heights = scope["Height"](shape, actions=2, max_value=1.0)
    assert isinstance(heights, function_classes.FunctionClass)
    # a fine list of heights answers nearly the same, and as a smaller class never more
    fine = FiniteClass(
        np.array([[c * shape(state, 0) for state in range(3)] for c in np.linspace(0, 1, 401)]), max_value=1.0
    )
    beta, rng = lambda k: 0.02 + 0.001 * k, np.random.default_rng(0)
    prefixes, listed = heights.prefixes(0.25, beta), fine.prefixes(0.25, beta)
    for _ in range(30):
        state, action = int(rng.integers(3)), int(rng.integers(2))
        target = 0.6 * shape(state, 0)[action] + rng.normal() / 10
        prefixes.append(heights.rows(state, 0)[action], target)
        listed.append(fine.rows(state, 0)[action], target)
    for k, state in itertools.product(range(31), range(3)):
        rows, values = heights.rows(state, 0), fine.rows(state, 0)
        np.testing.assert_allclose(prefixes.widths(rows, k), listed.widths(values, k), atol=0.01)
        assert (prefixes.dependent(rows, k) <= listed.dependent(values, k)).all()
        if k > 0:
            np.testing.assert_allclose(prefixes.estimates(rows, k), listed.estimates(values, k), atol=0.002)
    covers = [function_classes.first_cover(prefixes, heights.rows(state, 0), np.ones(2, bool)) for state in range(3)]
    assert covers[0] == 0 and covers[1] > 0 and covers[2] >= covers[1]
    made = [len(greedy_sequence(heights, np.linspace(0, 1, 101)[:, None], epsilon)) for epsilon in (0.5, 0.05)]
    assert 0 < made[0] <= heights.eluder_bound(0.5) and 1 < made[1] <= heights.eluder_bound(0.05)
    assert len(prefixes) <= function_classes.dataset_bound(heights, 0.25, beta, 1_000)

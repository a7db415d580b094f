"""The eluder dimension where the answer is known, against a search without any cleverness, and its bounds."""

import itertools

import numpy as np
import pytest

from fpi.errors import InputError
from fpi.function_classes import Aggregation, FiniteClass, LinearBall, eluder_dimension


def independent(values, chosen, point, threshold):
    """The definition: two functions, close on the chosen points, differ at this one."""
    pairs = itertools.combinations(values, 2)
    return any(
        sum((f[x] - g[x]) ** 2 for x in chosen) <= threshold**2 and abs(f[point] - g[point]) > threshold
        for f, g in pairs
    )


def plain_dimension(values, epsilon, thresholds):
    """All sequences of distinct points, all thresholds that are given."""
    points = range(values.shape[1])
    best = 0
    for threshold in thresholds:
        if threshold < epsilon:
            continue
        layer = [()]
        while layer:
            best = max(best, len(layer[0]))
            layer = [
                (*chosen, x)
                for chosen in layer
                for x in points
                if x not in chosen and independent(values, chosen, x, threshold)
            ]
    return best


def greedy_sequence(function_class, rows, epsilon):
    """Rows, each independent of those before it; of the independent ones that where the class can differ least."""
    assert function_class.exact["dependent"] == "exact"
    prefixes = function_class.prefixes(epsilon, lambda k: 1.0)
    points = []
    for point in np.argsort(prefixes.widths(rows, 0), kind="stable"):
        if not prefixes.dependent(rows[[point]], len(points))[0]:
            prefixes.append(rows[point], 0.0)
            points.append(int(point))
    return points


def test_disjoint_indicators():
    """f_i = 1 at point i only. Two of them can only be told apart where one is 1.

    An element i needs another j of which nothing was seen either, so the last point is no surprise: n - 1. With the
    function 0 as partner it is one: n. Both are |F| - 1.
    """
    for n in (2, 3, 5):
        indicators = np.eye(n)
        for epsilon in (0.1, 0.99):
            found = eluder_dimension(indicators, epsilon)
            assert (len(found), found.exact) == (n - 1, True)
            assert len(eluder_dimension(np.vstack([indicators, np.zeros(n)]), epsilon)) == n
        assert len(eluder_dimension(indicators, 1.0)) == 0  # no two functions differ by more than 1


def test_a_class_of_one_function_cannot_surprise():
    assert len(eluder_dimension(np.random.default_rng(0).random((1, 6)), 0.01)) == 0
    assert FiniteClass(np.ones((1, 3, 2)), max_value=1.0).eluder_bound(0.01) == 0


def test_three_functions_can_surprise_three_times():
    """Pairs, not functions, are used up: the dimension may exceed |F| - 1.

    In units of epsilon the differences (ab, bc, ca) are (1.2, -0.6, -0.6) at the first point, and turned round at the
    others. The pair that surprises has seen at most 0.36 + 0.36 <= 1 before.
    """
    a, b, c = np.array([0.0, 0.6, 1.2]), np.array([1.2, 0.0, 0.6]), np.array([0.6, 1.2, 0.0])
    assert len(eluder_dimension(np.array([a, b, c]), 1.0)) == 3
    assert plain_dimension(np.array([a, b, c]), 1.0, [1.0]) == 3


def test_a_threshold_above_epsilon_can_be_what_makes_a_sequence_long():
    """Both points differ by 1; at small thresholds the 0.5 seen at the other point is too much."""
    values = np.array([[0.0, 0.0], [1.0, 0.5], [0.5, 1.0]])
    assert plain_dimension(values, 0.4, [0.4]) < len(eluder_dimension(values, 0.4)) == 2
    found = eluder_dimension(values, 0.4)
    just_below = found.below * (1 - 1e-9)
    for i, point in enumerate(found.points):
        assert independent(values, found.points[:i], point, just_below)


@pytest.mark.parametrize("seed", range(25))
def test_the_search_finds_what_a_plain_one_finds(seed):
    rng = np.random.default_rng(seed)
    values = rng.random((int(rng.integers(2, 5)), int(rng.integers(2, 5))))
    if seed % 2:
        values = np.round(4 * values) / 4  # ties
    epsilon = float(rng.uniform(0.05, 0.6))
    # all numbers at which anything changes: differences, and roots of sums over sets of points
    first, second = np.triu_indices(len(values), 1)
    squares = (values[first] - values[second]) ** 2
    sets = [list(s) for r in range(1, values.shape[1] + 1) for s in itertools.combinations(range(values.shape[1]), r)]
    changes = np.unique(np.concatenate([[epsilon], *[np.sqrt(squares[:, s].sum(axis=1)) for s in sets]]))
    between = (changes[1:] + changes[:-1]) / 2
    found = eluder_dimension(values, epsilon)
    assert found.exact
    assert len(found) == plain_dimension(values, epsilon, [*changes, *between])
    for i, point in enumerate(found.points):
        assert independent(values, found.points[:i], point, found.below * (1 - 1e-9))
    tables = FiniteClass(values.reshape(len(values), -1, 1), max_value=1.0)
    assert len(found) <= tables.eluder_bound(epsilon)


def test_a_search_that_gives_up_says_so():
    values = np.random.default_rng(0).random((8, 12))
    stopped = eluder_dimension(values, 0.1, effort=20)
    assert not stopped.exact and 0 < len(stopped) <= len(eluder_dimension(values, 0.1, effort=3_000))


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_linear_functions_have_about_as_many_surprises_as_dimensions(dim):
    rng = np.random.default_rng(dim)
    rows = rng.normal(size=(300, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    ball = LinearBall(lambda observation: rows[:1], actions=1, radius=1.0, max_value=1.0)
    ball.rows(None, 0)
    found = greedy_sequence(ball, rows, 0.5)
    assert dim <= len(found) <= 4 * dim and len(found) <= ball.eluder_bound(0.5)
    prefixes = ball.prefixes(0.5, lambda k: 1.0)
    for point in found:
        assert not prefixes.dependent(rows[[point]], len(prefixes))[0]
        prefixes.append(rows[point], 0.0)
    assert prefixes.dependent(rows, len(prefixes)).all()
    # a finite part of the ball: the unit vectors and their negatives, seen along the axes
    corners = np.vstack([np.eye(dim), -np.eye(dim)])
    assert len(eluder_dimension(corners @ np.eye(dim), 0.5)) == dim


def test_short_features_first_surprise_more_often():
    """The dimension of a ball is not just d: lengths that double surprise each time."""
    rows = 0.26 * 2.0 ** np.arange(-4, 2)[:, None]
    ball = LinearBall(lambda observation: rows[:1], actions=1, radius=1.0, max_value=1.0)
    ball.rows(None, 0)
    found = greedy_sequence(ball, rows, 2.0**-5)
    assert len(found) == 6 <= ball.eluder_bound(2.0**-5)


def test_cells_surprise_once_each():
    cells = Aggregation(lambda observation, stage: [0], cells=4, actions=1, max_value=1.0)
    rows = np.array([[0.0], [1.0], [1.0], [3.0], [2.0], [0.0]])
    assert len(greedy_sequence(cells, rows, 0.3)) == 4 == cells.eluder_bound(0.3)
    assert len(greedy_sequence(cells, rows, 1.0)) == 0 == cells.eluder_bound(1.0)


def test_bad_input():
    for values in (np.ones(3), np.ones((0, 2)), np.array([[np.nan, 1.0]])):
        with pytest.raises(InputError, match="values have the shape"):
            eluder_dimension(values, 0.5)
    with pytest.raises(InputError, match="epsilon is 0"):
        eluder_dimension(np.eye(2), 0)

"""PrefixRidge against what a ridge regression must do, against mpmath, and against scipy."""

import os
import subprocess
import sys
from typing import NamedTuple

import hypothesis.extra.numpy as hnp
import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fpi
from fpi.errors import InputError

TIE = 1e-9
RIDGES = [1e-8, 1e-6, 1e-3, 0.1, 1.0]
properties = settings(max_examples=60, deadline=None)


class Problem(NamedTuple):
    features: np.ndarray
    targets: np.ndarray
    queries: np.ndarray
    ridge: float


@st.composite
def problems(draw, max_data=10, ridges=RIDGES):
    """Small regressions whose numbers hypothesis chooses: zeros, repetitions, dependent rows are frequent."""
    dim = draw(st.integers(1, 5))
    n, m = draw(st.integers(0, max_data)), draw(st.integers(1, 4))
    entries = st.floats(-1, 1, width=32, allow_subnormal=False)
    return Problem(
        draw(hnp.arrays(np.float64, (n, dim), elements=entries)),
        draw(hnp.arrays(np.float64, n, elements=entries)) * 3,
        draw(hnp.arrays(np.float64, (m, dim), elements=entries)),
        draw(st.sampled_from(ridges)),
    )


def random_problem(seed, n, dim, m, ridge, *, rank=None, spread=None):
    """Rows of norm 1 in all directions, or of a lower rank, or nearly parallel to each other."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n + m, rank or dim)) @ rng.normal(size=(rank or dim, dim))
    if spread:
        rows = rng.normal(size=dim) + spread * rows
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Problem(rows[:n], rng.uniform(0, 3, n), rows[n:], ridge)


def fit(problem, **options):
    return extend(fpi.PrefixRidge(problem.queries.shape[1], problem.ridge, **options), problem)


def extend(regression, problem):
    for phi, target in zip(problem.features, problem.targets, strict=True):
        regression.append(phi, target)
    return regression


def sparse(rows, nnz=None):
    """Rows as (indices, values), all with the same number of entries; zeros fill up."""
    order = np.argsort(rows == 0, axis=1, kind="stable")[:, : nnz or rows.shape[1]]
    return order.astype(np.int32), np.take_along_axis(rows, order, axis=1)


def mp_answers(problem, k):
    """Exact width and estimate of every query on the first k data, to 60 digits."""
    with mpmath.workdps(60):
        dim = problem.queries.shape[1]
        rows = mpmath.matrix(problem.features[:k].tolist()) if k else mpmath.zeros(0, dim)
        sigma = mpmath.mpf(problem.ridge) * mpmath.eye(dim) + (rows.T * rows if k else mpmath.zeros(dim))
        factor = mpmath.cholesky(sigma)
        moment = rows.T * mpmath.matrix(problem.targets[:k].tolist()) if k else mpmath.zeros(dim, 1)
        half = mpmath.lu_solve(factor, moment)
        whitened = [mpmath.lu_solve(factor, mpmath.matrix(phi.tolist())) for phi in problem.queries]
        return [mpmath.norm(w) for w in whitened], [(w.T * half)[0] for w in whitened]


def longdouble_answers(problem, k):
    """The same for larger problems, by Householder QR of [sqrt(ridge) I, 0; Phi, q] in long double."""
    dim = problem.queries.shape[1]
    matrix = np.zeros((dim + k, dim + 1), np.longdouble)
    np.fill_diagonal(matrix[:dim, :dim], np.sqrt(np.longdouble(problem.ridge)))
    matrix[dim:, :dim] = problem.features[:k]
    matrix[dim:, dim] = problem.targets[:k]
    for j in range(dim):
        mirror = matrix[j:, j].copy()
        mirror[0] += np.copysign(np.sqrt(mirror @ mirror), mirror[0])
        matrix[j:, j:] -= np.outer(mirror, 2 * (mirror @ matrix[j:, j:]) / (mirror @ mirror))
    whitened = problem.queries.T.astype(np.longdouble)  # R^-T phi, by forward substitution
    for j in range(dim):
        whitened[j] = (whitened[j] - matrix[:j, j] @ whitened[:j]) / matrix[j, j]
    return np.sqrt((whitened**2).sum(axis=0)), matrix[:dim, dim] @ whitened


def assert_accurate(problem, k, widths, values, exact):
    """The promise: 1e-6 relative, 1e-5 below a ridge of 1e-6; estimates on the scale of the targets."""
    tolerance = 1e-6 if problem.ridge >= 1e-6 else 1e-5
    size = np.abs(problem.targets[:k]).max(initial=0.0)
    for width, value, exact_width, exact_value in zip(widths, values, *exact, strict=True):
        assert abs(width - exact_width) <= tolerance * exact_width
        assert abs(value - exact_value) <= tolerance * (abs(exact_value) + size)


def same_bits(a, b):
    assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


# --- what any ridge regression does --------------------------------------------------------------------


@properties
@given(problems())
def test_before_any_datum_the_width_is_the_scaled_norm_and_the_estimate_zero(problem):
    regression = fit(problem)
    norms = np.linalg.norm(problem.queries, axis=1) / np.sqrt(problem.ridge)
    np.testing.assert_allclose(regression.widths(problem.queries)[0], norms, rtol=1e-14)
    assert not regression.values(problem.queries)[0].any()
    assert len(regression) == len(problem.targets)
    assert regression.widths(problem.queries).shape == (len(regression) + 1, len(problem.queries))


@properties
@given(problems())
def test_widths_never_rise(problem):
    widths = fit(problem).widths(problem.queries)
    assert (widths[1:] <= widths[:-1] * (1 + 1e-10)).all()


@properties
@given(problems(ridges=[1e-3, 0.1, 1.0]))
def test_data_twice_with_twice_the_ridge_leaves_theta(problem):
    once = fit(problem)
    features, targets = np.repeat(problem.features, 2, axis=0), np.repeat(problem.targets, 2)
    twice = fit(Problem(features, targets, problem.queries, 2 * problem.ridge))
    np.testing.assert_allclose(twice.values(problem.queries)[::2], once.values(problem.queries), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(2) * twice.widths(problem.queries)[::2], once.widths(problem.queries), rtol=1e-8)


@properties
@given(problems(ridges=[1e-3, 0.1, 1.0]), st.integers(2, 4), st.randoms(use_true_random=False))
def test_blocks_equal_the_joint_regression(problem, blocks, random):
    n, dim = problem.features.shape
    block_of = [random.randrange(blocks) for _ in range(n)]
    asked = [random.randrange(blocks) for _ in problem.queries]

    def placed(rows, where):
        wide = np.zeros((len(rows), blocks, dim))
        wide[np.arange(len(rows)), where] = rows
        return wide.reshape(len(rows), blocks * dim)

    separate = fpi.PrefixRidge(dim, problem.ridge, blocks=blocks)
    for phi, target, block in zip(problem.features, problem.targets, block_of, strict=True):
        separate.append(phi, target, block)
    queries = placed(problem.queries, asked)
    joint = fit(problem._replace(features=placed(problem.features, block_of), queries=queries))
    np.testing.assert_allclose(separate.widths(problem.queries, asked), joint.widths(queries), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(separate.values(problem.queries, asked), joint.values(queries), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(separate.log_dets, joint.log_dets, rtol=1e-9, atol=1e-12)
    for epsilon in (0.1, 0.5, 2.0):
        assert separate.first_cover(problem.queries, epsilon, asked) == joint.first_cover(queries, epsilon)


@pytest.mark.parametrize(("dim", "n"), [(1, 3), (4, 12), (30, 200)])
def test_recovers_a_planted_theta(dim, n):
    problem = random_problem(5, n, dim, 6, ridge=1e-8)
    theta = np.random.default_rng(1).normal(size=dim)
    regression = fit(problem._replace(targets=problem.features @ theta))
    np.testing.assert_allclose(regression.values(problem.queries)[-1], problem.queries @ theta, atol=1e-5)


@properties
@given(problems(ridges=[1e-3, 0.1, 1.0]))
def test_log_dets_are_log_determinants(problem):
    dim = problem.queries.shape[1]
    expected = [
        np.linalg.slogdet(np.eye(dim) + problem.features[:k].T @ problem.features[:k] / problem.ridge)[1]
        for k in range(len(problem.targets) + 1)
    ]
    np.testing.assert_allclose(fit(problem).log_dets, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 1.0])
def test_agrees_with_scipy_solve(ridge):
    problem = random_problem(2, 50, 7, 5, ridge)
    regression = fit(problem)
    for k in range(51):
        rows = problem.features[:k]
        sigma = ridge * np.eye(7) + rows.T @ rows
        theta = scipy.linalg.solve(sigma, rows.T @ problem.targets[:k], assume_a="pos")
        solved = scipy.linalg.solve(sigma, problem.queries.T, assume_a="pos")
        widths = np.sqrt(np.einsum("md,dm->m", problem.queries, solved))
        np.testing.assert_allclose(regression.values(problem.queries)[k], problem.queries @ theta, atol=1e-9)
        np.testing.assert_allclose(regression.widths(problem.queries)[k], widths, rtol=1e-9)


# --- an answer is a function of its prefix and its query alone -----------------------------------------


@properties
@given(problems(), problems())
def test_the_answer_at_k_does_not_change_when_data_is_appended(problem, more):
    dim = min(problem.queries.shape[1], more.queries.shape[1])
    queries = problem.queries[:, :dim]
    regression = fit(problem._replace(features=problem.features[:, :dim], queries=queries))
    n = len(regression)
    before = regression.widths(queries), regression.values(queries), regression.log_dets
    first = regression.first_cover(queries, 0.7)
    extend(regression, more._replace(features=more.features[:, :dim]))
    after = regression.widths(queries), regression.values(queries), regression.log_dets
    for old, new in zip(before, after, strict=True):
        same_bits(old, new[: n + 1])
    if first is not None:
        assert regression.first_cover(queries, 0.7) == first


@properties
@given(problems())
def test_a_batch_equals_its_rows_bit_for_bit(problem):
    regression = fit(problem)
    for ask in (regression.widths, regression.values):
        batch = ask(problem.queries)
        for j, phi in enumerate(problem.queries):
            same_bits(batch[:, j], ask(phi[None])[:, 0])
        same_bits(batch, ask(np.asfortranarray(problem.queries)))
        same_bits(batch, ask(problem.queries.tolist()))


@pytest.mark.slow
@properties
@given(problems(ridges=[1e-3, 0.1, 1.0]), st.randoms(use_true_random=False))
def test_sparse_equals_dense(problem, random):
    """Also with columns in any order, and with columns that no datum has touched."""
    dense = fit(problem)
    dim = problem.queries.shape[1]
    regression = fpi.PrefixRidge(dim, problem.ridge)
    for indices, values, target in zip(*sparse(problem.features), problem.targets, strict=True):
        order = random.sample(range(dim), dim)
        regression.append((indices[order], values[order]), target)
    queries = sparse(problem.queries)
    np.testing.assert_allclose(regression.widths(queries), dense.widths(problem.queries), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(regression.values(queries), dense.values(problem.queries), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(regression.log_dets, dense.log_dets, rtol=1e-9, atol=1e-12)
    for epsilon in (0.1, 0.5, 2.0):
        assert regression.first_cover(queries, epsilon) == dense.first_cover(problem.queries, epsilon)


@pytest.mark.parametrize("n", [40, 300])
def test_sparse_equals_dense_on_overlapping_tiles(n):
    """A thousand columns of which few are touched, three active at a time, new ones appearing late."""
    rng = np.random.default_rng(8)
    where = rng.integers(0, 330, (n + 20, 3)) // (1 + (np.arange(n + 20) < n // 2))[:, None] + [0, 330, 660]
    indices, values = where.astype(np.int32), np.full((n + 20, 3), 3**-0.5)
    rows = np.zeros((n + 20, 1000))
    np.put_along_axis(rows, where, values, axis=1)
    targets = rng.uniform(0, 3, n)
    tiles = fpi.PrefixRidge(1000, 1e-3)
    for i in range(n):
        tiles.append((indices[i], values[i]), targets[i])
    dense = fit(Problem(rows[:n], targets, rows[n:], 1e-3))
    queries = indices[n:], values[n:]
    np.testing.assert_allclose(tiles.widths(queries), dense.widths(rows[n:]), rtol=1e-9)
    np.testing.assert_allclose(tiles.values(queries), dense.values(rows[n:]), atol=1e-9)
    np.testing.assert_allclose(tiles.log_dets, dense.log_dets, rtol=1e-9)


# --- the freezing index --------------------------------------------------------------------------------


@properties
@given(problems(), st.floats(0.05, 3.0))
def test_first_cover_is_the_first_prefix_whose_widths_all_lie_below_epsilon(problem, epsilon):
    regression = fit(problem)
    widths = regression.widths(problem.queries)
    edge = epsilon * (1 + TIE)
    assume((np.abs(widths / edge - 1) > 1e-5).all())
    covered = (widths <= edge).all(axis=1)
    expected = int(covered.argmax()) if covered.any() else None
    assert regression.first_cover(problem.queries, epsilon) == expected


@properties
@given(problems(), st.data())
def test_coverage_is_decided_right_near_the_edge(problem, data):
    """Exact widths 1e-8 and 1e-10 of epsilon from the edge, on both sides; a width of epsilon is covered."""
    k = data.draw(st.integers(0, len(problem.targets)), label="k")
    query = problem.queries[:1]
    width = mp_answers(problem._replace(queries=query), k)[0][0]
    assume(width > 1e-6)
    above = data.draw(st.sampled_from([1e-8, 2e-9, 1.1e-9, 0.0, -1e-9, -1e-8]), label="width / epsilon - 1")
    epsilon = float(width / (1 + mpmath.mpf(above)))
    first = fit(problem).first_cover(query, epsilon)
    assert (first is not None and first <= k) == (above <= TIE)


def assert_decided_right(problem, prefixes):
    regression = fit(problem)
    for k in prefixes:
        for query, width in zip(problem.queries, longdouble_answers(problem, k)[0], strict=True):
            for above in (1e-8, 1.1e-9, 0.0, -1e-8):
                first = regression.first_cover(query[None], float(width / (1 + np.longdouble(above))))
                assert (first is not None and first <= k) == (above <= TIE), (k, above)


@pytest.mark.parametrize("ridge", [1e-8, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize(("n", "dim", "rank"), [(150, 3, None), (70, 40, None), (200, 80, 6)])
def test_coverage_is_decided_right_near_the_edge_across_anchors(n, dim, rank, ridge):
    assert_decided_right(random_problem(3, n, dim, 1, ridge, rank=rank), (1, 63, 64, 65, n))


@pytest.mark.parametrize("ridge", [1e-8, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("spread", [0.1, 1e-2, 1e-4])
def test_coverage_is_decided_right_between_nearly_parallel_data(spread, ridge):
    """Each datum is nearly explained by the ones before it, so rounding errors of the first ones grow."""
    for seed in range(5):
        problem = random_problem(seed, 12, 4, 1, ridge, spread=spread)
        axis = problem._replace(queries=np.concatenate([problem.queries, np.eye(4)[:1]]))
        assert_decided_right(axis, range(1, 13))


@pytest.mark.process
def test_first_cover_does_not_read_what_is_freed():
    """Memory that is freed is overwritten with PYTHONMALLOC=debug."""
    ask = "import fpi; r = fpi.PrefixRidge(2, 1e-8); r.append([1, 0], 0.0); print(r.first_cover([[1, 0]], 2.0))"
    command, env = [sys.executable, "-c", ask], os.environ | {"PYTHONMALLOC": "debug"}
    assert subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout == "1\n"


def test_first_cover_waits_for_the_last_query():
    regression = fpi.PrefixRidge(2, 1.0)
    for phi in ([1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]):
        regression.append(phi, 1.0)
    assert regression.first_cover([[1.0, 0.0]], 0.6) == 2
    assert regression.first_cover([[0.0, 1.0]], 0.6) == 4
    assert regression.first_cover([[1.0, 0.0], [0.0, 1.0]], 0.6) == 4
    assert regression.first_cover([[1.0, 0.0], [0.0, 1.0]], 0.5) is None
    assert regression.first_cover([[0.0, 0.0]], 0.5) == 0
    assert regression.first_cover([[0.3, 0.4]], 0.5) == 0


# --- accuracy ------------------------------------------------------------------------------------------


def test_the_long_double_reference_agrees_with_mpmath():
    for k, ridge in ((0, 1.0), (3, 1e-8), (9, 1e-8), (12, 1e-3)):
        problem = random_problem(6, 12, 6, 3, ridge)
        for mine, exact in zip(longdouble_answers(problem, k), mp_answers(problem, k), strict=True):
            np.testing.assert_allclose(mine.astype(float), np.array(exact, float), rtol=1e-13)


@pytest.mark.slow
@properties
@given(problems())
def test_widths_and_values_against_mpmath(problem):
    regression = fit(problem)
    widths, values = regression.widths(problem.queries), regression.values(problem.queries)
    for k in range(len(regression) + 1):
        assert_accurate(problem, k, widths[k], values[k], mp_answers(problem, k))


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize(("dim", "rank"), [(3, None), (80, None), (80, 10)])
def test_accuracy_across_anchors(dim, rank, ridge):
    """600 data: the running sums start afresh every max(64, dim) of them, and stay monotone doing so."""
    problem = random_problem(4, 600, dim, 5, ridge, rank=rank)
    regression = fit(problem)
    widths, values = regression.widths(problem.queries), regression.values(problem.queries)
    for k in (0, 1, 63, 64, 65, 79, 80, 81, 128, 159, 160, 161, 320, 599, 600):
        assert_accurate(problem, k, widths[k], values[k], longdouble_answers(problem, k))
    assert (widths[1:] <= widths[:-1] * (1 + 1e-10)).all()


# --- bad input -----------------------------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "arguments",
    [
        {"dim": 0},
        {"dim": -1},
        {"dim": 2.5},
        {"ridge": 0.0},
        {"ridge": -1.0},
        {"ridge": NAN},
        {"ridge": INF},
        {"blocks": 0},
    ],
    ids=str,
)
def test_bad_settings_are_refused(arguments):
    with pytest.raises(InputError):
        fpi.PrefixRidge(**{"dim": 2, "ridge": 1.0, **arguments})


BAD_APPENDS = {
    "NaN in phi": ([NAN, 0.0], 1.0),
    "inf in phi": ([INF, 0.0], 1.0),
    "phi too long": ([1.0, 0.0, 0.0], 1.0),
    "phi too short": ([1.0], 1.0),
    "phi is a matrix": ([[1.0, 0.0]], 1.0),
    "phi is not numbers": (["a", "b"], 1.0),
    "target NaN": ([1.0, 0.0], NAN),
    "target inf": ([1.0, 0.0], INF),
    "block too large": ([1.0, 0.0], 1.0, 2),
    "block negative": ([1.0, 0.0], 1.0, -1),
}
BAD_SPARSE_APPENDS = {
    "index too large": (([0, 2], [0.5, 0.5]), 1.0),
    "index negative": (([0, -1], [0.5, 0.5]), 1.0),
    "NaN value": (([0, 1], [0.5, NAN]), 1.0),
    "lengths differ": (([0, 1], [0.5]), 1.0),
    "index twice": (([0, 0], [0.5, 0.5]), 1.0),
}
BAD_QUERIES = {
    "NaN": ([[NAN, 0.0]],),
    "too wide": ([[1.0, 0.0, 0.0]],),
    "block too large": ([[1.0, 0.0]], [2]),
    "block negative": ([[1.0, 0.0]], [-1]),
    "wrong number of blocks": ([[1.0, 0.0]], [0, 1]),
}


@pytest.fixture
def small():
    regression = fpi.PrefixRidge(2, 0.5, blocks=2)
    regression.append([0.6, 0.8], 1.0, 0)
    regression.append([1.0, 0.0], 2.0, 1)
    return regression


@pytest.fixture
def small_sparse():
    regression = fpi.PrefixRidge(2, 0.5, blocks=2)
    regression.append(([0, 1], [0.6, 0.8]), 1.0, 0)
    regression.append(([1, 0], [0.0, 1.0]), 2.0, 1)
    return regression


def unchanged_by(regression, refused):
    queries = np.eye(2)
    before = regression.widths(queries, [0, 1]), regression.values(queries, [0, 1]), regression.log_dets
    with pytest.raises(InputError) as error:
        refused()
    assert len(str(error.value)) > 20
    assert len(regression) == 2
    after = regression.widths(queries, [0, 1]), regression.values(queries, [0, 1]), regression.log_dets
    for old, new in zip(before, after, strict=True):
        same_bits(old, new)


@pytest.mark.parametrize("case", BAD_APPENDS)
def test_a_bad_datum_is_refused_and_changes_nothing(small, case):
    unchanged_by(small, lambda: small.append(*BAD_APPENDS[case]))


@pytest.mark.parametrize("case", BAD_SPARSE_APPENDS)
def test_a_bad_sparse_datum_is_refused_and_changes_nothing(small_sparse, case):
    unchanged_by(small_sparse, lambda: small_sparse.append(*BAD_SPARSE_APPENDS[case]))


@pytest.mark.parametrize("case", BAD_QUERIES)
@pytest.mark.parametrize("ask", ["widths", "values"])
def test_a_bad_query_is_refused_and_changes_nothing(small, case, ask):
    unchanged_by(small, lambda: getattr(small, ask)(*BAD_QUERIES[case]))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, NAN])
def test_a_bad_epsilon_is_refused(small, epsilon):
    unchanged_by(small, lambda: small.first_cover([[1.0, 0.0]], epsilon, [0]))


def test_inputs_are_not_mutated_and_not_kept():
    phi, queries = np.array([0.6, 0.8]), np.array([[1.0, 0.0]])
    phi_before, queries_before = phi.copy(), queries.copy()
    regression = fpi.PrefixRidge(2, 1.0)
    regression.append(phi, 1.0)
    answer = regression.values(queries)
    same_bits(phi, phi_before)
    same_bits(queries, queries_before)
    phi[:] = 7.0
    same_bits(regression.values(queries), answer)

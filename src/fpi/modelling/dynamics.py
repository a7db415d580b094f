"""The dynamics: increments of plain coordinates, turns of pairs on a circle, and rewards, by kernel regression.

Each target is a ridge regression on terms that are linear for every action and quadratic for all of them, plus a kernel
regression of what that leaves, on inducing data chosen widest first. The kernel's rates, one for each coordinate, are
the likeliest ones, where a usual rate is likely beforehand. Data that it cannot explain (a wall, a clip) are kept
apart, and answer for what is nearest to them. Rewards may be random: their regression estimates means.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fpi.kernels.windows import Dynamics
from fpi.modelling.calls import (
    choose_widest,
    factorise,
    log_likelihood,
    normal_matrix,
    product,
    similarities_of,
    solve_lower,
    solve_upper,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_DATA = 3_000
MOST_INDUCING = 300
LIKELIHOOD_DATA = 120
RIDGE = 1e-6  # of the kernel regression, and the least squared width of an inducing datum
REWARD_RIDGES = (RIDGE, 1e-3, 0.1, 10.0)
TREND_RIDGE = 1e-6  # per datum
ACTION_GAP = 0.5  # squared distance between two actions, in units of the kernel
REACH = 1.0  # squared distance, in the same units, up to which data of an action tell of it
FIRST_RATE, SLOWEST_RATE, FASTEST_RATE = 0.3, 0.03, 3.0
DOUBT = 20.0  # what the log-likelihood has to gain for a rate twice or half the first: few data say little
FLOOR = 1e-3  # errors, in scaled units, that do not matter
ODD_ERROR = 0.2  # in scaled units: a datum so far from its prediction is not explained
ODD_FACTOR = 10.0  # and so many times further than half the data
MOST_ODD = 0.3  # of the data; if more cannot be explained, the model is as it is
TURN_UNIT = 5.0  # scaled units that a turn counts, per tangent of half its angle


def fit_dynamics(
    z: Floats,
    actions: Ints,
    rewards: Floats,
    after: Floats,
    count: int,
    circles: Ints,
    ended: NDArray[np.bool_] | None = None,
) -> Dynamics:
    """The model of decisions from z to `after`, with `count` actions.

    Rewards are those of decisions after which the episode goes on, if there are any: what an end pays may differ
    by a jump, and `fpi.modelling.ends` knows it.
    """
    stride = -(-len(z) // MOST_DATA)
    z, actions, rewards, after = z[::stride], actions[::stride], rewards[::stride], after[::stride]
    paid = np.ones(len(z), np.bool_) if ended is None or ended[::stride].all() else ~ended[::stride]
    plain = np.array([j for j in range(z.shape[1]) if j not in circles], np.int64)
    targets = targets_of(z, rewards, after, plain, circles)
    odd = np.zeros(len(z), np.bool_)
    dynamics = _fit_smooth(z, actions, targets, paid, count, plain, circles, None)
    for _ in range(3):
        errors = target_errors(dynamics, z, actions, targets)
        unexplained = odd | (errors > max(ODD_ERROR, ODD_FACTOR * float(np.median(errors))))
        if (unexplained == odd).all() or unexplained.mean() > MOST_ODD:
            break
        odd, use = unexplained, ~unexplained
        dynamics = _fit_smooth(z[use], actions[use], targets[use], paid[use], count, plain, circles, dynamics.rates)
    return dynamics._replace(
        odd_points=np.ascontiguousarray((z[odd] * dynamics.rates).T),
        odd_actions=actions[odd],
        odd_next=after[odd],
        odd_reward=rewards[odd],
    )


def targets_of(z: Floats, rewards: Floats, after: Floats, plain: Ints, circles: Ints) -> Floats:
    """Increments, tangents of half the turns, and the reward; one column each."""
    columns = [after[:, j] - z[:, j] for j in plain]
    for i, j in circles:
        norm = np.sqrt((z[:, i] ** 2 + z[:, j] ** 2) * (after[:, i] ** 2 + after[:, j] ** 2))
        cosine = (z[:, i] * after[:, i] + z[:, j] * after[:, j]) / norm
        sine = (z[:, i] * after[:, j] - z[:, j] * after[:, i]) / norm
        columns.append(sine / np.maximum(1.0 + cosine, 0.1))  # a turn by nearly half a circle has no good tangent
    return np.column_stack([*columns, rewards])


def predict_targets(dynamics: Dynamics, z: Floats, actions: Ints) -> Floats:
    """What the smooth part says of them, a row for every decision."""
    weights = np.concatenate([dynamics.trend.reshape(len(dynamics.trend), -1), dynamics.curves], axis=1)
    inputs = np.ascontiguousarray(z.T)
    near = similarities_of(dynamics.points, dynamics.offsets, actions, inputs, dynamics.rates)
    trend: Floats = product(_trend_terms(z, actions, dynamics.trend.shape[1]), np.ascontiguousarray(weights.T))
    trend += product(near, np.ascontiguousarray(dynamics.weights.T))
    return trend


def target_errors(dynamics: Dynamics, z: Floats, actions: Ints, targets: Floats) -> Floats:
    """The largest error of increments and turns for every decision, in scaled units."""
    wrong = np.abs(predict_targets(dynamics, z, actions) - targets)[:, :-1]
    wrong[:, len(dynamics.plain) :] *= TURN_UNIT
    errors: Floats = wrong.max(axis=1)
    return errors


def _fit_smooth(
    z: Floats,
    actions: Ints,
    targets: Floats,
    paid: NDArray[np.bool_],
    count: int,
    plain: Ints,
    circles: Ints,
    rates: Floats | None,
) -> Dynamics:
    d = z.shape[1]
    terms = _trend_terms(z, actions, count)
    trend = _solve_ridge(np.ascontiguousarray(terms.T), targets, TREND_RIDGE * len(z))
    trend[:, -1:] = _solve_ridge(np.ascontiguousarray(terms[paid].T), targets[paid, -1:], TREND_RIDGE * paid.sum())
    residuals = targets - product(terms, trend)
    residuals[~paid, -1] = 0.0
    offsets = ACTION_GAP * (1.0 - np.eye(count))
    if rates is None:
        rates = _likely_rates(z, actions, residuals, float(np.ptp(targets[paid, -1])), offsets)
    points = np.ascontiguousarray((z * rates).T)
    chosen, rows = choose_widest(points, offsets, actions, min(MOST_INDUCING, len(z)), RIDGE)
    weights = _solve_ridge(rows, residuals, RIDGE)
    near, left = np.ascontiguousarray(rows[:, paid]), residuals[paid, -1:]
    weights[:, -1:] = _solve_ridge(near, left, _reward_ridge(near, left))
    solve_upper(np.ascontiguousarray(rows[:, chosen].T), weights)
    by_action = np.argsort(actions[chosen], kind="stable")
    chosen, weights = chosen[by_action], weights[by_action]
    return Dynamics(
        rates=rates,
        points=np.ascontiguousarray(points[:, chosen]),
        firsts=np.searchsorted(actions[chosen], np.arange(count + 1)),
        offsets=np.ascontiguousarray(offsets[:, actions[chosen]]),
        weights=np.ascontiguousarray(weights.T),
        trend=np.ascontiguousarray(trend[: count * (1 + d)].T).reshape(-1, count, 1 + d),
        curves=np.ascontiguousarray(trend[count * (1 + d) :].T),
        plain=plain,
        circles=circles,
        odd_points=np.empty((d, 0)),
        odd_actions=np.empty(0, np.int64),
        odd_next=np.empty((0, d)),
        odd_reward=np.empty(0),
        reach=REACH,
    )


def _trend_terms(z: Floats, actions: Ints, count: int) -> Floats:
    """For every action 1 and z, and the products of coordinates for all."""
    n, d = z.shape
    linear = np.zeros((n, count, 1 + d))
    linear[np.arange(n), actions, 0] = 1.0
    linear[np.arange(n), actions, 1:] = z
    products = [z[:, j] * z[:, k] for j in range(d) for k in range(j, d)]
    return np.column_stack([linear.reshape(n, -1), *products])


def _solve_ridge(rows: Floats, targets: Floats, ridge: float) -> Floats:
    """Weights (m, t) of a ridge regression on rows (m, n) of terms."""
    matrix = normal_matrix(rows, ridge)
    factorise(matrix)
    solved: Floats = product(rows, np.ascontiguousarray(targets))
    solve_lower(matrix, solved)
    solve_upper(matrix, solved)
    return solved


def _reward_ridge(rows: Floats, rewards: Floats) -> float:
    """By generalised cross-validation: small where rewards are a smooth function, large where they are random."""
    n = rows.shape[1]
    best = RIDGE, np.inf
    for ridge in REWARD_RIDGES:
        misses = rewards - product(np.ascontiguousarray(rows.T), _solve_ridge(rows, rewards, ridge))
        inverse = normal_matrix(rows, ridge)
        factorise(inverse)
        identity = np.eye(len(rows))
        solve_lower(inverse, identity)
        free = n - len(rows) + ridge * float((identity**2).sum())  # n minus the trace of the hat matrix
        score = float((misses**2).mean()) / max(free / n, 1e-12) ** 2
        if score < best[1]:
            best = ridge, score
    return best[0]


def _likely_rates(z: Floats, actions: Ints, residuals: Floats, reward_span: float, offsets: Floats) -> Floats:
    """The rates of the largest posterior likelihood, one coordinate after the other."""
    some = np.unique(np.linspace(0, len(z) - 1, LIKELIHOOD_DATA).astype(np.int64))
    units = np.append(np.ones(residuals.shape[1] - 1), max(reward_span, FLOOR))
    actions, residuals = actions[some], np.ascontiguousarray(residuals[some] / units)

    def likelihood(rates: Floats) -> float:
        points = np.ascontiguousarray((z[some] * rates).T)
        doublings = np.log2(rates / FIRST_RATE)  # whole numbers
        return float(log_likelihood(points, offsets, actions, residuals, RIDGE, FLOOR) - DOUBT * (doublings**2).sum())

    rates = np.full(z.shape[1], FIRST_RATE)
    best, before = likelihood(rates), -np.inf
    while best > before + 1.0:
        before = best
        for j in range(len(rates)):
            for factor in (0.5, 2.0):
                trial = rates.copy()
                trial[j] *= factor
                while SLOWEST_RATE <= trial[j] <= FASTEST_RATE and (value := likelihood(trial)) > best + 1e-6:
                    best, rates = value, trial.copy()
                    trial[j] *= factor
    return rates

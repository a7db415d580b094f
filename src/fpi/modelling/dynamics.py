"""The dynamics: increments of plain coordinates, turns of pairs on a circle, and rewards, by kernel regression.

Each target is a ridge regression on terms that are linear for every action and quadratic for all of them, plus a kernel
regression of what that leaves, on inducing data chosen widest first. Linear terms differ little between actions, and
neighbours on a grid do nearly the same. The kernel's rates, one for each coordinate and one for actions, are the
likeliest ones, where a usual rate is likely beforehand. Data that the regression of the others does not explain (a
wall, a clip; the first are those far from the trend) are kept apart, and answer within half a unit, unless an explained
neighbour is nearer. Rewards may be random: their regression estimates means.
"""

from __future__ import annotations

from typing import Any

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
MOST_INDUCING = 400
LIKELIHOOD_DATA = 300
RIDGE = 1e-6  # of the kernel regression, and the least squared width of an inducing datum
REWARD_RIDGES = (RIDGE, 1e-3, 0.1, 10.0)
TREND_RIDGE = 1e-6  # per datum
INFLUENCE = 0.02  # of a unit of one coordinate on what follows a step: less is little
PRECISION = 3e-4  # of the kernel regression, in scaled units: smaller residuals need fewer inducing data
WIDEST = 0.1  # squared width that data have at most, however small residuals are: inducing data tell what is known
ACTION_GAP = 1.0  # squared distance of the kernel between Discrete actions, or both ends of a grid, at the usual rate
REACH = 1.0  # squared distance, in the same units, below which a step is known
OWN = 0.03  # how far linear terms of single actions are likely to differ, beside those that all share
FIRST_RATE, SLOWEST_RATE, FASTEST_RATE = 0.3, 0.03, 3.0
DOUBT = 5.0  # what the log-likelihood has to gain for a rate twice or half the first: few data say little
FLOOR = 1e-3  # errors, in scaled units, that do not matter
ODD_ERROR = 0.05  # in scaled units: a datum so far from its prediction is not explained
ODD_FACTOR = 10.0  # and by so many times the median error
TRIMMINGS, ROUNDS = 4, 3  # of looking for such data: by the trend, and by all of the model
MOST_ODD = 0.3  # of the data; if more cannot be explained, the model is as it is
GUARDS = 8  # explained neighbours of an unexplained datum, which keep it from answering for what is nearer to them
TURN_UNIT = 5.0  # scaled units that a turn counts, per tangent of half its angle


def fit_dynamics(
    z: Floats,
    actions: Ints,
    rewards: Floats,
    after: Floats,
    circles: Ints,
    kinds: Actions,
    ended: NDArray[np.bool_] | None = None,
    interval: int = 1,
) -> Dynamics:
    """The model of steps from z to `after`, of decisions that last `interval` of them.

    Rewards are those of steps after which the episode goes on, if there are any: what an end pays may differ
    by a jump, and `fpi.modelling.ends` knows it.
    """
    stride = -(-len(z) // MOST_DATA)
    z, actions, rewards, after = z[::stride], actions[::stride], rewards[::stride], after[::stride]
    paid = np.ones(len(z), np.bool_) if ended is None or ended[::stride].all() else ~ended[::stride]
    plain = _plain(z.shape[1], circles)
    targets = targets_of(z, rewards, after, plain, circles)
    odd = _far_from_trend(z, actions, targets[:, :-1], kinds)
    dynamics, gap = None, 1.0
    for _ in range(ROUNDS):
        use = ~odd
        rates = None if dynamics is None else (dynamics.rates, gap)
        pays = paid[use] if paid[use].any() else np.ones(use.sum(), np.bool_)
        dynamics, gap = _fit_smooth(z[use], actions[use], targets[use], pays, kinds, plain, circles, rates)
        errors = target_errors(dynamics, z, actions, targets)
        unexplained = errors > ODD_FACTOR * float(np.median(errors)) + ODD_ERROR
        if (unexplained == odd).all() or unexplained.mean() > MOST_ODD:
            break
        odd = unexplained
    assert dynamics is not None
    odd = ~use
    odd_places = [int(i) for i in np.flatnonzero(odd)]
    guards = {int(j) for i in odd_places for j in _nearest(z, (actions == actions[i]) & ~odd, i)}
    kept = np.array([*odd_places, *sorted(guards)], np.int64)
    return dynamics._replace(
        odd_points=np.ascontiguousarray(z[kept].T),
        odd_actions=actions[kept],
        odd_next=after[odd],
        odd_reward=rewards[odd],
        interval=interval,
    )


def _nearest(inputs: Floats, among: NDArray[np.bool_], i: int) -> Ints:
    """The few of those data that are nearest to datum i."""
    places = np.flatnonzero(among)
    square = ((inputs[places] - inputs[i]) ** 2).sum(axis=1)
    return places[np.argsort(square, kind="stable")[:GUARDS]]


class Actions:
    """What actions have in common: the squared distances between them, and the terms of the trend that they share."""

    def __init__(self, count: int, d: int, grid: Any = None) -> None:
        self.count, self.on_grid = count, grid is not None
        linear = np.zeros((count, 1 + d, count, 1 + d))  # the terms of each action, one by one
        for a, j in np.ndindex(count, 1 + d):
            linear[a, j, a, j] = OWN if j or grid is not None else 1.0
        parts = [linear.reshape(count, 1 + d, -1), self._shared(np.ones(count), d)]
        if grid is None:
            self.offsets = ACTION_GAP * (1.0 - np.eye(count))
        else:
            grid = np.array(grid, np.float64)
            span = np.maximum(np.ptp(grid, axis=0), 1e-12)
            self.offsets = ACTION_GAP * (((grid[:, None] - grid) / span) ** 2).sum(axis=2)
            parts += [self._shared(force, d) for force in ((grid - grid.mean(axis=0)) / span).T]
        rows = np.concatenate(parts, axis=2).reshape(count * (1 + d), -1)
        products = d * (d + 1) // 2
        self.mix = np.zeros((len(rows) + products, rows.shape[1] + products))
        """(terms of single actions and products, terms that are fitted)."""
        self.mix[: len(rows), : rows.shape[1]] = rows
        self.mix[len(rows) :, rows.shape[1] :] = np.eye(products)

    @staticmethod
    def _shared(factors: Floats, d: int) -> Floats:
        """Linear terms that all actions share, each times its factor."""
        shared: Floats = factors[:, None, None] * np.eye(1 + d)
        return shared


def influences(z: Floats, actions: Ints, rewards: Floats, after: Floats, circles: Ints, kinds: Actions) -> Floats:
    """How much a unit of each coordinate changes what follows, in the trend of the data: at most 1, a lot.

    Coordinates on a circle count fully, since one does not change without the other.
    """
    span = max(float(np.ptp(rewards)), FLOOR)
    targets = targets_of(z, rewards / span, after, _plain(z.shape[1], circles), circles)
    trend = _fit_trend(z, actions, targets, kinds)
    influence = np.ones(z.shape[1])
    for j in _plain(z.shape[1], circles):
        unit = np.eye(z.shape[1])[j]
        change = _trend_terms(z + 0.5 * unit, actions, kinds.count) - _trend_terms(z - 0.5 * unit, actions, kinds.count)
        influence[j] = min(1.0, np.sqrt((product(change, trend) ** 2).mean(axis=0)).max() / INFLUENCE)
    return influence


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
    curved = dynamics.rows >= 0
    inputs = np.ascontiguousarray(z.T)
    near = similarities_of(dynamics.points, dynamics.offsets, actions, inputs, dynamics.rates)
    trend: Floats = product(_trend_terms(z, actions, dynamics.trend.shape[1]), np.ascontiguousarray(weights.T))
    trend[:, curved] += product(near, np.ascontiguousarray(dynamics.weights.T))
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
    kinds: Actions,
    plain: Ints,
    circles: Ints,
    found: tuple[Floats, float] | None,
) -> tuple[Dynamics, float]:
    """The smooth part, and what the distances between actions are multiplied by.

    `found`: the rates and that factor, if they are to be taken from an earlier fit.
    """
    d, count = z.shape[1], kinds.count
    trend = _fit_trend(z, actions, targets, kinds)
    trend[:, -1:] = _fit_trend(z[paid], actions[paid], targets[paid, -1:], kinds)
    residuals = targets - product(_trend_terms(z, actions, count), trend)
    residuals[~paid, -1] = 0.0
    rates, gap = found or _likely_rates(z, actions, residuals, float(np.ptp(targets[paid, -1])), kinds.offsets)
    offsets = gap * kinds.offsets
    if not kinds.on_grid:  # what an action does that was never taken is not known, however alike the others are
        offsets[np.bincount(actions, minlength=count) == 0] = np.inf
    points = np.ascontiguousarray((z * rates).T)
    size = np.sqrt((residuals**2).mean(axis=0))
    size[len(plain) : -1] *= TURN_UNIT
    size[-1] /= max(float(np.ptp(targets[paid, -1])), FLOOR)
    curved = np.flatnonzero(size > PRECISION)
    least = min(max(RIDGE, (PRECISION / max(float(size.max()), PRECISION)) ** 2), WIDEST)
    chosen, rows = choose_widest(points, offsets, actions, min(MOST_INDUCING, len(z)), least)
    weights = _solve_ridge(rows, residuals, RIDGE)
    near, left = np.ascontiguousarray(rows[:, paid]), residuals[paid, -1:]
    weights[:, -1:] = _solve_ridge(near, left, _reward_ridge(near, left))
    solve_upper(np.ascontiguousarray(rows[:, chosen].T), weights)
    places = np.full(len(size), -1)
    places[curved] = np.arange(len(curved))
    dynamics = Dynamics(
        rates=rates,
        points=np.ascontiguousarray(points[:, chosen]),
        offsets=np.ascontiguousarray(offsets[:, actions[chosen]]),
        weights=np.ascontiguousarray(weights.T[curved]),
        rests=np.ascontiguousarray(residuals[chosen].T),
        rows=places,
        trend=np.ascontiguousarray(trend[: count * (1 + d)].T).reshape(-1, count, 1 + d),
        curves=np.ascontiguousarray(trend[count * (1 + d) :].T),
        plain=plain,
        circles=circles,
        odd_points=np.empty((d, 0)),
        odd_actions=np.empty(0, np.int64),
        odd_next=np.empty((0, d)),
        odd_reward=np.empty(0),
        reach=REACH,
        interval=1,
    )
    return dynamics, gap


def _plain(d: int, circles: Ints) -> Ints:
    """The coordinates that lie on no circle."""
    return np.array([j for j in range(d) if j not in circles], np.int64)


def _fit_trend(z: Floats, actions: Ints, targets: Floats, kinds: Actions) -> Floats:
    """Weights (terms, t) of the terms of single actions and the products."""
    terms = product(_trend_terms(z, actions, kinds.count), kinds.mix)
    fitted = _solve_ridge(np.ascontiguousarray(terms.T), targets, TREND_RIDGE * len(z))
    weights: Floats = product(kinds.mix, fitted)
    return weights


def _far_from_trend(z: Floats, actions: Ints, targets: Floats, kinds: Actions) -> NDArray[np.bool_]:
    """Data far from the trend of the others, found by leaving them out again and again; none where they are many."""
    terms, far = _trend_terms(z, actions, kinds.count), np.zeros(len(z), np.bool_)
    for _ in range(TRIMMINGS):
        misses = np.abs(targets - product(terms, _fit_trend(z[~far], actions[~far], targets[~far], kinds)))
        far = (misses > ODD_FACTOR * np.median(misses, axis=0) + ODD_ERROR).any(axis=1)
        if far.mean() > MOST_ODD:
            return np.zeros(len(z), np.bool_)
    return far


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


def _likely_rates(
    z: Floats, actions: Ints, residuals: Floats, reward_span: float, offsets: Floats
) -> tuple[Floats, float]:
    """The rates of the largest posterior likelihood, one after the other; the last is that of actions, squared here."""
    some = np.unique(np.linspace(0, len(z) - 1, LIKELIHOOD_DATA).astype(np.int64))
    units = np.append(np.ones(residuals.shape[1] - 1), max(reward_span, FLOOR))
    actions, residuals = actions[some], np.ascontiguousarray(residuals[some] / units)
    usual = np.append(np.full(z.shape[1], FIRST_RATE), 1.0)

    def likelihood(rates: Floats) -> float:
        points = np.ascontiguousarray((z[some] * rates[:-1]).T)
        apart = rates[-1] ** 2 * offsets
        doublings = np.log2(rates / usual)  # whole numbers
        return float(log_likelihood(points, apart, actions, residuals, RIDGE, FLOOR) - DOUBT * (doublings**2).sum())

    rates = usual.copy()
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
    return rates[:-1].copy(), float(rates[-1] ** 2)

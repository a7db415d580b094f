# mypy: allow-untyped-defs
"""Ridge regressions of the bandit methods: V = ridge * I + sum x x', of which the inverse is kept."""

import numpy as np

from fpi._compiling import jit
from fpi.kernels.choose import best
from fpi.kernels.numerics import dot

WIDEST, OPTIMISTIC = range(2)


@jit
def append(inverse, theta, x, target):
    """Add a datum (Sherman-Morrison); returns by how much log det V grows."""
    d = x.size
    v = np.empty(d)
    for i in range(d):
        v[i] = dot(inverse[i], x)
    growth = 1.0 + dot(v, x)
    error = (target - dot(theta, x)) / growth
    for i in range(d):
        theta[i] += v[i] * error
        for j in range(d):
            inverse[i, j] -= v[i] * v[j] / growth
    return np.log(growth)


@jit
def score(inverse, theta, rows, values, widths):
    """Write <x, theta> and |x| in the inverse of V for every row x."""
    for a in range(rows.shape[0]):
        values[a] = dot(rows[a], theta)
        square = 0.0
        for i in range(theta.size):
            square += rows[a, i] * dot(inverse[i], rows[a])
        widths[a] = np.sqrt(max(square, 0.0))


@jit
def optimistic(inverse, theta, rows, beta):
    """The action of the largest <x, theta> + beta |x|."""
    values, widths = np.empty(rows.shape[0]), np.empty(rows.shape[0])
    score(inverse, theta, rows, values, widths)
    return best(values + beta * widths, np.ones(values.size, np.bool_))


@jit
def layered(inverses, thetas, rows, beta, narrow, rule):
    """SupLinUCB's round: the action, the level that stores it or -1, and the best estimate of the last level passed."""
    actions = rows.shape[0]
    values, widths = np.empty(actions), np.empty(actions)
    allowed = np.ones(actions, np.bool_)
    favourite = -1
    level = 0
    while True:
        score(inverses[level], thetas[level], rows, values, widths)
        widths *= beta
        limit = 2.0 ** -(level + 1)  # levels count from 1 in the paper
        widest = 0.0
        for a in range(actions):
            if allowed[a] and widths[a] > widest:
                widest = widths[a]
        if level == 0 or widest <= limit:
            favourite = best(values, allowed)
        upper = values + widths
        if widest <= narrow:
            return best(upper, allowed), -1, favourite
        if widest > limit:
            for a in range(actions):
                if widths[a] <= limit:
                    allowed[a] = False
            return best(widths if rule == WIDEST else upper, allowed), level, favourite
        bar = upper[best(upper, allowed)] - 2.0 * limit
        for a in range(actions):
            if upper[a] < bar:
                allowed[a] = False
        level += 1

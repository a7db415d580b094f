"""Kernel regression in data space: widths, factors and estimates with the rational quadratic kernel (1 + |x - y|²)^-2.

The kernel takes nothing but sums, products and a division, which every processor rounds alike. With K its matrix of the
chosen data, L L' = K + ridge I and w = L^-1 k(x), the squared width is k(x, x) - sum of w_i² at every prefix, and the
estimate the sum of w_i z_i with z = L^-1 q: docs/numerics.md has the same for features.
"""

import numpy as np

from fpi._compiling import jit, jit_inline
from fpi.kernels.numerics import dot


@jit
def similarity(square):
    """The kernel, of a squared distance."""
    near = 1.0 / (1.0 + square)
    return near * near


@jit
def squared_distances(points, z, rates, squares):
    """Add to `squares` the squared distance of z, each coordinate times its rate, from every column of `points`."""
    for j in range(points.shape[0]):
        x = z[j] * rates[j]
        row = points[j]
        for i in range(row.size):
            apart = x - row[i]
            squares[i] += apart * apart


@jit_inline
def weighted_sum(weights, row, values):
    """The sum of a row of weights times the values, in eight parts, as vector instructions add."""
    n = values.size
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = n - n % 8
    for i in range(0, whole, 8):
        s0 += weights[row, i] * values[i]
        s1 += weights[row, i + 1] * values[i + 1]
        s2 += weights[row, i + 2] * values[i + 2]
        s3 += weights[row, i + 3] * values[i + 3]
        s4 += weights[row, i + 4] * values[i + 4]
        s5 += weights[row, i + 5] * values[i + 5]
        s6 += weights[row, i + 6] * values[i + 6]
        s7 += weights[row, i + 7] * values[i + 7]
    for i in range(whole, n):
        s0 += weights[row, i] * values[i]
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


@jit
def choose_widest(points, offsets, labels, most, least):
    """The columns of `points` widest first, until none has a squared width above `least`, and their factor.

    `offsets[a, b]` is the squared distance between labels (actions) a and b. Returns the chosen columns and the rows
    w = L^-1 k(x) of all columns, so that the kernel matrix of all is approximately rows' rows.
    """
    dim, n = points.shape
    rows = np.zeros((most, n))
    chosen = np.empty(most, np.int64)
    widths = np.ones(n)
    squares = np.empty(n)
    ones = np.ones(dim)
    count = 0
    while count < most:
        pivot = 0
        for i in range(n):
            if widths[i] > widths[pivot]:
                pivot = i
        if widths[pivot] <= least:
            break
        for i in range(n):
            squares[i] = offsets[labels[pivot], labels[i]]
        squared_distances(points, points[:, pivot].copy(), ones, squares)
        row = rows[count]
        for i in range(n):
            row[i] = similarity(squares[i])
        for k in range(count):
            earlier = rows[k]
            at_pivot = earlier[pivot]
            for i in range(n):
                row[i] -= at_pivot * earlier[i]
        root = np.sqrt(widths[pivot])
        for i in range(n):
            row[i] /= root
            widths[i] = max(0.0, widths[i] - row[i] * row[i])
        widths[pivot] = 0.0
        chosen[count] = pivot
        count += 1
    return chosen[:count], rows[:count]


@jit
def gram(points, offsets, labels, ridge):
    """The kernel matrix of all columns, plus ridge I."""
    dim, n = points.shape
    matrix = np.empty((n, n))
    ones = np.ones(dim)
    for k in range(n):
        squares = matrix[k]
        for i in range(n):
            squares[i] = offsets[labels[k], labels[i]]
        squared_distances(points, points[:, k].copy(), ones, squares)
        for i in range(n):
            squares[i] = similarity(squares[i])
        squares[k] += ridge
    return matrix


@jit
def factorise(matrix):
    """L of L L' = matrix, in place of its lower triangle; False where it is not positive."""
    n = matrix.shape[0]
    column = np.empty(n)
    for k in range(n):
        pivot = matrix[k, k]
        if not pivot > 0.0:
            return False
        root = np.sqrt(pivot)
        matrix[k, k] = root
        for i in range(k + 1, n):
            matrix[i, k] /= root
            column[i] = matrix[i, k]
        for i in range(k + 1, n):
            factor = column[i]
            row = matrix[i]
            for j in range(k + 1, i + 1):
                row[j] -= factor * column[j]
    return True


@jit
def solve_lower(factor, targets):
    """L^-1 targets in place; one right-hand side per column."""
    n, columns = targets.shape
    for i in range(n):
        for k in range(i):
            scale = factor[i, k]
            for c in range(columns):
                targets[i, c] -= scale * targets[k, c]
        for c in range(columns):
            targets[i, c] /= factor[i, i]


@jit
def solve_upper(factor, targets):
    """L'^-1 targets in place."""
    n, columns = targets.shape
    for i in range(n - 1, -1, -1):
        for c in range(columns):
            targets[i, c] /= factor[i, i]
        for k in range(i):
            scale = factor[i, k]
            for c in range(columns):
                targets[k, c] -= scale * targets[i, c]


@jit
def normal_matrix(rows, ridge):
    """rows rows' + ridge I, of rows with one column per datum."""
    m = rows.shape[0]
    matrix = np.zeros((m, m))
    for i in range(m):
        for j in range(i + 1):
            matrix[i, j] = dot(rows[i], rows[j])
        matrix[i, i] += ridge
    return matrix


@jit
def log_likelihood(points, offsets, labels, targets, ridge, floor):
    """Of the targets (n, t) under a Gaussian process of this kernel, each column with its own best amplitude.

    Amplitudes far below `floor` count as noise, of which the smoothest function is the most likely.
    """
    n, columns = targets.shape
    matrix = gram(points, offsets, labels, ridge)
    if not factorise(matrix):
        return -np.inf
    solved = targets.copy()
    solve_lower(matrix, solved)
    total = 0.0
    for c in range(columns):
        energy = 0.0
        for i in range(n):
            energy += solved[i, c] * solved[i, c]
        total -= 0.5 * n * np.log(energy / n + floor * floor)
    for i in range(n):
        total -= columns * np.log(matrix[i, i])
    return total


@jit
def product(left, right):
    """left times right, each entry summed in order."""
    n, m, columns = left.shape[0], left.shape[1], right.shape[1]
    result = np.zeros((n, columns))
    for i in range(n):
        for k in range(m):
            scale = left[i, k]
            for c in range(columns):
                result[i, c] += scale * right[k, c]
    return result


@jit
def similarities_of(points, offsets, labels, inputs, rates):
    """The kernel between every column of `inputs` (d, n), each coordinate times its rate, and every point: (n, m).

    `labels` are those of the inputs, `offsets[a]` the squared distances of label a from the points'.
    """
    n = inputs.shape[1]
    matrix = np.empty((n, points.shape[1]))
    for i in range(n):
        matrix[i] = offsets[labels[i]]
        squared_distances(points, inputs[:, i].copy(), rates, matrix[i])
        for k in range(points.shape[1]):
            matrix[i, k] = similarity(matrix[i, k])
    return matrix

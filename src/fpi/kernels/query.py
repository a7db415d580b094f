"""Width and estimate of a query at a prefix of a cell, and whether the prefix covers it, without rounding error.

A query comes as `where`, the local columns of its active features as `ridge.locate` finds them (none if features are
dense), and their `values`.
"""

import numpy as np

from fpi._compiling import jit, jit_inline, jit_part
from fpi.kernels.columns import locate, scatter
from fpi.kernels.lending import borrow
from fpi.kernels.numerics import EPS, dd_add, dd_div, dd_dot, dd_negate, dd_whiten, dot, dot_at, fill, put, two_prod
from fpi.kernels.objects import empty

ROUNDING = 64.0  # safety: in the accuracy table real errors stay below 1/100 of the bound


@jit_inline
def whiten(store, number, where, values, x):
    """Fill `x` with R^{-T} phi at the anchor under a datum; returns the share of |phi|^2 outside the anchor."""
    t = x.size
    outside = 0.0
    if where.size == 0:
        put(x, values)
    else:
        scatter(where, values, x)
        for j in range(where.size):
            if not 0 <= where[j] < t:
                outside += values[j] * values[j]
    pool = borrow(store.pool)
    at = borrow(store.data)[number].anchor
    for i in range(t):
        if x[i] != 0.0:
            x[i] /= pool[at]
            for j in range(1, t - i):
                x[i + j] -= pool[at + j] * x[i]
        at += t - i
    return outside / store.ridge


@jit_inline
def start_width(store, values):
    """|phi|^2 before any datum."""
    return dot(values, values) / store.ridge


@jit_part
def block_start(store, cell, position, where, values):
    """Squared width and estimate of a query at a prefix that is a multiple of `every`, where a block begins."""
    if position == 0:
        return start_width(store, values), 0.0
    number = borrow(store.members)[borrow(store.cells)[cell].start + position]
    datum = borrow(store.data)[number]
    t = datum.anchor_columns
    x = empty(t, np.float64)
    outside = whiten(store, number, where, values, x)
    return dot(x, x) + outside, dot_at(borrow(store.pool), datum.anchor + t * (t + 1) // 2, x)


@jit_part
def sum_rows(pool, data, members, first, last, where, values, width2, value, stop):
    """Take a query over the members first .. last - 1 of one block, or until the squared width is at most `stop`.

    `pool`, `data` and `members` are the store's; `width2` and `value` are those of the prefix before. Returns
    squared width, estimate, and the member to go on with.
    """
    p = first
    while p < last:
        datum = data[members[p]]
        row = datum.row
        g = 0.0
        if where.size == 0:
            g = dot_at(pool, row, values)
        else:
            for j in range(where.size):
                if datum.first <= where[j] < datum.end:
                    g += pool[row + where[j]] * values[j]
        width2 = max(width2 - g * g, 0.0)
        value += g * datum.innovation
        p += 1
        if width2 <= stop:
            break
    return width2, value, p


@jit_part
def block_of(store, position):
    """Where the block begins whose sums make up the answer at a prefix."""
    return (position - 1) // store.every * store.every if position > 0 else 0


@jit_part
def state_at(store, cell, position, where, values):
    """Squared width and estimate of a query at a prefix of a cell, and the squared width at the anchor below.

    The rounding error is proportional to the last.
    """
    first, start = block_of(store, position), borrow(store.cells)[cell].start
    base, value = block_start(store, cell, first, where, values)
    pool, data, members = borrow(store.pool), borrow(store.data), borrow(store.members)
    width2, value, _ = sum_rows(pool, data, members, start + first, start + position, where, values, base, value, -1.0)
    return width2, value, base


@jit
def trace_query(store, cell, where, values, width2s, estimates):
    """Fill `width2s` and `estimates` with those at every joint prefix."""
    width2 = start_width(store, values)
    value = 0.0
    filled = 0
    pool, data, members, start = store.pool, store.data, store.members, store.cells[cell].start
    for p in range(store.cells[cell].count):
        order = data[members[start + p]].order
        fill(width2s[filled:order], width2)
        fill(estimates[filled:order], value)
        filled = order
        if p % store.every == 0:
            width2, value = block_start(store, cell, p, where, values)
        width2, value, _ = sum_rows(pool, data, members, start + p, start + p + 1, where, values, width2, value, -1.0)
    fill(width2s[filled:], width2)
    fill(estimates[filled:], value)


# --- Covered or not ---------------------------------------------------------------------------------------------------


@jit_part
def rounding(store, cell, position, base):
    """A bound on the rounding error of a squared width at a prefix."""
    if position == 0:
        return 4.0 * EPS * base
    datum = borrow(store.data)[borrow(store.members)[store.cells[cell].start + position - 1]]
    inside = (position - 1) % store.every + 1
    condition = 1.0
    if datum.anchor >= 0:
        condition = np.sqrt(1.0 + datum.trace / store.ridge)
    return ROUNDING * EPS * (inside + np.sqrt(inside) * condition) * base


@jit_part
def is_covered(store, cell, position, where, values, width2, error, threshold):
    """eq. (1): whether width <= threshold at a prefix, decided in double-double where double cannot tell.

    `error` bounds the rounding error of `width2`.
    """
    limit = threshold * threshold
    if abs(width2 - limit) > error + 4.0 * EPS * limit:
        return width2 < limit
    exact = exact_width2(store, cell, position, where, values)
    rest = dd_add(exact, dd_negate(two_prod(threshold, threshold)))
    return rest[0] <= 0.0


@jit_part
def covered_at(store, cell, position, where, values, threshold):
    """`is_covered` from nothing but the prefix."""
    width2, _, base = state_at(store, cell, position, where, values)
    error = rounding(store, cell, position, base)
    return is_covered(store, cell, position, where, values, width2, error, threshold)


@jit_part
def covered_at_anchor(store, cell, position, where, values, threshold):
    """The same at a prefix that has an anchor, which is quicker; `position` is a multiple of `every`."""
    width2, _ = block_start(store, cell, position, where, values)
    error = rounding(store, cell, position + 1, width2)
    return is_covered(store, cell, position, where, values, width2, error, threshold)


@jit_part
def exact_width2(store, cell, position, where, values):
    """|phi|^2 at a prefix in double-double, afresh from the data, in the smaller of data and feature space."""
    ridge = (store.ridge, 0.0)
    if position == 0:
        return dd_div(dd_dot(values, values), ridge)
    members, start = store.members, store.cells[cell].start
    t = store.data[members[start + position - 1]].columns
    data = empty((position, t), np.float64)
    columns = empty(store.indices.shape[1], np.int32)
    query = empty(t, np.float64)
    outside = (0.0, 0.0)
    if columns.size == 0:
        put(query, values)
        for p in range(position):
            put(data[p], store.values[members[start + p]])
    else:
        scatter(where, values, query)
        for j in range(where.size):
            if not 0 <= where[j] < t:
                outside = dd_add(outside, two_prod(values[j], values[j]))
        for p in range(position):
            number = members[start + p]
            locate(store, cell, store.indices[number], columns)
            scatter(columns, store.values[number], data[p])
    if position > t:
        n = t
        data = data.T.copy()
    else:
        n = position
    m = empty((n, n, 2), np.float64)
    x = empty((n, 2), np.float64)
    for i in range(n):
        for j in range(i + 1):
            m[i, j, 0], m[i, j, 1] = dd_dot(data[i], data[j])
        m[i, i, 0], m[i, i, 1] = dd_add((m[i, i, 0], m[i, i, 1]), ridge)
    outside = dd_div(outside, ridge)
    if position > t:
        put(x[:, 0], query)
        fill(x[:, 1], 0.0)
        return dd_add(outside, dd_whiten(m, x))
    for i in range(n):
        x[i, 0], x[i, 1] = dd_dot(data[i], query)
    rest = dd_add(dd_dot(query, query), dd_negate(dd_whiten(m, x)))
    return dd_add(outside, dd_div(rest, ridge))

"""One more datum for a `RidgeStore`: its row u, its innovation e, and an anchor where a block begins."""

import numpy as np

from fpi._compiling import jit, jit_part
from fpi.kernels.columns import locate, locate_new, scatter
from fpi.kernels.lending import borrow
from fpi.kernels.numerics import dd_add, dd_div, dd_mul, dd_negate, dd_sqrt, dot, fill, put
from fpi.kernels.objects import empty, zeros
from fpi.kernels.query import whiten
from fpi.kernels.ridge import make_room


@jit
def append(store, regression, block, indices, values, target, action, episode):
    """Add one datum to a cell.

    `indices` and `values` are its active columns, all of the store's width; dense features have no indices. `action`
    and `episode` are kept with it for the caller.
    """
    if not (
        0 <= regression < store.sizes.size
        and 0 <= block < store.blocks
        and indices.size == store.indices.shape[1]
        and values.size == store.values.shape[1]
    ):
        raise ValueError("there is no such regression or block, or the features have another size")
    cell = regression * store.blocks + block
    make_room(store, cell, indices.size)
    data, members, here = store.data, store.members, store.cells[cell]  # only now: they may be new
    dense = store.indices.shape[1] == 0
    position, start = here.count, here.start
    number = store.data_used
    datum = data[number]
    put(store.indices[number], indices)
    put(store.values[number], values)
    datum.anchor = -1
    datum.anchor_columns = 0
    trace = dot(values, values)
    if position > 0:
        last = data[members[start + position - 1]]
        datum.anchor = last.anchor
        datum.anchor_columns = last.anchor_columns
        trace += last.trace
        if position % store.every == 0:
            drop_anchor(store, cell, position, number)
    where = empty(indices.size, np.int32)
    locate_new(store, cell, indices, where)

    t = here.columns
    high = empty(t, np.float64)
    low = zeros(t, np.float64)
    value = solve(store, number, where, values, high, low)
    estimate = (value, 0.0)
    for p in range(position // store.every * store.every, position):
        other = members[start + p]
        g = deflate(store, other, where, values, high, low)
        estimate = dd_add(estimate, dd_mul(g, (data[other].innovation, 0.0)))
    square = dd_pick(where, values, high, low, 0)
    width2 = max(square[0], 0.0)
    root = dd_sqrt(dd_add((1.0, 0.0), square))
    first = 0
    end = t
    if not dense:  # u is 0 on columns that no chain of shared columns leads to
        while first < end and high[first] == 0.0:
            first += 1
        while end > first and high[end - 1] == 0.0:
            end -= 1
    row = store.pool_used - first
    low_row = store.low_used - first
    if dense and position >= store.every:  # the block before last is over: take its place
        low_row = data[members[start + position - store.every]].low_row
    else:
        store.low_used += end - first
    for i in range(first, end):
        u = dd_div((high[i], low[i]), root)
        store.pool[row + i] = u[0]
        store.low[low_row + i] = u[1]
    datum.cell = cell
    datum.order = store.sizes[regression] + 1
    datum.row = row
    datum.first = first
    datum.end = end
    datum.columns = t
    datum.low_row = low_row
    datum.action = action
    datum.episode = episode
    datum.target = target
    datum.innovation = (target - estimate[0]) / root[0]
    store.log_dets[regression] += np.log1p(width2)
    datum.log_det = store.log_dets[regression]
    datum.trace = trace
    members[start + position] = number
    here.count += 1
    store.sizes[regression] += 1
    store.data_used += 1
    store.pool_used += end - first


@jit_part
def dd_pick(where, values, high, low, first):
    """The inner product of a query and a vector in two parts, which begins at column `first`."""
    s = (0.0, 0.0)
    if where.size == 0:
        for i in range(values.size):
            s = dd_add(s, dd_mul((high[i], low[i]), (values[i], 0.0)))
    else:
        for j in range(where.size):
            i = where[j] - first
            if 0 <= i < high.size:
                s = dd_add(s, dd_mul((high[i], low[i]), (values[j], 0.0)))
    return s


@jit_part
def deflate(store, number, where, values, high, low):
    """Take the part along the row u of a datum out of Sigma^{-1} phi; returns g = u' phi.

    In double-double: where phi is nearly in the span of the data, next to nothing is left of 1/ridge.
    """
    datum = borrow(store.data)[number]
    first, end = datum.first, datum.end
    u_high = borrow(store.pool)[datum.row + first : datum.row + end]
    u_low = borrow(store.low)[datum.low_row + first : datum.low_row + end]
    g = dd_pick(where, values, u_high, u_low, first)
    if g[0] != 0.0:
        for i in range(first, end):
            part = dd_mul(g, (u_high[i - first], np.float64(u_low[i - first])))
            high[i], low[i] = dd_add((high[i], low[i]), dd_negate(part))
    return g


@jit_part
def solve(store, number, where, values, high, low):
    """Sigma^{-1} phi at the anchor under a datum, in two parts; returns the estimate there."""
    ridge = (store.ridge, 0.0)
    if where.size == 0:
        for i in range(high.size):
            high[i], low[i] = dd_div((values[i], 0.0), ridge)
    else:
        fill(high, 0.0)
        for j in range(where.size):
            if where[j] >= 0:
                high[where[j]], low[where[j]] = dd_div((values[j], 0.0), ridge)
    datum, pool = store.data[number], store.pool
    if datum.anchor < 0:
        return 0.0
    t = datum.anchor_columns
    x = empty(t, np.float64)
    whiten(store, number, where, values, x)
    at = datum.anchor
    z = at + t * (t + 1) // 2
    value = dot(x, pool[z : z + t])
    fill(low[:t], 0.0)
    for i in range(t - 1, -1, -1):  # R v = x
        row = at + i * t - i * (i - 1) // 2
        high[i] = (x[i] - dot(pool[row + 1 : row + t - i], high[i + 1 : t])) / pool[row]
    return value


@jit_part
def drop_anchor(store, cell, position, number):
    """Factor [sqrt(ridge) I; Phi] of the first `position` data by rotating them into the last anchor."""
    data, pool, members, start = store.data, store.pool, store.members, store.cells[cell].start
    t = store.cells[cell].columns
    last = data[members[start + position - 1]]
    old_t = last.anchor_columns
    at = store.pool_used
    z = at + t * (t + 1) // 2
    fill(pool[at : z + t], 0.0)
    root = np.sqrt(store.ridge)
    to = at
    source = last.anchor
    for i in range(t):
        if i < old_t:
            for j in range(old_t - i):
                pool[to + j] = pool[source + j]
            source += old_t - i
        else:
            pool[to] = root
        to += t - i
    for i in range(old_t):
        pool[z + i] = pool[source + i]

    where = empty(store.indices.shape[1], np.int32)
    y = empty(t, np.float64)
    for p in range(position - store.every, position):
        other = members[start + p]
        if where.size == 0:
            put(y, store.values[other])
        else:
            locate(store, cell, store.indices[other], where)
            scatter(where, store.values[other], y)
        q = data[other].target
        row = at
        for i in range(t):
            length = t - i
            if y[i] != 0.0:
                r = pool[row : row + length]
                norm = np.sqrt(r[0] * r[0] + y[i] * y[i])
                c = r[0] / norm
                s = y[i] / norm
                for j in range(length):
                    rotated = c * r[j] + s * y[i + j]
                    y[i + j] = c * y[i + j] - s * r[j]
                    r[j] = rotated
                r[0] = norm
                rotated = c * pool[z + i] + s * q
                q = c * q - s * pool[z + i]
                pool[z + i] = rotated
            row += length
    data[number].anchor = at
    data[number].anchor_columns = t
    store.pool_used = z + t

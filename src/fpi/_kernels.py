"""The compiled loops that agents share: arrays in, arrays out.

No fastmath and no BLAS: sums run in one fixed order, so the same data give the same bits on every
machine, alone or in a batch, in one process or in many.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpi._compiling import jit, jit_inline

IntVector = NDArray[np.int64]
IntMatrix = NDArray[np.int64]
IndexVector = NDArray[np.int32]
IndexMatrix = NDArray[np.int32]
FloatVector = NDArray[np.float64]
LowVector = NDArray[np.float32]
FloatMatrix = NDArray[np.float64]


@jit_inline
def tile_indices(x, grid, out):
    """Write the active tile of every tiling; False if the observation is not finite.

    A row of `grid` describes one dimension: its low end, tiles per unit, cells, whether it is periodic, and the shift
    of every tiling as a share of a tile.
    """
    dims = grid.shape[0]
    tilings = grid.shape[1] - 4
    cells_per_tiling = 1
    for j in range(dims):
        if not np.isfinite(x[j]):
            return False
        cells_per_tiling *= int(grid[j, 2])
    for i in range(tilings):
        index = 0
        for j in range(dims):
            position = (x[j] - grid[j, 0]) * grid[j, 1]
            cells = int(grid[j, 2])
            shift = grid[j, 4 + i]
            if grid[j, 3] != 0.0:
                if not np.isfinite(position):  # overflowed: any one cell is as good as another
                    position = 0.0
                cell = int(np.floor(np.fmod(position, cells) + shift)) % cells
            elif position <= 0.0:  # clipped, and safe for values an integer cannot hold
                cell = 0
            else:
                # With several tilings there is one more cell than tiles: the range still ends at `tiles`.
                tiles = cells - 1 if tilings > 1 else cells
                cell = min(int(np.floor(min(position, float(tiles)) + shift)), cells - 1)
            index = index * cells + cell
        out[i] = i * cells_per_tiling + index
    return True


# --- The bank: many prefix regressions in a few append-only arrays --------------------------------------
#
# A bank holds R regressions of `blocks` blocks each; (regression, block) is a cell with a ridge regression
# of its own. Data of all cells stand in one log, in order of arrival. With Sigma_k = ridge*I + sum phi phi'
# over the first k data of a cell,
#     u_k = Sigma_{k-1}^{-1} phi_k / sqrt(1 + |phi_k|^2),   e_k = (q_k - phi_k' theta_{k-1}) / sqrt(1 + |phi_k|^2),
# where |phi|^2 = phi' Sigma_{k-1}^{-1} phi, so that for any query phi and g_k = u_k' phi
#     |phi|^2 at k = |phi|^2 at k-1 - g_k^2     and     phi' theta_k = phi' theta_{k-1} + g_k e_k.
# Every `every` data the sums start afresh from an anchor: the triangular factor R of Sigma with its right
# hand side z, so errors do not pile up. The answer at prefix k is DEFINED as the anchor below it plus the
# sums after it: it depends on data 1..k alone.


class Bank(NamedTuple):
    ridge: float
    dim: int  # columns of one block
    blocks: int
    every: int  # data of a cell between two anchors
    cells: IntMatrix  # per cell, see COUNT ...
    sizes: IntVector  # per regression: data in all its blocks
    log_dets: FloatVector  # per regression: log det Sigma - log det Sigma_0
    ints: IntMatrix  # per datum, see ROW ...
    floats: FloatMatrix  # per datum, see TARGET ...
    indices: IndexMatrix  # per datum: its active columns; no columns if features are dense
    values: FloatMatrix  # per datum: the values there
    members: IndexVector  # per cell: a segment with the numbers of its data, in order
    pool: FloatVector  # the rows u and the anchors
    low: LowVector  # what the rows u of the running block lose by rounding; later ones are made from both parts
    slots: IntMatrix  # hash table (cell, column) -> local column, data before it; sparse features only
    used: IntVector  # how much of each growing array is in use, see LOG ...


class Core(NamedTuple):
    """What a query needs of a bank. Every array that is handed on costs time, more than a short query itself."""

    ridge: float
    dim: int
    blocks: int
    every: int
    cells: IntMatrix
    ints: IntMatrix
    floats: FloatMatrix
    indices: IndexMatrix
    values: FloatMatrix
    members: IndexVector
    pool: FloatVector
    slots: IntMatrix


COUNT, LOCAL, START, ROOM = range(4)  # data, columns touched, segment of `members`
# Where row u begins, its local columns, joint prefix, cell, columns touched by then, low part, anchor; and two that are
# kept for the caller.
ROW, FIRST_COLUMN, END_COLUMN, ORDER, CELL, COLUMNS, LOW_ROW, ANCHOR, ANCHOR_DIM, ACTION_TAKEN, EPISODE = range(11)
TARGET, INNOVATION, LOG_DET, TRACE = range(4)
LOG, MEMBERS, POOL, LOW, SLOTS = range(5)
EPS = 2.220446049250313e-16
ROUNDING = 64.0  # safety: in the accuracy table real errors stay below 1/100 of the bound


@jit_inline
def core_of(bank):
    return Core(
        bank.ridge,
        bank.dim,
        bank.blocks,
        bank.every,
        bank.cells,
        bank.ints,
        bank.floats,
        bank.indices,
        bank.values,
        bank.members,
        bank.pool,
        bank.slots,
    )


@jit
def dot(a, b):
    """Inner product in one fixed order: four running sums, which also lets the compiler use vectors."""
    n = a.size
    s0 = s1 = s2 = s3 = 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
    for i in range(whole, n):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@jit_inline
def dot_at(pool, first, b):
    """`dot` of b and the numbers of the pool from `first` on; a slice would cost more than the sum of few."""
    n = b.size
    s0 = s1 = s2 = s3 = 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        s0 += pool[first + i] * b[i]
        s1 += pool[first + i + 1] * b[i + 1]
        s2 += pool[first + i + 2] * b[i + 2]
        s3 += pool[first + i + 3] * b[i + 3]
    for i in range(whole, n):
        s0 += pool[first + i] * b[i]
    return (s0 + s1) + (s2 + s3)


@jit_inline
def mix(z):
    """The finaliser of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit_inline
def pick(seed, episode, stage, m):
    """A number below m that looks random and is the same wherever it is asked for."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    z = mix(np.uint64(seed) + golden * np.uint64(episode + 1))
    z = mix(z + golden * np.uint64(stage + 1))
    return np.int64(z % np.uint64(m))


@jit_inline
def slot_of(slots, code):
    """Where `code` stands in the hash table, or the empty slot where it would go."""
    mask = slots.shape[0] - 1
    i = np.int64(mix(np.uint64(code))) & mask
    while slots[i, 0] != 0 and slots[i, 0] != code:
        i = (i + 1) & mask
    return i


@jit
def move_slots(old, new):
    """Enter all of one hash table into a larger, empty one."""
    for i in range(old.shape[0]):
        if old[i, 0] != 0:
            new[slot_of(new, old[i, 0])] = old[i]


@jit_inline
def locate(bank, cell, indices, where):
    """Local columns of a sparse query in a cell; -1 for a column that no datum there has touched.

    Returns how many data came before the first that touched any of them.
    """
    before = bank.cells[cell, COUNT]
    for j in range(indices.size):
        where[j] = -1
        if indices[j] >= 0:  # a negative index is padding
            i = slot_of(bank.slots, cell * bank.dim + indices[j] + 1)
            if bank.slots[i, 0] != 0:
                where[j] = bank.slots[i, 1]
                before = min(before, bank.slots[i, 2])
    return before


@jit
def settle(bank, cell, indices, where):
    """Like `locate`, but gives untouched columns the next local number."""
    for j in range(indices.size):
        where[j] = -1
        if indices[j] < 0:
            continue
        code = cell * bank.dim + indices[j] + 1
        i = slot_of(bank.slots, code)
        if bank.slots[i, 0] == 0:
            bank.slots[i, 0] = code
            bank.slots[i, 1] = bank.cells[cell, LOCAL]
            bank.slots[i, 2] = bank.cells[cell, COUNT]
            bank.cells[cell, LOCAL] += 1
            bank.used[SLOTS] += 1
        where[j] = bank.slots[i, 1]


@jit_inline
def project(bank, datum, where, values):
    """g = u' phi for one datum of the log."""
    row = bank.ints[datum, ROW]
    if bank.indices.shape[1] == 0:
        return dot_at(bank.pool, row, values)
    g = 0.0
    for j in range(where.size):
        if bank.ints[datum, FIRST_COLUMN] <= where[j] < bank.ints[datum, END_COLUMN]:
            g += bank.pool[row + where[j]] * values[j]
    return g


@jit_inline
def scatter(where, values, y):
    """A sparse vector as a dense one over the first y.size local columns."""
    y[:] = 0.0
    for j in range(where.size):
        if 0 <= where[j] < y.size:
            y[where[j]] += values[j]


@jit_inline
def whiten(bank, datum, where, values, x):
    """x = R^{-T} phi at the anchor under `datum`; returns the share of |phi|^2 outside the anchor."""
    t = x.size
    outside = 0.0
    if bank.indices.shape[1] == 0:
        x[:] = values
    else:
        scatter(where, values, x)
        for j in range(where.size):
            if not 0 <= where[j] < t:
                outside += values[j] * values[j]
    at = bank.ints[datum, ANCHOR]
    for i in range(t):
        if x[i] != 0.0:
            x[i] /= bank.pool[at]
            for j in range(1, t - i):
                x[i + j] -= bank.pool[at + j] * x[i]
        at += t - i
    return outside / bank.ridge


# --- Double-double: numbers as unevaluated sums of two doubles, about 32 digits ---------------------------


@jit
def two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@jit
def two_prod(a, b):
    """a * b without error, by splitting both factors in halves."""
    p = a * b
    t = 134217729.0 * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = 134217729.0 * b
    b_high = t - (t - b)
    b_low = b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


@jit
def dd_add(a, b):
    s, e = two_sum(a[0], b[0])
    return two_sum(s, e + (a[1] + b[1]))


@jit
def dd_mul(a, b):
    p, e = two_prod(a[0], b[0])
    return two_sum(p, e + (a[0] * b[1] + a[1] * b[0]))


@jit
def dd_negate(a):
    return -a[0], -a[1]


@jit
def dd_div(a, b):
    q = a[0] / b[0]
    rest = dd_add(a, dd_negate(dd_mul(b, (q, 0.0))))
    return two_sum(q, (rest[0] + rest[1]) / b[0])


@jit
def dd_sqrt(a):
    r = np.sqrt(a[0])
    rest = dd_add(a, dd_negate(two_prod(r, r)))
    return two_sum(r, (rest[0] + rest[1]) / (2.0 * r))


@jit
def dd_whiten(m, x):
    """Solve L w = x in place, with L L' = m factored in place; both hold (high, low) parts. Returns w'w."""
    n = x.shape[0]
    square = (0.0, 0.0)
    for i in range(n):
        for j in range(i + 1):
            s = (m[i, j, 0], m[i, j, 1])
            for k in range(j):
                if m[i, k, 0] != 0.0 and m[j, k, 0] != 0.0:
                    product = dd_mul((m[i, k, 0], m[i, k, 1]), (m[j, k, 0], m[j, k, 1]))
                    s = dd_add(s, dd_negate(product))
            s = dd_sqrt(s) if i == j else dd_div(s, (m[j, j, 0], m[j, j, 1]))
            m[i, j, 0], m[i, j, 1] = s
        s = (x[i, 0], x[i, 1])
        for k in range(i):
            s = dd_add(s, dd_negate(dd_mul((m[i, k, 0], m[i, k, 1]), (x[k, 0], x[k, 1]))))
        s = dd_div(s, (m[i, i, 0], m[i, i, 1]))
        x[i, 0], x[i, 1] = s
        square = dd_add(square, dd_mul(s, s))
    return square


@jit
def dd_dot(a, b):
    s = (0.0, 0.0)
    for i in range(a.size):
        if a[i] != 0.0 and b[i] != 0.0:
            s = dd_add(s, two_prod(a[i], b[i]))
    return s


@jit
def exact_width2(bank, cell, position, where, values):
    """|phi|^2 at a prefix in double-double, afresh from the data, in the smaller of data and feature space."""
    ridge = (bank.ridge, 0.0)
    if position == 0:
        return dd_div(dd_dot(values, values), ridge)
    start = bank.cells[cell, START]
    t = bank.ints[bank.members[start + position - 1], COLUMNS]
    data = np.empty((position, t))
    columns = np.empty(bank.indices.shape[1], np.int32)
    query = np.empty(t)
    outside = (0.0, 0.0)
    if bank.indices.shape[1] == 0:
        query[:] = values
        for p in range(position):
            data[p] = bank.values[bank.members[start + p]]
    else:
        scatter(where, values, query)
        for j in range(where.size):
            if not 0 <= where[j] < t:
                outside = dd_add(outside, two_prod(values[j], values[j]))
        for p in range(position):
            datum = bank.members[start + p]
            locate(bank, cell, bank.indices[datum], columns)
            scatter(columns, bank.values[datum], data[p])
    if position > t:
        n = t
        data = data.T.copy()
    else:
        n = position
    m = np.empty((n, n, 2))
    x = np.empty((n, 2))
    for i in range(n):
        for j in range(i + 1):
            m[i, j, 0], m[i, j, 1] = dd_dot(data[i], data[j])
        m[i, i, 0], m[i, i, 1] = dd_add((m[i, i, 0], m[i, i, 1]), ridge)
    outside = dd_div(outside, ridge)
    if position > t:
        x[:, 0] = query
        x[:, 1] = 0.0
        return dd_add(outside, dd_whiten(m, x))
    for i in range(n):
        x[i, 0], x[i, 1] = dd_dot(data[i], query)
    rest = dd_add(dd_dot(query, query), dd_negate(dd_whiten(m, x)))
    return dd_add(outside, dd_div(rest, ridge))


@jit
def exact_cover(bank, cell, position, where, values, threshold):
    rest = dd_add(exact_width2(bank, cell, position, where, values), dd_negate(two_prod(threshold, threshold)))
    return rest[0] <= 0.0


@jit_inline
def start_width(bank, values):
    """|phi|^2 before any datum."""
    return dot(values, values) / bank.ridge


@jit_inline
def advance(bank, datum, position, where, values, width2, value, base):
    """Take a query from prefix `position` of a cell to the next one, over `datum`.

    Returns the squared width and the estimate there, and the squared width at the anchor below, which the
    rounding error is proportional to.
    """
    if position % bank.every == 0 and position > 0:
        x = np.empty(bank.ints[datum, ANCHOR_DIM])
        outside = whiten(bank, datum, where, values, x)
        t = x.size
        z = bank.ints[datum, ANCHOR] + t * (t + 1) // 2
        width2 = dot(x, x) + outside
        value = dot_at(bank.pool, z, x)
        base = width2
    g = project(bank, datum, where, values)
    return max(width2 - g * g, 0.0), value + g * bank.floats[datum, INNOVATION], base


@jit_inline
def rounding(bank, cell, position, base):
    """A bound on the rounding error of a squared width at a prefix."""
    if position == 0:
        return 4.0 * EPS * base
    datum = bank.members[bank.cells[cell, START] + position - 1]
    inside = (position - 1) % bank.every + 1
    condition = 1.0
    if bank.ints[datum, ANCHOR] >= 0:
        condition = np.sqrt(1.0 + bank.floats[datum, TRACE] / bank.ridge)
    return ROUNDING * EPS * (inside + np.sqrt(inside) * condition) * base


@jit_inline
def is_covered(bank, cell, position, where, values, width2, base, threshold):
    """Whether width <= threshold at a prefix: decided in double-double where double cannot tell."""
    limit = threshold * threshold
    error = rounding(bank, cell, position, base) + 4.0 * EPS * limit
    if abs(width2 - limit) > error:
        return width2 < limit
    return exact_cover(bank, cell, position, where, values, threshold)


@jit
def walk(pool, ints, floats, members, dense, first, last, where, values, width2, value, stop):
    """`advance` over the members first .. last - 1 of one block, or until the squared width is at most `stop`.

    Returns the member to go on with, too. Spelt out: handing arrays to `advance` would cost more than a row of it.
    """
    n = values.size
    whole = n - n % 4
    p = first
    while p < last:
        datum = members[p]
        row = ints[datum, ROW]
        g = 0.0
        if dense:
            s0 = s1 = s2 = s3 = 0.0
            for i in range(0, whole, 4):
                s0 += pool[row + i] * values[i]
                s1 += pool[row + i + 1] * values[i + 1]
                s2 += pool[row + i + 2] * values[i + 2]
                s3 += pool[row + i + 3] * values[i + 3]
            for i in range(whole, n):
                s0 += pool[row + i] * values[i]
            g = (s0 + s1) + (s2 + s3)
        else:
            for j in range(where.size):
                if ints[datum, FIRST_COLUMN] <= where[j] < ints[datum, END_COLUMN]:
                    g += pool[row + where[j]] * values[j]
        width2 = max(width2 - g * g, 0.0)
        value += g * floats[datum, INNOVATION]
        p += 1
        if width2 <= stop:
            break
    return width2, value, p


@jit_inline
def block_start(bank, cell, position, where, values):
    """Squared width and estimate of a query at a prefix that is a multiple of `every`, where a block begins."""
    if position == 0:
        return start_width(bank, values), 0.0
    datum = bank.members[bank.cells[cell, START] + position]
    t = bank.ints[datum, ANCHOR_DIM]
    x = np.empty(t)
    outside = whiten(bank, datum, where, values, x)
    return dot(x, x) + outside, dot_at(bank.pool, bank.ints[datum, ANCHOR] + t * (t + 1) // 2, x)


@jit_inline
def state_at(bank, cell, position, where, values):
    """Squared width, estimate and anchor width of a query at one prefix of a cell."""
    first = (position - 1) // bank.every * bank.every if position > 0 else 0
    base, value = block_start(bank, cell, first, where, values)
    start, dense = bank.cells[cell, START], bank.indices.shape[1] == 0
    width2, value, _ = walk(
        bank.pool,
        bank.ints,
        bank.floats,
        bank.members,
        dense,
        start + first,
        start + position,
        where,
        values,
        base,
        value,
        -1.0,
    )
    return width2, value, base


@jit
def covered_at_anchor(bank, cell, position, where, values, threshold):
    """Whether the query is covered at a prefix that has an anchor, `position` being a multiple of `every`."""
    width2, _ = block_start(bank, cell, position, where, values)
    limit = threshold * threshold
    error = rounding(bank, cell, position + 1, width2) + 4.0 * EPS * limit
    if abs(width2 - limit) > error:
        return width2 < limit
    return exact_cover(bank, cell, position, where, values, threshold)


@jit
def cover_position(bank, cell, where, values, threshold, after):
    """The first prefix of a cell that covers the query, or -1; the first `after` data are known not to.

    The newest prefix is asked first; then anchors are bisected, which is sound since coverage never ends;
    then one block is scanned.
    """
    count = bank.cells[cell, COUNT]
    if 0 < count <= after:
        return -1
    low = after // bank.every  # everything up to here is not covered, or is prefix 0
    high = (count - 1) // bank.every + 1 if count > 0 else 0  # in units of `every`, clipped to count
    if high > low + 1:
        width2, _, base = state_at(bank, cell, count, where, values)
        if not is_covered(bank, cell, count, where, values, width2, base, threshold):
            return -1
        while high - low > 1:
            middle = (low + high) // 2
            if covered_at_anchor(bank, cell, middle * bank.every, where, values, threshold):
                high = middle
            else:
                low = middle
    position = low * bank.every
    last = min(high * bank.every, count)
    base, value = block_start(bank, cell, position, where, values) if last > 0 else (start_width(bank, values), 0.0)
    if position == 0 and is_covered(bank, cell, 0, where, values, base, base, threshold):
        return 0
    limit = threshold * threshold
    stop = limit + rounding(bank, cell, last, base) + 4.0 * EPS * limit  # above, it is certainly uncovered
    start, dense = bank.cells[cell, START], bank.indices.shape[1] == 0
    width2 = base
    while position < last:
        width2, value, p = walk(
            bank.pool,
            bank.ints,
            bank.floats,
            bank.members,
            dense,
            start + position,
            start + last,
            where,
            values,
            width2,
            value,
            stop,
        )
        position = p - start
        if is_covered(bank, cell, position, where, values, width2, base, threshold):
            return position
    return -1


@jit
def order_of(bank, cell, position):
    """The joint prefix of the regression at which a cell reached `position`."""
    if position == 0:
        return 0
    return bank.ints[bank.members[bank.cells[cell, START] + position - 1], ORDER]


@jit
def position_at(bank, cell, k):
    """How many of the first k data of a regression lie in this cell."""
    low = 0
    high = bank.cells[cell, COUNT]
    start = bank.cells[cell, START]
    while low < high:
        middle = (low + high) // 2
        if bank.ints[bank.members[start + middle], ORDER] <= k:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def trace_query(bank, cell, where, values, width2s, estimates):
    """Widths (squared) and estimates at every joint prefix."""
    width2 = start_width(bank, values)
    value = 0.0
    base = width2
    filled = 0
    start = bank.cells[cell, START]
    for p in range(bank.cells[cell, COUNT]):
        datum = bank.members[start + p]
        order = bank.ints[datum, ORDER]
        width2s[filled:order] = width2
        estimates[filled:order] = value
        filled = order
        width2, value, base = advance(bank, datum, p, where, values, width2, value, base)
    width2s[filled:] = width2
    estimates[filled:] = value


@jit
def append(bank, regression, block, indices, values, target, action, episode):
    """Add one datum; False, and nothing done, if an array has no room for it."""
    cell = regression * bank.blocks + block
    position = bank.cells[cell, COUNT]
    start = bank.cells[cell, START]
    columns = bank.cells[cell, LOCAL] + indices.size
    anchor = columns * (columns + 3) // 2 if position > 0 and position % bank.every == 0 else 0
    if (
        bank.used[LOG] == bank.ints.shape[0]
        or (position == bank.cells[cell, ROOM] and bank.used[MEMBERS] + max(4, 2 * position) > bank.members.size)
        or bank.used[POOL] + columns + anchor > bank.pool.size
        or bank.used[LOW] + columns > bank.low.size
        or 2 * (bank.used[SLOTS] + indices.size) > bank.slots.shape[0]
    ):
        return False
    if position == bank.cells[cell, ROOM]:  # move the segment to the end, twice as long
        fresh = bank.used[MEMBERS]
        room = max(4, 2 * position)
        bank.members[fresh : fresh + position] = bank.members[start : start + position]
        bank.cells[cell, START] = start = fresh
        bank.cells[cell, ROOM] = room
        bank.used[MEMBERS] += room
    where = np.empty(indices.size, np.int32)
    datum = bank.used[LOG]
    ints = bank.ints[datum]
    if bank.indices.shape[1] > 0:
        bank.indices[datum] = indices
    bank.values[datum] = values
    ints[ANCHOR] = -1
    ints[ANCHOR_DIM] = 0
    trace = dot(values, values)
    if position > 0:
        last = bank.members[start + position - 1]
        ints[ANCHOR] = bank.ints[last, ANCHOR]
        ints[ANCHOR_DIM] = bank.ints[last, ANCHOR_DIM]
        trace += bank.floats[last, TRACE]
        if position % bank.every == 0:
            drop_anchor(bank, cell, position, datum)
    settle(bank, cell, indices, where)

    t = bank.cells[cell, LOCAL]
    high = np.empty(t)
    low = np.zeros(t)
    value = solve(bank, datum, where, values, high, low)
    estimate = (value, 0.0)
    for p in range(position // bank.every * bank.every, position):
        other = bank.members[start + p]
        g = deflate(bank, other, where, values, high, low)
        estimate = dd_add(estimate, dd_mul(g, (bank.floats[other, INNOVATION], 0.0)))
    square = dd_pick(where, values, high, low, 0)
    width2 = max(square[0], 0.0)
    root = dd_sqrt(dd_add((1.0, 0.0), square))
    first = 0
    end = t
    if bank.indices.shape[1] > 0:  # u is 0 on columns that no chain of shared columns leads to
        while first < end and high[first] == 0.0:
            first += 1
        while end > first and high[end - 1] == 0.0:
            end -= 1
    row = bank.used[POOL] - first  # where column 0 would be
    low_row = bank.used[LOW] - first
    if bank.indices.shape[1] == 0 and position >= bank.every:  # the block before last is over: take its place
        low_row = bank.ints[bank.members[start + position - bank.every], LOW_ROW]
    else:
        bank.used[LOW] += end - first
    for i in range(first, end):
        u = dd_div((high[i], low[i]), root)
        bank.pool[row + i] = u[0]
        bank.low[low_row + i] = u[1]
    ints[CELL] = cell
    ints[ORDER] = bank.sizes[regression] + 1
    ints[ROW] = row
    ints[FIRST_COLUMN] = first
    ints[END_COLUMN] = end
    ints[COLUMNS] = t
    ints[LOW_ROW] = low_row
    ints[ACTION_TAKEN] = action
    ints[EPISODE] = episode
    bank.floats[datum, TARGET] = target
    bank.floats[datum, INNOVATION] = (target - estimate[0]) / root[0]
    bank.log_dets[regression] += np.log1p(width2)
    bank.floats[datum, LOG_DET] = bank.log_dets[regression]
    bank.floats[datum, TRACE] = trace
    bank.members[start + position] = datum
    bank.cells[cell, COUNT] += 1
    bank.sizes[regression] += 1
    bank.used[LOG] += 1
    bank.used[POOL] += end - first
    return True


@jit
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


@jit
def deflate(bank, datum, where, values, high, low):
    """Take the part along one row u out of Sigma^{-1} phi; returns g = u' phi.

    In double-double: where phi is nearly in the span of the data, next to nothing is left of 1/ridge.
    """
    row = bank.ints[datum, ROW]
    low_row = bank.ints[datum, LOW_ROW]
    first = bank.ints[datum, FIRST_COLUMN]
    end = bank.ints[datum, END_COLUMN]
    u_high = bank.pool[row + first : row + end]
    u_low = bank.low[low_row + first : low_row + end]
    g = dd_pick(where, values, u_high, u_low, first)
    if g[0] != 0.0:
        for i in range(first, end):
            part = dd_mul(g, (u_high[i - first], np.float64(u_low[i - first])))
            high[i], low[i] = dd_add((high[i], low[i]), dd_negate(part))
    return g


@jit
def solve(bank, datum, where, values, high, low):
    """Sigma^{-1} phi at the anchor under `datum`, in two parts; returns the estimate there."""
    ridge = (bank.ridge, 0.0)
    if where.size == 0:
        for i in range(high.size):
            high[i], low[i] = dd_div((values[i], 0.0), ridge)
    else:
        high[:] = 0.0
        for j in range(where.size):
            if where[j] >= 0:
                high[where[j]], low[where[j]] = dd_div((values[j], 0.0), ridge)
    if bank.ints[datum, ANCHOR] < 0:
        return 0.0
    t = bank.ints[datum, ANCHOR_DIM]
    x = np.empty(t)
    whiten(bank, datum, where, values, x)
    at = bank.ints[datum, ANCHOR]
    z = at + t * (t + 1) // 2
    value = dot(x, bank.pool[z : z + t])
    low[:t] = 0.0
    for i in range(t - 1, -1, -1):  # R v = x
        row = at + i * t - i * (i - 1) // 2
        high[i] = (x[i] - dot(bank.pool[row + 1 : row + t - i], high[i + 1 : t])) / bank.pool[row]
    return value


@jit
def drop_anchor(bank, cell, position, datum):
    """Factor [sqrt(ridge) I; Phi] of the first `position` data by rotating them into the last anchor."""
    start = bank.cells[cell, START]
    t = bank.cells[cell, LOCAL]
    last = bank.members[start + position - 1]
    old = bank.ints[last, ANCHOR]
    old_t = bank.ints[last, ANCHOR_DIM]
    at = bank.used[POOL]
    z = at + t * (t + 1) // 2
    bank.pool[at : z + t] = 0.0
    root = np.sqrt(bank.ridge)
    to = at
    source = old
    for i in range(t):
        if i < old_t:
            for j in range(old_t - i):
                bank.pool[to + j] = bank.pool[source + j]
            source += old_t - i
        else:
            bank.pool[to] = root
        to += t - i
    for i in range(old_t):
        bank.pool[z + i] = bank.pool[source + i]

    where = np.empty(bank.indices.shape[1], np.int32)
    y = np.empty(t)
    for p in range(position - bank.every, position):
        other = bank.members[start + p]
        if bank.indices.shape[1] == 0:
            y[:] = bank.values[other]
        else:
            locate(bank, cell, bank.indices[other], where)
            scatter(where, bank.values[other], y)
        q = bank.floats[other, TARGET]
        row = at
        for i in range(t):
            length = t - i
            if y[i] != 0.0:
                r = bank.pool[row : row + length]
                norm = np.sqrt(r[0] * r[0] + y[i] * y[i])
                c = r[0] / norm
                s = y[i] / norm
                for j in range(length):
                    rotated = c * r[j] + s * y[i + j]
                    y[i + j] = c * y[i + j] - s * r[j]
                    r[j] = rotated
                r[0] = norm
                rotated = c * bank.pool[z + i] + s * q
                q = c * q - s * bank.pool[z + i]
                bank.pool[z + i] = rotated
            row += length
    bank.ints[datum, ANCHOR] = at
    bank.ints[datum, ANCHOR_DIM] = t
    bank.used[POOL] = z + t


# --- Decisions ------------------------------------------------------------------------------------------
#
# A query has one row of features shared by all actions (separate blocks: action a asks block a), or one row
# per action (a single block). `window` is how many of the newest prefixes the freezing may use: without
# limit for exact freezing, 1 for none.


FIRST, WIDEST, GREEDY, RANDOM = range(4)  # exploring rules
TIE = 1e-9


@jit
def best(scores, covered):
    """The lowest index with covered < 0 whose score ties with the largest."""
    top = -np.inf
    for a in range(scores.size):
        if covered[a] < 0 and scores[a] > top:
            top = scores[a]
    bar = top - TIE * (1.0 + abs(top))
    for a in range(scores.size):
        if covered[a] < 0 and scores[a] >= bar:
            return a
    return -1


@jit_inline
def explore(rule, covered, width2, value, seed, episode, stage):
    """An uncovered action (covered < 0) by one of the exploring rules."""
    if rule == WIDEST:
        return best(np.sqrt(width2), covered)
    if rule == GREEDY:
        return best(value, covered)
    skip = 0
    if rule == RANDOM:
        uncovered = 0
        for a in range(covered.size):
            uncovered += covered[a] < 0
        skip = pick(seed, episode, stage, uncovered)
    for a in range(covered.size):
        if covered[a] < 0:
            if skip == 0:
                return a
            skip -= 1
    return -1


@jit_inline
def cell_and_row(blocks, regression, action):
    if blocks > 1:
        return regression * blocks + action, 0
    return regression, action


@jit
def consult(bank, regression, indices, values, threshold, allowed, covered, width2, value):
    """What all data say of the allowed actions: their coverage (negative: uncovered), squared widths and estimates.

    Returns the first joint prefix that covers all of them, or -1.
    """
    k = 0
    core = core_of(bank)
    where = np.empty(indices.shape[1], np.int32)
    for a in range(covered.size):
        covered[a] = 0.0
        if allowed[a]:
            cell, row = cell_and_row(core.blocks, regression, a)
            locate(core, cell, indices[row], where)
            count = core.cells[cell, COUNT]
            width2[a], value[a], base = state_at(core, cell, count, where, values[row])
            if not is_covered(core, cell, count, where, values[row], width2[a], base, threshold):
                covered[a] = -1.0
                k = -1
    if k < 0:
        return -1
    for a in range(covered.size):
        if allowed[a]:
            cell, row = cell_and_row(core.blocks, regression, a)
            locate(core, cell, indices[row], where)
            position = k if core.blocks == 1 else position_at(core, cell, k)
            before, _, base = state_at(core, cell, position, where, values[row])
            if not is_covered(core, cell, position, where, values[row], before, base, threshold):
                k = order_of(core, cell, cover_position(core, cell, where, values[row], threshold, position))
    return k


@jit
def estimate(bank, regression, indices, values, k, allowed, width2, value):
    """Squared widths and estimates of the allowed actions at joint prefix k."""
    core = core_of(bank)
    where = np.empty(indices.shape[1], np.int32)
    for a in range(value.size):
        if allowed[a]:
            cell, row = cell_and_row(core.blocks, regression, a)
            locate(core, cell, indices[row], where)
            width2[a], value[a], _ = state_at(
                core, cell, k if core.blocks == 1 else position_at(core, cell, k), where, values[row]
            )


@jit
def largest_square(values):
    """The largest squared norm of a row; NaN if any number is."""
    most = 0.0
    for i in range(values.shape[0]):
        square = 0.0
        for j in range(values.shape[1]):
            square += values[i, j] * values[i, j]
        if not square <= most:
            most = square
            if np.isnan(most):
                return most
    return most


@jit
def log_det_at(bank, regression, k):
    """log det Sigma_k - log det Sigma_0 of a regression at joint prefix k."""
    for block in range(bank.blocks):
        cell = regression * bank.blocks + block
        position = position_at(bank, cell, k)
        if position > 0:
            datum = bank.members[bank.cells[cell, START] + position - 1]
            if bank.ints[datum, ORDER] == k:
                return bank.floats[datum, LOG_DET]
    return 0.0


@jit_inline
def frozen_at(k, size, window):
    """eq. (2): the freezing prefix, or the oldest one kept if only the last `window` are."""
    return max(k, size - window + 1)


@jit
def decide(bank, regression, indices, values, actions, threshold, window, rule, seed, episode, stage):
    """Algorithm 1, line 3, from nothing but the data. Returns 2 * action, plus 1 if the state is uncovered."""
    every = np.ones(actions, np.bool_)
    covered = np.empty(actions)
    width2 = np.empty(actions)
    value = np.empty(actions)
    k = consult(bank, regression, indices, values, threshold, every, covered, width2, value)
    if k < 0:
        return 2 * explore(rule, covered, width2, value, seed, episode, stage) + 1
    k = frozen_at(k, bank.sizes[regression], window)
    estimate(bank, regression, indices, values, k, every, width2, value)
    covered[:] = -1.0
    return 2 * best(value, covered)


# --- Levels of FPI-Regret -------------------------------------------------------------------------------


SEEN, COVERED, WIDTH2, VALUE, BASE, FIELDS = range(6)


@jit
def look(bank, regression, indices, values, threshold, allowed, estimates, widths, uncovered):
    """The first prefix that covers all allowed actions, or -1.

    Estimates and widths are those at that prefix, or on all data; NaN for actions that are not allowed.
    """
    core = core_of(bank)
    where = np.empty(indices.shape[1], np.int32)
    at = np.full(allowed.size, -1)  # the prefix that the numbers of an action come from
    k = 0
    for a in range(allowed.size):
        estimates[a] = widths[a] = np.nan
        uncovered[a] = False
        if k < 0 or not allowed[a]:
            continue
        cell, row = cell_and_row(core.blocks, regression, a)
        locate(core, cell, indices[row], where)
        position = k if core.blocks == 1 else position_at(core, cell, k)
        widths[a], estimates[a], base = state_at(core, cell, position, where, values[row])
        if not is_covered(core, cell, position, where, values[row], widths[a], base, threshold):
            position = cover_position(core, cell, where, values[row], threshold, position)
            k = order_of(core, cell, position) if position >= 0 else -1
        else:
            at[a] = k
    for a in range(allowed.size):
        if allowed[a] and (k < 0 or at[a] != k):
            cell, row = cell_and_row(core.blocks, regression, a)
            locate(core, cell, indices[row], where)
            position = core.cells[cell, COUNT]
            if k >= 0:
                position = k if core.blocks == 1 else position_at(core, cell, k)
            widths[a], estimates[a], base = state_at(core, cell, position, where, values[row])
            if k < 0:
                uncovered[a] = not is_covered(core, cell, position, where, values[row], widths[a], base, threshold)
        widths[a] = np.sqrt(widths[a])
    return k


@jit
def look_again(bank, regression, indices, values, threshold, allowed, progress, estimates, widths, uncovered):
    """`look` for a state that comes back: it goes on from where its last query stopped.

    `progress` has a row for every action, see SEEN ...; SEEN < 0 is a query not yet begun. An action that is covered
    while others are not keeps the numbers of its first cover.
    """
    k = 0
    core = core_of(bank)
    for a in range(allowed.size):
        mine = progress[a]
        if not allowed[a]:
            mine[COVERED] = 0
            continue
        cell, row = cell_and_row(core.blocks, regression, a)
        if mine[SEEN] < 0:
            mine[SEEN] = 0
            mine[VALUE] = 0.0
            mine[WIDTH2] = mine[BASE] = width2 = start_width(core, values[row])
            nowhere = indices[row, :0]
            mine[COVERED] = 0 if is_covered(core, cell, 0, nowhere, values[row], width2, width2, threshold) else -1
        if mine[COVERED] < 0:
            resume(core, cell, indices[row], values[row], mine, core.cells[cell, COUNT], threshold)
        if mine[COVERED] < 0:
            k = -1
        elif k >= 0:
            k = max(k, int(mine[COVERED]))
    for a in range(allowed.size):
        if k >= 0 and allowed[a]:
            cell, row = cell_and_row(core.blocks, regression, a)
            resume(core, cell, indices[row], values[row], progress[a], position_at(core, cell, k), -1.0)
        estimates[a] = progress[a, VALUE] if allowed[a] else np.nan
        widths[a] = np.sqrt(progress[a, WIDTH2]) if allowed[a] else np.nan
        uncovered[a] = progress[a, COVERED] < 0
    return k


@jit
def eliminate(values, widths, allowed, factor, bias, slack, errors, survives):
    """eq. (8), the best allowed action, and eq. (7), those that may still be as good: the next action set.

    Values err by factor * width + bias, and `slack` more is given. Also returns what the upper end of an action's value
    has to reach.
    """
    bar = -np.inf
    outside = np.empty(values.size)
    for a in range(values.size):
        outside[a] = -1.0 if allowed[a] else 0.0
        errors[a] = factor * widths[a] + bias if factor > 0.0 else bias
        if allowed[a]:
            bar = max(bar, values[a] - errors[a])
    bar -= slack
    for a in range(values.size):
        survives[a] = allowed[a] and values[a] + errors[a] >= bar - TIE * (1.0 + abs(bar))
    return best(values, outside), bar


class Visited(NamedTuple):
    """What is known of every sparse state seen: queries that can be resumed, and decisions that are frozen."""

    table: IndexVector  # hash table: number of the state + 1
    rows: FloatMatrix  # one row per state, so that a look-up touches little memory; whole numbers in it are exact
    used: IntVector


# A row: regression, first covering prefix or -1, the prefix that the action comes from, the action, the data of the
# regression when it was last found uncovered; then indices and values; then for every action the data of its cell seen,
# the joint prefix of its first cover or -1, the squared width, the estimate, and the squared width at the anchor.
REGRESSION, FROZEN, DECIDED, ACTION, LOOKED, KEY = range(6)


@jit_inline
def find(table, rows, regression, indices, values):
    """The slot of a state in the table."""
    mask = table.size - 1
    z = mix(np.uint64(regression + 1))
    for j in range(indices.size):
        z = mix(z + np.uint64(indices[j] + 1))
    i = np.int64(z) & mask
    while table[i] != 0:
        state = table[i] - 1
        same = rows[state, REGRESSION] == regression
        for j in range(indices.size):
            same = same and rows[state, KEY + j] == indices[j]
            same = same and rows[state, KEY + indices.size + j] == values[j]
        if same:
            break
        i = (i + 1) & mask
    return i


@jit
def rehash(visited, nnz):
    """Enter all states into an empty table."""
    for state in range(visited.used[0]):
        row = visited.rows[state]
        key, values = row[KEY : KEY + nnz], row[KEY + nnz : KEY + 2 * nnz]
        slot = find(visited.table, visited.rows, row[REGRESSION], key, values)
        visited.table[slot] = state + 1


@jit
def enter(core, visited, slot, regression, indices, values, threshold):
    """A row for a state seen for the first time; -1 if there is no room."""
    state = visited.used[0]
    if state == visited.rows.shape[0]:
        return -1
    visited.used[0] += 1
    visited.table[slot] = state + 1
    row = visited.rows[state]
    row[REGRESSION] = regression
    row[FROZEN] = -1
    row[DECIDED] = -1
    row[LOOKED] = -1
    nnz = indices.size
    row[KEY : KEY + nnz] = indices
    row[KEY + nnz : KEY + 2 * nnz] = values
    width2 = start_width(core, values)
    for a in range(core.blocks):
        mine = row[KEY + 2 * nnz + FIELDS * a :]
        mine[SEEN] = 0
        mine[COVERED] = -1
        mine[WIDTH2] = width2
        mine[VALUE] = 0.0
        mine[BASE] = width2
        if is_covered(core, regression * core.blocks + a, 0, indices[:0], values, width2, width2, threshold):
            mine[COVERED] = 0
    return state


@jit
def resume(core, cell, indices, values, mine, until, threshold):
    """Take one action of a visited state on to `until` data of its cell, or to its first cover (threshold >= 0)."""
    where = np.empty(indices.size, np.int32)
    before = locate(core, cell, indices, where)
    seen = int(mine[SEEN])
    dense = core.indices.shape[1] == 0
    if not dense and until <= core.every:
        seen = max(seen, min(before, until))  # data on other columns change nothing
    start = core.cells[cell, START]
    limit = threshold * threshold
    stop = -1.0
    while seen < until:
        end = min(until, (seen // core.every + 1) * core.every)
        if seen > 0 and seen % core.every == 0:
            mine[WIDTH2], mine[VALUE] = block_start(core, cell, seen, where, values)
            mine[BASE] = mine[WIDTH2]
        if threshold >= 0.0:  # above this it is certainly uncovered
            stop = limit + rounding(core, cell, end, mine[BASE]) + 4.0 * EPS * limit
        mine[WIDTH2], mine[VALUE], p = walk(
            core.pool,
            core.ints,
            core.floats,
            core.members,
            dense,
            start + seen,
            start + end,
            where,
            values,
            mine[WIDTH2],
            mine[VALUE],
            stop,
        )
        seen = p - start
        if threshold >= 0.0 and is_covered(core, cell, seen, where, values, mine[WIDTH2], mine[BASE], threshold):
            mine[COVERED] = core.ints[core.members[p - 1], ORDER]
            break
    mine[SEEN] = seen


@jit_inline
def standing(table, rows, size, regression, indices, values, window, rule, seed, episode, stage):
    """The decision at a state about which nothing has changed since it was last asked, or -1."""
    state = table[find(table, rows, regression, indices, values)] - 1
    if state >= 0:
        frozen = rows[state, FROZEN]
        if frozen >= 0 and rows[state, DECIDED] == frozen_at(frozen, size, window):
            return 2 * int(rows[state, ACTION])
        if rows[state, LOOKED] == size:
            return 2 * explore_row(rows[state], indices.size, rule, seed, episode, stage) + 1
    return -1


@jit_inline
def recall(bank, visited, regression, indices, values, threshold, window, rule, seed, episode, stage):
    """`decide` for sparse features in separate blocks, going on from what is known of the state.

    Returns -1 if `visited` has no room for a new state.
    """
    size = bank.sizes[regression]
    return recollect(
        core_of(bank), visited, size, regression, indices, values, threshold, window, rule, seed, episode, stage
    )


@jit
def recollect(core, visited, size, regression, indices, values, threshold, window, rule, seed, episode, stage):
    """`recall` for a regression of this size."""
    table, rows = visited.table, visited.rows
    code = standing(table, rows, size, regression, indices, values, window, rule, seed, episode, stage)
    if code >= 0:
        return code
    slot = find(table, rows, regression, indices, values)
    state = table[slot] - 1
    if state < 0:
        state = enter(core, visited, slot, regression, indices, values, threshold)
        if state < 0:
            return -1
    row = rows[state]
    return reconsider(core, row, size, regression, indices, values, threshold, window, rule, seed, episode, stage)


@jit_inline
def explore_row(row, nnz, rule, seed, episode, stage):
    first = KEY + 2 * nnz
    covered = row[first + COVERED :: FIELDS]
    return explore(rule, covered, row[first + WIDTH2 :: FIELDS], row[first + VALUE :: FIELDS], seed, episode, stage)


@jit_inline
def reconsider(core, row, size, regression, indices, values, threshold, window, rule, seed, episode, stage):
    """The rest of `recollect`: no decision stands, so look at the data that have come since."""
    first = KEY + 2 * indices.size
    if row[FROZEN] < 0:
        k = 0
        for a in range(core.blocks):
            mine = row[first + FIELDS * a :]
            if mine[COVERED] < 0:
                cell = regression * core.blocks + a
                count = core.cells[cell, COUNT]
                if mine[SEEN] < count:
                    resume(core, cell, indices, values, mine, count, threshold)
            if mine[COVERED] < 0:
                k = -1
            elif k >= 0:
                k = max(k, int(mine[COVERED]))
        if k < 0:
            row[LOOKED] = size
            return 2 * explore_row(row, indices.size, rule, seed, episode, stage) + 1
        row[FROZEN] = k
        row[LOOKED] = -1
    k = frozen_at(int(row[FROZEN]), size, window)
    for a in range(core.blocks):
        cell = regression * core.blocks + a
        resume(core, cell, indices, values, row[first + FIELDS * a :], position_at(core, cell, k), -1.0)
    row[DECIDED] = k
    row[ACTION] = best(row[first + VALUE :: FIELDS], np.full(core.blocks, -1.0))
    return 2 * int(row[ACTION])


# Walking through episodes under tile coding takes two endless generators: arrays then cross into compiled code once
# instead of at every step, which would cost more than the look-up. They share `clock`, which holds the stage, the
# episode, and whether the observation is in single precision; the tiles of the observation; and those of the last
# exploring step in `kept`. The first has no more arrays than it needs, since each makes it slower. Both must be told to
# end by `clock`, and asked once more: numba never frees the arrays of a generator that was left before its end.


ENDED = 3  # entry of the clock


@jit
def follow_tiles(visited, sizes, x, narrow, grid, values, indices, kept, clock, window, rule, seed):
    """Write the observation to x, or to `narrow` in single precision, and its stage to the clock; ask for the code.

    Yields -1 where no decision stands, and -2 where there is no such stage or the observation is not finite.
    """
    table, rows = visited.table, visited.rows
    while clock[ENDED] == 0:
        stage = clock[0]
        if clock[2] != 0:
            x[:] = narrow
        code = -2
        if 0 <= stage < sizes.size and tile_indices(x, grid, indices):
            code = standing(table, rows, sizes[stage], stage, indices, values, window, rule, seed, clock[1], stage)
            if code > 0 and code & 1:
                kept[:] = indices
        yield code


@jit
def work_tiles(bank, visited, values, indices, kept, clock, datum, threshold, window, rule, seed):
    """The code that `follow_tiles` could not give; or the result of `append`, where `clock` holds a negative stage.

    Then `kept` is appended; `datum` holds its stage, action and target, and 0 comes back if that is done. Yields -1
    where an array has no room.
    """
    core = core_of(bank)
    while clock[ENDED] == 0:
        if clock[0] < 0:
            stage, action = int(datum[0]), int(datum[1])
            block = action if bank.blocks > 1 else 0
            code = 0 if append(bank, stage, block, kept, values, datum[2], action, clock[1]) else -1
        else:
            stage = clock[0]
            size = bank.sizes[stage]
            code = recollect(
                core, visited, size, stage, indices, values, threshold, window, rule, seed, clock[1], stage
            )
            if code > 0 and code & 1:
                kept[:] = indices
        yield code

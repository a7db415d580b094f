"""The first prefix that covers all actions of a state, eq. (2): the one search there is.

A search can go on where it stopped, since data are only appended: `PROGRESS` says, for an action, how far it came. It
asks the newest prefix first; then anchors are bisected, which is sound since coverage never ends; then one block is
scanned. The rows of a state are `indices` and `values`: one row that all blocks share, or a row per action.
"""

import numpy as np

from fpi._compiling import jit, jit_inline, jit_part
from fpi.kernels.columns import locate
from fpi.kernels.lending import borrow
from fpi.kernels.numerics import EPS
from fpi.kernels.objects import empty, zeros
from fpi.kernels.query import (
    block_of,
    block_start,
    covered_at,
    covered_at_anchor,
    is_covered,
    rounding,
    start_width,
    state_at,
    sum_rows,
)
from fpi.kernels.ridge import cell_and_row, position_at

PROGRESS = np.dtype(
    [
        ("position", np.int32),  # data of the cell that the numbers rest on; they do not cover if UNCOVERED
        ("cover", np.int32),  # joint prefix of the first cover, or UNCOVERED, or LATER
        ("width2", np.float64),
        ("value", np.float64),
        ("base", np.float64),  # squared width at the anchor below
    ]
)
UNCOVERED = -1  # by all data that were looked at
LATER = 2**31 - 1  # covered by all data; which prefix was the first is not looked for until it matters


@jit_part
def begin(store, regression, values, threshold, allowed, progress):
    """Fill `progress` as it is before any data."""
    for a in range(allowed.size):
        cell, row = cell_and_row(store.blocks, regression, a)
        mine = progress[a]
        width2 = start_width(store, values[row])
        mine.position = 0
        mine.width2 = mine.base = width2
        mine.value = 0.0
        mine.cover = UNCOVERED
        nowhere = empty(0, np.int32)
        error = 4.0 * EPS * width2
        if not allowed[a] or is_covered(store, cell, 0, nowhere, values[row], width2, error, threshold):
            mine.cover = 0


@jit_part
def cover(store, regression, indices, values, threshold, allowed, progress, uncovered):
    """The first joint prefix that covers all allowed actions, or -1 if there is none yet.

    Goes on from `progress`, and marks the allowed actions that all data leave uncovered in `uncovered`. Where it
    returns -1 the numbers of these actions rest on all data.
    """
    k = 0
    for a in range(allowed.size):
        mine = progress[a]
        if allowed[a] and mine.cover == UNCOVERED:
            cell, row = cell_and_row(store.blocks, regression, a)
            if mine.position < store.cells[cell].count:
                look(store, cell, indices[row], values[row], threshold, mine)
        uncovered[a] = allowed[a] and mine.cover == UNCOVERED
        if uncovered[a]:
            k = -1
        elif k >= 0 and mine.cover != LATER:
            k = max(k, mine.cover)
    if k < 0:
        return -1
    for a in range(allowed.size):
        mine = progress[a]
        if allowed[a] and mine.cover == LATER:
            cell, row = cell_and_row(store.blocks, regression, a)
            where = empty(indices.shape[1], np.int32)
            locate(store, cell, indices[row], where)
            position = position_at(store, cell, k)
            if position == 0 or not covered_at(store, cell, position, where, values[row], threshold):
                search(store, cell, where, values[row], threshold, position, mine)
                k = max(k, mine.cover)
    return k


@jit_part
def look(store, cell, indices, values, threshold, mine):
    """Take an action that is not covered yet on to all data of its cell, or to its first cover."""
    where = empty(indices.size, np.int32)
    before = locate(store, cell, indices, where)
    count = store.cells[cell].count
    if count <= store.every and indices.size > 0:
        mine.position = max(mine.position, before)  # data on other columns change nothing
    if count <= (mine.position // store.every + 1) * store.every:
        scan(store, cell, where, values, threshold, count, mine)
        return
    width2, value, base = state_at(store, cell, count, where, values)
    error = rounding(store, cell, count, base)
    if is_covered(store, cell, count, where, values, width2, error, threshold):
        mine.cover = LATER
    else:
        mine.position, mine.width2, mine.value, mine.base = count, width2, value, base


@jit_part
def search(store, cell, where, values, threshold, after, mine):
    """The first cover of an action that all data of its cell cover, and the first `after` do not."""
    low = after // store.every
    high = (store.cells[cell].count - 1) // store.every + 1
    while high - low > 1:
        middle = (low + high) // 2
        if covered_at_anchor(store, cell, middle * store.every, where, values, threshold):
            high = middle
        else:
            low = middle
    mine.position = low * store.every
    mine.width2 = mine.base = start_width(store, values)
    mine.value = 0.0
    scan(store, cell, where, values, threshold, min(high * store.every, store.cells[cell].count), mine)


@jit_part
def scan(store, cell, where, values, threshold, last, mine):
    """Go on to the prefix `last`, where the block of `mine` ends or before, or to the first cover."""
    if mine.position > 0 and mine.position % store.every == 0 and mine.position < last:
        mine.width2, mine.value = block_start(store, cell, np.int64(mine.position), where, values)
        mine.base = mine.width2
    limit = threshold * threshold
    stop = limit + rounding(store, cell, last, mine.base) + 4.0 * EPS * limit  # above, it is certainly uncovered
    pool, data, members = borrow(store.pool), borrow(store.data), borrow(store.members)
    start = store.cells[cell].start
    while mine.position < last:
        mine.width2, mine.value, p = sum_rows(
            pool, data, members, start + mine.position, start + last, where, values, mine.width2, mine.value, stop
        )
        position = p - start
        mine.position = position
        error = rounding(store, cell, position, mine.base)
        if is_covered(store, cell, position, where, values, mine.width2, error, threshold):
            mine.cover = data[members[p - 1]].order
            return


@jit_part
def go_to(store, regression, indices, values, k, allowed, progress):
    """Take the numbers of the allowed actions to joint prefix k."""
    where = empty(indices.shape[1], np.int32)
    for a in range(allowed.size):
        mine = progress[a]
        if allowed[a]:
            cell, row = cell_and_row(store.blocks, regression, a)
            position = position_at(store, cell, k)
            if position == mine.position:
                continue
            before = locate(store, cell, indices[row], where)
            first = block_of(store, position)
            start = store.cells[cell].start
            seen = np.int64(mine.position)
            if seen < position and block_of(store, seen) == first:
                if first == 0 and where.size > 0:
                    seen = max(seen, min(before, position))
                mine.width2, mine.value, _ = sum_rows(
                    borrow(store.pool),
                    borrow(store.data),
                    borrow(store.members),
                    start + seen,
                    start + position,
                    where,
                    values[row],
                    mine.width2,
                    mine.value,
                    -1.0,
                )
            else:
                mine.width2, mine.value, mine.base = state_at(store, cell, position, where, values[row])
            mine.position = position


@jit
def first_cover(store, cell, indices, values, threshold):
    """The first joint prefix that covers one query in one cell, or -1."""
    progress = zeros(1, PROGRESS)
    mine = progress[0]
    width2 = start_width(store, values)
    where = empty(indices.size, np.int32)
    mine.width2 = mine.base = width2
    mine.cover = UNCOVERED
    if is_covered(store, cell, 0, where[:0], values, width2, 4.0 * EPS * width2, threshold):
        return 0
    if store.cells[cell].count > 0:
        look(store, cell, indices, values, threshold, mine)
    if mine.cover == LATER:
        locate(store, cell, indices, where)
        search(store, cell, where, values, threshold, 0, mine)
    # A field of the array and not of `mine`: an array is freed after its last use, and a record does not hold it.
    return np.int64(progress["cover"][0])


@jit_inline
def frozen_at(k, size, window):
    """eq. (2): the freezing prefix, or the oldest one kept if only the newest `window` of `size` data are."""
    return max(k, size - window + 1)

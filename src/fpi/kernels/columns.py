"""Columns of sparse features: those that data of a cell have touched get local numbers, by a hash table."""

import numpy as np

from fpi._compiling import jit, jit_inline, jit_part
from fpi.kernels.lending import borrow
from fpi.kernels.numerics import fill, mix

COLUMN = np.dtype([("code", np.int64), ("local", np.int64), ("before", np.int64)])
"""An entry of the hash table: cell and column, local column, data of the cell before it was touched."""


@jit_inline
def slot_of(columns, code):
    """Where `code` stands in the hash table `columns`, or the empty slot where it would go."""
    mask = columns.size - 1
    i = np.int64(mix(np.uint64(code))) & mask
    while columns[i].code != 0 and columns[i].code != code:
        i = (i + 1) & mask
    return i


@jit
def locate(store, cell, indices, where):
    """Write the local columns of a sparse query in a cell into `where`; -1 for one that no datum there has touched.

    Returns how many data came before the first that touched any of them.
    """
    columns = borrow(store.columns)
    before = store.cells[cell].count
    for j in range(indices.size):
        where[j] = -1
        if indices[j] >= 0:  # a negative index is padding
            i = slot_of(columns, cell * store.dim + indices[j] + 1)
            if columns[i].code != 0:
                where[j] = columns[i].local
                before = min(before, columns[i].before)
    return before


@jit_part
def locate_new(store, cell, indices, where):
    """Like `locate`, but gives untouched columns the next local number; there must be room."""
    columns = store.columns
    here = store.cells[cell]
    for j in range(indices.size):
        where[j] = -1
        if indices[j] < 0:
            continue
        code = cell * store.dim + indices[j] + 1
        i = slot_of(columns, code)
        if columns[i].code == 0:
            columns[i].code = code
            columns[i].local = here.columns
            columns[i].before = here.count
            here.columns += 1
            store.columns_used += 1
        where[j] = columns[i].local


@jit_inline
def scatter(where, values, y):
    """Write a sparse vector into `y`, as a dense one over the first y.size local columns."""
    fill(y, 0.0)
    for j in range(where.size):
        if 0 <= where[j] < y.size:
            y[where[j]] += values[j]

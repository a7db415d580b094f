"""`RidgeStore`: many prefix regressions in a few append-only arrays.

A store holds R regressions of `blocks` blocks each; (regression, block) is a cell with a ridge regression of its own.
Data of all cells stand in one log, in order of arrival. With Sigma_k = ridge*I + sum phi phi' over the first k data of
a cell,

    u_k = Sigma_{k-1}^{-1} phi_k / sqrt(1 + |phi_k|^2),   e_k = (q_k - phi_k' theta_{k-1}) / sqrt(1 + |phi_k|^2),

where |phi|^2 = phi' Sigma_{k-1}^{-1} phi, so that for any query phi and g_k = u_k' phi

    |phi|^2 at k = |phi|^2 at k-1 - g_k^2     and     phi' theta_k = phi' theta_{k-1} + g_k e_k.

Every `every` data the sums start afresh from an anchor: the triangular factor R of Sigma with its right hand side z, so
errors do not pile up. The answer at prefix k is DEFINED as the anchor below it plus the sums after it: it depends on
data 1..k alone.

Sparse features touch few columns of a cell. They are numbered in the order in which data touch them, and rows u and
anchors are kept over these local columns.
"""

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from fpi._compiling import jit, jit_inline, jit_part
from fpi.kernels.columns import COLUMN, slot_of
from fpi.kernels.lending import Kind, borrow
from fpi.kernels.numerics import fill, put
from fpi.kernels.objects import (
    INDEX_ROWS,
    INDICES,
    INTS,
    MATRIX,
    SINGLES,
    VECTOR,
    Handle,
    define,
    longer,
    made,
    new,
    records,
    zeros,
)

CELL = np.dtype([(name, np.int64) for name in ("count", "columns", "start", "room")])
"""Data, local columns, and the segment of `members` with room for so many."""
DATUM = np.dtype(
    [
        ("row", np.int64),  # where column 0 of u would stand in `pool`
        ("first", np.int64),  # local columns of u, from this
        ("end", np.int64),  # to below this
        ("order", np.int64),  # joint prefix of the regression that ends with it
        ("cell", np.int64),
        ("columns", np.int64),  # of the cell by then
        ("low_row", np.int64),  # like `row`, in `low`
        ("anchor", np.int64),  # where the anchor under it stands in `pool`, or -1
        ("anchor_columns", np.int64),
        ("action", np.int64),  # this and the next are kept for the caller
        ("episode", np.int64),
        ("target", np.float64),
        ("innovation", np.float64),  # e
        ("log_det", np.float64),  # log det Sigma - log det Sigma_0 of the regression
        ("trace", np.float64),  # of Phi'Phi in the cell
    ]
)


class RidgeStoreType(Kind):
    pass


class RidgeStore(Handle):
    """Prefix regressions, see the module; `new_store` makes it."""

    __slots__ = ()

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Data of every regression."""
        sizes: NDArray[np.int64] = get_sizes(self)
        return sizes

    def size(self, regression: int) -> int:
        """Data of one regression."""
        return int(get_size(self, regression))

    def __len__(self) -> int:
        """Data of all regressions."""
        return int(get_length(self))

    @property
    def last_episode(self) -> int:
        """The episode of the newest datum, or -1."""
        return int(get_last_episode(self))

    @property
    def nnz(self) -> int:
        """Active columns of a datum, 0 if features are dense."""
        return int(get_nnz(self))

    def log(self) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.float64]]:
        """All data in order of arrival: records, active columns and their values; to be read only."""
        data, indices, values = get_log(self)
        n = len(self)
        return data[:n], indices[:n], values[:n]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in get_fields(self) if isinstance(part, np.ndarray))

    def __reduce__(self) -> Any:
        return store_of, get_fields(self)

    def __deepcopy__(self, _: Any) -> "RidgeStore":
        copied: RidgeStore = made(store_of, *get_fields(self))
        return copied


STORE = define(
    RidgeStoreType,
    RidgeStore,
    ridge=types.float64,
    dim=types.int64,  # columns of one block
    blocks=types.int64,
    every=types.int64,  # data of a cell between two anchors
    room=types.int64,  # entries that a growing array begins with
    growth=types.float64,  # and by how much it grows
    cells=records(CELL),
    sizes=INTS,  # per regression: data in all its blocks
    log_dets=VECTOR,  # per regression
    data=records(DATUM),
    indices=INDEX_ROWS,  # per datum: its active columns; there are none if features are dense
    values=MATRIX,  # per datum: the values there
    members=INDICES,  # per cell: a segment with the numbers of its data, in order
    pool=VECTOR,  # the rows u and the anchors
    low=SINGLES,  # what the rows u of the running block lose by rounding; later ones are made from both parts
    columns=records(COLUMN),
    data_used=types.int64,
    members_used=types.int64,
    pool_used=types.int64,
    low_used=types.int64,
    columns_used=types.int64,
)

SPARSE_ROOM, DENSE_ROOM = 256, 16  # rows of dense features are large: no more than needed


def new_store(
    dim: int, ridge: float, *, regressions: int, blocks: int, nnz: int | None, room: int | None = None
) -> RidgeStore:
    """An empty store of so many `regressions`, with `dim` columns to a block.

    `nnz` is the number of active columns of sparse features, None for dense ones;
    `room` is how many data it has room for once the first comes.
    """
    dense = nnz is None
    room = (DENSE_ROOM if dense else SPARSE_ROOM) if room is None else room
    store: RidgeStore = make_store(float(ridge), int(dim), int(blocks), regressions, nnz or 0, room)
    return store


@jit
def make_store(ridge, dim, blocks, regressions, nnz, room):
    store = new(STORE)
    store.ridge, store.dim, store.blocks, store.every, store.room = ridge, dim, blocks, max(16, dim), room
    store.growth = 2.0 if nnz > 0 else 1.0625
    store.cells = zeros(regressions * blocks, CELL)
    store.sizes = zeros(regressions, np.int64)
    store.log_dets = zeros(regressions, np.float64)
    store.data = zeros(0, DATUM)
    store.indices = zeros((0, nnz), np.int32)
    store.values = zeros((0, nnz if nnz > 0 else dim), np.float64)
    store.members = zeros(0, np.int32)
    store.pool = zeros(0, np.float64)
    store.low = zeros(0, np.float32)
    store.columns = zeros(1, COLUMN)
    if nnz == 0:
        fill(store.cells.columns, dim)
    return store


@jit
def get_sizes(store):
    return store.sizes.copy()


# Numbers, for whoever asks in every episode: numba runs Python where it hands over arrays, and Ctrl-C may come there.


@jit
def get_size(store, regression):
    return store.sizes[regression] if 0 <= regression < store.sizes.size else 0


@jit
def get_length(store):
    return store.data_used


@jit
def get_last_episode(store):
    return store.data[store.data_used - 1].episode if store.data_used > 0 else -1


@jit
def get_nnz(store):
    return store.indices.shape[1]


@jit
def get_log(store):
    return store.data, store.indices, store.values


@jit
def get_fields(store):
    return (
        store.ridge,
        store.dim,
        store.blocks,
        store.every,
        store.room,
        store.growth,
        store.cells,
        store.sizes,
        store.log_dets,
        store.data,
        store.indices,
        store.values,
        store.members,
        store.pool,
        store.low,
        store.columns,
        store.data_used,
        store.members_used,
        store.pool_used,
        store.low_used,
        store.columns_used,
    )


@jit
def store_of(*fields):
    """A store with copies of what `get_fields` gave."""
    store = new(STORE)
    store.ridge, store.dim, store.blocks, store.every, store.room, store.growth = fields[:6]
    store.cells, store.sizes, store.log_dets = fields[6].copy(), fields[7].copy(), fields[8].copy()
    store.data, store.indices, store.values = fields[9].copy(), fields[10].copy(), fields[11].copy()
    store.members, store.pool, store.low = fields[12].copy(), fields[13].copy(), fields[14].copy()
    store.columns = fields[15].copy()
    store.data_used, store.members_used, store.pool_used, store.low_used, store.columns_used = fields[16:]
    return store


# --- Room -------------------------------------------------------------------------------------------------------------


@jit_part
def make_room(store, cell, nnz):
    """Room for one more datum of `nnz` active columns in a cell.

    All arrays are made before the first is exchanged.
    """
    here = store.cells[cell]
    count = here.count
    columns = here.columns + nnz
    row = columns
    if count > 0 and count % store.every == 0:
        row += columns * (columns + 3) // 2
    room, growth = store.room, store.growth
    data, indices, values = store.data, store.indices, store.values
    if store.data_used == data.size:
        needed = store.data_used + 1
        data = longer(data, needed, room, growth)
        indices = longer(indices, needed, room, growth)
        values = longer(values, needed, room, growth)
    members, segment = store.members, max(4, 2 * count)
    if count == here.room and store.members_used + segment > members.size:
        members = longer(members, store.members_used + segment, room, growth)
    pool, low, hashed = store.pool, store.low, store.columns
    if store.pool_used + row > pool.size:
        pool = longer(pool, store.pool_used + row, room, growth)
    if store.low_used + columns > low.size:
        low = longer(low, store.low_used + columns, room, growth)
    if 2 * (store.columns_used + nnz) > hashed.size:
        hashed = zeros(power_of_two(max(2 * hashed.size, 2 * (store.columns_used + nnz), 4 * room)), COLUMN)
        for i in range(store.columns.size):
            if store.columns[i].code != 0:
                hashed[slot_of(hashed, store.columns[i].code)] = store.columns[i]
    store.data, store.indices, store.values, store.members = data, indices, values, members
    store.pool, store.low, store.columns = pool, low, hashed
    if count == here.room:  # move the segment to the end, twice as long
        start, fresh = here.start, store.members_used
        put(members[fresh : fresh + count], members[start : start + count])
        here.start = fresh
        here.room = segment
        store.members_used += segment


@jit_part
def power_of_two(least):
    n = 1
    while n < least:
        n *= 2
    return n


@jit
def widen(store, nnz):
    """Let sparse data have up to `nnz` active columns; -1 is padding."""
    n, before = store.indices.shape
    if nnz > before:
        indices = np.full((n, nnz), np.int32(-1), np.int32)
        values = zeros((n, nnz), np.float64)
        indices[:, :before] = store.indices
        values[:, :before] = store.values
        store.indices, store.values = indices, values


# --- Prefixes ---------------------------------------------------------------------------------------------------------


@jit_inline
def cell_and_row(blocks, regression, action):
    """Where to ask for an action, in a store with so many `blocks`.

    Its own block and the row that all share, or the only block and a row of its own.
    """
    if blocks > 1:
        return regression * blocks + action, 0
    return regression, action


@jit_part
def position_at(store, cell, k):
    """How many of the first k data of a regression lie in this cell."""
    low = 0
    high = store.cells[cell].count
    start = store.cells[cell].start
    data, members = borrow(store.data), borrow(store.members)
    while low < high:
        middle = (low + high) // 2
        if data[members[start + middle]].order <= k:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def log_det_at(store, regression, k):
    """log det Sigma_k - log det Sigma_0 of a regression at joint prefix k."""
    for block in range(store.blocks):
        cell = regression * store.blocks + block
        position = position_at(store, cell, k)
        if position > 0:
            datum = store.data[store.members[store.cells[cell].start + position - 1]]
            if datum.order == k:
                return datum.log_det
    return 0.0

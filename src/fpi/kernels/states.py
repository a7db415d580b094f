"""`StateCache`: what is known of visited states, so that a state that comes back costs one look-up.

Once frozen, a decision never changes; until then a search goes on where it stopped. Nothing in here needs saving: it
follows from the data. A state has a name, a row of whole numbers: its active features, or one number for the `key` of
its features. Values of active features belong to the name where they differ from state to state.
"""

import numpy as np
from numba import types

from fpi._compiling import jit, jit_inline, jit_part
from fpi.kernels.cover import PROGRESS
from fpi.kernels.lending import Kind, borrow
from fpi.kernels.numerics import fill, mix, put
from fpi.kernels.objects import FLAG_ROWS, INDEX_ROWS, INDICES, MATRIX, Handle, define, longer, new, records, zeros

STATE = np.dtype(
    [
        ("regression", np.int32),
        ("frozen", np.int32),  # the first prefix that covers it, or -1
        ("prefix", np.int32),  # that `action` comes from, or -1
        ("action", np.int32),
        ("looked", np.int32),  # data of the regression when it was last found uncovered, or -1
    ]
)
NAMELESS = 0  # the place of a state that is forgotten after the question


class StateCacheType(Kind):
    pass


class StateCache(Handle):
    """What is known of visited states, see the module; `new_cache` makes it."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in get_arrays(self))


CACHE = define(
    StateCacheType,
    StateCache,
    used=types.int64,
    table=INDICES,  # hash table: the number of a state, or 0
    names=INDEX_ROWS,  # per state, as all that follows
    values=MATRIX,
    states=records(STATE),
    allowed=FLAG_ROWS,  # per action: whether the level asks about it
    uncovered=FLAG_ROWS,
    survives=FLAG_ROWS,  # the actions that the next level asks about, where there are levels
    progress=records(PROGRESS, 2),
)


@jit
def new_cache(actions, name, values, room):
    """For so many actions, names of so many numbers and values; `room` states to begin with."""
    cache = new(CACHE)
    cache.used = 1  # NAMELESS
    cache.table = zeros(4, np.int32)
    cache.names = zeros((1, name), np.int32)
    cache.values = zeros((1, values), np.float64)
    cache.states = zeros(1, STATE)
    cache.allowed = zeros((1, actions), np.bool_)
    fill(cache.allowed[0], True)
    cache.uncovered = zeros((1, actions), np.bool_)
    cache.survives = zeros((1, actions), np.bool_)
    cache.progress = zeros((1, actions), PROGRESS)
    grow(cache, room)
    return cache


@jit
def get_arrays(cache):
    """Its fields, but for the number of states."""
    return (
        cache.table,
        cache.names,
        cache.values,
        cache.states,
        cache.allowed,
        cache.uncovered,
        cache.survives,
        cache.progress,
    )


@jit_part
def grow(cache, room):
    """Room for so many states; all arrays are made before the first is exchanged."""
    names, values = longer(cache.names, room, 1, 1.0), longer(cache.values, room, 1, 1.0)
    states, progress = longer(cache.states, room, 1, 1.0), longer(cache.progress, room, 1, 1.0)
    allowed, uncovered = longer(cache.allowed, room, 1, 1.0), longer(cache.uncovered, room, 1, 1.0)
    survives = longer(cache.survives, room, 1, 1.0)
    size = 4
    while size < 4 * room:
        size *= 2
    table = zeros(size, np.int32)
    for state in range(1, cache.used):
        table[find(table, states, names, values, np.int64(states[state].regression), names[state], values[state])] = (
            state
        )
    cache.names, cache.values, cache.states, cache.progress = names, values, states, progress
    cache.allowed, cache.uncovered, cache.survives, cache.table = allowed, uncovered, survives, table


@jit_inline
def find(table, states, names, features, regression, name, values):
    """The slot of a state in the table."""
    mask = table.size - 1
    z = np.uint64(regression)
    for j in range(name.size):
        z = z * np.uint64(0x9E3779B97F4A7C15) + np.uint64(name[j])
    i = np.int64(mix(z)) & mask
    while table[i] != 0:
        state = table[i]
        same = states[state].regression == regression
        for j in range(name.size):
            same = same and names[state, j] == name[j]
        for j in range(features.shape[1]):
            same = same and features[state, j] == values[j]
        if same:
            break
        i = (i + 1) & mask
    return i


@jit_inline
def recall(cache, regression, name, values):
    """The number of a state, or NAMELESS if it was not entered."""
    table, states = borrow(cache.table), borrow(cache.states)
    return np.int64(table[find(table, states, borrow(cache.names), borrow(cache.values), regression, name, values)])


@jit_part
def enter(cache, regression, name, values):
    """A number for a state that has none."""
    state = cache.used
    if state == cache.states.size:
        grow(cache, 2 * state)
    table = cache.table
    table[find(table, cache.states, cache.names, cache.values, regression, name, values)] = state
    put(cache.names[state], name)
    put(cache.values[state], values)
    cache.used += 1
    return state


@jit_part
def clear(cache, state, regression):
    """Nothing is known of a state yet."""
    mine = cache.states[state]
    mine.regression = regression
    mine.frozen = mine.prefix = mine.looked = -1

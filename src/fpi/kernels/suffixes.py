"""`Suffixes`: how the episodes of stored data went on, to see later which of them the policy would still follow."""

import numpy as np
from numba import types
from numpy.typing import NDArray

from fpi._compiling import jit, jit_part
from fpi.kernels.actor import GIVEN, act
from fpi.kernels.lending import Kind
from fpi.kernels.numerics import mix, put
from fpi.kernels.objects import INDEX_ROWS, INDICES, INTS, Handle, define, longer, new, zeros
from fpi.kernels.tiles import active_features

ROOM, GROWTH = 1024, 1.5


class SuffixesType(Kind):
    pass


class Suffixes(Handle):
    """For every datum the steps that followed it, see SUFFIXES; `suffixes_of` makes it."""

    __slots__ = ()

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """Pairs, steps and ends."""
        pairs, steps, ends = get_suffixes(self)
        return pairs, steps, ends


SUFFIXES = define(
    SuffixesType,
    Suffixes,
    table=INDICES,  # hash table: number of the pair + 1
    pairs=INDEX_ROWS,  # the pairs of state and action that were met: stage, action, active features
    steps=INDICES,  # numbers of pairs, one suffix after the other
    ends=INTS,  # where the suffix of each datum ends
    pairs_used=types.int64,
    steps_used=types.int64,
    data=types.int64,
)


@jit
def suffixes_of(pairs, steps, ends):
    """With copies of `pairs`, `steps` and `ends`, which must fit, see SUFFIXES."""
    suffixes = new(SUFFIXES)
    suffixes.table = zeros(1, np.int32)
    suffixes.pairs, suffixes.steps, suffixes.ends = pairs.copy(), steps.copy(), ends.copy()
    suffixes.pairs_used, suffixes.steps_used, suffixes.data = pairs.shape[0], steps.size, ends.size
    make_room(suffixes, 1)
    return suffixes


@jit
def no_suffixes(nnz):
    """For states of `nnz` active features."""
    return suffixes_of(zeros((0, 2 + nnz), np.int32), zeros(0, np.int32), zeros(0, np.int64))


@jit
def get_suffixes(suffixes):
    return (
        suffixes.pairs[: suffixes.pairs_used].copy(),
        suffixes.steps[: suffixes.steps_used].copy(),
        suffixes.ends[: suffixes.data].copy(),
    )


@jit
def get_data(suffixes):
    return suffixes.data


@jit_part
def make_room(suffixes, steps):
    """Room for one more suffix of so many steps; all arrays are made before the first is exchanged."""
    pairs, table, numbers, ends = suffixes.pairs, suffixes.table, suffixes.steps, suffixes.ends
    needed = suffixes.pairs_used + steps
    if needed > pairs.shape[0] or 2 * needed > table.size:
        pairs = longer(pairs, needed, ROOM, GROWTH)
        size = 1
        while size < 2 * pairs.shape[0]:
            size *= 2
        table = zeros(size, np.int32)
        for i in range(suffixes.pairs_used):
            table[slot_of(table, pairs, pairs[i, 0], pairs[i, 1], pairs[i, 2:])] = i + 1
    if suffixes.steps_used + steps > numbers.size:
        numbers = longer(numbers, suffixes.steps_used + steps, ROOM, GROWTH)
    if suffixes.data == ends.size:
        ends = longer(ends, suffixes.data + 1, ROOM, GROWTH)
    suffixes.pairs, suffixes.table, suffixes.steps, suffixes.ends = pairs, table, numbers, ends


@jit_part
def slot_of(table, pairs, stage, action, active):
    """Where a pair, of which `active` are the features, stands in the hash `table`, or the empty slot for it."""
    mask = table.size - 1
    z = mix(np.uint64(stage + 1))
    z = mix(z + np.uint64(action + 1))
    for j in range(active.size):
        z = mix(z + np.uint64(active[j] + 1))
    i = np.int64(z) & mask
    while table[i] != 0:
        pair = pairs[table[i] - 1]
        same = pair[0] == stage and pair[1] == action
        for j in range(active.size):
            same = same and pair[2 + j] == active[j]
        if same:
            break
        i = (i + 1) & mask
    return i


@jit_part
def note(suffixes, active, actions, stage, first, end):
    """Write down the steps first ... end - 1, which stand in rows of `active` and `actions` and begin at `stage`."""
    if active.shape[1] + 2 != suffixes.pairs.shape[1] or not 0 <= first <= end <= min(len(active), len(actions)):
        raise ValueError("these steps have other features, or there are fewer of them")
    make_room(suffixes, end - first)
    table, pairs, steps = suffixes.table, suffixes.pairs, suffixes.steps  # only now: they may be new
    for i in range(first, end):
        slot = slot_of(table, pairs, stage, actions[i], active[i])
        if table[slot] == 0:
            pair = pairs[suffixes.pairs_used]
            pair[0] = stage
            pair[1] = actions[i]
            put(pair[2:], active[i])
            suffixes.pairs_used += 1
            table[slot] = suffixes.pairs_used
        steps[suffixes.steps_used] = table[slot] - 1
        suffixes.steps_used += 1
        stage += 1
    suffixes.ends[suffixes.data] = suffixes.steps_used
    suffixes.data += 1


@jit
def note_observations(suffixes, actor, observations, actions, stage):
    """`note` for steps at these `observations`, all of which have features, with these `actions`."""
    active = zeros((observations.shape[0], suffixes.pairs.shape[1] - 2), np.int32)
    if observations.shape[1] != actor.observation.size or active.shape[1] != actor.indices.shape[1]:
        raise ValueError("these observations have another size")
    for i in range(observations.shape[0]):
        active_features(observations[i], actor.grid, actor.states, active[i])
    note(suffixes, active, actions, stage, 0, observations.shape[0])


@jit
def count_stale(suffixes, actor, window):
    """Data after which the policy of today would not do as was done then, at one step or more."""
    pairs, steps = suffixes.pairs, suffixes.steps
    if pairs.shape[1] != actor.indices.shape[1] + 2:
        raise ValueError("these steps have other features")
    follows = zeros(suffixes.pairs_used, np.bool_)
    for i in range(follows.size):
        put(actor.indices[0], pairs[i, 2:])
        action, explores = act(actor, GIVEN, np.int64(pairs[i, 0]), window, 0, 0, 0, True, True)
        follows[i] = not explores and action == pairs[i, 1]
    stale = 0
    at = 0
    for datum in range(suffixes.data):
        end = suffixes.ends[datum]
        while at < end and follows[steps[at]]:
            at += 1
        stale += at < end
        at = end
    return stale

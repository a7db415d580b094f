"""`Actor`: decides at observations, in compiled code: features, regressions and what is known of states in one object.

A question is put into the arrays of the actor first: the observation (tile coding, one-hot), or the rows of features
and a name. Then only numbers cross between Python and compiled code, which costs less than the look-up.
"""

import numpy as np
from numba import types

from fpi._compiling import jit, jit_inline, jit_part
from fpi.kernels.append import append
from fpi.kernels.choose import GREEDY, WIDEST, best, explore
from fpi.kernels.cover import begin, cover, frozen_at, go_to
from fpi.kernels.lending import Kind, borrow
from fpi.kernels.numerics import fill, put
from fpi.kernels.objects import FLAGS, INDEX_ROWS, INDICES, MATRIX, SINGLES, VECTOR, Handle, define, new, zeros
from fpi.kernels.ridge import STORE
from fpi.kernels.states import CACHE, NAMELESS, clear, enter, recall
from fpi.kernels.tiles import active_features

GIVEN, FROM_DOUBLES, FROM_SINGLES = range(3)  # where features come from: rows, or an observation in which precision
NOWHERE = -1  # the action at an observation without features, or where there is no such stage
UNKNOWN = -2  # the action of `recollect` at a state about which too little is known


class ActorType(Kind):
    pass


class Actor(Handle):
    """Decides at observations, see the module; `new_actor` makes it."""

    __slots__ = ()


ACTOR = define(
    ActorType,
    Actor,
    store=STORE,
    cache=CACHE,
    thresholds=VECTOR,  # of levels 1, 2, ...: a width up to this is covered
    stages=types.int64,
    grid=MATRIX,  # of tile coding, see `tile_indices`
    states=types.int64,  # of one-hot features; 0 under tile coding
    observation=VECTOR,
    single=SINGLES,  # the same in single precision
    name=INDICES,  # of the state, where features are given
    indices=INDEX_ROWS,  # its features: one row, or one per action
    values=MATRIX,
    allowed=FLAGS,  # the actions asked about; the answers follow
    uncovered=FLAGS,
    widths=VECTOR,
    estimates=VECTOR,
    kept_indices=INDICES,  # features of the last exploring step
    kept_values=VECTOR,
)


@jit
def new_actor(store, cache, thresholds, grid, states, dims, rows, name):
    """For observations of `dims` numbers, `rows` rows of features, and names of `name` numbers.

    `thresholds`, `grid` and `states` become the fields of that name.
    """
    actor = new(ACTOR)
    nnz, columns, actions = store.indices.shape[1], store.values.shape[1], cache.allowed.shape[1]
    actor.store, actor.cache, actor.thresholds, actor.grid, actor.states = store, cache, thresholds, grid, states
    actor.stages = store.sizes.size // thresholds.size
    actor.observation = zeros(dims, np.float64)
    actor.single = zeros(dims, np.float32)
    actor.name = zeros(name, np.int32)
    actor.indices = zeros((rows, nnz), np.int32)
    actor.values = zeros((rows, columns), np.float64)
    actor.allowed = zeros(actions, np.bool_)
    fill(actor.allowed, True)
    actor.uncovered = zeros(actions, np.bool_)
    actor.widths = zeros(actions, np.float64)
    actor.estimates = zeros(actions, np.float64)
    actor.kept_indices = zeros(nnz, np.int32)
    actor.kept_values = zeros(columns, np.float64)
    return actor


@jit
def get_question(actor):
    """The arrays that a question is written into."""
    return actor.observation, actor.single, actor.name, actor.indices, actor.values, actor.allowed


@jit
def get_answer(actor):
    """The arrays that the answer stands in."""
    return actor.uncovered, actor.widths, actor.estimates, actor.kept_indices, actor.kept_values


@jit_inline
def read(actor, source):
    """The features of the observation, unless they are given; False where there are none."""
    if source == GIVEN:
        return True
    observation, single = borrow(actor.observation), borrow(actor.single)
    if source == FROM_SINGLES:
        for j in range(single.size):
            observation[j] = single[j]
    return active_features(observation, borrow(actor.grid), actor.states, borrow(actor.indices)[0])


@jit_part
def state_in_question(actor, regression, threshold, named, remember):
    """The number of the state whose features were read, NAMELESS if it has no name or is not to be remembered."""
    cache, state = actor.cache, NAMELESS
    if named:
        name = borrow(actor.name) if actor.name.size > 0 else borrow(actor.indices)[0]
        state = recall(cache, regression, name, borrow(actor.values)[0])
        if state != NAMELESS:
            return state
        if remember:
            state = enter(cache, regression, name, actor.values[0])
    clear(cache, state, regression)
    allowed, progress = borrow(cache.allowed)[state], borrow(cache.progress)[state]  # only now: they may be new
    put(allowed, borrow(actor.allowed))
    begin(actor.store, regression, borrow(actor.values), threshold, allowed, progress)
    return state


@jit
def act(actor, source, stage, window, rule, seed, episode, named, remember):
    """Line 3 of Algorithm 1: pi_t(s) and whether s is uncovered; features of an exploring step are kept.

    `source` says where features come from (GIVEN, ...), `window` how many of the newest prefixes freezing may use,
    `rule` how an uncovered action is chosen (EXPLORING), by seed and episode if at random. A state that is not `named`
    is looked at from the start; one that is, is remembered if `remember`.
    """
    if not 0 <= stage < actor.stages or not read(actor, source):
        return NOWHERE, False
    state = state_in_question(actor, stage, actor.thresholds[0], named, remember)
    action = frozen_action(actor, state, window)
    if action >= 0:
        return action, False
    cache, store = actor.cache, actor.store
    mine, size = cache.states[state], store.sizes[stage]
    if mine.frozen < 0 and mine.looked != size:
        mine.frozen = find_cover(actor, state, stage, actor.thresholds[0])
        mine.looked = size
    if mine.frozen < 0:
        if rule in (WIDEST, GREEDY):  # the others need no numbers
            fill_answer(actor, state)
        uncovered, widths, estimates = borrow(cache.uncovered)[state], borrow(actor.widths), borrow(actor.estimates)
        action = explore(rule, uncovered, widths, estimates, seed, episode, stage)
        if remember:
            keep(actor, action)
        return action, True
    prefix = frozen_at(np.int64(mine.frozen), size, window)
    allowed, progress = borrow(cache.allowed)[state], borrow(cache.progress)[state]
    go_to(store, stage, borrow(actor.indices), borrow(actor.values), prefix, allowed, progress)
    fill_answer(actor, state)
    mine.prefix = prefix
    mine.action = best(borrow(actor.estimates), allowed)
    return np.int64(mine.action), False


@jit_inline
def frozen_action(actor, state, window):
    """The action of a state that is decided for good, or for as long as no data come, or UNKNOWN."""
    mine = borrow(actor.cache.states)[state]
    if mine.frozen >= 0 and mine.prefix == frozen_at(mine.frozen, borrow(actor.store.sizes)[mine.regression], window):
        return np.int64(mine.action)
    return UNKNOWN


@jit
def recollect(actor, stage, window):
    """The frozen action of the state of this name, or UNKNOWN: then its features are needed."""
    if not 0 <= stage < actor.stages:
        return NOWHERE
    state = recall(actor.cache, stage, actor.name, actor.values[0])
    return UNKNOWN if state == NAMELESS else frozen_action(actor, state, window)


@jit_inline
def find_cover(actor, state, regression, threshold):
    """The first prefix that covers a state, or -1."""
    cache, indices, values = actor.cache, borrow(actor.indices), borrow(actor.values)
    allowed, uncovered = borrow(cache.allowed)[state], borrow(cache.uncovered)[state]
    progress = borrow(cache.progress)[state]
    return cover(actor.store, regression, indices, values, threshold, allowed, progress, uncovered)


@jit_part
def fill_answer(actor, state):
    """What was found of a state; NaN for actions that are not allowed."""
    cache, widths, estimates = actor.cache, borrow(actor.widths), borrow(actor.estimates)
    allowed, progress = borrow(cache.allowed)[state], borrow(cache.progress)[state]
    put(borrow(actor.uncovered), borrow(cache.uncovered)[state])
    for a in range(widths.size):
        widths[a] = np.sqrt(progress[a].width2) if allowed[a] else np.nan
        estimates[a] = progress[a].value if allowed[a] else np.nan


@jit
def look(actor, stage, level, named, remember):
    """The first prefix of a level that covers the actions asked about, or -1.

    The answer is about that prefix, or about all data of the level.
    """
    if not (0 <= stage < actor.stages and 1 <= level <= actor.thresholds.size):
        return -1
    regression, threshold = (level - 1) * actor.stages + stage, actor.thresholds[level - 1]
    state = state_in_question(actor, regression, threshold, named, remember)
    mine = actor.cache.states[state]
    if mine.frozen < 0:
        mine.frozen = find_cover(actor, state, regression, threshold)
    k = np.int64(mine.frozen)
    at = k if k >= 0 else actor.store.sizes[regression]
    allowed, progress = actor.cache.allowed[state], actor.cache.progress[state]
    go_to(actor.store, regression, actor.indices, actor.values, at, allowed, progress)
    fill_answer(actor, state)
    return k


@jit
def estimate(actor, stage, level, k):
    """Widths and estimates of the actions asked about at joint prefix k of a level."""
    if 0 <= stage < actor.stages and 1 <= level <= actor.thresholds.size:
        regression, cache = (level - 1) * actor.stages + stage, actor.cache
        state = state_in_question(actor, regression, actor.thresholds[level - 1], False, False)
        go_to(actor.store, regression, actor.indices, actor.values, k, cache.allowed[state], cache.progress[state])
        fill(cache.uncovered[state], False)
        fill_answer(actor, state)


@jit_inline
def keep(actor, action):
    """Keep the features of an exploring step."""
    row = action if actor.indices.shape[0] > 1 else 0
    put(borrow(actor.kept_indices), borrow(actor.indices)[row])
    put(borrow(actor.kept_values), borrow(actor.values)[row])


@jit_part
def store_kept(actor, stage, level, action, target, episode):
    """Add the step that was kept to the data of a stage and level."""
    block = action if actor.store.blocks > 1 else 0
    regression = (level - 1) * actor.stages + stage
    append(actor.store, regression, block, actor.kept_indices, actor.kept_values, target, action, episode)

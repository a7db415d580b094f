"""Whole episodes in compiled code: environment, decisions and data without a way back to Python in between."""

from typing import NamedTuple

import numpy as np
from numba import types

from fpi._compiling import jit, jit_inline
from fpi._kernels import (
    EPISODE,
    LOG,
    FloatMatrix,
    FloatVector,
    IndexMatrix,
    IndexVector,
    IntMatrix,
    IntVector,
    append,
    mix,
    recall,
    standing,
    tile_indices,
    two_sum,
)


class Task(NamedTuple):
    """What stays the same over a call of `learn`."""

    env_actions: FloatMatrix  # actions as the environment takes them
    grid: FloatMatrix  # of tile coding, see `tile_indices`
    states: int  # of one-hot features; 0 under tile coding
    values: FloatVector  # of the active features
    horizon: int
    low: float  # of the rewards
    high: float
    threshold: float
    window: int
    rule: int
    seed: int


class Played(NamedTuple):
    """One episode, until the next."""

    state: FloatVector
    observation: FloatVector
    active: IndexMatrix  # active features per stage
    actions: IntVector
    rewards: FloatVector
    covered: IntVector
    clock: IntVector  # see NUMBER ...


class Rows(NamedTuple):
    """What is written down of every episode."""

    returns: FloatVector
    lengths: IntVector
    stored_stage: IntVector
    covered_steps: IntVector
    visits: IntMatrix


class Suffixes(NamedTuple):
    """For every datum, how its episode went on: numbers of pairs (stage, action, active features) in order."""

    table: IndexVector  # hash table: number of the pair + 1
    pairs: IndexMatrix
    steps: IndexVector  # pairs of all data, one suffix after the other
    ends: IntVector  # where each suffix ends
    used: IntVector  # pairs, steps, data; nothing is logged while there is no room for a single pair


# Episodes of the learner, rows written in this call, whether an episode was played and not yet booked, its length, its
# last exploring stage or -1.
NUMBER, ROW, WAITING, LENGTH, EXPLORED, CLOCK = range(6)
PAIRS, STEPS, DATA = range(3)
FINISHED, NO_ROOM_TO_PLAY, NO_ROOM_TO_APPEND, BAD_OBSERVATION, BAD_REWARD = range(5)
SLACK = 1e-9  # of the reward range, as in `fpi.envs.RewardRange.check`

VECTOR = types.Array(types.float64, 1, "C")
RESET = types.void(types.npy_rng, VECTOR, VECTOR)
STEP = types.Tuple((types.float64, types.boolean))(VECTOR, VECTOR, VECTOR)  # type: ignore[no-untyped-call]


@jit_inline
def active_features(x, grid, states, out):
    """False where features are not defined."""
    if states == 0:
        return tile_indices(x, grid, out)
    if not (0.0 <= x[0] < states and x[0] == np.floor(x[0])):
        return False
    out[0] = int(x[0])
    return True


@jit
def exact_sum(x):
    """The sum rounded once: the bits of `math.fsum`."""
    total = 0.0
    exact = True
    for term in x:
        total, error = two_sum(total, term)
        exact = exact and error == 0.0
    if exact:
        return total
    parts = np.empty(x.size)  # their sum is that of the terms so far; they do not overlap, the largest stands last
    n = 0
    for term in x:
        kept = 0
        for i in range(n):
            term, error = two_sum(term, parts[i])
            if error != 0.0:
                parts[kept] = error
                kept += 1
        parts[kept] = term
        n = kept + 1
    n -= 1
    total = parts[n]
    error = 0.0
    while n > 0 and error == 0.0:
        n -= 1
        total, error = two_sum(total, parts[n])
    if n > 0 and (error < 0.0) == (parts[n - 1] < 0.0):  # half way between two numbers: what is left decides
        up = total + 2.0 * error
        if up - total == 2.0 * error:
            total = up
    return total


@jit_inline
def play(reset, step, rng, bank, visited, task, played):
    """One episode; `visited` must have room for it. Returns FINISHED or what is wrong."""
    table, rows, sizes = visited.table, visited.rows, bank.sizes  # handing on all arrays costs more than a look-up
    threshold, window, rule, seed, values = task.threshold, task.window, task.rule, task.seed, task.values
    x, number = played.observation, played.clock[NUMBER]
    slack = SLACK * (task.high - task.low)
    played.clock[LENGTH] = 0
    played.clock[EXPLORED] = -1
    reset(rng, played.state, x)
    for stage in range(task.horizon):
        active = played.active[stage]
        if not active_features(x, task.grid, task.states, active):
            return BAD_OBSERVATION
        code = standing(table, rows, sizes[stage], stage, active, values, window, rule, seed, number, stage)
        if code < 0:
            code = recall(bank, visited, stage, active, values, threshold, window, rule, seed, number, stage)
        played.actions[stage] = code >> 1
        played.covered[stage] = 1 - (code & 1)
        if code & 1:
            played.clock[EXPLORED] = stage
        reward, terminated = step(played.state, task.env_actions[code >> 1], x)
        played.rewards[stage] = reward
        played.clock[LENGTH] += 1
        if not task.low - slack <= reward <= task.high + slack:
            return BAD_REWARD
        if terminated:
            break
    played.clock[WAITING] = 1
    return FINISHED


@jit_inline
def book(bank, task, played, rows, suffixes):
    """Store the datum of an episode and write down its row; False, and nothing done, if the bank has no room."""
    clock = played.clock
    length, explored, row, number = clock[LENGTH], clock[EXPLORED], clock[ROW], clock[NUMBER]
    stored = bank.used[LOG] > 0 and bank.ints[bank.used[LOG] - 1, EPISODE] == number
    if explored >= 0 and not stored:
        action = played.actions[explored]
        target = target_of(task, played)
        if not append(bank, explored, action, played.active[explored], task.values, target, action, number):
            return False
    if explored >= 0 and suffixes.pairs.shape[0] > 0:
        note(suffixes, played.active, played.actions, explored + 1, explored + 1, length)
    rows.returns[row] = exact_sum(played.rewards[:length])
    rows.lengths[row] = length
    rows.stored_stage[row] = explored
    rows.covered_steps[row] = played.covered[:length].sum()
    for stage in range(length):
        rows.visits[0, stage] += 1
        rows.visits[1, stage] += played.covered[stage]
    clock[WAITING] = 0
    clock[ROW] += 1
    clock[NUMBER] += 1
    return True


@jit
def target_of(task, played):
    """The return from the exploring step on, in units of [0, 1] a stage."""
    explored = played.clock[EXPLORED]
    total = exact_sum(played.rewards[explored : played.clock[LENGTH]])
    return (total - (task.horizon - explored) * task.low) / (task.high - task.low)


@jit
def run(reset, step, rng, bank, visited, task, played, rows, suffixes, episodes, steps):
    """Episodes until all rows are written, `steps` steps are over, or something is wrong or missing."""
    clock = played.clock
    while clock[ROW] < episodes and steps > 0:
        if clock[WAITING] == 0:
            if visited.rows.shape[0] - visited.used[0] < task.horizon or not has_room(suffixes, task.horizon):
                return NO_ROOM_TO_PLAY
            status = play(reset, step, rng, bank, visited, task, played)
            if status != FINISHED:
                return status
            steps -= clock[LENGTH]
        if not book(bank, task, played, rows, suffixes):
            return NO_ROOM_TO_APPEND
    return FINISHED


# --- The suffixes of stored data --------------------------------------------------------------------------


@jit
def has_room(suffixes, steps):
    """Whether a suffix of so many steps can be noted, or none need be."""
    used = suffixes.used
    return suffixes.pairs.shape[0] == 0 or (
        used[PAIRS] + steps <= suffixes.pairs.shape[0]
        and used[STEPS] + steps <= suffixes.steps.size
        and used[DATA] < suffixes.ends.size
    )


@jit
def slot_of_pair(suffixes, stage, action, active):
    mask = suffixes.table.size - 1
    z = mix(np.uint64(stage + 1))
    z = mix(z + np.uint64(action + 1))
    for j in range(active.size):
        z = mix(z + np.uint64(active[j] + 1))
    i = np.int64(z) & mask
    while suffixes.table[i] != 0:
        pair = suffixes.pairs[suffixes.table[i] - 1]
        same = pair[0] == stage and pair[1] == action
        for j in range(active.size):
            same = same and pair[2 + j] == active[j]
        if same:
            break
        i = (i + 1) & mask
    return i


@jit
def note(suffixes, active, actions, stage, first, end):
    """Write down the steps first ... end - 1, which stand in rows of `active` and `actions` and begin at `stage`."""
    used = suffixes.used
    for i in range(first, end):
        slot = slot_of_pair(suffixes, stage, actions[i], active[i])
        if suffixes.table[slot] == 0:
            pair = suffixes.pairs[used[PAIRS]]
            pair[0] = stage
            pair[1] = actions[i]
            pair[2:] = active[i]
            used[PAIRS] += 1
            suffixes.table[slot] = used[PAIRS]
        suffixes.steps[used[STEPS]] = suffixes.table[slot] - 1
        used[STEPS] += 1
        stage += 1
    suffixes.ends[used[DATA]] = used[STEPS]
    used[DATA] += 1


@jit
def enter_pairs(suffixes):
    """Enter all pairs into an empty table."""
    for i in range(suffixes.used[PAIRS]):
        pair = suffixes.pairs[i]
        suffixes.table[slot_of_pair(suffixes, np.int64(pair[0]), np.int64(pair[1]), pair[2:])] = i + 1


@jit
def features_of(observations, grid, states, active):
    """The active features of many observations, all of which have some."""
    for i in range(observations.shape[0]):
        active_features(observations[i], grid, states, active[i])


@jit
def judge(bank, visited, suffixes, task, follows, first):
    """Whether the policy of today takes the action of each pair; returns how far `visited` had room."""
    for i in range(first, suffixes.used[PAIRS]):
        pair = suffixes.pairs[i]
        stage = np.int64(pair[0])
        code = recall(
            bank, visited, stage, pair[2:], task.values, task.threshold, task.window, task.rule, task.seed, stage, stage
        )
        if code < 0:
            return i
        follows[i] = code == 2 * pair[1]
    return suffixes.used[PAIRS]


@jit
def count_stale(suffixes, follows):
    """Data whose suffix has a pair that is not followed."""
    stale = 0
    at = 0
    for datum in range(suffixes.used[DATA]):
        end = suffixes.ends[datum]
        while at < end and follows[suffixes.steps[at]]:
            at += 1
        stale += at < end
        at = end
    return stale


NO_SUFFIXES = Suffixes(
    np.zeros(0, np.int32),
    np.zeros((0, 2), np.int32),
    np.zeros(0, np.int32),
    np.zeros(0, np.int64),
    np.zeros(3, np.int64),
)

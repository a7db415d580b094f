"""`climb`: Algorithm 2 in compiled code, by the `LevelConstants` of an agent.

`fpi.algorithms.levels` is its text, to which tests hold this to the bit.
"""

import math

import numpy as np
from numba import types

from fpi._compiling import jit, jit_inline, jit_part
from fpi.kernels.actor import NOWHERE, fill_answer, find_cover, keep, read, state_in_question
from fpi.kernels.choose import OPTIMISTIC, eliminate, explore
from fpi.kernels.cover import go_to
from fpi.kernels.lending import Kind
from fpi.kernels.numerics import fill, put
from fpi.kernels.objects import MATRIX, VECTOR, Handle, define, empty, new
from fpi.kernels.ridge import log_det_at


class LevelConstantsType(Kind):
    pass


class LevelConstants(Handle):
    """What eliminates actions, level by level, see LEVEL_CONSTANTS; `new_level_constants` makes it."""

    __slots__ = ()


LEVEL_CONSTANTS = define(
    LevelConstantsType,
    LevelConstants,
    first=types.int64,  # the level to begin with
    optimism=MATRIX,  # like the slacks, see `LeveledAgent.optimism`
    slacks=MATRIX,  # of levels 1, 2, ... (rows) and stages, see `LeveledAgent.slack`
    interval=types.boolean,  # whether the errors of estimates are given beside
    unions=VECTOR,  # 2 ln of the union bound of each level
    deviations=VECTOR,  # of a return, per stage
    biases=VECTOR,  # sqrt(ridge) times the bound on theta, per stage
    scale=types.float64,
    misspecification=types.float64,
    bounded=types.boolean,  # whether the log determinant is the paper's bound on it, from the next two
    dim=types.int64,
    ridge=types.float64,
)


@jit
def new_level_constants(
    first, optimism, slacks, interval, unions, deviations, biases, scale, misspecification, bounded, dim, ridge
):
    """Constants with these fields, see LEVEL_CONSTANTS; without levels those of an algorithm which has none."""
    constants = new(LEVEL_CONSTANTS)
    constants.first, constants.optimism, constants.slacks = first, optimism, slacks
    constants.interval, constants.unions = interval, unions
    constants.deviations, constants.biases = deviations, biases
    constants.scale, constants.misspecification = scale, misspecification
    constants.bounded, constants.dim, constants.ridge = bounded, dim, ridge
    return constants


@jit_inline
def margins(constants, stage, level, prefix, log_det):
    """`LeveledAgent.margins`: factor and bias of the errors of estimates, and a slack."""
    slack = constants.slacks[level - 1, stage]
    if not constants.interval:
        return 0.0, 0.0, slack
    if constants.bounded:
        log_det = constants.dim * math.log1p(prefix / (constants.ridge * constants.dim))
    noise = constants.deviations[stage] * math.sqrt(log_det + constants.unions[level - 1])
    alpha = constants.scale * (noise + math.sqrt(prefix) * constants.misspecification + constants.biases[stage])
    return alpha, constants.misspecification, slack


@jit_part
def climb(actor, constants, source, stage, level, rule, seed, episode):
    """Lines 6 to 13: the action, the new l, and whether this step explores; its features are kept.

    `level` is l so far; the other arguments are those of `actor.act`.
    """
    if not 0 <= stage < actor.stages or not read(actor, source):
        return NOWHERE, level, False
    action, below = np.int64(NOWHERE), 0
    fill(actor.allowed, True)
    for l in range(constants.first, min(level, actor.thresholds.size) + 1):  # noqa: E741  # the paper's name
        regression, threshold = (l - 1) * actor.stages + stage, actor.thresholds[l - 1]
        state = state_in_question(actor, regression, threshold, True, True)
        cache, size = actor.cache, actor.store.sizes[regression]
        mine, progress = cache.states[state], cache.progress[state]
        if mine.frozen < 0 and mine.looked != size:
            mine.frozen = find_cover(actor, state, regression, threshold)
            mine.looked = size
        if mine.frozen < 0:
            fill_answer(actor, state)
            for a in range(actor.estimates.size):
                if rule == OPTIMISTIC:
                    actor.estimates[a] += constants.optimism[l - 1, stage] * actor.widths[a]
                elif l > constants.first:
                    actor.estimates[a] = cache.progress[below, a].value
            action = explore(rule, cache.uncovered[state], actor.widths, actor.estimates, seed, episode, stage)
            keep(actor, action)
            fill(actor.allowed, True)
            return action, l, True
        if mine.prefix != mine.frozen:
            k = np.int64(mine.frozen)
            go_to(actor.store, regression, actor.indices, actor.values, k, cache.allowed[state], progress)
            fill_answer(actor, state)
            factor, bias, slack = margins(constants, stage, l, k, log_det_at(actor.store, regression, k))
            errors = empty(actor.widths.size, np.float64)
            action, _ = eliminate(
                actor.estimates, actor.widths, cache.allowed[state], factor, bias, slack, errors, cache.survives[state]
            )
            mine.action, mine.prefix = action, k
        action = np.int64(mine.action)
        below = state
        put(actor.allowed, cache.survives[state])
    fill(actor.allowed, True)
    return action, level, False

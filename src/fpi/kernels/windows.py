"""Windows imagined in a learnt model: a decision, a whole window, a sweep of frozen stages.

States are rows z of scaled coordinates. A window is H decisions; it ends early, with nothing more to earn, where the
model says that the episode ends, and with a fixed reward per decision left where it leaves the known set.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpi._compiling import jit, jit_inline
from fpi.kernels.choose import TIE
from fpi.kernels.smooth import similarity, solve_lower, solve_upper, squared_distances, weighted_sum

# Small functions are taken in by their callers: counting references to all arrays of a model costs more than they do.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_END, END, UNSURE = 0, 1, 2
ODD_REACH = 0.25  # squared distance below which a datum that no smooth function explains answers


class Dynamics(NamedTuple):
    """What follows a step: see `fpi.modelling.dynamics`, which makes it."""

    rates: Floats  # (d,) z times these are the inputs of the kernel
    points: Floats  # (d, m) inputs of the inducing data
    offsets: Floats  # (A, m) squared distance between an action and that of an inducing datum
    weights: Floats  # (r, m) of the kernel, for targets that have more than a trend
    rests: Floats  # (t, m) what the trend leaves of the targets of the inducing data
    rows: Ints  # (t,) the row of each target, or -1; targets are increments, turns and the reward, in this order
    trend: Floats  # (t, A, 1 + d) linear terms of each action
    curves: Floats  # (t, d (d + 1) / 2) quadratic terms that all actions share
    plain: Ints  # coordinates with increments
    circles: Ints  # (p, 2) pairs of coordinates on a circle, with turns
    odd_points: Floats  # (d, e + g) z of data that no smooth function explains, and of their explained neighbours
    odd_actions: Ints  # (e + g,) their actions,
    odd_next: Floats  # (e, d) where the unexplained led,
    odd_reward: Floats  # (e,) and their rewards
    reach: float  # squared distance, in units of the kernel and with that of actions, of known steps from data
    interval: int  # steps that a decision lasts


class Ends(NamedTuple):
    """Where episodes end: beyond thresholds, where a quadratic function is positive, or next to an end.

    Thresholds of one group tell the same ends from other states. Beyond all of them is an end; what lies further out
    than any state that was none, but not so far, is not known.
    """

    coordinate: Ints
    sign: Floats
    threshold: Floats  # the nearest end of the group
    safe: Floats  # the farthest state that is no end
    group: Ints  # from 0 on, in order
    curve: Floats  # of 1, z and the products of z, or empty
    points: Floats  # (d, n) ends first, then states that are none; for the nearest of them
    ends: int  # how many of the points are ends
    nearest: bool  # whether the nearest point decides
    reward: Floats  # of the steps that led to the ends


class Stages(NamedTuple):
    """The frozen stages: Q_h(z, a) by kernel regression on the returns of the cover's points."""

    cover: Floats  # (d, n) the points times their rate
    rates: Floats  # (d,)
    weights: Floats  # (H, A, n)
    means: Floats  # (H, A)
    unknown: float  # reward of a decision in the unknown
    highest: float  # the largest reward of a decision, as assumed to break windows off


@jit
def decide(dynamics, ends, unknown, z, action, after):
    """One decision from z, into `after`: the reward, whether the episode ends, whether all of this is known.

    `unknown` is the reward of a decision in the unknown; the farther a known one is from data, the nearer is its reward
    taken to that. With NaN, rewards are as the model has them.
    """
    squares = np.empty(dynamics.points.shape[1])
    before = np.empty(z.size)
    return take_decision(dynamics, ends, unknown, z, action, after, squares, before)


@jit_inline
def take_decision(dynamics, ends, unknown, z, action, after, squares, before):
    """`decide`, with room for the squares and for a state."""
    total, end, sure = 0.0, NO_END, True
    after[:] = z
    for _ in range(dynamics.interval):
        before[:] = after
        reward, distance = take_step(dynamics, before, action, after, squares)
        end = ended(ends, after)
        sure = distance < dynamics.reach and end != UNSURE
        if end == END:
            reward = ends.reward[nearest_of(ends.points[:, : ends.ends], after)]
        if end == END or not sure:
            return total + reward, end == END, sure
        total += reward
        if not np.isnan(unknown):
            total += distance / dynamics.reach * (unknown / dynamics.interval - reward)
    return total, False, True


@jit_inline
def take_step(dynamics, z, action, after, squares):
    """One step from z, into `after`; the reward, and the squared distance of the step from data."""
    for i in range(squares.size):
        squares[i] = dynamics.offsets[action, i]
    squared_distances(dynamics.points, z, dynamics.rates, squares)
    least = np.inf
    for i in range(squares.size):
        least = min(least, squares[i])
    odd, nearest = -1, ODD_REACH
    for i in range(dynamics.odd_actions.size):
        if dynamics.odd_actions[i] == action:
            square = 0.0
            for j in range(z.size):
                square += (z[j] - dynamics.odd_points[j, i]) ** 2
            if square < nearest:
                odd, nearest = i, square
    if odd >= 0:
        least = min(least, dynamics.reach * nearest / ODD_REACH)
    if 0 <= odd < dynamics.odd_reward.size:
        after[:] = dynamics.odd_next[odd]
        return dynamics.odd_reward[odd], least
    for i in range(squares.size):
        squares[i] = similarity(squares[i])
    return smooth_step(dynamics, z, action, after, squares), least


@jit_inline
def smooth_target(dynamics, z, action, target, similarities):
    """The prediction of one target: trend, curves and kernel."""
    d = z.size
    value = dynamics.trend[target, action, 0]
    place = 0
    for j in range(d):
        value += dynamics.trend[target, action, 1 + j] * z[j]
        for k in range(j, d):
            value += dynamics.curves[target, place] * z[j] * z[k]
            place += 1
    row = dynamics.rows[target]
    return value + weighted_sum(dynamics.weights, row, similarities) if row >= 0 else value


@jit_inline
def smooth_step(dynamics, z, action, after, similarities):
    """Where a step leads, by the smooth part of the model; its reward."""
    target = 0
    for j in dynamics.plain:
        after[j] = z[j] + smooth_target(dynamics, z, action, target, similarities)
        target += 1
    for pair in range(dynamics.circles.shape[0]):
        half = smooth_target(dynamics, z, action, target, similarities)  # the tangent of half the turn
        turn(z, dynamics.circles[pair, 0], dynamics.circles[pair, 1], half, after)
        target += 1
    return smooth_target(dynamics, z, action, target, similarities)


@jit_inline
def turn(z, i, j, half, after):
    """Turn the coordinates i and j of z; without sines, whose last digits differ between processors."""
    square = half * half
    cosine, sine = (1.0 - square) / (1.0 + square), 2.0 * half / (1.0 + square)
    after[i] = cosine * z[i] - sine * z[j]
    after[j] = sine * z[i] + cosine * z[j]


@jit
def nearest_of(points, z):
    best, least = 0, np.inf
    for i in range(points.shape[1]):
        square = 0.0
        for j in range(z.size):
            apart = z[j] - points[j, i]
            square += apart * apart
        if square < least:
            best, least = i, square
    return best


@jit_inline
def ended(ends, z):
    """Whether an episode ends at z: NO_END, END, or UNSURE."""
    unsure = False
    first = 0
    while first < ends.coordinate.size:
        beyond = last = 0
        while first + last < ends.coordinate.size and ends.group[first + last] == ends.group[first]:
            i = first + last
            place = ends.sign[i] * z[ends.coordinate[i]]
            beyond += place >= ends.threshold[i]
            unsure |= place > ends.safe[i]
            last += 1
        if beyond == last:
            return END
        first += last
    if ends.curve.size:
        value = ends.curve[0]
        d = z.size
        place = 1 + d
        for j in range(d):
            value += ends.curve[1 + j] * z[j]
            for k in range(j, d):
                value += ends.curve[place] * z[j] * z[k]
                place += 1
        if value > 0.0:
            return END
    if ends.nearest and nearest_of(ends.points, z) < ends.ends:
        return END
    return UNSURE if unsure else NO_END


@jit_inline
def compare(stages, z, similarities):
    """Fill the similarities of z with the points of the cover."""
    similarities[:] = 0.0
    squared_distances(stages.cover, z, stages.rates, similarities)
    for i in range(similarities.size):
        similarities[i] = similarity(similarities[i])


@jit_inline
def stage_action(stages, stage, similarities, values):
    """argmax of Q_h; ties go to the lowest action."""
    horizon, actions = stages.means.shape
    weights = stages.weights.reshape(horizon * actions, similarities.size)
    top = -np.inf
    for a in range(actions):
        values[a] = stages.means[stage, a] + weighted_sum(weights, stage * actions + a, similarities)
        top = max(top, values[a])
    for a in range(actions):
        if values[a] >= top - TIE * (1.0 + abs(top)):
            return a
    return 0


@jit
def imagine(dynamics, ends, stages, z, stage, given, count, least, played, path):
    """The return of a window from stage on: the first `count` actions are `given`, the rest those of the stages.

    Fills `played` with the actions and `path` with the states, as far as the window goes; returns its value, the
    decisions taken, and whether it left the known set. A window that cannot be worth more than `least` is broken off.
    """
    horizon = stages.means.shape[0]
    squares, before = np.empty(dynamics.points.shape[1]), np.empty(z.size)
    similarities = np.empty(stages.cover.shape[1])
    values = np.empty(stages.means.shape[1])
    value = 0.0
    path[0] = z
    for i in range(horizon - stage):
        if value + (horizon - stage - i) * stages.highest <= least:
            return -np.inf, i, False
        if i < count:
            action = given[i]
        else:
            compare(stages, path[i], similarities)
            action = stage_action(stages, stage + i, similarities, values)
        played[i] = action
        reward, end, sure = take_decision(dynamics, ends, stages.unknown, path[i], action, path[i + 1], squares, before)
        if not sure:
            return value + (horizon - stage - i) * stages.unknown, i + 1, True
        value += reward
        if end:
            return value, i + 1, False
    return value, horizon - stage, False


@jit
def sweep(dynamics, ends, stages, later, points, factor, targets):
    """Fill the stages backwards: the returns of all actions at all points, then Q_h.

    Actions are followed by the policies of `later`. Where these are the stages themselves, every policy is frozen when
    a return is stored with it.
    """
    horizon, actions = stages.means.shape
    n, d = points.shape
    given = np.empty(1, np.int64)
    played = np.empty(horizon, np.int64)
    path = np.empty((horizon + 1, d))
    solved = np.empty((n, actions))
    for stage in range(horizon - 1, -1, -1):
        for a in range(actions):
            given[0] = a
            total = 0.0
            for i in range(n):
                value, _, _ = imagine(dynamics, ends, later, points[i], stage, given, 1, -np.inf, played, path)
                targets[stage, a, i] = value
                total += value
            stages.means[stage, a] = total / n
            for i in range(n):
                solved[i, a] = targets[stage, a, i] - stages.means[stage, a]
        solve_lower(factor, solved)
        solve_upper(factor, solved)
        for a in range(actions):
            for i in range(n):
                stages.weights[stage, a, i] = solved[i, a]

"""Which window of decisions to begin at a state: a search guided by the frozen stages, and what it is compared with."""

import numpy as np

from fpi._compiling import jit, jit_inline
from fpi.kernels.choose import TIE
from fpi.kernels.windows import compare, imagine, stage_action, take_decision

APART = 0.05  # distance of states between which the search chooses


@jit_inline
def search(dynamics, ends, stages, z, width, best, length, values, chosen):
    """Look for a better window than the one of value `best` in `chosen`, layer by layer.

    Of the states after every decision so many (`width`) are kept, no two nearer than APART: those of the largest
    return so far plus what the frozen stages estimate for the rest.
    """
    horizon, actions = stages.means.shape
    d = z.size
    states, worth = np.empty((horizon, width, d)), np.zeros((horizon, width))
    parents, moves = np.zeros((horizon, width), np.int64), np.zeros((horizon, width), np.int64)
    after, totals = np.empty((width * actions, d)), np.empty(width * actions)
    scores, origins = np.empty(width * actions), np.empty(width * actions, np.int64)
    squares, before = np.empty(dynamics.points.shape[1]), np.empty(d)
    similarities, estimates = np.empty(stages.cover.shape[1]), np.empty(actions)
    states[0, 0] = z
    count = 1
    for i in range(horizon):
        left = horizon - i - 1
        found = 0
        for k in range(count):
            for a in range(actions):
                reward, end, sure = take_decision(
                    dynamics, ends, stages.unknown, states[i, k], a, after[found], squares, before
                )
                total = worth[i, k] + (reward if sure else (left + 1) * stages.unknown)
                if sure and not end and left:
                    if total + left * stages.highest > best:
                        compare(stages, after[found], similarities)
                        action = stage_action(stages, i + 1, similarities, estimates)
                        totals[found], scores[found] = total, total + min(estimates[action], left * stages.highest)
                        origins[found] = k * actions + a
                        found += 1
                    continue
                if total > best + TIE * (1.0 + abs(best)):
                    best, length = total, i + 1
                    chosen[i] = a
                    node = k
                    for j in range(i, 0, -1):
                        chosen[j - 1] = moves[j, node]
                        node = parents[j, node]
                    values[chosen[0]] = max(values[chosen[0]], total)
        if not left:
            break
        order = np.argsort(-scores[:found], kind="mergesort")
        count = 0
        for c in order:
            near = False
            for k in range(count):
                square = 0.0
                for j in range(d):
                    square += (states[i + 1, k, j] - after[c, j]) ** 2
                if square < APART * APART:
                    near = True
                    break
            if not near:
                states[i + 1, count], worth[i + 1, count] = after[c], totals[c]
                parents[i + 1, count], moves[i + 1, count] = origins[c] // actions, origins[c] % actions
                count += 1
                if count == width:
                    break
        if not count:
            break
    return best, length


@jit
def best_window(dynamics, ends, stages, z, kept, kept_count, margin, settled, width, chosen):
    """Choose among one window for every first action, followed by the stages, and what a search finds beside them.

    The actions `kept` from before stay unless another window is better by more than the margin; if that is `settled`,
    others are looked at only where the kept ones no longer run their course. Fills `chosen`; returns the value, the
    number of decisions, and the best value found for every first action.
    """
    horizon, actions = stages.means.shape
    played, given = np.empty(horizon, np.int64), np.empty(1, np.int64)
    path = np.empty((horizon + 1, z.size))
    values = np.full(actions, -np.inf)
    best, length = -np.inf, 0
    if kept_count:
        value, length, left = imagine(dynamics, ends, stages, z, 0, kept, kept_count, -np.inf, played, path)
        best = value + margin
        chosen[:length] = played[:length]
        values[kept[0]] = value
        if settled and length >= kept_count and not left:
            return best, length, values
    for a in range(actions):
        given[0] = a
        value, taken, _ = imagine(dynamics, ends, stages, z, 0, given, 1, best, played, path)
        values[a] = max(values[a], value)
        if length == 0 or value > best + TIE * (1.0 + abs(best)):
            best, length = value, taken
            chosen[:taken] = played[:taken]
    if width:
        best, length = search(dynamics, ends, stages, z, width, best, length, values, chosen)
    return best, length, values


@jit
def value_of(dynamics, ends, stages, z, sequences, values, margin):
    """The value of every row of actions as a window from z; `margin` is added to the first, which was kept."""
    horizon = stages.means.shape[0]
    played = np.empty(horizon, np.int64)
    path = np.empty((horizon + 1, z.size))
    for i in range(sequences.shape[0]):
        values[i], _, _ = imagine(dynamics, ends, stages, z, 0, sequences[i], horizon, -np.inf, played, path)
    values[0] += margin

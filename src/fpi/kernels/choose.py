"""Which action to take: ties, exploring rules, and the elimination of FPI-Regret."""

import numpy as np

from fpi._compiling import jit
from fpi.kernels.numerics import pick

EXPLORING = {"first": 0, "widest": 1, "greedy": 2, "random": 3, "optimistic": 4}
FIRST, WIDEST, GREEDY, RANDOM, OPTIMISTIC = EXPLORING.values()
TIE = 1e-9


@jit
def best(scores, among):
    """The lowest of the actions marked in `among` whose `scores` tie with the largest; -1 if none is marked."""
    top = -np.inf
    for a in range(scores.size):
        if among[a] and scores[a] > top:
            top = scores[a]
    threshold = top - TIE * (1.0 + abs(top))
    for a in range(scores.size):
        if among[a] and scores[a] >= threshold:
            return a
    return -1


@jit
def explore(rule, uncovered, widths, values, seed, episode, stage):
    """One of the uncovered actions, by an exploring rule.

    `widths` may be squared; for "optimistic" `values` are upper ends. "random" is a hash of seed, episode and stage: it
    needs no memory, and all engines agree.
    """
    if rule == WIDEST:
        return best(widths, uncovered)
    if rule in (GREEDY, OPTIMISTIC):
        return best(values, uncovered)
    skip = 0
    if rule == RANDOM:
        skip = pick(seed, episode, stage, uncovered.sum())
    for a in range(uncovered.size):
        if uncovered[a]:
            if skip == 0:
                return a
            skip -= 1
    return -1


@jit
def eliminate(values, widths, allowed, factor, bias, slack, errors, survives):
    """eq. (8), the best allowed action, and eq. (7), those that may still be as good: the next action set.

    `values` err by factor * `widths` + bias, and `slack` more is given. Fills `errors` and `survives`, and returns the
    best action and the threshold that the upper end of an action's value has to reach.
    """
    threshold = -np.inf
    for a in range(values.size):
        errors[a] = factor * widths[a] + bias if factor > 0.0 else bias
        if allowed[a]:
            threshold = max(threshold, values[a] - errors[a])
    threshold -= slack
    for a in range(values.size):
        survives[a] = allowed[a] and values[a] + errors[a] >= threshold - TIE * (1.0 + abs(threshold))
    return best(values, allowed), threshold

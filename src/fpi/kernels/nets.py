"""Sets of points: nets of visited states, a quadric between two sets, and values of a table of states."""

import numpy as np

from fpi._compiling import jit

UNTRIED, END = -1, -2  # instead of a next state


@jit
def extend_net(net, count, points, radius):
    """Append each point (row) that no member lies within the radius of; returns the new number of members."""
    square = radius * radius
    for i in range(points.shape[0]):
        near = False
        for k in range(count):
            apart = 0.0
            for j in range(points.shape[1]):
                apart += (points[i, j] - net[k, j]) ** 2
            if apart <= square:
                near = True
                break
        if not near:
            if count == net.shape[0]:
                return count + 1
            net[count] = points[i]
            count += 1
    return count


@jit
def separate(inside, outside, passes):
    """Weights w with w'x > 0 inside and w'x < 0 outside, by the perceptron with a margin; empty if it finds none."""
    d = inside.shape[1]
    weights = np.zeros(d)
    for _ in range(passes):
        mistakes = 0
        for side in range(2):
            rows = inside if side == 0 else outside
            sign = 1.0 if side == 0 else -1.0
            for i in range(rows.shape[0]):
                value = norm = 0.0
                for j in range(d):
                    value += weights[j] * rows[i, j]
                    norm += rows[i, j] * rows[i, j]
                if sign * value <= 0.0:
                    mistakes += 1
                    scale = (1.0 - sign * value) / norm
                    for j in range(d):
                        weights[j] += sign * scale * rows[i, j]
        if mistakes == 0:
            return weights
    return np.empty(0)


@jit
def sweep_table(after, rewards, unknown, values):
    """Fill the values of all stages, the last one first."""
    stages, states, actions = values.shape
    best = np.zeros(states)
    for stage in range(stages - 1, -1, -1):
        for s in range(states):
            for a in range(actions):
                if after[s, a] == UNTRIED:
                    values[stage, s, a] = (stages - stage) * unknown
                else:
                    later = best[after[s, a]] if after[s, a] >= 0 else 0.0
                    values[stage, s, a] = rewards[s, a] + later
        for s in range(states):
            best[s] = values[stage, s].max()

# mypy: allow-untyped-defs
"""Everything random about a testbed is a hash of integers: it costs no memory and can be asked for in any order.

Only integer operations, + - * / and square roots are used, in one fixed order, so every machine gets the same bits.
`state` is a tuple of whole numbers, `purpose` keeps the numbers drawn for different uses apart.
"""

import numpy as np

from fpi._compiling import jit
from fpi.kernels.numerics import dot, mix

ARM, SIDE, MIDDLE, GOAL, JUNK, ARM_WEIGHT, SIDE_WEIGHT, ROTATION, NOISE, SWAP, POLICY, CANDIDATE = range(12)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
DOUBLE_STEP = 2.0**-53


@jit
def key(seed, purpose, state, action):
    """64 bits that depend on every argument."""
    z = mix(np.uint64(seed) + GOLDEN * np.uint64(purpose + 1))
    for entry in state:
        z = mix(z + GOLDEN * np.uint64(entry + 2))  # absent entries are -1
    return mix(z + GOLDEN * np.uint64(action + 2))


@jit
def below(seed, purpose, state, action, bound):
    """A whole number below `bound`."""
    return np.int64(key(seed, purpose, state, action) % np.uint64(bound))


@jit
def unit(z):
    """A number strictly between 0 and 1, and never 1/2."""
    return np.float64((z >> np.uint64(12)) * np.uint64(2) + np.uint64(1)) * DOUBLE_STEP


@jit
def signed(seed, purpose, state, action):
    """A number strictly between -1 and 1."""
    return 2.0 * unit(key(seed, purpose, state, action)) - 1.0


@jit
def sphere(z, out):
    """Write a uniformly distributed point of the unit sphere.

    Pairs of coordinates of a Gaussian vector have uniform angles and exponential squared lengths. On the sphere these
    lengths are distributed as the gaps between sorted uniform numbers, and the angles come from points of the disc: no
    logarithm or cosine, whose last bit differs between machines. Of an odd number the last coordinate is left out.
    """
    pairs = (out.size + 1) // 2
    cuts = np.empty(pairs + 1)
    cuts[0] = 0.0
    for i in range(1, pairs):
        z += GOLDEN
        cut = unit(mix(z))
        j = i
        while cuts[j - 1] > cut:
            cuts[j] = cuts[j - 1]
            j -= 1
        cuts[j] = cut
    cuts[pairs] = 1.0
    for i in range(pairs):
        x = y = square = 2.0
        while square > 1.0:
            z += GOLDEN
            x = 2.0 * unit(mix(z)) - 1.0
            z += GOLDEN
            y = 2.0 * unit(mix(z)) - 1.0
            square = x * x + y * y
        radius = np.sqrt((cuts[i + 1] - cuts[i]) / square)
        out[2 * i] = radius * x
        if 2 * i + 1 < out.size:
            out[2 * i + 1] = radius * y
    length = np.sqrt(dot(out, out))
    for i in range(out.size):
        out[i] /= length


@jit
def direction(seed, purpose, state, action, dim):
    """A point of the unit sphere."""
    out = np.empty(dim)
    sphere(key(seed, purpose, state, action), out)
    return out


@jit
def along(seed, purpose, state, action, weight):
    """The inner product of such a point with `weight`."""
    return dot(direction(seed, purpose, state, action, weight.size), weight)


@jit
def rotation(seed, stage, dim):
    """An orthogonal matrix: the product of as many random reflections as there are dimensions."""
    out = np.eye(dim)
    row = np.empty(dim)
    for i in range(dim):
        mirror = direction(seed, ROTATION, (stage, i), 0, dim)
        for j in range(dim):
            row[:] = out[j]
            twice = 2.0 * dot(row, mirror)
            for k in range(dim):
                out[j, k] = row[k] - twice * mirror[k]
    return out


@jit
def turn(rows, matrix):
    """rows @ matrix, without BLAS."""
    out = np.zeros((rows.shape[0], matrix.shape[1]))
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            if rows[i, j] != 0.0:
                for k in range(matrix.shape[1]):
                    out[i, k] += rows[i, j] * matrix[j, k]
    return out


@jit
def affine(seed, purpose, state, action, scale, out):
    """Write scale * (1, point of the sphere); nothing into an empty block."""
    if out.size > 0:
        sphere(key(seed, purpose, state, action), out[1:])
        for i in range(1, out.size):
            out[i] *= scale
        out[0] = scale


@jit
def spread_junk(seed, state, scale, block):
    """Write a point of the sphere of radius `scale` into every row; nothing into an empty block."""
    if block.shape[1] > 0:
        for action in range(block.shape[0]):
            sphere(key(seed, JUNK, state, action), block[action])
            for i in range(block.shape[1]):
                block[action, i] *= scale


@jit
def choice_rows(seed, state, actions, widths, scales, last):
    """Features [arm | side | goal | junk] of a state with a choice; the last stage leads nowhere."""
    arm, side, goals, junk = widths
    out = np.zeros((actions, arm + side + goals + junk))
    for action in range(actions):
        affine(seed, ARM, state, action, scales[0], out[action, :arm])
        if goals > 0 and not last:
            affine(seed, SIDE, state, action, scales[1], out[action, arm : arm + side])
            out[action, arm + side + below(seed, GOAL, state, action, goals)] = scales[2]
    spread_junk(seed, state, scales[3], out[:, arm + side + goals :])
    return out


@jit
def corridor_rows(seed, state, origin, first, actions, widths, scales):
    """Features of a corridor entered from `origin` by `first`; its second state also knows how the first was passed."""
    arm, side, goals, junk = widths
    out = np.zeros((actions, arm + side + goals + junk))
    passed = state[3]
    if passed >= 0:
        middle = (origin[0], origin[1], first, np.int64(-1))
        affine(seed, MIDDLE, middle, passed, scales[0], out[0, :arm])
    affine(seed, SIDE, origin, first, scales[1], out[0, arm : arm + side])
    out[0, arm + side + below(seed, GOAL, origin, first, goals)] = scales[2]
    for action in range(1, actions):
        out[action] = out[0]
    spread_junk(seed, state, scales[3], out[:, arm + side + goals :])
    return out

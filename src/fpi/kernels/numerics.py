"""Numbers and sums whose bits are the same everywhere: one fixed order, no fastmath, no BLAS."""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from fpi._compiling import jit, jit_inline, jit_part
from fpi.kernels.objects import empty

EPS = 2.220446049250313e-16


# Loops: a slice that is assigned to takes half a second to compile.


@jit_inline
def fill(array, value):
    for i in range(array.size):
        array[i] = value


@jit_inline
def put(array, values):
    for i in range(array.size):
        array[i] = values[i]


@jit_inline
def dot_at(pool, first, b):
    """Inner product of b and the numbers of the pool from `first` on, in one fixed order.

    Four running sums, which also lets the compiler use vectors. A slice of the pool would cost more than a short sum.
    """
    n = b.size
    s0 = s1 = s2 = s3 = 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        s0 += pool[first + i] * b[i]
        s1 += pool[first + i + 1] * b[i + 1]
        s2 += pool[first + i + 2] * b[i + 2]
        s3 += pool[first + i + 3] * b[i + 3]
    for i in range(whole, n):
        s0 += pool[first + i] * b[i]
    return (s0 + s1) + (s2 + s3)


@jit
def dot(a, b):
    """The same for two arrays, as many numbers as the first has."""
    return dot_at(b, 0, a)


@jit
def largest_square(values):
    """The largest squared norm of a row; NaN if any number is."""
    most = 0.0
    for i in range(values.shape[0]):
        square = 0.0
        for j in range(values.shape[1]):
            square += values[i, j] * values[i, j]
        if not square <= most:
            most = square
            if np.isnan(most):
                return most
    return most


@jit_inline
def mix(z):
    """The finaliser of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit_inline
def pick(seed, episode, stage, m):
    """A number below m that looks random and is the same wherever it is asked for."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    z = mix(np.uint64(seed) + golden * np.uint64(episode + 1))
    z = mix(z + golden * np.uint64(stage + 1))
    return np.int64(z % np.uint64(m))


# --- Double-double: numbers as unevaluated sums of two doubles, about 32 digits ---------------------------------------


@jit_part
def two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _multiply_add(_: Any, a: types.Float, b: types.Float, c: types.Float) -> Any:
    """a * b + c, rounded once."""

    def fused(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), fused


multiply_add: Any = intrinsic(_multiply_add)


@jit_part
def two_prod(a, b):
    """a * b without error."""
    p = a * b
    return p, multiply_add(a, b, -p)


@jit_part
def dd_add(a, b):
    s, e = two_sum(a[0], b[0])
    return two_sum(s, e + (a[1] + b[1]))


@jit_part
def dd_mul(a, b):
    p, e = two_prod(a[0], b[0])
    return two_sum(p, e + (a[0] * b[1] + a[1] * b[0]))


@jit_part
def dd_negate(a):
    return -a[0], -a[1]


@jit_part
def dd_div(a, b):
    q = a[0] / b[0]
    rest = dd_add(a, dd_negate(dd_mul(b, (q, 0.0))))
    return two_sum(q, (rest[0] + rest[1]) / b[0])


@jit_part
def dd_sqrt(a):
    r = np.sqrt(a[0])
    rest = dd_add(a, dd_negate(two_prod(r, r)))
    return two_sum(r, (rest[0] + rest[1]) / (2.0 * r))


@jit_part
def dd_dot(a, b):
    s = (0.0, 0.0)
    for i in range(a.size):
        if a[i] != 0.0 and b[i] != 0.0:
            s = dd_add(s, two_prod(a[i], b[i]))
    return s


@jit_part
def dd_whiten(m, x):
    """Solve L w = x in place, with L L' = m factored in place; both hold (high, low) parts. Returns w'w."""
    n = x.shape[0]
    square = (0.0, 0.0)
    for i in range(n):
        for j in range(i + 1):
            s = (m[i, j, 0], m[i, j, 1])
            for k in range(j):
                if m[i, k, 0] != 0.0 and m[j, k, 0] != 0.0:
                    product = dd_mul((m[i, k, 0], m[i, k, 1]), (m[j, k, 0], m[j, k, 1]))
                    s = dd_add(s, dd_negate(product))
            s = dd_sqrt(s) if i == j else dd_div(s, (m[j, j, 0], m[j, j, 1]))
            m[i, j, 0], m[i, j, 1] = s
        s = (x[i, 0], x[i, 1])
        for k in range(i):
            s = dd_add(s, dd_negate(dd_mul((m[i, k, 0], m[i, k, 1]), (x[k, 0], x[k, 1]))))
        s = dd_div(s, (m[i, i, 0], m[i, i, 1]))
        x[i, 0], x[i, 1] = s
        square = dd_add(square, dd_mul(s, s))
    return square


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
    parts = empty(
        x.size, np.float64
    )  # their sum is that of the terms so far; they do not overlap, the largest stands last
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

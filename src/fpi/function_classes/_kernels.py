# mypy: allow-untyped-defs
"""The compiled loops of the function classes. Sums run in one fixed order, without BLAS."""

import numpy as np

from fpi._compiling import jit
from fpi.kernels.numerics import dot

NEVER = np.int32(2**31 - 1)
SWEEPS = 60
HALVINGS = 60
ROUNDING = 1e-13
SKIPPING = 1e-6  # far above the rounding of a width

# --- Finite classes. Pairs a < b stand in a packed triangle, row after row; members of F_k are bits of a row of words.


@jit
def note_exceeding(columns, seen, limit, sums, first):
    """Add data (one column of values each) to the squared distances of all pairs, and note who exceeds the limit when.

    `seen` is how many data were added before. A pair that has exceeded is left alone from then on.
    """
    size, count = columns.shape
    pair = 0
    for a in range(size - 1):
        for b in range(a + 1, size):
            if first[pair] == NEVER:
                total = sums[pair]
                for i in range(count):
                    difference = columns[a, i] - columns[b, i]
                    total += difference * difference
                    if total > limit:
                        first[pair] = seen + i + 1
                        break
                sums[pair] = total
            pair += 1


@jit
def first_dependent(row, epsilon, first):
    """The first prefix at which all pairs that differ by more than epsilon in this row have exceeded."""
    size = row.size
    latest = np.int32(0)
    pair = 0
    for a in range(size - 1):
        for b in range(a + 1, size):
            if first[pair] > latest and abs(row[a] - row[b]) > epsilon:
                latest = first[pair]
            pair += 1
        if latest == NEVER:
            return latest
    return latest


@jit
def add_distances(data, center, sums):
    """Add the data to the squared distances of all functions from one of them."""
    for i in range(data.shape[0]):
        for a in range(sums.size):
            difference = data[i, a] - data[i, center]
            sums[a] += difference * difference


@jit
def mark_within(sums, radius, words):
    """Set the bits of those whose sum is at most the radius."""
    for a in range(sums.size):
        if sums[a] <= radius:
            words[a >> 6] |= np.uint64(1) << np.uint64(a & 63)


@jit
def spread(row, words, enough):
    """Largest minus smallest value among the marked; may stop as soon as it is more than `enough`."""
    low, high = np.inf, -np.inf
    for i in range(words.size):
        word = words[i]
        a = 64 * i
        while word != 0:
            if word & np.uint64(1):
                low = min(low, row[a])
                high = max(high, row[a])
                if high - low > enough:
                    return high - low
            word >>= np.uint64(1)
            a += 1
    return high - low


@jit
def first_narrow(rows, masks, after, end, epsilon):
    """The first prefix from `after` to below `end` at which no row is wider than epsilon, else `end`."""
    for k in range(after, end):
        wide = False
        for i in range(rows.shape[0]):
            if spread(rows[i], masks[k], epsilon) > epsilon:
                wide = True
                break
        if not wide:
            return k
    return end


# --- Balls of parameters. A prefix keeps the eigenvalues g and eigenvectors (rows) of G = sum phi phi'.


@jit
def eigen(matrix, values, vectors):
    """Eigenvalues and eigenvectors (rows) of a symmetric matrix, which is destroyed: rotations of Jacobi, in order."""
    d = matrix.shape[0]
    vectors[:] = 0.0
    scale = 0.0
    for i in range(d):
        vectors[i, i] = 1.0
        scale += matrix[i, i]
    negligible = 1e-17 * scale
    for _ in range(SWEEPS):
        rotated = False
        for p in range(d - 1):
            for q in range(p + 1, d):
                off = matrix[p, q]
                if abs(off) <= negligible:
                    continue
                rotated = True
                tau = (matrix[q, q] - matrix[p, p]) / (2.0 * off)
                tangent = 1.0 / (abs(tau) + np.sqrt(1.0 + tau * tau))
                if tau < 0.0:
                    tangent = -tangent
                cosine = 1.0 / np.sqrt(1.0 + tangent * tangent)
                sine = tangent * cosine
                for i in range(d):
                    x, y = matrix[i, p], matrix[i, q]
                    matrix[i, p], matrix[i, q] = cosine * x - sine * y, sine * x + cosine * y
                for i in range(d):
                    x, y = matrix[p, i], matrix[q, i]
                    matrix[p, i], matrix[q, i] = cosine * x - sine * y, sine * x + cosine * y
                    x, y = vectors[p, i], vectors[q, i]
                    vectors[p, i], vectors[q, i] = cosine * x - sine * y, sine * x + cosine * y
        if not rotated:
            break
    for i in range(d):
        values[i] = max(matrix[i, i], 0.0)


@jit
def add_square(matrix, row):
    """Add the outer product of a row with itself."""
    for i in range(row.size):
        for j in range(row.size):
            matrix[i, j] += row[i] * row[j]


@jit
def along(vectors, row):
    """The squared coordinates of a row along the eigenvectors."""
    out = np.empty(row.size)
    for j in range(row.size):
        out[j] = dot(vectors[j], row) ** 2
    return out


@jit
def reach(values, vectors, row, distance, radius):
    """The largest |<row, w>| with w'Gw <= distance^2 and |w| <= 2 radius.

    By duality the square is the minimum over t >= 0 of (1 + t) sum_j c_j / (p_j + t r), c_j the squared coordinates of
    the row, p_j = g_j / distance^2 and r = 1 / (2 radius)^2. It has one minimum, found by halving a range of log t.
    """
    c = along(vectors, row)
    p = values / distance**2
    r = 0.25 / radius**2
    low, high = 1e-30, 1e30
    for _ in range(HALVINGS):
        t = np.sqrt(low * high)
        slope = 0.0
        for j in range(c.size):
            slope += c[j] * (p[j] - r) / (p[j] + t * r) ** 2
        if slope > 0.0:
            high = t
        else:
            low = t
    t = np.sqrt(low * high)
    total = 0.0
    for j in range(c.size):
        total += c[j] * (1.0 + t) / (p[j] + t * r)
    return np.sqrt(total)


@jit
def ridge_width(values, vectors, row, beta, radius):
    """A bound on |<row, w>| with w'Gw <= 4 beta and |w| <= 2 radius: at most sqrt(2) above `reach`."""
    c = along(vectors, row)
    total = 0.0
    whole = 0.0
    for j in range(c.size):
        total += c[j] / (values[j] + beta / radius**2)
        whole += c[j]
    return np.sqrt(min(8.0 * beta * total, 4.0 * radius**2 * whole))


@jit
def first_thin(rows, values, vectors, betas, radius, after, end, most):
    """The first prefix from `after` to below `end` at which no row has a ridge width above `most`, else `end`.

    G and beta grow with k, and the width falls with G and rises with beta: with the last G and the first beta of a
    stretch it is below all widths there. If that is too wide the stretch is skipped and the next one doubled.
    """
    k = after
    stretch = 1
    while k < end:
        last = min(k + stretch, end) - 1
        limit = most if last == k else most * (1.0 + SKIPPING)
        wide = False
        for i in range(rows.shape[0]):
            if ridge_width(values[last], vectors[last], rows[i], betas[k], radius) > limit:
                wide = True
                break
        if wide:
            k = last + 1
            stretch *= 2
        elif last == k:
            return k
        else:
            stretch = max(stretch // 4, 1)
    return end


@jit
def ball_least_squares(values, vectors, moment, radius):
    """The theta that minimises theta'G theta - 2 <moment, theta> in the ball; the shortest, if there are several."""
    d = values.size
    b = np.empty(d)
    largest = 0.0
    for j in range(d):
        largest = max(largest, values[j])
    for j in range(d):
        b[j] = dot(vectors[j], moment) if values[j] > ROUNDING * largest else 0.0
    shift = 0.0
    if _length(b, values, 0.0) > radius:
        low, high = 1e-18 * largest, np.sqrt(dot(b, b)) / radius
        for _ in range(2 * HALVINGS):
            shift = np.sqrt(low * high)
            if _length(b, values, shift) > radius:
                low = shift
            else:
                high = shift
        shift = high
    theta = np.zeros(d)
    for j in range(d):
        if b[j] != 0.0:
            theta += b[j] / (values[j] + shift) * vectors[j]
    return theta


@jit
def _length(b, values, shift):
    total = 0.0
    for j in range(b.size):
        if b[j] != 0.0:
            total += (b[j] / (values[j] + shift)) ** 2
    return np.sqrt(total)

"""Few vectors that speak for all: G-optimal designs and barycentric spanners. Vectors are rows of full column rank.

G-optimal design: weights rho that minimise g = max_z z' (sum rho_z z z')^{-1} z. The smallest g is the rank r (Kiefer
and Wolfowitz, 1960), and a design of at most r (r + 1) / 2 vectors attains it.

C-approximate barycentric spanner (Awerbuch and Kleinberg, 2004): r of the vectors, of which every other is a
combination with coefficients in [-C, C].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fpi.baselines.access import FloatArray

SMALLEST = 1e-3  # weight that a vector of a design keeps
RANK_CUT = 1e-8


def reduced(rows: FloatArray) -> FloatArray:
    """The same vectors in coordinates of the subspace that they span."""
    _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
    kept = axes[sizes > RANK_CUT * max(sizes.max(initial=0.0), RANK_CUT)]
    coordinates: FloatArray = rows @ kept.T
    return coordinates


def largest_volume(rows: FloatArray) -> list[int]:
    """r vectors, each the longest after those before it are projected out."""
    left = rows.copy()
    chosen = []
    for _ in range(rows.shape[1]):
        squares = (left**2).sum(axis=1)
        chosen.append(int(squares.argmax()))
        axis = left[chosen[-1]] / np.sqrt(squares[chosen[-1]])
        left -= np.outer(left @ axis, axis)
    return chosen


def g_optimal(rows: FloatArray, tolerance: float = 0.05) -> FloatArray:
    """Weights with g <= (1 + tolerance) r, by Frank-Wolfe from vectors of large volume."""
    rank = rows.shape[1]
    rho = np.zeros(len(rows))
    rho[largest_volume(rows)] = 1 / max(rank, 1)
    while True:
        g = variances(rows, rho)
        z = int(g.argmax())
        if g[z] <= (1 + tolerance) * rank:
            kept = np.where(rho < SMALLEST, 0.0, rho)
            kept /= kept.sum()
            return kept if variances(rows, kept).max() <= (1 + 2 * tolerance) * rank else rho
        step = (g[z] / rank - 1) / (g[z] - 1)
        rho *= 1 - step
        rho[z] += step


def variances(rows: FloatArray, rho: FloatArray) -> FloatArray:
    """z' G^{-1} z of every vector, where G is the second moment of the design."""
    used = rows[rho > 0]
    inverse = np.linalg.inv((used * rho[rho > 0, None]).T @ used)
    squares: FloatArray = np.einsum("ij,jk,ik->i", rows, inverse, rows)
    return squares


def spanner(rows: FloatArray, most: float = 2.0) -> NDArray[np.int64]:
    """Places of r vectors that span all others with coefficients of at most `most`."""
    chosen = largest_volume(rows)
    while True:
        coefficients = np.abs(rows @ np.linalg.inv(rows[chosen])) if chosen else np.zeros((len(rows), 0))
        if coefficients.max(initial=0.0) <= most:
            return np.array(chosen, np.int64)
        z, i = np.unravel_index(coefficients.argmax(), coefficients.shape)
        chosen[i] = int(z)  # multiplies the volume by more than `most`

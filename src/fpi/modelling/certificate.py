"""By how much a step of the smooth model can be off: the power function and the residuals of its inducing data.

Let f be what the trend leaves of a target, with norm at most B in the kernel's space, s its regression, K the kernel
matrix of the inducing data, k(x) their kernel at x, f_m and r_m what f and f - s are at them. Transitions are
deterministic, so f_m is exactly what was seen. The interpolant of f_m is known, and what it misses is orthogonal to it:

    |f(x) - s(x)| <= |k(x)' K^-1 r_m| + P(x) sqrt(B² - f_m' K^-1 f_m),     P(x)² = k(x, x) - k(x)' K^-1 k(x).

Only B is not known. The data need at least N = sqrt(f_m' K^-1 f_m); B = 2 N is assumed, which leaves sqrt(3) N. The
trend is fitted to the same data, which makes N too small where they are few or nearly linear.
"""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fpi.kernels.windows import ODD_REACH, Dynamics
from fpi.modelling.dynamics import FLOOR, TURN_UNIT
from fpi.modelling.known import distances

Floats = NDArray[np.float64]

NORMS = 2.0  # that f has at most, for one that the data need


class Certificate:
    """The inequality above for one model; asked about a step, the most that it can be off in an increment or turn.

    In scaled units, and not below `FLOOR`; NaN where the step is not known, or that of a datum which no smooth function
    explains.
    """

    def __init__(self, dynamics: Dynamics) -> None:
        self.dynamics = dynamics
        points, rests = dynamics.points, dynamics.rests
        labels = dynamics.offsets.argmin(axis=0)  # of the inducing data: their actions
        matrix = kernel(((points[:, :, None] - points[:, None, :]) ** 2).sum(axis=0) + dynamics.offsets[labels])
        self.factor = scipy.linalg.cho_factor(matrix, lower=True)
        self.residuals = rests.copy()
        curved = dynamics.rows >= 0
        self.residuals[curved] -= dynamics.weights[dynamics.rows[curved]] @ matrix
        squares = (rests * scipy.linalg.cho_solve(self.factor, rests.T).T).sum(axis=1)
        self.norms = np.sqrt(np.maximum(squares, 0.0))  # N of every target

    def __call__(self, z: Floats, action: int) -> float:
        dynamics = self.dynamics
        if distances(dynamics, z)[action] >= 1.0:
            return float("nan")
        mine = np.flatnonzero(dynamics.odd_actions == action)
        odd = ((dynamics.odd_points[:, mine] - z[:, None]) ** 2).sum(axis=0)
        if mine.size and odd.min() < ODD_REACH and mine[odd.argmin()] < dynamics.odd_reward.size:
            return float("nan")
        x = (z * dynamics.rates)[:, None]
        near = kernel(((dynamics.points - x) ** 2).sum(axis=0) + dynamics.offsets[action])
        solved = scipy.linalg.cho_solve(self.factor, near)
        power = np.sqrt(max(0.0, 1.0 - float(near @ solved)))
        bounds = np.abs(self.residuals @ solved) + power * np.sqrt(NORMS**2 - 1.0) * self.norms
        bounds[len(dynamics.plain) :] *= TURN_UNIT
        return max(FLOOR, float(bounds[:-1].max()))  # without the reward, which may be random


def kernel(squares: Floats) -> Floats:
    """Of squared distances."""
    return (1.0 + squares) ** -2.0

"""By how much a step of the smooth model can be off: the power function and the residuals of its inducing data.

Let f be what the trend leaves of a target, with norm at most B in the kernel's space, s its regression, K the kernel
matrix of the inducing data, k(x) their kernel at x, f_m and r_m what f and f - s are at them. Transitions are
deterministic, so f_m is exactly what was seen. The interpolant of f_m is known, and what it misses is orthogonal to it:

    |f(x) - s(x)| <= |k(x)' K^-1 r_m| + P(x) sqrt(B² - f_m' K^-1 f_m),     P(x)² = k(x, x) - k(x)' K^-1 k(x).

Only B is not known. The data need at least N = sqrt(f_m' K^-1 f_m); B = 2 N is assumed, which leaves sqrt(3) N.
"""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fpi.kernels.smooth import similarity
from fpi.kernels.windows import ODD_REACH, Dynamics
from fpi.modelling.dynamics import TURN_UNIT

Floats = NDArray[np.float64]

NORMS = 2.0  # that f has at most, for one that the data need


def step_error(dynamics: Dynamics, z: Floats, action: int) -> float:
    """The most that the step of an action at z can be off in an increment or turn, by the inequality above.

    In scaled units; NaN where the step is that of a datum which no smooth function explains.
    """
    odd = ((dynamics.odd_points - z[:, None]) ** 2).sum(axis=0)[dynamics.odd_actions == action]
    unexplained = np.flatnonzero(dynamics.odd_actions == action) < dynamics.odd_reward.size
    if odd.size and odd.min() < ODD_REACH and unexplained[odd.argmin()]:
        return float("nan")
    points = dynamics.points
    labels = dynamics.offsets.argmin(axis=0)  # of the inducing data: their actions
    squares = ((points[:, :, None] - points[:, None, :]) ** 2).sum(axis=0) + dynamics.offsets[labels]
    matrix = similarity.py_func(squares)
    near = ((points - (z * dynamics.rates)[:, None]) ** 2).sum(axis=0) + dynamics.offsets[action]
    near = similarity.py_func(near)
    factor = scipy.linalg.cho_factor(matrix, lower=True)
    solved = scipy.linalg.cho_solve(factor, near)
    power = np.sqrt(max(0.0, 1.0 - float(near @ solved)))
    fitted = np.zeros_like(dynamics.rests)
    curved = dynamics.rows >= 0
    fitted[curved] = dynamics.weights[dynamics.rows[curved]] @ matrix
    residual = np.abs((dynamics.rests - fitted) @ solved)
    norms = np.sqrt(np.maximum(0.0, (dynamics.rests * scipy.linalg.cho_solve(factor, dynamics.rests.T).T).sum(axis=1)))
    bounds = (residual + power * np.sqrt(NORMS**2 - 1.0) * norms)[:-1]  # the last is the reward, which may be random
    bounds[len(dynamics.plain) :] *= TURN_UNIT
    return float(bounds.max())

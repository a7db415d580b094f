"""The radius of confidence sets, and how many data a dataset can hold: the constants of the paper's appendix.

docs/function_classes.md derives every formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from fpi._validation import check_positive
from fpi.errors import InputError
from fpi.function_classes.base import FunctionClass


def level_delta(delta: float, horizon: int, level: int) -> float:
    """delta / (4 H l^2): the share of one dataset of level l. Summed twice over all levels and stages, below delta."""
    return delta / (4 * horizon * level**2)


def beta(
    k: int,
    log_covering: float,
    horizon: int,
    delta: float,
    alpha: float,
    *,
    mode: str = "paper",
    noise: float = 0.5,
    apart: float = 0.0,
) -> float:
    """beta*_k(F, delta, alpha), with `log_covering` = ln N(F, alpha, sup norm).

    The noise of a return, a sum of at most H rewards, is sub-Gaussian with variance proxy H in the paper and
    H noise^2 where a reward is sub-Gaussian with `noise` (mode="tight"). Values of F lie C = H apart, or `apart` if
    that is more.
    """
    if mode not in ("paper", "tight"):
        raise InputError(f'mode is {mode!r}; choose "paper" or "tight".')
    if not 0 < delta < 1 or k < 0 or not 0 <= alpha < math.inf or not 0 <= log_covering < math.inf:
        raise InputError(
            f"beta needs k >= 0, 0 < delta < 1, alpha >= 0 and a finite ln N >= 0, not k={k}, delta={delta}, "
            f"alpha={alpha}, ln N={log_covering}."
        )
    proxy = horizon if mode == "paper" else horizon * noise**2
    radius = 8 * proxy * (log_covering - math.log(delta))
    if k > 0:
        radius += 2 * alpha * k * (8 * max(horizon, apart) + math.sqrt(8 * proxy * math.log(4 * k**2 / delta)))
    return radius


def dataset_bound(
    function_class: FunctionClass,
    epsilon: float,
    beta: Callable[[int], float],
    episodes: int,
    *,
    dim: float | None = None,
) -> int:
    """D_l: a bound on the number of data that are stored in this many episodes, each uncovered when it came.

    With the eluder dimension `dim` of F, given or bounded by the class, the size lemma says of their number D that
    D <= (1 + 4 beta_D / epsilon^2) dim + dim. An episode stores at most one datum, and the right-hand side grows with
    D: putting a bound into it gives another bound, until nothing changes. A class whose widths are upper bounds counts
    by a `most_data(epsilon, beta)` of its own.
    """
    check_positive("epsilon", epsilon)
    most_data = getattr(function_class, "most_data", None)
    if dim is not None or most_data is None:
        length = _eluder_dimension(function_class, epsilon) if dim is None else dim
        most_data = lambda epsilon, beta: (2 + 4 * beta / epsilon**2) * length  # noqa: E731
    most = int(episodes)
    while most > 0 and (fewer := math.floor(most_data(epsilon, beta(most)))) < most:
        most = fewer
    return most


def _eluder_dimension(function_class: FunctionClass, epsilon: float) -> float:
    bound: Callable[[float], float] | None = getattr(function_class, "eluder_bound", None)
    if bound is None:
        raise InputError("the class has no eluder_bound(epsilon): pass its eluder dimension as dim=.")
    return bound(epsilon)


@lru_cache(maxsize=4096)  # the bounds of all levels ask for the same few numbers
def most_gains(dim: int, gain: float, ratio: float) -> float:
    """The largest n with (1 + gain)^(n / dim) <= 1 + ratio * n / dim.

    How often can |phi|^2 in the inverse of lambda I + sum phi phi' exceed `gain`, for |phi|^2 <= lambda * ratio? Each
    time the determinant grows by 1 + gain, while its trace bounds it from above.

    `ratio` is 1 / lambda for features of norm 1.
    """
    grows = math.log1p(gain)
    if dim < 1 or ratio <= grows:
        return 0
    low, high = 0.0, 1.0
    while math.log1p(ratio * high) > grows * high:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        if math.log1p(ratio * middle) > grows * middle:
            low = middle
        else:
            high = middle
    return math.floor(dim * high * (1 + 1e-12))

"""The compiled functions of the learnt model, as Python calls them: Ctrl-C waits until they are back.

numba reads named tuples and makes arrays and tuples by Python code; broken off there, a call ends in a SystemError.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fpi._interrupts import held
from fpi.kernels import choose, nets, search, smooth, windows


def _whole(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        with held:
            return function(*arguments)

    return call


best = _whole(choose.best)
extend_net, separate, sweep_table = map(_whole, (nets.extend_net, nets.separate, nets.sweep_table))
choose_widest, log_likelihood = _whole(smooth.choose_widest), _whole(smooth.log_likelihood)
factorise, gram, normal_matrix = map(_whole, (smooth.factorise, smooth.gram, smooth.normal_matrix))
product, similarities_of = _whole(smooth.product), _whole(smooth.similarities_of)
solve_lower, solve_upper = _whole(smooth.solve_lower), _whole(smooth.solve_upper)
best_window, value_of = _whole(search.best_window), _whole(search.value_of)
decide, imagine, sweep = map(_whole, (windows.decide, windows.imagine, windows.sweep))

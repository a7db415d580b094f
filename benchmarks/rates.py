"""Where the √T of Theorem 2 begins, by the constants alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import tables
from fpi import statistics
from fpi.rate_studies import first_elimination, on_testbed, theory_of

WORLDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("LinBandit", {"d": 6, "K": 10}),
    ("DeepSea", {"N": 2}),
    ("DeepSea", {"N": 4}),
    ("HubNet", {"B": 1, "m": 2, "K": 4, "p": 1}),
    ("HubNet", {"B": 3, "m": 4, "K": 6}),
    ("HubCorridor", {"B": 2, "m": 3, "K": 4}),
)
NEARLY = 0.6  # an exponent that is that of √T but for logarithms
GAP = 0.5


def table() -> Iterator[str]:
    heads = ("testbed", "H", "d", "scale", f"an action that loses {GAP} can go after", "the bound is HT up to")
    yield from tables.head(*heads, f"and grows as T^{NEARLY} from")
    for family, world in WORLDS:
        for scale in (1.0, 0.1):
            setting = on_testbed(family, world, 1, "Regret", scale=scale)
            theory = theory_of(setting)
            lengths = [f"{theory.trivial_episodes():.0e}", f"{_flat_from(theory):.0e}"] if scale == 1 else ["", ""]
            name = f"{family}({', '.join(f'{key}={value}' for key, value in world.items())})"
            first = f"{first_elimination(setting, GAP):,}"
            yield tables.row(name, theory.horizon, theory.dim, f"{scale:g}", first, *lengths)


def _flat_from(theory: Any) -> float:
    """The first power of ten from which the bound grows over a decade as said."""
    for power in range(1, 40):
        decade = np.geomspace(10.0**power, 10.0 ** (power + 1), 20)
        if statistics.slope(decade, theory.regret_bound(decade)).estimate <= NEARLY:
            return 10.0**power
    return np.inf

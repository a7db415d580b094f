"""Testbeds by name, and the standard suite."""

from __future__ import annotations

import inspect
from typing import Any

from fpi.errors import InputError
from fpi.testbeds.base import Testbed
from fpi.testbeds.candidates import LogitBandit, TableBandit, TableHubs
from fpi.testbeds.contextual import HubCorridor, HubNet, LinBandit
from fpi.testbeds.env import TestbedEnv
from fpi.testbeds.finite import DeepSea, Diamond, Trap
from fpi.testbeds.stochastic import Gate, Slip
from fpi.testbeds.wrappers import Misspecified, Rotated

FAMILIES: dict[str, type[Testbed]] = {
    each.__name__: each
    for each in (
        Diamond,
        LinBandit,
        HubNet,
        HubCorridor,
        DeepSea,
        Trap,
        Gate,
        Slip,
        TableBandit,
        TableHubs,
        LogitBandit,
    )
}


def make(family: str, *, rotate: bool = False, kappa: float = 0.0, **arguments: Any) -> Testbed:
    """A testbed by the name of its family, with rotated features and shifted means if asked for."""
    kind = FAMILIES.get(family)
    if kind is None:
        raise InputError(f"there is no testbed family {family!r}; choose one of {', '.join(FAMILIES)}.")
    signature = inspect.signature(kind)
    unknown = set(arguments) - set(signature.parameters)
    if unknown:
        raise InputError(f"{', '.join(sorted(unknown))}: unknown argument; the testbed is {family}{signature}.")
    seed = arguments.get("seed", 0)
    testbed = kind(**arguments)
    if rotate:
        testbed = Rotated(testbed, seed)
    return Misspecified(testbed, kappa, seed) if kappa != 0 else testbed


def make_env(
    family: str, *, noise: str = "bernoulli", rotate: bool = False, kappa: float = 0.0, **arguments: Any
) -> TestbedEnv:
    """What gymnasium.make("fpi/...-v0", ...) calls."""
    return make(family, rotate=rotate, kappa=kappa, **arguments).env(noise)


def standard(seed: int = 0) -> dict[str, Testbed]:
    """The testbeds that figures are reported on, each of which learns within minutes."""
    corridor = HubCorridor(B=2, m=3, K=4, junk=2, seed=seed)
    return {
        "diamond": Diamond(2),
        "diamond-12": Diamond(12),
        "bandit": LinBandit(d=6, K=10, seed=seed),
        "hubs": HubNet(B=3, m=4, K=6, seed=seed),
        "hubs-30": HubNet(B=3, m=5, K=30, seed=seed),
        "corridor": HubCorridor(B=2, m=3, K=4, seed=seed),
        "corridor-junk": HubCorridor(B=2, m=3, K=4, junk=4, seed=seed),
        "corridor-long": HubCorridor(B=3, m=3, K=3, junk=8, seed=seed),
        "corridor-rotated": Rotated(HubCorridor(B=2, m=3, K=4, junk=4, seed=seed), seed),
        "corridor-0.05": Misspecified(corridor, 0.05, seed),
        "corridor-0.2": Misspecified(corridor, 0.2, seed),
        "sea-8": DeepSea(8, seed=seed),
        "sea-16": DeepSea(16, seed=seed),
        "sea-32": DeepSea(32, seed=seed),
        "sea-junk": DeepSea(16, junk=4, starts=4, seed=seed),
        "sea-cost": DeepSea(16, cost=0.01, starts=4, seed=seed),
        "trap": Trap(M=4, Lc=2, phase=2_000),
    }

"""Exact testbeds: MDPs with linear Q^pi whose every value is known to the last digit; all but two are deterministic.

>>> from fpi import testbeds
>>> testbed = testbeds.HubCorridor(B=2, m=3, K=4)
>>> env = testbed.env(noise="bernoulli")  # or gymnasium.make("fpi/HubCorridor-v0", B=2, m=3, K=4)
>>> start = testbed.held_out(1)[0]
>>> testbed.gap(start, testbeds.random_policy(4, seed=0)) > 0  # exactly what that policy loses
True
"""

from typing import Any

import gymnasium as gym

from fpi.testbeds.base import Features, Policy, State, Testbed, random_policy
from fpi.testbeds.candidates import LogitBandit, TableBandit, TableHubs
from fpi.testbeds.contextual import HubCorridor, HubNet, LinBandit
from fpi.testbeds.env import TestbedEnv, draw_reward
from fpi.testbeds.finite import DeepSea, Diamond, Trap
from fpi.testbeds.registry import FAMILIES, make, make_env, standard
from fpi.testbeds.self_check import Verification, pool_of, verify
from fpi.testbeds.stochastic import Gate, Slip
from fpi.testbeds.wrappers import Misspecified, Rotated, WorstStarts

__all__ = [
    "DeepSea",
    "Diamond",
    "Features",
    "Gate",
    "HubCorridor",
    "HubNet",
    "LinBandit",
    "LogitBandit",
    "Misspecified",
    "Policy",
    "Rotated",
    "Slip",
    "State",
    "TableBandit",
    "TableHubs",
    "Testbed",
    "TestbedEnv",
    "Trap",
    "Verification",
    "WorstStarts",
    "draw_reward",
    "make",
    "make_env",
    "pool_of",
    "random_policy",
    "standard",
    "verify",
]

_ENVIRONMENTS: dict[str, dict[str, Any]] = {f"fpi/{family}-v0": {"family": family} for family in FAMILIES}
_ENVIRONMENTS["fpi/DeepSeaCost-v0"] = {"family": "DeepSea", "cost": 0.01}
for _id, _arguments in _ENVIRONMENTS.items():
    if _id not in gym.registry:
        gym.register(_id, entry_point="fpi.testbeds:make_env", kwargs=_arguments, disable_env_checker=True)

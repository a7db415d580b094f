"""Other people's methods, to compare with, and the harness that lets all of them play by the same rules.

Methods of the harness declare the access that they need (`fpi.baselines.access`) and are run by `play`:

>>> from fpi import baselines, testbeds
>>> run = baselines.play(baselines.LSVI_UCB(), testbeds.DeepSea(8), seed=0, steps=2_000)
>>> run.gap < 0.1, run.steps_to(0.1) < 2_000
(True, True)

Methods for bandits learn and predict as agents do, but cannot be saved or explained:

>>> world = testbeds.LinBandit(d=6, K=10)
>>> oful = baselines.OFUL(world.features, actions=10, theta_bound=world.theta_bound)
>>> history = oful.learn(world.env(), episodes=100, seed=0)
>>> len(history)
100
"""

from fpi.baselines.access import Bill, BudgetSpent, ForeignView, Generative, Local, Online, Oracle, View
from fpi.baselines.agents import FPIPAC, FPIRegret, OFULMethod, SupLinUCBMethod, UniformMethod
from fpi.baselines.backward_sweep import BackwardSweep
from fpi.baselines.capi import CAPI, CAPILiteral
from fpi.baselines.confident_lspi import ConfidentLSPI, Politex
from fpi.baselines.harness import Judge, Run, facts, play
from fpi.baselines.in_model import MethodPlanner
from fpi.baselines.lsvi import LSVI_UCB, RLSVI, FittedQ, OracleSkip
from fpi.baselines.mc_lspi import MonteCarloLSPI
from fpi.baselines.method import FACTS, Inapplicable, Method, Mixture, Policy
from fpi.baselines.null_space import NullSpace
from fpi.baselines.oful import OFUL
from fpi.baselines.spans import OCP, Agnostic
from fpi.baselines.suplinucb import SupLinUCB
from fpi.baselines.uniform import Uniform
from fpi.baselines.upac_oful import UPACOFUL
from fpi.baselines.worlds import GymWorld, TestbedWorld

METHODS: dict[str, type[Method]] = {
    "FPI-PAC": FPIPAC,
    "FPI-Regret": FPIRegret,
    "LSVI-UCB": LSVI_UCB,
    "RLSVI": RLSVI,
    "FittedQ": FittedQ,
    "OracleSkip": OracleSkip,
    "BackwardSweep": BackwardSweep,
    "CAPI": CAPI,
    "CAPI-literal": CAPILiteral,
    "Confident-LSPI": ConfidentLSPI,
    "Politex": Politex,
    "MC-LSPI-online": MonteCarloLSPI,
    "NullSpace": NullSpace,
    "OCP": OCP,
    "Agnostic": Agnostic,
    "OFUL": OFULMethod,
    "SupLinUCB": SupLinUCBMethod,
    "UPAC-OFUL": UPACOFUL,
    "Uniform": UniformMethod,
}
"""What a description of a run may name as its algorithm, beside fpi's own."""

__all__ = [
    "CAPI",
    "FACTS",
    "FPIPAC",
    "LSVI_UCB",
    "METHODS",
    "OCP",
    "OFUL",
    "RLSVI",
    "UPACOFUL",
    "Agnostic",
    "BackwardSweep",
    "Bill",
    "BudgetSpent",
    "CAPILiteral",
    "ConfidentLSPI",
    "FPIRegret",
    "FittedQ",
    "ForeignView",
    "Generative",
    "GymWorld",
    "Inapplicable",
    "Judge",
    "Local",
    "Method",
    "MethodPlanner",
    "Mixture",
    "MonteCarloLSPI",
    "NullSpace",
    "OFULMethod",
    "Online",
    "Oracle",
    "OracleSkip",
    "Policy",
    "Politex",
    "Run",
    "SupLinUCB",
    "SupLinUCBMethod",
    "TestbedWorld",
    "Uniform",
    "UniformMethod",
    "View",
    "facts",
    "play",
]

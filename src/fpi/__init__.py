"""Frozen Policy Iteration: online reinforcement learning under linear Q^pi realizability.

Deterministic dynamics, random rewards and start states, features that you give. `fpi.PAC` learns, explores by itself,
and says how sure it is.
"""

import importlib
from typing import TYPE_CHECKING, Any

from fpi._interrupts import held

__version__ = "0.1.0"

# Heavy modules load when their names are first used, so that `import fpi` is quick.
_NAMES = {
    "algorithms": ("PAC", "Regret", "Eluder", "ModelFPI", "load"),
    "callbacks": ("JsonlLog", "TensorBoardLog"),
    "envs": ("ActionGrid",),
    "evaluation": ("evaluate",),
    "features": ("FeatureMap", "OneHot", "TileCoding", "Fourier", "RBF"),
    "regression": ("PrefixRidge",),
    "testing": ("check_agent", "check_method"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
_MODULES = (
    "algorithms",
    "baselines",
    "callbacks",
    "compiled",
    "determinism",
    "envs",
    "errors",
    "evaluation",
    "features",
    "function_classes",
    "modelling",
    "regression",
    "report",
    "settings",
    "statistics",
    "testbeds",
    "training",
)

__all__ = [
    "PAC",
    "RBF",
    "ActionGrid",
    "Eluder",
    "FeatureMap",
    "Fourier",
    "JsonlLog",
    "ModelFPI",
    "OneHot",
    "PrefixRidge",
    "Regret",
    "TensorBoardLog",
    "TileCoding",
    "__version__",
    "check_agent",
    "check_method",
    "evaluate",
    "load",
]

if TYPE_CHECKING:
    from fpi.algorithms import PAC, Eluder, ModelFPI, Regret, load
    from fpi.callbacks import JsonlLog, TensorBoardLog
    from fpi.envs import ActionGrid
    from fpi.evaluation import evaluate
    from fpi.features import RBF, FeatureMap, Fourier, OneHot, TileCoding
    from fpi.regression import PrefixRidge
    from fpi.testing import check_agent, check_method


def __getattr__(name: str) -> Any:
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module 'fpi' has no attribute {name!r}")
    with held:  # numba is not to be imported by half
        module = importlib.import_module(f"fpi.{_HOMES.get(name, name)}")
    value = globals()[name] = getattr(module, name) if name in _HOMES else module
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})

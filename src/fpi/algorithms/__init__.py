"""The paper's algorithms: PAC (Algorithm 1), Regret (Algorithm 2), Eluder (general function classes); and ModelFPI."""

import os
from typing import Any

from fpi import features, function_classes
from fpi.algorithms import loading
from fpi.algorithms.agent import Agent
from fpi.algorithms.eluder import Eluder
from fpi.algorithms.exploring import UncoveredState
from fpi.algorithms.loading import Kind
from fpi.algorithms.model_fpi import ModelFPI
from fpi.algorithms.pac import PAC
from fpi.algorithms.regret import Regret
from fpi.modelling.experience import Observations
from fpi.setting_fields import PlannerObject, Rule

__all__ = ["PAC", "Agent", "Eluder", "ModelFPI", "Regret", "UncoveredState", "load"]


KINDS = {
    "PAC": Kind(PAC, features.from_config),
    "Regret": Kind(Regret, features.from_config),
    "Eluder": Kind(Eluder, function_classes.from_config),
    "ModelFPI": Kind(ModelFPI, lambda config: Observations(**config)),
}


def load(
    path: str | os.PathLike[str],
    features: Any = None,
    explore: Rule | None = None,
    planner: PlannerObject | None = None,
) -> Agent:
    """Read an agent back from the file that its `save` wrote.

    Built-in feature maps come back from the file, and so do function classes over them and small tables. A function of
    your own must be passed as `features`, and so must a class made of some; it is checked by evaluating it on stored
    observations. So must an exploring rule of your own, as `explore`, and a planner of your own, as `planner`. Nothing
    in a file can run, whoever wrote it.
    """
    return loading.load(path, features, {"explore": explore, "planner": planner}, KINDS)

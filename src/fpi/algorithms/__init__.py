"""The paper's algorithms, one file per box."""

import os
from typing import Any

from fpi.algorithms import agent
from fpi.algorithms.agent import Agent
from fpi.algorithms.pac import PAC
from fpi.algorithms.regret import Regret

__all__ = ["PAC", "Agent", "Regret", "load"]


def load(path: str | os.PathLike[str], features: Any = None) -> Agent:
    """Read an agent back from the file that its `save` wrote.

    Built-in feature maps come back from the file. A feature function of your own must be passed; it is checked by
    evaluating it on stored observations. Nothing in a file can run, whoever wrote it.
    """
    return agent.load(path, features, {"PAC": PAC, "Regret": Regret})

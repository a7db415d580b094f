"""Classes of functions for FPI: what is known about Q^pi when it is not a feature map.

>>> import numpy as np
>>> from fpi import function_classes
>>> tables = np.array([[[0.2, 0.8]], [[0.7, 0.1]], [[0.2, 0.7]]])  # three candidates for one state and two actions
>>> candidates = function_classes.FiniteClass(tables, max_value=1.0)
>>> data = candidates.prefixes(epsilon=0.25, beta=lambda k: 0.1)
>>> rows = candidates.rows(0, stage=0)
>>> data.widths(rows, k=0)  # all three are possible
array([0.5, 0.7])
>>> data.append(rows[1], target=0.78)
>>> data.estimates(rows, k=1), data.widths(rows, k=1), data.dependent(rows, k=1)
(array([0.2, 0.8]), array([0. , 0.1]), array([ True,  True]))
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fpi import features
from fpi.errors import InputError
from fpi.function_classes.aggregation import Aggregation
from fpi.function_classes.base import TOLERANCE, FunctionClass, Prefixes, first_cover
from fpi.function_classes.confidence import beta, dataset_bound, level_delta, most_gains
from fpi.function_classes.eluder_dimension import EluderSequence, eluder_dimension
from fpi.function_classes.finite import FiniteClass
from fpi.function_classes.linear import GeneralizedLinear, LinearBall

__all__ = [
    "TOLERANCE",
    "Aggregation",
    "EluderSequence",
    "FiniteClass",
    "FunctionClass",
    "GeneralizedLinear",
    "LinearBall",
    "Prefixes",
    "beta",
    "dataset_bound",
    "eluder_dimension",
    "first_cover",
    "from_config",
    "level_delta",
    "most_gains",
]


def from_config(config: Mapping[str, Any]) -> FunctionClass:
    """The class that `to_config` described."""
    kinds = {each.__name__: each for each in (LinearBall, GeneralizedLinear)}
    try:
        kind, max_value = config["type"], config["max_value" if "max_value" in config else "top"]  # "top" in fpi 0.1
        ends = {"min_value": config.get("min_value", 0.0), "max_value": max_value}  # the first was 0 once
        if kind == "FiniteClass":
            return FiniteClass(np.array(config["tables"], np.float64), **ends)
        return kinds[kind](features.from_config(config["features"]), radius=config["radius"], **ends)
    except (KeyError, TypeError) as error:
        raise InputError(f"the description of a function class does not fit this version: {error!r}.") from error

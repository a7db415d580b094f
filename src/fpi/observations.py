"""Observations as they are kept: arrays, or the dictionaries and tuples of arrays that Dict and Tuple spaces have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def copied(observation: Any) -> Any:
    """A copy, since environments may reuse their own; what is no dictionary or tuple becomes an array or a number."""
    if isinstance(observation, dict):
        return {name: copied(each) for name, each in observation.items()}
    if isinstance(observation, tuple):
        return tuple(map(copied, observation))
    return np.array(observation)[()]


def leaves(observation: Any) -> list[NDArray[Any]]:
    """Its arrays, one after the other: the flattened observation."""
    if isinstance(observation, dict):
        observation = tuple(observation.values())
    if isinstance(observation, tuple):
        return [leaf for each in observation for leaf in leaves(each)]
    return [np.asarray(observation)]


def form(observation: Any) -> Any:
    """What `rebuilt` needs beside the leaves, as JSON can hold it: names, order and the types of numbers."""
    if isinstance(observation, dict):
        return {"names": list(observation), "entries": [form(each) for each in observation.values()]}
    if isinstance(observation, tuple):
        return [form(each) for each in observation]
    return np.asarray(observation).dtype.str


def rebuilt(described: Any, arrays: Iterator[NDArray[Any]]) -> Any:
    """The observation of this form with these leaves."""
    if isinstance(described, dict):
        entries = [rebuilt(each, arrays) for each in described["entries"]]
        return dict(zip(described["names"], entries, strict=True))
    if isinstance(described, list):
        return tuple(rebuilt(each, arrays) for each in described)
    return next(arrays).astype(described)[()]

"""Agents read back from the files that `Agent.save` wrote."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpi import generators, model_files, observations
from fpi._validation import check_whole, shown
from fpi.algorithms.agent import ANY_REWARD, Agent, leaf_names
from fpi.errors import InputError, ModelFileError
from fpi.features import optional_methods
from fpi.setting_fields import is_planner
from fpi.training import TrainingState


class Kind(NamedTuple):
    """How to make an agent again, and what describes its states, from what a file holds."""

    make: Callable[..., Agent]
    from_config: Callable[[dict[str, Any]], Any]


OWN: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "explore": ("an exploring rule", callable),
    "planner": ("a planner", is_planner),
}
"""Settings that may be code of one's own, which files do not hold: what it is, and whether a value is one."""


def load(path: str | os.PathLike[str], features: Any, own: dict[str, Any], kinds: dict[str, Kind]) -> Agent:
    """Read an agent that `save` wrote; `own` are settings of `OWN` or None, `kinds` says what the agent may be."""
    tensors, meta = model_files.read(path)
    try:
        kind = kinds.get(meta["algorithm"])
        if kind is None:
            raise ModelFileError(
                f"{path} holds an agent of the kind {meta['algorithm']!r}; this fpi knows {', '.join(kinds)}. "
                "Upgrade fpi, or load it with the package that wrote it."
            )
        if meta["features"] is not None:
            known = kind.from_config(meta["features"])
            given = optional_methods(features).to_config
            if features is not None and (given is None or given() != meta["features"]):
                raise ModelFileError(
                    f"{path} was learned with other features than those given: {str(meta['features'])[:200]}. Leave "
                    "`features` out, the file has its own."
                )
            features = known
        elif features is None:
            raise ModelFileError(
                f"{path} was learned with a feature function of your own, or a class of functions, which a file cannot "
                "hold. Pass it: fpi.load(path, features=...)."
            )
        settings = _with_own(path, dict(meta["settings"]), own)
        low, high = settings.get("reward_range", (0.0, 1.0)) or ANY_REWARD
        shifted = bool(meta.get("shifted", low < 0 and "data.target" in tensors))
        if shifted:
            settings["reward_range"] = 0.0, max(high, 0.0) - low  # which the agent took them for
        try:
            agent = kind.make(features, **settings)
        except InputError as error:
            if meta["features"] is None:
                raise ModelFileError(f"what was given for {path} is not what it was learned with: {error}") from error
            raise
        if meta["features"] is None:
            _recognise(agent, path, tensors, meta["samples"])
        agent.datasets.restore(_part(tensors, "data."))
        agent.training_state = _training_state(meta["trail"], tensors.get("visits"), agent)
        agent._restore_open(_part(tensors, "open."))
        agent.shifted = shifted
        agent.notes = dict(meta["notes"])
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, MemoryError) as error:
        raise ModelFileError(
            f"{path} is a model file, but its content does not fit ({error}). It was changed or written by another "
            "version; use a copy that is intact."
        ) from error
    return agent


def _with_own(path: Any, settings: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The settings of a file, with what was given where it had code of the user's own."""
    for name, (what, fits) in OWN.items():
        if settings.get(name, "") is not None:
            if own[name] is not None:
                raise ModelFileError(f"{path} was learned without {what} of your own. Leave `{name}` out.")
        elif not fits(own[name]):
            instead = "" if own[name] is None else f" What was passed, {shown(own[name])}, is none."
            raise ModelFileError(
                f"{path} was learned with {what} of your own, which a file cannot hold. Pass it: "
                f"fpi.load(path, {name}=...).{instead}"
            )
        else:
            settings[name] = own[name]
    return settings


def _training_state(stored: dict[str, Any], visits: NDArray[Any] | None, agent: Agent) -> TrainingState:
    training_state = TrainingState(**stored, visits=visits)
    generators.check_generator(training_state.generator)
    if not isinstance(training_state.environment, str | None):
        raise InputError(f"its environment is {training_state.environment!r}")
    check_whole("episodes", training_state.episodes)
    if training_state.seed is not None:
        check_whole("seed", training_state.seed)
    if visits is not None and (visits.shape != (2, agent.horizon) or visits.dtype != np.int64):
        raise InputError(f"its visits do not have the shape {(2, agent.horizon)}")
    if training_state.episodes <= agent.datasets.last_episode or (
        training_state.seed is None and training_state.episodes
    ):
        raise InputError(f"{training_state.episodes} episodes with the seed {training_state.seed} do not fit its data")
    return training_state


def _recognise(agent: Agent, path: Any, tensors: dict[str, NDArray[Any]], samples: list[Any]) -> None:
    """Check by stored samples that the feature function is the one the agent learned with."""
    for i, (stage, form) in enumerate(samples):
        agent.check_stage(stage)
        names = leaf_names(i, observations.rebuilt(form, itertools.repeat(np.zeros(()))))
        observation = observations.rebuilt(form, (tensors[name] for name in names))
        expected = tensors[f"sample.{i}.features"]
        try:
            matrix = agent.datasets.describe(observation, stage)
        except Exception as error:
            raise ModelFileError(
                f"the feature function given is not the one {path} was learned with: it fails on a stored observation "
                f"({error!r}). Pass the same function."
            ) from error
        if matrix.shape != expected.shape or not np.array_equal(matrix, expected):
            raise ModelFileError(
                f"the feature function given is not the one {path} was learned with: at stage {stage} it maps a stored "
                "observation to other features. Pass the same function."
            )
        agent._samples.append((observation, stage, matrix))


def _part(tensors: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

"""Gymnasium environments by name, with errors that say what to do."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym

from fpi.control import ActionGrid, Env
from fpi.errors import InputError, MissingExtra


def make_environment(
    name: str, args: dict[str, Any], action_grid: int | list[Any] | None, render_mode: str | None = None
) -> Env:
    """`gymnasium.make` with errors that say what to do, and numbered actions if asked for."""
    extra = {} if render_mode is None else {"render_mode": render_mode}
    if name.startswith("fpi/"):
        import fpi.testbeds  # noqa: F401  (registers them)
    try:
        with extras_named(name):
            env = gym.make(name, **{**args, **extra})
    except MissingExtra:
        raise
    except gym.error.UnregisteredEnv as error:
        raise InputError(f"There is no environment {name}. {_advice(name)}") from error
    except Exception as error:  # whatever the environment's own code raises
        settings = "".join(f" --env-arg {key}={json.dumps(value)}" for key, value in args.items())
        raise InputError(f"{name}{settings} could not be made: {_one_line(error)}") from error
    return env if action_grid is None else ActionGrid(env, action_grid)


@contextmanager
def extras_named(environment: str) -> Iterator[None]:
    """Say which package an environment misses."""
    try:
        yield
    except gym.error.DependencyNotInstalled as error:
        if "mujoco" in str(error).lower():
            raise MissingExtra(
                f"{environment} needs MuJoCo, which is not installed. It is an extra: "
                'pip install "frozen-policy-iteration[mujoco]".'
            ) from error
        raise MissingExtra(f"{environment} needs a package that is not installed: {_one_line(error)}") from error


def _advice(name: str) -> str:
    known = {each.lower(): each for each in gym.registry}
    close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.7)
    if close:
        return f"Did you mean {', '.join(known[each] for each in close)}?"
    return (
        "Gymnasium's own are listed at https://gymnasium.farama.org; for one from another package install that package "
        "and name its module too, as in package:Name-v0."
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

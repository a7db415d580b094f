"""The environment that a saved model was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fpi.algorithms import Agent
from fpi.envs import Env, action_count, make_environment
from fpi.errors import InputError, ModelFileError


def train_notes(agent: Agent, path: Path) -> dict[str, Any]:
    """The environment that `fpi train` or a study noted in a model; nothing for one that was trained from Python."""
    notes = agent.notes.get("train", {})
    if not (
        isinstance(notes, dict)
        and isinstance(notes.get("environment", ""), str)
        and isinstance(notes.get("env_args", {}), dict)
        and isinstance(notes.get("action_grid"), int | list | None)
    ):
        raise ModelFileError(f"{path} has unexpected notes. Use a copy that is intact.")
    return {name: notes[name] for name in ("environment", "env_args", "action_grid") if name in notes}


def remembered_environment(
    agent: Agent,
    path: Path,
    name: str | None,
    args: dict[str, Any],
    action_grid: int | None,
    render_mode: str | None = None,
) -> Env:
    """The environment a model was trained on; what is given here comes first."""
    notes = train_notes(agent, path)
    known = notes.get("environment") or (agent.training_state.environment or "").partition(" with observations ")[0]
    if name is None:
        if not known:
            raise InputError(f"{path} does not know its environment. Type its name after the model file.")
        if ":" in known:  # it would import a module, and what a file says must not run anything
            raise InputError(
                f"{path} was trained on {known}, and making that runs the module before the colon, which no file may "
                "ask for. If you trust it, type this name after the model file."
            )
    if name in (None, known):
        args = {**notes.get("env_args", {}), **args}
    grid = notes.get("action_grid") if action_grid is None else action_grid
    env = make_environment(name or known, args, grid, render_mode)
    action_count(env)
    return env

"""What `fpi train` was told: made into an agent and its environment, or compared with what a model remembers."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from fpi import settings
from fpi.algorithms import Agent, load
from fpi.envs import Env, action_count, make_environment
from fpi.errors import InputError, ModelFileError
from fpi.features import RBF, Fourier, OneHot, TileCoding
from fpi.run_config import RunConfig

ALGORITHMS = {name.lower(): name for name in settings.ALGORITHMS}
FEATURES: dict[str, Any] = {"tiles": TileCoding, "fourier": Fourier, "rbf": RBF, "onehot": OneHot}
CLASSES = {"candidates": "candidates", "linear-ball": "LinearBall"}


@dataclass(frozen=True, kw_only=True)
class Typed:
    """The options of `fpi train` that shape an agent. None, or nothing in a dictionary, was not typed."""

    environment: str
    env_args: dict[str, Any]
    action_grid: int | None
    algorithm: str | None
    settings: dict[str, Any]
    """Of the algorithm, by options of their own and by --set."""
    features: str | None
    feature_settings: dict[str, Any]
    function_class: str | None
    radius: float | None
    seed: int | None

    def make(self, episodes: int) -> tuple[Env, Agent]:
        """The environment and a new agent to play so many episodes."""
        algorithm = self.algorithm or "pac"
        own = [name for name, known in settings.by_name().items() if ALGORITHMS[algorithm] in known]
        _check_meant(self.settings, own, f"--algorithm {algorithm}")
        chosen = {name: value for name in ("function_class", "radius") if (value := getattr(self, name)) is not None}
        _check_meant(chosen, chosen if algorithm == "eluder" else (), f"--algorithm {algorithm}")
        env = make_environment(self.environment, self.env_args, self.action_grid)
        action_count(env)
        described = {}
        if self.features or self.feature_settings:
            numbered = isinstance(env.observation_space, gym.spaces.Discrete)
            kind = self.features or ("onehot" if numbered else "tiles")
            _check_meant(self.feature_settings, _arguments(FEATURES[kind]), f"--features {kind}")
            described = {"type": FEATURES[kind].__name__, **self.feature_settings}
        function_class = None
        if chosen:
            named = {"type": CLASSES[self.function_class or "linear-ball"], "radius": self.radius}
            function_class = {name: value for name, value in named.items() if value is not None}
        config = RunConfig(
            env=self.environment,
            env_args=self.env_args,
            action_grid=self.action_grid,
            algorithm=ALGORITHMS[algorithm],
            arguments=self.settings,
            features=described,
            function_class=function_class,
            episodes=episodes,
        ).complete()
        agent = config.make_agent()
        agent.notes["train"] = {name: getattr(self, name) for name in ("environment", "env_args", "action_grid")}
        return config.make_env(), agent

    def resume(self, path: Path) -> tuple[Env, Agent]:
        """The agent of a model file and its environment, if nothing that was typed says otherwise."""
        agent = load(path)
        notes = _train_notes(agent, path)
        known = {**_described(agent), **asdict(agent.settings), **notes, "seed": agent.training_state.seed}
        typed = {**self.settings, **self.feature_settings}
        for name in ("environment", "env_args", "action_grid", "algorithm", "features", "function_class", "radius"):
            if (value := getattr(self, name)) and (name in notes or name in known):
                typed[name] = value
        if self.seed is not None:
            typed["seed"] = self.seed
        for name, value in json.loads(json.dumps(typed)).items():
            if _plain(known.get(name)) != _plain(value):
                raise InputError(
                    f"{path} was made with {_option(name)} {_shown(known.get(name))}, not {_shown(value)}. A model "
                    "keeps what it was made with: type the same, leave it out, or train anew with another --out."
                )
        return remembered_environment(agent, path, self.environment, self.env_args, self.action_grid), agent


def _arguments(kind: Any) -> list[str]:
    return [name for make in (kind, kind.for_env) for name in inspect.signature(make).parameters]


def _check_meant(typed: Collection[str], meant: Collection[str], choice: str) -> None:
    """Options that belong to other choices must not be typed."""
    for name in typed:
        if name not in meant:
            raise InputError(f"{_option(name)} means nothing to {choice}: leave one of them out.")


def _option(name: str) -> str:
    special = {"environment": "the environment", "env_args": "--env-arg", "function_class": "--class"}
    rare = not all(each.setting.metavar for each in settings.by_name().get(name, {}).values())
    return special.get(name, f"--set {name}" if rare else "--" + name.replace("_", "-"))


def _plain(value: Any) -> Any:
    """As JSON gives it back; what is the same in all dimensions is said once."""
    value = json.loads(json.dumps(value))
    return value[0] if isinstance(value, list) and len(set(map(str, value))) == 1 else value


def _shown(value: Any) -> str:
    value = _plain(value)
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _described(agent: Agent) -> dict[str, Any]:
    """The algorithm, features and function class of an agent, in the words of the options."""
    known: dict[str, Any] = {"algorithm": type(agent).__name__.lower()}
    config = agent.datasets.config or {}
    kinds = {name: short for short, name in CLASSES.items()} | {"FiniteClass": "candidates"}
    if "features" in config or config.get("type") in kinds:
        known |= {"function_class": kinds.get(config["type"]), "radius": config.get("radius")}
        config = config.get("features", {})
    kinds = {each.__name__: short for short, each in FEATURES.items()}
    return {**known, "features": kinds.get(config.get("type", "")), **config}


# --- environments -----------------------------------------------------------------------------------------------------


def _train_notes(agent: Agent, path: Path) -> dict[str, Any]:
    """The environment that `fpi train` noted in a model; nothing for one that was trained from Python."""
    notes = agent.notes.get("train", {})
    if not (
        isinstance(notes, dict)
        and isinstance(notes.get("environment", ""), str)
        and isinstance(notes.get("env_args", {}), dict)
        and isinstance(notes.get("action_grid"), int | None)
    ):
        raise ModelFileError(f"{path} holds notes that fpi never writes. Use a copy that is intact.")
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
    notes = _train_notes(agent, path)
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

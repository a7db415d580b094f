"""The options of `fpi train`: made into an agent and its environment, or compared with a saved model."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from fpi import model_files, settings
from fpi._validation import check_whole, did_you_mean
from fpi.algorithms import Agent, load
from fpi.cli.model_environment import remembered_environment, train_notes
from fpi.envs import Env, action_count, make_environment
from fpi.errors import FpiError, InputError
from fpi.features import RBF, Fourier, OneHot, TileCoding
from fpi.run_config import RunConfig

ALGORITHMS = {settings.option_name(name): name for name in settings.ALGORITHMS}
FEATURE = "features."  # the beginning of a --set that is for the features
FEATURES: dict[str, Any] = {"tiles": TileCoding, "fourier": Fourier, "rbf": RBF, "onehot": OneHot}
MODEL_GRID = 3  # values per dimension of continuous actions, where nothing else is asked for
UNFINISHED = "unfinished"  # among the notes of a checkpoint
CLASSES = {"candidates": "candidates", "linear-ball": "LinearBall"}


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
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
        _reject_unused(self.settings, own, f"--algorithm {algorithm}")
        chosen = {name: value for name in ("function_class", "radius") if (value := getattr(self, name)) is not None}
        _reject_unused(chosen, chosen if algorithm == "eluder" else (), f"--algorithm {algorithm}")
        grid = self.action_grid
        env = make_environment(self.environment, self.env_args, grid)
        if grid is None and algorithm == "model" and isinstance(env.action_space, gym.spaces.Box):
            grid = MODEL_GRID
            env = make_environment(self.environment, self.env_args, grid)
        action_count(env)
        if algorithm == "model":
            _reject_unused([*self.feature_settings, *(["features"] if self.features else [])], (), "--algorithm model")
        described = {}
        if self.features or self.feature_settings:
            numbered = isinstance(env.observation_space, gym.spaces.Discrete)
            kind = self.features or ("onehot" if numbered else "tiles")
            _reject_unused(self.feature_settings, _arguments(FEATURES[kind]), f"--features {kind}")
            described = {"type": FEATURES[kind].__name__, **self.feature_settings}
        function_class = None
        if chosen:
            named = {"type": CLASSES[self.function_class or "linear-ball"], "radius": self.radius}
            function_class = {name: value for name, value in named.items() if value is not None}
        config = RunConfig(
            env=self.environment,
            env_args=self.env_args,
            action_grid=grid,
            algorithm=ALGORITHMS[algorithm],
            arguments=self.settings,
            features=described,
            function_class=function_class,
            episodes=episodes,
        ).complete()
        agent = config.make_agent()
        agent.notes["train"] = config.environment_notes | {"action_grid": grid}  # as it was typed, to compare with
        return config.make_env(), agent

    def resume(self, path: Path) -> tuple[Env, Agent]:
        """The agent of a model file and its environment, if nothing that was typed says otherwise."""
        agent = load(path)
        agent.notes.pop(UNFINISHED, None)
        notes = train_notes(agent, path)
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
                    f"{path} was made with {_option(name)} {_shown(known.get(name))}, not {_shown(value)}. The "
                    "settings of a saved model cannot be changed: leave the option out, or train another model."
                )
        return remembered_environment(agent, path, self.environment, self.env_args, self.action_grid), agent


def left_unfinished(path: Path) -> int:
    """The episodes that a run had learned when it was last saved, if it never came to its end; else 0."""
    try:
        meta = model_files.read(path)[1] if path.is_file() else {}
        return check_whole("episodes", meta["trail"]["episodes"]) if meta["notes"][UNFINISHED] else 0
    except (FpiError, KeyError, TypeError):
        return 0


def _arguments(kind: Any) -> list[str]:
    return [name for make in (kind, kind.for_env) for name in inspect.signature(make).parameters]


def check_setting(name: str) -> None:
    """An InputError if no agent and no features have a setting of this name, as it is typed after --set."""
    known = [*settings.by_name(), *(FEATURE + each for kind in FEATURES.values() for each in _arguments(kind))]
    if name not in known:
        advice = (
            did_you_mean(name.rpartition(".")[2], known) or " `fpi train --help` and the page of settings have them."
        )
        raise InputError(f"--set {name}: there is no setting of this name.{advice}")


def _reject_unused(given: Collection[str], accepted: Collection[str], choice: str) -> None:
    """Options that belong to other choices must not be given."""
    for name in given:
        if name not in accepted:
            raise InputError(f"{_option(name)} does not apply to {choice}: leave one of them out.")


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
    known: dict[str, Any] = {"algorithm": settings.option_name(type(agent).__name__)}
    config = agent.datasets.config or {}
    kinds = {name: short for short, name in CLASSES.items()} | {"FiniteClass": "candidates"}
    if "features" in config or config.get("type") in kinds:
        known |= {"function_class": kinds.get(config["type"]), "radius": config.get("radius")}
        config = config.get("features", {})
    kinds = {each.__name__: short for short, each in FEATURES.items()}
    return {**known, "features": kinds.get(config.get("type", "")), **config}

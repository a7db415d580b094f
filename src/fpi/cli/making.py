"""What the commands work with: environments by name, agents by options, and models that remember both."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import gymnasium as gym

from fpi import control
from fpi.algorithms import PAC, Agent, load
from fpi.control import ActionGrid, Env
from fpi.errors import EnvironmentMismatch, InputError, MissingExtra, ModelFileError
from fpi.features import FeatureMap, Fourier, OneHot, TileCoding
from fpi.spaces import action_count, observation_range

ALGORITHMS = {"pac": PAC}
FEATURES = {"tiles": ("tiles", "tilings"), "fourier": ("order",), "onehot": ()}  # and the options of each


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The options of `fpi train` that shape an agent. A model keeps them in its notes."""

    environment: str
    env_args: dict[str, Any]
    action_grid: int | None
    algorithm: str
    features: str | None
    """None chooses by the observations."""
    tiles: int
    tilings: int
    order: int
    epsilon: float
    ridge: float
    horizon: int | None
    """None is the environment's time limit."""
    explore: str
    freeze: str | int
    reward_range: tuple[float, float]
    seed: int

    @classmethod
    def typed(cls, options: Mapping[str, Any]) -> Self:
        """From the options as they were typed."""
        chosen = {field.name: options[field.name] for field in fields(cls)}
        freeze = options["freeze"]
        chosen["env_args"] = parse_env_args(options["env_args"])
        chosen["freeze"] = int(freeze) if freeze.isdecimal() else freeze
        return cls(**chosen)

    def make(self, given: Collection[str]) -> tuple[Env, Agent]:
        """The environment and a new agent; `given` are the options that were typed."""
        if self.algorithm not in ALGORITHMS:
            raise InputError(f"--algorithm {self.algorithm} is unknown; choose {', '.join(ALGORITHMS)}.")
        env = make_environment(self.environment, self.env_args, self.action_grid)
        check_numbered(env, self.environment)
        horizon = control.time_limit(env) if self.horizon is None else self.horizon
        if horizon is None:
            raise EnvironmentMismatch(
                f"{self.environment} has no time limit, so the steps of an episode are yours to choose: give --horizon."
            )
        kind = self.features or default_features(env)
        if kind not in FEATURES:
            raise InputError(f"--features {kind} is unknown; choose one of {', '.join(FEATURES)}.")
        for name in ("tiles", "tilings", "order"):
            if name in given and name not in FEATURES[kind]:
                raise InputError(f"--{name} means nothing to --features {kind}: leave one of them out.")
        complete = replace(self, horizon=horizon, features=kind)
        agent = ALGORITHMS[self.algorithm](
            make_features(env, kind, self.tiles, self.tilings, self.order),
            actions=action_count(env),
            horizon=horizon,
            epsilon=self.epsilon,
            ridge=self.ridge,
            explore=self.explore,
            freeze=self.freeze,
            reward_range=self.reward_range,
        )
        agent.notes["train"] = _as_json(asdict(complete))
        return env, agent

    def resume(self, path: Path, given: Collection[str]) -> tuple[Env, Agent]:
        """The agent of a model file and its environment, if no option that was typed says otherwise."""
        agent = load(path)
        wanted = _as_json(asdict(self))
        unnoted = {name: wanted[name] for name in ("environment", "env_args", "action_grid")}
        known = {**unnoted, **_as_json(asdict(agent.settings)), "seed": agent.trail.seed, **_train_notes(agent, path)}
        for name in sorted(set(wanted).intersection(given)):
            if known.get(name) != wanted[name]:
                raise InputError(
                    f"{path} was made with {_option(name)} {_typed(known.get(name))}, not {_typed(wanted[name])}. A "
                    "model keeps what it was made with: type the same, leave it out, or train anew with another --out."
                )
        return remembered_environment(agent, path, self.environment, self.env_args, self.action_grid), agent


def _as_json(options: dict[str, Any]) -> dict[str, Any]:
    """The options as they come back from a file."""
    plain: dict[str, Any] = json.loads(json.dumps(options))
    return plain


def _option(name: str) -> str:
    return {"environment": "the environment", "env_args": "--env-arg"}.get(name, "--" + name.replace("_", "-"))


def _typed(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


# --- environments -----------------------------------------------------------------------------------------------------


def parse_env_args(pairs: Collection[str] | None) -> dict[str, Any]:
    """KEY=VALUE pairs: the value is JSON where it can be, else text."""
    args = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise InputError(f"--env-arg {pair} is not of the form KEY=VALUE, as in --env-arg gravity=9.8.")
        try:
            args[key] = json.loads(value)
        except ValueError:
            args[key] = value
    return args


def make_environment(name: str, args: dict[str, Any], action_grid: int | None, render_mode: str | None = None) -> Env:
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
                f'{environment} needs MuJoCo, which is not installed. It is an extra: pip install "fpi[mujoco]".'
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


def check_numbered(env: Env, name: str) -> None:
    """Continuous actions need a grid."""
    if isinstance(env.action_space, gym.spaces.Box):
        raise EnvironmentMismatch(
            f"{name} has continuous actions, {env.action_space}, but FPI plays numbered ones. Choose how many values "
            "per dimension to play, for example --action-grid 5."
        )


def _train_notes(agent: Agent, path: Path) -> dict[str, Any]:
    """What `fpi train` noted in a model; nothing for one that was trained from Python."""
    notes = agent.notes.get("train", {})
    if not (
        isinstance(notes, dict)
        and isinstance(notes.get("environment", ""), str)
        and isinstance(notes.get("env_args", {}), dict)
        and isinstance(notes.get("action_grid"), int | None)
    ):
        raise ModelFileError(f"{path} holds notes that fpi never writes. Use a copy that is intact.")
    return notes


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
    known = notes.get("environment") or (agent.trail.environment or "").partition(" with observations ")[0]
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
    check_numbered(env, name or known)
    return env


# --- features ---------------------------------------------------------------------------------------------------------


def default_features(env: Env) -> str:
    return "onehot" if isinstance(env.observation_space, gym.spaces.Discrete) else "tiles"


def make_features(env: Env, kind: str, tiles: int, tilings: int, order: int) -> FeatureMap:
    if kind == "tiles":
        return TileCoding.for_env(env, tiles=tiles, tilings=tilings)
    if kind == "fourier":
        return Fourier(*observation_range(env), order=order, actions=action_count(env))
    space = env.observation_space
    if not isinstance(space, gym.spaces.Discrete):
        raise InputError(f"--features onehot needs numbered states, but the observations are {space}. Use tiles.")
    return OneHot(int(space.start + space.n), action_count(env))


def try_default_features(env: Env) -> tuple[FeatureMap | None, str]:
    """The features that `fpi train` takes by itself, or why there are none."""
    try:
        return make_features(env, default_features(env), tiles=4, tilings=4, order=3), ""
    except EnvironmentMismatch:
        return None, "unknown before the changes below"
    except InputError as error:
        return None, f"no {default_features(env)}: {error}"

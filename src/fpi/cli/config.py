"""What the commands work with: environments by name, agents by options, and models that remember both."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import gymnasium as gym

from fpi import envs
from fpi.algorithms import PAC, Agent, Eluder, Regret, load
from fpi.algorithms.theory import covering_data
from fpi.envs import Env, action_count, make_environment, observation_range
from fpi.errors import EnvironmentMismatch, InputError, ModelFileError
from fpi.features import FeatureMap, Fourier, OneHot, TileCoding
from fpi.function_classes import FiniteClass, FunctionClass, LinearBall

ALGORITHMS = {  # and the options of each
    "pac": ("epsilon", "ridge", "freeze"),
    "regret": ("ridge", "scale", "elimination"),
    "eluder": ("scale", "elimination", "function_class", "radius"),
}
CLASSES = {"candidates": (), "linear-ball": ("features", "radius")}
FEATURES = {"tiles": ("tiles", "tilings"), "fourier": ("order",), "onehot": ()}  # and the options of each
EPSILON, RIDGE = 1.0, 1e-3  # of pac, if nothing is typed


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
    ridge: float | None
    """None is 1e-3 for pac, and 1/H for regret."""
    scale: float
    elimination: str
    function_class: str | None
    """None is the candidates of the environment, if it has some, else a ball."""
    radius: float | None
    """None is sqrt(d) H."""
    horizon: int | None
    """None is the environment's time limit."""
    explore: str | None
    """None is random for pac, greedy for the others."""
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

    def make(self, given: Collection[str], episodes: int) -> tuple[Env, Agent]:
        """The environment and a new agent to play so many episodes; `given` are the options that were typed."""
        if self.algorithm not in ALGORITHMS:
            raise InputError(f"--algorithm {self.algorithm} is unknown; choose {', '.join(ALGORITHMS)}.")
        _check_meant(given, "--algorithm", self.algorithm, ALGORITHMS)
        env = make_environment(self.environment, self.env_args, self.action_grid)
        check_numbered(env, self.environment)
        horizon = self.horizon
        if horizon is None:
            horizon = envs.time_limit(env) or getattr(_testbed(env), "horizon", None)
        if horizon is None:
            raise EnvironmentMismatch(
                f"{self.environment} has no time limit, so the steps of an episode are yours to choose: give --horizon."
            )
        complete = replace(self, horizon=horizon, explore=self.explore or ("random" if self._is_pac else "greedy"))
        if self.algorithm == "eluder":
            kind = self.function_class or ("candidates" if _candidates(env) is not None else "linear-ball")
            if kind not in CLASSES:
                raise InputError(f"--class {kind} is unknown; choose one of {', '.join(CLASSES)}.")
            _check_meant(given, "--class", kind, CLASSES)
            complete = replace(complete, function_class=kind)
        if complete.function_class != "candidates":
            described = self.features or default_features(env)
            if described not in FEATURES:
                raise InputError(f"--features {described} is unknown; choose one of {', '.join(FEATURES)}.")
            _check_meant(given, "--features", described, FEATURES)
            complete = replace(complete, features=described)
        if self._is_pac:
            complete = replace(complete, ridge=RIDGE if self.ridge is None else self.ridge)
        agent = complete._agent(env, horizon, episodes)
        agent.notes["train"] = _as_json(asdict(complete))
        return env, agent

    @property
    def _is_pac(self) -> bool:
        return self.algorithm == "pac"

    def _agent(self, env: Env, horizon: int, episodes: int) -> Agent:
        """All choices are made."""
        common: dict[str, Any] = {
            "actions": action_count(env),
            "horizon": horizon,
            "explore": self.explore,
            "reward_range": self.reward_range,
        }
        if self.algorithm == "pac":
            assert self.ridge is not None
            return PAC(self._features(env), epsilon=self.epsilon, ridge=self.ridge, freeze=self.freeze, **common)
        common |= {"scale": self.scale, "elimination": self.elimination}
        if self.algorithm == "regret":
            return Regret(self._features(env), ridge=self.ridge, **common)
        return Eluder(self._class(env, horizon), episodes=episodes, **common)

    def _features(self, env: Env) -> FeatureMap:
        assert self.features is not None
        return make_features(env, self.features, self.tiles, self.tilings, self.order)

    def _class(self, env: Env, horizon: int) -> FunctionClass:
        if self.function_class == "linear-ball":
            features = self._features(env)
            radius = math.sqrt(features.dim) * horizon if self.radius is None else self.radius
            ball = LinearBall(features, radius=radius, max_value=horizon)
            ball.log_covering(1.0)  # complains of too many features
            return ball
        tables = _candidates(env)
        if tables is None:
            raise InputError(
                f"{self.environment} has no list of candidate functions; fpi/TableBandit-v0 and fpi/TableHubs-v0 have. "
                "Use --class linear-ball, or make a class of your own in Python: fpi.function_classes.FiniteClass."
            )
        listed = FiniteClass(tables, max_value=horizon)
        if listed.to_config() is None:
            raise InputError(
                f"{listed.size:,} candidate functions are more than a model file can hold. Ask for a smaller "
                "environment, or learn from Python with fpi.Eluder."
            )
        return listed

    def resume(self, path: Path, given: Collection[str]) -> tuple[Env, Agent]:
        """The agent of a model file and its environment, if no option that was typed says otherwise."""
        agent = load(path)
        wanted = _as_json(asdict(self))
        unnoted = {name: wanted[name] for name in ("environment", "env_args", "action_grid")}
        known = {
            **unnoted,
            **_as_json(asdict(agent.settings)),
            "seed": agent.training_state.seed,
            **_train_notes(agent, path),
        }
        for name in sorted(set(wanted).intersection(given)):
            if known.get(name) != wanted[name]:
                raise InputError(
                    f"{path} was made with {_option(name)} {_typed(known.get(name))}, not {_typed(wanted[name])}. A "
                    "model keeps what it was made with: type the same, leave it out, or train anew with another --out."
                )
        return remembered_environment(agent, path, self.environment, self.env_args, self.action_grid), agent


def _check_meant(given: Collection[str], option: str, choice: str, options: Mapping[str, Collection[str]]) -> None:
    """Options that belong to other choices must not be typed."""
    for name in dict.fromkeys(each for names in options.values() for each in names):
        if name in given and name not in options[choice]:
            raise InputError(f"{_option(name)} means nothing to {option} {choice}: leave one of them out.")


def _testbed(env: Env) -> Any:
    """What stands behind an environment of `fpi.testbeds`."""
    return getattr(env.unwrapped, "testbed", None)


def _candidates(env: Env) -> Any:
    """The candidate functions that a testbed comes with, if any."""
    return getattr(_testbed(env), "tables", None)


def _as_json(options: dict[str, Any]) -> dict[str, Any]:
    """The options as they come back from a file."""
    plain: dict[str, Any] = json.loads(json.dumps(options))
    return plain


def _option(name: str) -> str:
    special = {"environment": "the environment", "env_args": "--env-arg", "function_class": "--class"}
    return special.get(name, "--" + name.replace("_", "-"))


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


def size_of(features: Any) -> str:
    """How much is to be learned, in words."""
    if isinstance(features, FiniteClass):
        return f"{features.size:,} candidate functions"
    kind = type(features.features if isinstance(features, LinearBall) else features).__name__
    return f"{features.dim:,} features ({kind})"


def covering_advice(agent: Agent, what: str = "Covering everything") -> str:
    """How many episodes that takes at most, and what would shorten it; empty where nobody can say."""
    further, shorter = "", {TileCoding: ["fewer --tiles or --tilings"], Fourier: ["a lower --order"]}
    if isinstance(agent, PAC):
        epsilon, ridge = agent.settings.epsilon, agent.settings.ridge
    elif isinstance(agent, Regret):
        epsilon, ridge = 0.5, agent.ridge
        what, further = f"{what} at level 1", ", each further level four times as many"
    else:
        return ""
    dim, horizon = agent.features.dim, agent.horizon
    data = covering_data(dim, ridge, epsilon, overlapping=getattr(agent.features, "nnz", 0) != 1)
    if not data:
        return ""
    data *= 1.5 if isinstance(agent.features, Fourier) else 1.0  # as random states took; see `covering_data`
    ways = shorter.get(type(agent.features), [])
    ways += ["a shorter --horizon"] * (horizon > 1) + ["a larger --epsilon"] * (not further and epsilon < 1)
    return (
        f"{what} takes at most about {horizon * data:,.0f} episodes ({horizon:,} steps × {dim:,} features × "
        f"{data / dim:.3g} data each){further}; play improves long before."
    ) + (f" What shortens it: {', '.join(ways)}." if ways else "")


def try_default_features(env: Env) -> tuple[FeatureMap | None, str]:
    """The features that `fpi train` takes by itself, or why there are none."""
    try:
        return make_features(env, default_features(env), tiles=4, tilings=4, order=3), ""
    except EnvironmentMismatch:
        return None, "unknown before the changes below"
    except InputError as error:
        return None, f"no {default_features(env)}: {error}"

"""What a study is, as data that JSON can hold: settings, seeds, and the claims that its rows must answer for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

import gymnasium as gym
import numpy as np

from fpi import algorithms, envs
from fpi._validation import check_whole
from fpi.algorithms import Agent
from fpi.envs import Env, action_count, make_environment, observation_range
from fpi.errors import FpiError, InputError
from fpi.features import from_config

ALGORITHMS = ("PAC", "Regret")
SEPARATOR = "--"  # between the parts of a name; the last part of a setting's name is its curve, the rest its panel
CLAIM_KINDS = ("above", "equal", "level", "stale", "realizable", "incomplete")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that shapes a run except its seed."""

    env: str
    """A Gymnasium environment."""
    episodes: int
    features: Mapping[str, Any]
    """`type` and the arguments of a built-in map; ranges, states and actions may be left to the environment."""
    algorithm: str = "PAC"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of the algorithm. The horizon may be left to the environment's time limit."""
    env_args: Mapping[str, Any] = field(default_factory=dict)
    """For `gymnasium.make`."""
    action_grid: int | list[Any] | None = None
    """For continuous actions, as in `fpi.ActionGrid`."""

    def __post_init__(self) -> None:
        for name in ("env", "algorithm"):
            _check(name, getattr(self, name), str, "a name in quotes")
        for name in ("features", "arguments", "env_args"):
            _check(name, getattr(self, name), Mapping, "a table")
        check_whole("episodes", self.episodes, least=1)
        if self.algorithm not in ALGORITHMS:
            raise InputError(f"algorithm is {self.algorithm!r}; choose one of {', '.join(ALGORITHMS)}.")

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        known = {each.name for each in fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise InputError(f"{', '.join(unknown)}: unknown field; expected one of {', '.join(sorted(known))}.")
        missing = [name for name in ("env", "episodes", "features") if name not in data]
        if missing:
            raise InputError(f"{', '.join(missing)} is missing: a setting needs env, episodes and features.")
        return cls(**data)

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    def make_env(self) -> Env:
        return make_environment(self.env, dict(self.env_args), self.action_grid)

    def make_agent(self) -> Agent:
        """A new agent of a setting that is complete."""
        actions = self.features["actions"]
        kind: Callable[..., Agent] = getattr(algorithms, self.algorithm)
        return kind(from_config(self.features), actions=actions, **self.arguments)

    def complete(self) -> Setting:
        """The same with everything filled in that the environment decides; what does not fit is an InputError."""
        env = self.make_env()
        envs.check_spaces(env, action_count(env))
        arguments, features = dict(self.arguments), dict(self.features)
        limit = envs.time_limit(env)
        if arguments.setdefault("horizon", limit) is None:
            raise InputError(f"{self.env} has no time limit: say how many steps an episode has, arguments.horizon.")
        space = env.observation_space
        if features.get("type") in ("TileCoding", "Fourier") and not {"low", "high"} & set(features):
            low, high = observation_range(env)
            features.update(low=low.tolist(), high=high.tolist())
        if features.get("type") == "OneHot" and isinstance(space, gym.spaces.Discrete):
            features.setdefault("states", int(space.start + space.n))
        features.setdefault("actions", action_count(env))
        kind = getattr(algorithms, self.algorithm)
        try:
            inspect.signature(kind).bind(None, actions=features["actions"], **arguments)
        except TypeError as error:
            raise InputError(f"the arguments do not fit {self.algorithm}: {error}.") from error
        grid = env.grid.tolist() if isinstance(env, envs.ActionGrid) else None
        whole = replace(self, features=features, arguments=arguments, action_grid=grid)
        agent = whole.make_agent()
        agent.predict(env.reset(seed=0)[0], 0)  # features that do not fit the observations fail here
        envs.check_horizon(env, agent.horizon)
        env.close()
        return whole


def _check(name: str, value: Any, kind: type, wanted: str) -> None:
    if not isinstance(value, kind):
        raise InputError(f"{name} is {value!r}; pass {wanted}.")


@dataclass(frozen=True)
class Claim:
    """A sentence, and how the results decide whether it holds here (see `fpi.report.claims`)."""

    text: str
    kind: str
    arguments: Mapping[str, Any]
    seeds: int = 0
    episodes: int = 0
    """The least number of seeds, and of episodes in each run, that can tell. With fewer nothing is judged."""
    question: str = ""
    """What is left open then, as in "whether exact freezing earns more than none"."""

    def __post_init__(self) -> None:
        if self.kind not in CLAIM_KINDS:
            raise InputError(f"there are no claims of the kind {self.kind!r}; choose one of {', '.join(CLAIM_KINDS)}.")


@dataclass(frozen=True, kw_only=True)
class Study:
    """Settings × seeds, and what is claimed about them."""

    name: str
    title: str
    settings: Mapping[str, Setting]
    """By name, as in `CartPole-v1--exact`."""
    seeds: tuple[int, ...]
    about: str = ""
    """What is compared, for readers who see the study for the first time."""
    claims: tuple[Claim, ...] = ()
    size: str = "default"

    def __post_init__(self) -> None:
        for seed in self.seeds:
            check_whole("a seed", seed)
        if (self.settings and not self.seeds) or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds are {list(self.seeds)}; give at least one, and each only once.")

    def complete(self) -> Study:
        """The same with all settings filled in and checked."""
        settings = {}
        for name, setting in self.settings.items():
            try:
                settings[name] = setting.complete()
            except FpiError as error:
                raise type(error)(f"setting {name}: {error}") from error
        return replace(self, settings=settings)

    def resized(self, seeds: int | None, episodes: int | None) -> Study:
        """The same with another number of seeds or episodes; None leaves them."""
        settings = {
            name: setting if episodes is None else replace(setting, episodes=episodes)
            for name, setting in self.settings.items()
        }
        return replace(self, settings=settings, seeds=self.seeds if seeds is None else tuple(range(seeds)))

    @property
    def judged(self) -> tuple[Claim, ...]:
        """The claims that so many seeds and episodes can tell."""
        seeds, episodes = len(self.seeds), self.episodes
        return tuple(claim for claim in self.claims if claim.seeds <= seeds and claim.episodes <= episodes)

    @property
    def episodes(self) -> int:
        """Of the shortest run."""
        return min((setting.episodes for setting in self.settings.values()), default=0)

    def jobs(self, engine: str) -> list[Job]:
        """All runs; the first seed of every setting comes first."""
        return [Job(name, setting, seed, engine) for seed in self.seeds for name, setting in self.settings.items()]

    def to_data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "about": self.about,
            "size": self.size,
            "seeds": list(self.seeds),
            "settings": {name: setting.to_data() for name, setting in self.settings.items()},
            "claims": [asdict(claim) for claim in self.claims],
        }


@dataclass(frozen=True)
class Job:
    """One run: a setting with a seed."""

    name: str
    """Of the setting."""
    setting: Setting
    seed: int
    engine: str

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def id(self) -> str:
        return run_id(self.name, self.seed)


def run_id(setting: str, seed: int) -> str:
    """What a run and its folder are called."""
    return f"{setting}{SEPARATOR}seed-{seed:03d}"


def probe_episodes(episodes: int) -> list[int]:
    """The ends of eleven windows of equal size; short runs have fewer."""
    return sorted(set(np.linspace(0, episodes, 12).astype(int)[1:].tolist()) - {0})

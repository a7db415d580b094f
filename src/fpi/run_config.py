"""One description of a run, for the command line, studies and whoever keeps runs as data: JSON can hold it."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

from fpi import algorithms, envs, features
from fpi._validation import check_real, check_whole, did_you_mean
from fpi.algorithms import Agent
from fpi.algorithms.model_fpi import observations_of
from fpi.envs import Env, action_count, make_environment
from fpi.errors import EnvironmentMismatch, InputError
from fpi.features import FeatureMap
from fpi.function_classes import FiniteClass, FunctionClass, LinearBall
from fpi.modelling.experience import Observations
from fpi.settings import ALGORITHMS, by_name

if TYPE_CHECKING:
    from fpi.testbeds import Testbed

CLASSES = {"candidates": (), "LinearBall": ("radius",)}  # and their arguments
TESTBED = "testbed"  # as a type of features: those that the testbed itself comes with
OF_THE_RUN = "run"  # as the seed of an environment


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """When a policy is good enough, and for how long that is waited for."""

    threshold: float
    """Of the mean return of some fixed starts."""
    starts: int
    every: int
    """Episodes between two judgements."""
    seconds: float
    """Of processor time that a run may learn for."""
    env_args: Mapping[str, Any] = field(default_factory=dict)
    """Of the environment, where they differ from those of learning."""

    def __post_init__(self) -> None:
        check_real("judge.threshold", self.threshold, "a finite number", lambda x: True)
        check_real("judge.seconds", self.seconds, "a number above 0", lambda x: x > 0)
        for name in ("starts", "every"):
            check_whole(f"judge.{name}", getattr(self, name), least=1)
        _check("judge.env_args", self.env_args, Mapping, "a table")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that shapes a run except its seed.

    `algorithm` is the name of a learner (PAC, Regret, Eluder, ModelFPI) or of a method.
    """

    env: str
    """A Gymnasium environment."""
    episodes: int
    features: Mapping[str, Any] = field(default_factory=dict)
    """`type` and the arguments of a built-in map; what is left out the environment decides. Testbeds have features of
    their own: `{"type": "testbed"}`. ModelFPI has none."""
    algorithm: str = "PAC"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the algorithm (`fpi.settings`). The horizon may be left to the environment's time limit."""
    function_class: Mapping[str, Any] | None = None
    """Eluder: {"type": "candidates"}, those of a testbed, or "LinearBall" over the features, and its radius."""
    env_args: Mapping[str, Any] = field(default_factory=dict)
    """For `gymnasium.make`. `{"seed": "run"}` is the seed of the run: a world of its own for each."""
    action_grid: int | list[Any] | None = None
    """For continuous actions, as in `fpi.ActionGrid`."""
    judge: JudgeSettings | None = None
    """For a run that ends where its policy is good enough."""

    def __post_init__(self) -> None:
        for name in ("env", "algorithm"):
            _check(name, getattr(self, name), str, "a name in quotes")
        for name in ("features", "arguments", "env_args"):
            _check(name, getattr(self, name), Mapping, "a table")
        check_whole("episodes", self.episodes, least=1)
        if isinstance(self.judge, Mapping):  # as JSON has it
            check_fields(self.judge, [each.name for each in fields(JudgeSettings)])
            object.__setattr__(self, "judge", JudgeSettings(**self.judge))
        if self.is_method and ":" not in self.algorithm:  # what others wrote is imported when it is run, not read
            _find_method(self.algorithm)
        if self.function_class is not None:
            _check("function_class", self.function_class, Mapping, "a table")
            if self.algorithm != "Eluder":
                raise InputError(f"{self.algorithm} learns with features: leave function_class out, or choose Eluder.")
            kind = self.function_class.get("type")
            if kind not in CLASSES:
                raise InputError(f"function_class.type is {kind!r}; choose one of {', '.join(CLASSES)}.")
        if not self.is_method:
            settings = inspect.signature(ALGORITHMS[self.algorithm]).parameters
            for name in self.arguments:
                if name not in settings:
                    hint = did_you_mean(name, settings) or f" There are {', '.join(settings)}."
                    raise InputError(f"{self.algorithm} has no setting {name}.{hint}")

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_data`; an InputError for a field that is unknown or missing."""
        check_fields(data, [each.name for each in fields(cls)])
        missing = [name for name in ("env", "episodes") if name not in data]
        if missing:
            raise InputError(f"{', '.join(missing)} is missing: a run needs env and episodes.")
        return cls(**data)

    def to_data(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {name: value for name, value in asdict(self).items() if (name, value) != ("judge", None)}

    @property
    def is_method(self) -> bool:
        """Whether the algorithm is a method to compare with, on a testbed, instead of an agent."""
        return self.algorithm not in ALGORITHMS

    def of_seed(self, seed: int) -> Self:
        """With the world of this run, if every run has its own."""
        if self.env_args.get("seed") != OF_THE_RUN:
            return self
        return replace(self, env_args={**self.env_args, "seed": seed})

    def make_method(self, seed: int) -> Any:
        """A new method, which `fpi.baselines.play` runs for `episodes` episodes or as many steps as these can have."""
        try:
            return _find_method(self.algorithm)(**self.arguments, seed=seed)
        except TypeError as error:
            raise InputError(f"the arguments do not fit {self.algorithm}: {error}.") from error

    def make_testbed(self) -> tuple[Any, str]:
        """The testbed of the environment, and the noise of its rewards."""
        env = self.make_env()
        if _testbed(env) is None:
            raise InputError(
                f"{self.algorithm} is judged by exact values, which {self.env} does not have: name a testbed."
            )
        return _testbed(env), env.unwrapped.noise  # type: ignore[attr-defined]

    @property
    def environment_notes(self) -> dict[str, Any]:
        """What a model file says of its environment, by which `fpi evaluate` makes it again."""
        return {"environment": self.env, "env_args": dict(self.env_args), "action_grid": self.action_grid}

    def make_env(self) -> Env:
        """The environment it describes, with its action grid; where every run has its own world, that of seed 0."""
        return make_environment(self.env, dict(self.of_seed(0).env_args), self.action_grid)

    def find_testbed(self) -> Testbed | None:
        """What stands behind the environment, if it is one of `fpi.testbeds`."""
        return _testbed(self.make_env())

    def own_features(self) -> FeatureMap | None:
        """The features of a testbed, which a model file cannot hold; None where they are built in."""
        testbed = self.find_testbed() if self.features.get("type") == TESTBED else None
        return None if testbed is None else testbed.features

    def make_agent(self) -> Agent:
        """A new agent of a description that is complete."""
        kind: Callable[..., Agent] = getattr(algorithms, self.algorithm)
        if self.algorithm == "ModelFPI":
            return kind(Observations(**self.features), **self.arguments)
        described = self.own_features() or (features.from_config(self.features) if self.features else None)
        if self.algorithm == "Eluder":
            return kind(self._make_class(described), **self.arguments)
        return kind(described, **self.arguments)

    def _make_class(self, described: FeatureMap | None) -> FunctionClass:
        assert self.function_class is not None
        settings = ALGORITHMS[self.algorithm](**self.arguments)
        assert settings.reward_range is not None  # a class of functions has bounds
        rewards = envs.RewardRange(*settings.reward_range)
        low, high = rewards.value_range(settings.horizon)
        if described is not None:
            ball = LinearBall(described, radius=self.function_class["radius"], min_value=low, max_value=high)
            ball.log_covering(1.0)  # complains of too many features
            return ball
        candidates = FiniteClass(_candidates(self.make_env()) / rewards.span, min_value=low, max_value=high)
        if candidates.to_config() is None:
            raise InputError(
                f"{candidates.size:,} candidate functions are more than a model file can hold. Ask for a smaller "
                "environment, or learn from Python with fpi.Eluder."
            )
        return candidates

    def complete(self) -> Self:
        """The same with everything filled in that the environment decides; what does not fit is an InputError."""
        if self.is_method:
            testbed, noise = self.make_testbed()
            self.make_method(seed=0).check(testbed.holds | ({"noiseless"} if noise == "none" else set()))
            return self
        env = self.make_env()
        arguments = dict(self.arguments)
        if arguments.setdefault("actions", action_count(env)) != action_count(env):
            envs.check_actions(env, arguments["actions"])
        envs.check_observations(env)
        if arguments.setdefault("horizon", envs.time_limit(env) or getattr(_testbed(env), "horizon", None)) is None:
            raise EnvironmentMismatch(
                f"{self.env} has no time limit, so the steps of an episode are yours to choose: give the horizon."
            )
        if self.algorithm == "Eluder":
            arguments.setdefault("episodes", self.episodes)
        grid = env.grid.tolist() if isinstance(env, envs.ActionGrid) else None
        whole = replace(self, arguments=arguments, action_grid=grid)._describe(env)
        agent = whole.make_agent()
        agent.predict(env.reset(seed=0)[0], 0)  # features that do not fit the observations fail here
        envs.check_horizon(env, agent.horizon)
        env.close()
        return whole

    def _describe(self, env: Env) -> Self:
        """With the features or the function class filled in."""
        chosen = self.function_class
        if self.algorithm == "Eluder":
            has_candidates = _candidates(env) is not None
            chosen = {"type": "candidates" if has_candidates else "LinearBall"} if chosen is None else dict(chosen)
            unknown = set(chosen) - {"type", *CLASSES[chosen["type"]]}
            if unknown:
                raise InputError(f"{', '.join(sorted(unknown))} is not an argument of the class {chosen['type']}.")
            if chosen["type"] == "candidates":
                if not has_candidates:
                    raise InputError(
                        f"{self.env} has no list of candidate functions; fpi/TableBandit-v0 and fpi/TableHubs-v0 have. "
                        "Use the class LinearBall, or make one of your own in Python: fpi.function_classes.FiniteClass."
                    )
                if self.features:
                    raise InputError("candidate functions are of states and actions themselves: leave features out.")
                return replace(self, function_class=chosen)
        if self.algorithm == "ModelFPI":
            if self.features:
                raise InputError("ModelFPI learns from observations themselves: leave features out.")
            return replace(self, features=observations_of(env).to_config())
        if self.features.get("type") == TESTBED:
            if _testbed(env) is None:
                raise InputError(f"{self.env} is no testbed and has no features of its own. Choose TileCoding, say.")
            return self
        described = features.for_env(self.features, env)
        if chosen is not None:
            chosen = {"radius": math.sqrt(described.dim) * self.arguments["horizon"], **chosen}
        config: dict[str, Any] = described.to_config()  # type: ignore[attr-defined]
        return replace(self, features=config, function_class=chosen)


def check_fields(data: Mapping[str, Any], known: Sequence[str]) -> None:
    """An InputError for fields that are none of these, with a hint at what may have been meant."""
    unknown = sorted(set(data) - set(known))
    if unknown:
        hint = did_you_mean(unknown[0], [*(f"arguments.{name}" for name in by_name()), *known])
        raise InputError(f"{', '.join(unknown)}: unknown field; expected one of {', '.join(known)}.{hint}")


def _check(name: str, value: Any, kind: type, wanted: str) -> None:
    if not isinstance(value, kind):
        raise InputError(f"{name} is {value!r}; pass {wanted}.")


def _find_method(name: str) -> Any:
    """A method of `fpi.baselines`, which stands above and is named here only, or one of your own as "module:Class"."""
    module, _, kind = name.rpartition(":")
    baselines = importlib.import_module("fpi.baselines")
    methods = baselines.METHODS
    if not module and name not in methods:
        raise InputError(
            f"algorithm is {name!r}; choose one of {', '.join(ALGORITHMS)}. To compare with, on testbeds, there are "
            f"{', '.join(methods)}, and your own: module:Class."
        )
    try:
        found = getattr(importlib.import_module(module), kind) if module else methods[name]
    except (ImportError, AttributeError) as error:
        raise InputError(f"the method {name} cannot be imported: {error}. Write module:Class.") from error
    if not (isinstance(found, type) and issubclass(found, baselines.Method)):
        raise InputError(
            f"{name} is not a method: that is a class derived from fpi.baselines.Method, with `run` and a `seed`. "
            "fpi.check_method looks whether one of your own keeps to the rules."
        )
    return found


def _testbed(env: Env) -> Testbed | None:
    """What stands behind an environment of `fpi.testbeds`."""
    return getattr(env.unwrapped, "testbed", None)


def _candidates(env: Env) -> Any:
    """The candidate functions that a testbed comes with, if any."""
    return getattr(_testbed(env), "tables", None)

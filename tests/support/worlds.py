"""Small MDPs with features or candidate functions, in which fpi is held against the literal algorithms step by step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import layered
import numpy as np
from layered import LayeredMDP

import fpi

SEED = 7


@dataclass(frozen=True)
class World:
    """An MDP, features for it, and the settings to learn it with. A subclass names the two that are compared."""

    features: Callable[[LayeredMDP], Any]
    settings: dict[str, Any] = field(default_factory=dict)
    mdp: dict[str, Any] = field(default_factory=dict)
    episodes: int = 200
    precision: dict[str, Any] = field(default_factory=dict)  # of the literal algorithm, if not its own
    seed: int = 3

    algorithm: ClassVar[Callable[..., Any]]
    reference: ClassVar[Callable[..., Any]]
    defaults: ClassVar[dict[str, Any]]
    """Settings unless a world has others. The last two are the rules, which `agent` and `literal` take by place."""

    def env(self) -> LayeredMDP:
        return LayeredMDP(self.seed, **self.mdp)

    def arguments(self, *rules: Any) -> dict[str, Any]:
        env = self.env()
        given = dict(zip(list(self.defaults)[-2:], rules, strict=False))
        return {"actions": env.actions, "horizon": env.horizon} | self.defaults | self.settings | given

    def known(self) -> Any:
        """What the agent is told of values, and `rows` the same for the literal algorithm."""
        return self.features(self.env())

    def rows(self) -> Any:
        return of_both(self.known())

    def agent(self, *rules: Any) -> Any:
        return type(self).algorithm(self.known(), **self.arguments(*rules))

    def literal(self, *rules: Any) -> Any:
        return type(self).reference(self.rows(), **self.arguments(*rules), seed=SEED, **self.precision)

    def play(self, *rules: Any) -> tuple[Any, LayeredMDP, list[Any]]:
        """The literal algorithm after learning, its environment, and what it did in every episode."""
        literal, env = self.literal(*rules), self.env()
        return literal, env, [literal.learn_episode(env) for _ in range(self.episodes)]


def bandit(*means: float) -> LayeredMDP:
    """One state and no noise."""
    env = LayeredMDP(0, horizon=1, states=1, actions=len(means), rewards="fixed")
    env.mean[0, 0] = means
    return env


def settings_of(
    worlds: dict[str, Any], first: Sequence[Any], second: Sequence[Any], count: int
) -> set[tuple[Any, ...]]:
    """So many pairs of rules for every world; they change from world to world."""
    return {
        (name, first[(number + i) % len(first)], second[(number // len(first) + number + i) % len(second)])
        for number, name in enumerate(worlds)
        for i in range(count)
    }


# --- features ----------------------------------------------------------------------------------------------


def of_both(features: Any) -> Any:
    """Features of observation and stage, of whichever they were."""
    if len(inspect.signature(features).parameters) == 2:
        return features
    return lambda observation, stage: features(observation)


def table(make: Callable[[LayeredMDP], Any], *steps: Callable[[Any], Any]) -> Callable[[LayeredMDP], Any]:
    """A feature function of observation and stage from a table of `layered`."""

    def features(mdp: LayeredMDP) -> Any:
        rows = make(mdp)
        for step in steps:
            rows = step(rows)
        return layered.of_stage(rows)

    return features


def dense(dim: int, **options: Any) -> Callable[[LayeredMDP], Any]:
    return lambda mdp: layered.dense(mdp, dim, **options)


def small(scale: float) -> Callable[[Any], Any]:
    return lambda rows: layered.shrunk(rows, scale)


def keyed(mdp: LayeredMDP) -> Any:
    function = layered.of_stage(layered.dense(mdp, 6))
    return fpi.features.Function(function, mdp.actions, key=lambda observation, stage: observation)


def one_hot(mdp: LayeredMDP) -> Any:
    return fpi.OneHot(max(mdp.sizes), mdp.actions)


def tiles(count: int, tilings: int) -> Callable[[LayeredMDP], Any]:
    return lambda mdp: fpi.TileCoding(
        np.zeros(mdp.dims), np.ones(mdp.dims), tiles=count, tilings=tilings, actions=mdp.actions
    )


def rbf(mdp: LayeredMDP) -> Any:
    return fpi.RBF(np.random.default_rng(0).random((6, mdp.dims)), 0.3, mdp.actions)


# --- drawn -------------------------------------------------------------------------------------------------


def drawn_mdp(rng: np.random.Generator, observe: str = "id") -> dict[str, Any]:
    """A tiny MDP: learned in a moment, with every kind of reward, and with episodes that end early."""
    horizon = int(rng.integers(1, 4))
    low = int(rng.integers(-2, 2))
    return {
        "horizon": horizon,
        "states": tuple(int(size) for size in rng.integers(2, 7, horizon)),
        "actions": int(rng.integers(2, 4)),
        "early_end": float(rng.choice([0.0, 0.2])),
        "rewards": str(rng.choice(["bernoulli", "uniform", "integer"])),
        "reward_range": (low, low + int(rng.integers(1, 4))),
        "observe": observe,
    }


def drawn_features(rng: np.random.Generator, observe: str) -> Callable[[LayeredMDP], Any]:
    if observe == "point":
        return tiles(2, 2)
    return [table(dense(2)), table(dense(3), layered.duplicated), table(dense(4), small(0.05)), keyed, one_hot][
        int(rng.integers(5))
    ]

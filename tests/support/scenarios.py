"""Small fixed runs of everything that learns, by which versions of fpi are compared.

A row is what one run showed, as a dictionary of arrays. `python -m benchmarks compare-versions REV` runs all rows with
an earlier version and with the working tree, and compares bits; tests/test_recorded.py compares what holds on any
processor with rows that were recorded.

This file runs with earlier versions too, so it keeps to names that users rely on. Those that changed since are looked
up in the next section, and nowhere else.
"""

from __future__ import annotations

import fnmatch
import inspect
import itertools
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import layered
import numba
import numpy as np
from layered import LayeredMDP
from numpy.typing import NDArray
from safetensors import safe_open

import fpi
from fpi import baselines, compiled, testbeds
from fpi.errors import InputError, ModelFileError

Fields = dict[str, NDArray[Any]]
Row = Callable[[], Fields]
Make = Callable[[], Any]
SEED = 3
EPISODES = 80


# --- names that differ between versions, the newest first -------------------------------------------------------------


def named(owner: Any, *names: str) -> Any:
    """The first of these attributes that there is."""
    return getattr(owner, next((name for name in names if hasattr(owner, name)), names[0]))


classes = named(fpi, "function_classes", "classes")
find_compiled = named(compiled, "get", "find")
CompiledEnv = named(compiled, "CompiledEnv", "Twin")
StaleLog = named(compiled if hasattr(compiled, "StaleLog") else fpi, "StaleLog")
MAX_VALUE = next(name for name in ("max_value", "top") if name in inspect.signature(classes.FiniteClass).parameters)

DIVIDED = "min_value" in inspect.signature(classes.FiniteClass).parameters  # rewards were shifted before

IN_FILES = {"max_value": "top"}
"""What files call a tensor or a setting, and what they called it first."""


def history_fields(history: Any) -> Fields:
    return {
        "returns": history.returns,
        "lengths": history.lengths,
        "stored stages": named(history, "stored_stage", "explored"),
        "covered steps": named(history, "covered_steps", "frozen"),
    }


# --- what is looked at ------------------------------------------------------------------------------------------------


def watched(agent: Any, env: Any, episodes: int, seed: int | None = SEED) -> Fields:
    """Learn, and note every action, and after some of the episodes what the agent says of the states it met."""
    actions, answers = [], []

    def note(episode: Any) -> None:
        actions.append(episode.actions)
        if len(actions) in (episodes // 8, episodes // 2, episodes):
            answers.extend(asked(agent, seen[()], stage) for stage, seen in enumerate(episode.observations))

    history = agent.learn(env, episodes, seed=seed, callback=note)
    fields = history_fields(history) | {"actions": np.concatenate(actions)}
    return fields | {f"asked.{name}": np.array([each[name] for each in answers]) for name in answers[0]}


def asked(agent: Any, observation: Any, stage: int) -> dict[str, Any]:
    """The best action by the data so far, and what the agent knows of it."""
    greedy = {"explore": False} if "explore" in inspect.signature(agent.predict).parameters else {}  # once the only way
    said: dict[str, Any] = {"action": agent.predict(observation, stage, **greedy)}
    if hasattr(agent, "explain"):
        why = agent.explain(observation, stage)
        said |= {"covered": why.covered, "widths": why.widths, "values": why.values}
        said |= {"freezing index": -1 if why.freezing_index is None else why.freezing_index}
        said |= {"level": -1 if why.level is None else why.level, "gap": float(why.gap)}
    return said


def data_fields(agent: Any) -> Fields:
    """All data, stage by stage and level by level."""
    fields: dict[str, list[Any]] = {}
    for stage, level in itertools.product(range(agent.horizon), _levels(agent)):
        data = agent.dataset(stage, *level)
        fields.setdefault("sizes", []).append([len(data)])
        for name in ("features", "actions", "targets", "episodes"):
            fields.setdefault(name, []).append(getattr(data, name))
    return {f"data.{name}": np.concatenate(parts) for name, parts in fields.items()}


def _levels(agent: Any) -> list[tuple[int, ...]]:
    if "level" not in inspect.signature(agent.dataset).parameters:
        return [()]
    levels: list[tuple[int, ...]] = []
    try:
        for level in itertools.count(1):
            agent.dataset(0, level)
            levels.append((level,))
    except InputError:  # there are no more
        return levels


def file_fields(path: Path) -> Fields:
    """The tensors of a file, and every entry of its JSON."""
    with safe_open(path, framework="np") as file:
        content = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        content |= {name: np.array(json.dumps(value)) for name, value in _leaves(json.loads(file.metadata()["json"]))}
    return {f"file.{'.'.join(IN_FILES.get(part, part) for part in name.split('.'))}": content[name] for name in content}


def _leaves(table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{rest}", leaf) for rest, leaf in _leaves(value))
        else:
            yield key, value


def load(path: Path, features: Any) -> Any:
    """The agent of a file, which may or may not hold its features."""
    try:
        return fpi.load(path)
    except ModelFileError:
        return fpi.load(path, features=features)


# --- kinds of runs ----------------------------------------------------------------------------------------------------


def learner(make: Callable[[Any], Any], features: Make, make_env: Make, episodes: int = EPISODES) -> Fields:
    """An agent that learns, answers, is evaluated and saved, and one that was saved and loaded half-way."""
    agent, halved = make(features()), make(features())
    fields = watched(agent, make_env(), episodes) | data_fields(agent)
    judged = fpi.evaluate(agent, make_env(), 5, seed=1)
    fields |= {"evaluated.returns": judged.returns, "evaluated.lengths": judged.lengths}
    halved.learn(make_env(), episodes // 2, seed=SEED)
    return fields | _saved(agent, halved, features, lambda half: half.learn(make_env(), episodes - episodes // 2))


def compiled_learner(make: Make, compiled_env: Any, make_env: Make | None = None, episodes: int = EPISODES) -> Fields:
    """The same in compiled code; the agent that is saved half-way begins with Gymnasium, if there is an environment."""
    agent, halved = make(), make()
    log = StaleLog(agent)
    fields = history_fields(compiled.learn(agent, compiled_env, episodes, seed=SEED, log=log)) | data_fields(agent)
    fields["stale share"] = np.array(log.share())
    if make_env is None:
        compiled.learn(halved, compiled_env, episodes // 2, seed=SEED)
    else:
        halved.learn(make_env(), episodes // 2, seed=SEED)
    return fields | _saved(
        agent, halved, None, lambda half: compiled.learn(half, compiled_env, episodes - episodes // 2)
    )


def _saved(agent: Any, halved: Any, features: Any, go_on: Callable[[Any], Any]) -> Fields:
    """The file of an agent, which another must end in that is saved, loaded, and goes on."""
    with TemporaryDirectory() as folder:
        whole, half = Path(folder, "whole.fpi"), Path(folder, "half.fpi")
        agent.save(whole)
        halved.save(half)
        loaded = load(half, features and features())
        go_on(loaded)
        loaded.save(half)
        if whole.read_bytes() != half.read_bytes():
            raise AssertionError("an agent that was saved and loaded half-way ends in another file")
        return file_fields(whole)


def regression(blocks: int, sparse: bool, ridge: float) -> Fields:
    """Widths and estimates at every prefix, and where queries are first covered."""
    rng = np.random.default_rng(SEED)
    kept = fpi.PrefixRidge(6, ridge, blocks=blocks)

    def draw() -> Any:
        row = rng.normal(size=6)
        row /= np.linalg.norm(row)
        return (rng.permutation(6)[:3], row[:3]) if sparse else row

    for i in range(80):
        kept.append(draw(), rng.uniform(), block=i % blocks)
    queries = [draw() for _ in range(8)]
    Phi = tuple(map(np.array, zip(*queries, strict=True))) if sparse else np.array(queries)
    where = [i % blocks for i in range(8)]
    epsilons = np.geomspace(0.1, 3 / np.sqrt(ridge), 12)
    covers = [kept.first_cover(Phi, epsilon, where) for epsilon in epsilons]
    return {
        "widths": kept.widths(Phi, where)[::8],
        "values": kept.values(Phi, where)[::8],
        "log dets": kept.log_dets[::8],
        "first covers": np.array([-1 if cover is None else cover for cover in covers]),
    }


def command(*arguments: str, study: str = "") -> Fields:
    """All files of tensors that a command of the command line writes."""
    with TemporaryDirectory() as folder:
        Path(folder, "study.toml").write_text(study)
        call = [sys.executable, "-c", "from fpi.cli import main; main()", *arguments]
        done = subprocess.run(call, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
        paths = [*Path(folder).rglob("rows.safetensors"), *Path(folder).rglob("*.fpi")]
        return {
            f"{path.relative_to(folder)}: {name}": field
            for path in sorted(paths)
            for name, field in file_fields(path).items()
        }


# --- worlds and features ----------------------------------------------------------------------------------------------

ACTIONS, STATES, STAGES = 3, 6, 3
IDS = partial(LayeredMDP, 1, horizon=STAGES, states=STATES, actions=ACTIONS, early_end=0.1)
POINTS = partial(IDS, observe="point")


class Sparse:
    """Two active features: the state, and a group it shares with another."""

    separate, nnz, actions, dim = True, 2, ACTIONS, ACTIONS * (STATES + STATES // 2)

    def active(self, observation: Any, stage: int) -> tuple[Any, Any]:
        return np.array([observation, STATES + observation // 2], np.int32), np.array([0.8, 0.6])

    def __call__(self, observation: Any, stage: int) -> Any:
        indices, values = self.active(observation, stage)
        psi = np.zeros(self.dim // self.actions)
        psi[indices] = values
        return np.kron(np.eye(self.actions), psi)


class KeyedSparse(Sparse):
    def key(self, observation: Any, stage: int) -> int:
        return int(observation)


class Dense:
    """Polynomials of the state's number, in a block for each action."""

    separate, actions, dim = True, ACTIONS, 3 * ACTIONS

    def state(self, observation: Any, stage: int) -> Any:
        x = observation / STATES
        return np.array([1.0, x, x * x]) / np.sqrt(3)

    def __call__(self, observation: Any, stage: int) -> Any:
        return np.kron(np.eye(self.actions), self.state(observation, stage))


class KeyedDense(Dense):
    def key(self, observation: Any, stage: int) -> int:
        return int(observation)


def tiles(**options: Any) -> Any:
    return fpi.TileCoding([0, 0], [1, 1], tiles=2, tilings=2, actions=ACTIONS, **options)


def function() -> Any:
    return layered.of_stage(layered.dense(IDS(), dim=6))


def keyed_function() -> Any:
    return fpi.features.Function(function(), ACTIONS, key=lambda observation: observation)


CENTERS = [[0.2, 0.2], [0.5, 0.8], [0.9, 0.1]]
FEATURES: dict[str, tuple[Make, Make]] = {  # with an environment for each
    "tiles": (tiles, POINTS),
    "periodic tiles": (partial(tiles, wrap=[True, False]), POINTS),
    "one-hot": (lambda: fpi.OneHot(STATES, ACTIONS), IDS),
    "sparse": (Sparse, IDS),
    "sparse with a key": (KeyedSparse, IDS),
    "Fourier": (lambda: fpi.Fourier([0, 0], [1, 1], order=1, actions=ACTIONS), POINTS),
    "RBF": (lambda: fpi.RBF(CENTERS, 0.4, actions=ACTIONS), POINTS),
    "dense": (Dense, IDS),
    "dense with a key": (KeyedDense, IDS),
    "function": (function, IDS),
    "function of one argument": (lambda: layered.of_observation(layered.dense(IDS(), dim=5)), IDS),
    "function with a key": (keyed_function, IDS),
}


def tables() -> Any:
    numbers = np.random.default_rng(0).uniform(0, STAGES, (9, STAGES, STATES, ACTIONS))
    return classes.FiniteClass(numbers, **{MAX_VALUE: STAGES})


def candidates(**options: Any) -> Any:
    functions = [lambda state, stage, i=i: tables().rows(state, stage)[:, i] for i in range(9)]
    return classes.FiniteClass(functions, actions=ACTIONS, **{MAX_VALUE: STAGES}, **options)


def ball(name: str, kind: str = "LinearBall") -> tuple[Make, Make]:
    features, env = FEATURES[name]
    options = {"actions": ACTIONS, MAX_VALUE: STAGES}
    return lambda: getattr(classes, kind)(features(), radius=1.0, **options), env


def cells(**options: Any) -> Any:
    number = STATES * ACTIONS
    cell_of = lambda state, stage: ACTIONS * state + np.arange(ACTIONS)  # noqa: E731
    return classes.Aggregation(cell_of, cells=number, actions=ACTIONS, **{MAX_VALUE: STAGES}, **options)


CLASSES: dict[str, tuple[Make, Make]] = {
    "tables": (tables, IDS),
    "candidates": (candidates, IDS),
    "candidates with a key": (lambda: candidates(key=lambda state, stage: state), IDS),
    "linear ball": ball("RBF"),
    "linear ball of a function": ball("function"),
    "linear ball of a function with a key": ball("function with a key"),
    "logistic": ball("RBF", "GeneralizedLinear"),
    "cells": (cells, IDS),
}


class Corridor(gym.Env[int, int]):
    """Six cells; one reward in the middle, another at the right end, where it stops."""

    observation_space = gym.spaces.Discrete(6)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.cell = int(self.np_random.uniform(0.0, 3.0))
        return self.cell, {}

    def step(self, action: Any) -> Any:
        self.cell = max(self.cell + 2 * int(action) - 1, 0)
        return self.cell, {3: 0.1, 5: 0.7}.get(self.cell, 0.3 / (1 + self.cell)), self.cell == 5, False, {}


@numba.njit
def corridor_reset(rng, state, observation):
    state[0] = observation[0] = np.floor(rng.uniform(0.0, 3.0))


@numba.njit
def corridor_step(state, action, observation):
    state[0] = observation[0] = max(state[0] + 2.0 * action[0] - 1.0, 0.0)
    reward = 0.3 / (1.0 + state[0])
    if state[0] == 3.0:
        reward = 0.1
    if state[0] == 5.0:
        reward = 0.7
    return reward, state[0] == 5.0


def corridor_env() -> Any:
    return CompiledEnv("Corridor", corridor_reset, corridor_step, 1, Corridor.observation_space, [0, 1])


def corridor_agent(**settings: Any) -> Any:
    return fpi.PAC(fpi.OneHot(6, 2), actions=2, horizon=9, epsilon=0.4, ridge=0.1, reward_range=(-0.5, 1.0), **settings)


def cartpole() -> Any:
    return gym.make("CartPole-v1")


def cartpole_agent(tilings: int = 2, **settings: Any) -> Any:
    features = fpi.TileCoding([-1, -2, -0.2, -2], [1, 2, 0.2, 2], tiles=2, tilings=tilings, actions=2)
    return fpi.PAC(features, actions=2, epsilon=1.0, ridge=1e-3, **{"horizon": 25, **settings})


def pendulum_agent(**settings: Any) -> Any:
    features = fpi.TileCoding([-1, -0.3, -3, -3], [1, 0.3, 3, 3], tiles=2, tilings=2, actions=4)
    return fpi.PAC(features, actions=4, horizon=60, epsilon=1.0, ridge=1e-3, **settings)


def swing_up() -> Any:
    return fpi.ActionGrid(gym.make("Pendulum-v1"), 3)


# --- the rows ---------------------------------------------------------------------------------------------------------

FREEZE: tuple[Any, ...] = ("exact", "never", 3)
EXPLORE = ("first", "widest", "greedy", "random")
ELIMINATION = ("paper", "stage", "interval")


def pac(**settings: Any) -> Callable[[Any], Any]:
    defaults = {"actions": ACTIONS, "horizon": STAGES, "epsilon": 1.0, "ridge": 0.5}
    return lambda features: fpi.PAC(features, **{**defaults, **settings})


def regret(**settings: Any) -> Callable[[Any], Any]:
    """With so much ridge that one datum covers at level 1, and a scale at which the elimination rules differ."""
    defaults = {"actions": ACTIONS, "horizon": STAGES, "ridge": 3.0, "theta_bound": 1.0, "scale": 0.006}
    return lambda features: fpi.Regret(features, **{**defaults, **settings})


def eluder(**settings: Any) -> Callable[[Any], Any]:
    """With so small a radius that few data cover at level 1."""
    defaults = {"actions": ACTIONS, "horizon": STAGES, "episodes": 1_000, "scale": 1e-7}
    return lambda functions: fpi.Eluder(functions, **{**defaults, **settings})


def _agents() -> Iterator[tuple[str, Row]]:
    """Every kind of features and of function class with every option; all pairs of options under tile coding."""
    for freeze, explore in itertools.product(FREEZE, EXPLORE):
        yield f"PAC, tiles, {freeze}, {explore}", partial(learner, pac(freeze=freeze, explore=explore), tiles, POINTS)
    for number, (name, (features, env)) in enumerate(FEATURES.items()):
        for i, explore in enumerate(EXPLORE):
            freeze = FREEZE[(number + i) % 3]
            row = partial(learner, pac(freeze=freeze, explore=explore), features, env)
            yield f"PAC, {name}, {freeze}, {explore}", row
        for i, elimination in enumerate(ELIMINATION):
            explore = EXPLORE[(number + i) % 4]
            row = partial(learner, regret(elimination=elimination, explore=explore), features, env, 150)
            yield f"Regret, {name}, {elimination}, {explore}", row
    for number, (name, (functions, env)) in enumerate(CLASSES.items()):
        for i, elimination in enumerate(ELIMINATION):
            explore = EXPLORE[(number + i) % 4]
            row = partial(learner, eluder(elimination=elimination, explore=explore), functions, env)
            yield f"Eluder, {name}, {elimination}, {explore}", row


def _settings() -> Iterator[tuple[str, Row]]:
    """What is left of settings and rewards."""
    wide = {"rewards": "integer", "reward_range": (-3, 5)}
    uneven = partial(POINTS, rewards="uniform")
    bumps = FEATURES["RBF"][0]
    yield "PAC, other rewards", partial(learner, pac(reward_range=(-3, 5)), tiles, partial(POINTS, **wide))
    yield "Regret, other rewards", partial(learner, regret(reward_range=(-3, 5)), tiles, partial(POINTS, **wide))
    below = partial(cells, min_value=-STAGES) if DIVIDED else cells
    yield "Eluder, other rewards", partial(learner, eluder(reward_range=(-3, 5)), below, partial(IDS, **wide))
    yield "PAC, uneven rewards", partial(learner, pac(explore="greedy"), tiles, uneven)
    yield "Regret, uneven rewards", partial(learner, regret(), tiles, uneven)
    exact = Dense, partial(IDS, rewards="uniform")  # without exp: a tiny ridge makes much of its last digit
    yield "PAC, a tiny ridge", partial(learner, pac(ridge=1e-8, epsilon=0.3), *exact)
    yield "PAC, constants of the paper", partial(learner, pac(constants="paper", delta=0.1), tiles, POINTS)
    yield "PAC, misspecified", partial(learner, pac(misspecification=0.1, theta_bound=2.0), tiles, POINTS)
    yield "PAC, one stage", partial(learner, pac(horizon=1), tiles, POINTS)
    yield "Regret, constants of the theory", partial(learner, regret(scale=1.0, ridge=None), bumps, POINTS)
    yield "Regret, constants of the paper", partial(learner, regret(constants="paper"), function, IDS)
    yield "Regret, two levels", partial(learner, regret(max_level=2), keyed_function, IDS)
    yield "Regret, misspecified", partial(learner, regret(misspecification=0.2), tiles, POINTS)
    yield "Eluder, constants of the paper", partial(learner, eluder(constants="paper", delta=0.1), tables, IDS)
    swings = pac(actions=3, horizon=20, reward_range=(-16.3, 0))
    grid = partial(fpi.TileCoding, [-1, -1, -8], [1, 1, 8], tiles=2, tilings=3, actions=3)
    yield "PAC, Pendulum", partial(learner, swings, grid, swing_up, 20)


def corridor() -> Any:
    return testbeds.HubCorridor(B=2, m=3, K=4, junk=2)


def bandit() -> Any:
    return testbeds.LinBandit(d=6, K=10)


def hubs() -> Any:
    return testbeds.TableHubs(contexts=6, m=2, K=2, R=5)


def hub_tables(world: Any) -> Any:
    return classes.FiniteClass(world.tables, **{MAX_VALUE: 2.0})


def arms(world: Any) -> Any:
    return classes.GeneralizedLinear(world.arms, radius=world.radius, **{MAX_VALUE: 1.0})


def on_testbed(
    make: Callable[..., Any],
    testbed: Make,
    episodes: int = EPISODES,
    known: Callable[[Any], Any] = lambda world: world.features,
    **settings: Any,
) -> Row:
    """An agent in a testbed, with its features or what else is known of it."""

    def row() -> Fields:
        world = testbed()
        sized = make(actions=world.actions, horizon=world.horizon, **settings)
        return learner(sized, lambda: known(world), world.env, episodes)

    return row


def baseline(kind: str, testbed: Make, episodes: int = EPISODES, **settings: Any) -> Row:
    def row() -> Fields:
        world = testbed()
        return watched(
            getattr(baselines, kind)(world.features, actions=world.actions, **settings), world.env(), episodes
        )

    return row


def uniform() -> Fields:
    world = corridor()
    return watched(baselines.Uniform(actions=world.actions, horizon=world.horizon), world.env(), EPISODES)


def _testbeds() -> Iterator[tuple[str, Row]]:
    """Agents and other methods where values are known, and the regression alone."""
    yield "PAC, corridor", on_testbed(pac, corridor, epsilon=0.5)
    yield (
        "PAC, corridor turned",
        on_testbed(pac, lambda: testbeds.Rotated(corridor(), 1), epsilon=0.5, explore="greedy"),
    )
    yield "PAC, deep sea", on_testbed(pac, lambda: testbeds.DeepSea(5, junk=2), epsilon=0.5)
    yield "PAC, diamond", on_testbed(pac, lambda: testbeds.Diamond(3), epsilon=0.5)
    yield "PAC, bandit", on_testbed(pac, bandit, 200, epsilon=0.3, ridge=1.0)
    shifted = lambda: testbeds.Misspecified(corridor(), 0.05)  # noqa: E731
    yield "Regret, corridor misspecified", on_testbed(regret, shifted, misspecification=0.05)
    yield "Regret, bandit", on_testbed(regret, bandit, 200, scale=0.1, ridge=1.0)
    yield "Eluder, hubs", on_testbed(eluder, hubs, known=hub_tables, scale=1e-5)
    yield "Eluder, logistic bandit", on_testbed(eluder, testbeds.LogitBandit, 60, known=arms, scale=1e-3)
    for scale in (1.0, 0.1):
        yield f"OFUL, scale {scale}", baseline("OFUL", bandit, scale=scale)
    for explore in ("widest", "optimistic"):
        yield f"SupLinUCB, {explore}", baseline("SupLinUCB", bandit, 200, rounds=200, explore=explore, scale=0.3)
    yield "uniform play", uniform
    for blocks, sparse, ridge in itertools.product((1, 3), (False, True), (1.0, 1e-6)):
        kind = f"{'sparse' if sparse else 'dense'}, blocks {blocks}, ridge {ridge:g}"
        yield f"PrefixRidge, {kind}", partial(regression, blocks, sparse, ridge)


def in_compiled(make: Make, name: str, make_env: Make | None = None, episodes: int = EPISODES) -> Row:
    return lambda: compiled_learner(make, find_compiled(name), make_env, episodes)


def _engines() -> Iterator[tuple[str, Row]]:
    """CartPole with both engines, and what only compiled code plays here."""
    for number, (freeze, explore) in enumerate(itertools.product(FREEZE, EXPLORE)):
        options = {"freeze": freeze, "explore": explore}
        make = partial(cartpole_agent, **options)
        yield f"compiled, CartPole, {freeze}, {explore}", in_compiled(make, "CartPole-v1", cartpole, 200)
        if number % 5 == 0:  # each freezing with another rule
            row = partial(learner, lambda _, make=make: make(), lambda: None, cartpole, 30)
            yield f"PAC, CartPole, {freeze}, {explore}", row
            row = in_compiled(partial(pendulum_agent, **options), "InvertedPendulum-v4")
            yield f"compiled, InvertedPendulum, {freeze}, {explore}", row
            one_hot = partial(corridor_agent, **options)
            row = lambda make=one_hot: compiled_learner(make, corridor_env(), Corridor)  # noqa: E731
            yield f"compiled, one-hot, {freeze}, {explore}", row


RECORDED: dict[str, Row] = {**dict(_agents()), **dict(_settings()), **dict(_testbeds()), **dict(_engines())}
"""Rows that tests compare with what was recorded."""

STUDY = """
env = "CartPole-v1"
episodes = 60
seeds = 1
features = { type = "TileCoding", tiles = 2, tilings = 4 }
arguments = { horizon = 40, epsilon = 1.0, ridge = 1e-3 }
settings.exact.arguments.freeze = "exact"
settings.never.arguments.freeze = "never"
"""


def _long() -> Iterator[tuple[str, Row]]:
    """So many data that arrays grow and anchors matter; and the command line."""
    make = partial(cartpole_agent, tilings=4, horizon=500)
    yield "long: PAC, CartPole", partial(learner, lambda _: make(), lambda: None, cartpole, 600)
    for freeze in FREEZE:
        row = in_compiled(partial(make, freeze=freeze), "CartPole-v1", episodes=6_000)
        yield f"long: compiled, CartPole, {freeze}", row
    yield "long: PAC, bandit", on_testbed(pac, bandit, 1_000, epsilon=0.1, ridge=1e-3, explore="greedy")
    yield "long: Regret, bandit", on_testbed(regret, bandit, 1_000, scale=0.1, ridge=1.0)
    yield "long: Regret, bandit by intervals", on_testbed(regret, bandit, 1_000, scale=0.1, elimination="interval")
    yield "long: Eluder, hubs", on_testbed(eluder, hubs, 600, known=hub_tables, scale=1e-3)
    train = "train CartPole-v1 --episodes 40 --horizon 50 --tiles 2 --tilings 2 --epsilon 1 --ridge 0.001 --seed 3"
    yield "fpi train", partial(command, *train.split(), "--out", "agent.fpi")
    for engine in ("gymnasium", "compiled"):
        reproduce = "reproduce", "study.toml", "--engine", engine, "--workers", "1", "--out", "results"
        yield f"fpi reproduce, {engine}", partial(command, *reproduce, study=STUDY)


ROWS: dict[str, Row] = {**RECORDED, **dict(_long())}


def main(source: str, out: str, *patterns: str) -> None:
    """Write the rows that match into a file; fpi must come from the folder `source`."""
    if not Path(fpi.__file__).is_relative_to(source):
        raise RuntimeError(f"fpi comes from {fpi.__file__}, not from {source}")
    fields: Fields = {}
    for name in matching(ROWS, patterns):
        try:
            found = ROWS[name]()
        except Exception as error:
            found = {"error": np.array(f"{type(error).__name__}: {error}")}
        fields |= {f"{name}/{field}": values for field, values in found.items()}
    np.savez(out, **fields)


def matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])

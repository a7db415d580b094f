"""What people pass by mistake, through Python and through the command line: an error of fpi with a text, or it works.

Whatever is said, the agent must be what it was before.
"""

import itertools
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np

import fpi
from benchmarks.faults.outcome import Outcome, trouble_of
from benchmarks.faults.victim import saved
from fpi import compiled, experiment, report, statistics, testbeds
from fpi.errors import FpiError

T = TypeVar("T")

ODD: dict[str, Any] = {
    "None": None,
    "True": True,
    "-1": -1,
    "0": 0,
    "2**70": 2**70,
    "10**400": 10**400,
    "nan": math.nan,
    "inf": math.inf,
    "1e-320": 1e-320,
    "text": "several",
    "no text": "",
    "a\\0b": "a\0b",
    "long text": "x" * 5_000,
    "a surrogate": "\udcff",
    "bytes": b"some",
    "nothing": [],
    "ragged": [[1.0], [1.0, 2.0]],
    "nested": [[[1.0]]],
    "words": ["a", "b"],
    "a table": {"a": 1},
    "an object": object(),
    "an array": np.zeros((2, 2)),
    "no array": np.zeros(0),
    "an array of objects": np.array([None, "a"], object),
    "a complex number": 1 + 2j,
    "a function": len,
}
TILES = {"low": [-1.0, -1.0], "high": [1.0, 1.0], "tiles": 2, "tilings": 2, "actions": 2}
MAKERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "PAC": (lambda **given: fpi.PAC(_tiles(), **given), {"actions": 2, "horizon": 3, "epsilon": 1.0, "ridge": 0.1}),
    "Regret": (lambda **given: fpi.Regret(_tiles(), **given), {"actions": 2, "horizon": 3, "ridge": 1.0}),
    "TileCoding": (fpi.TileCoding, TILES),
    "Fourier": (fpi.Fourier, {"low": [-1.0], "high": [1.0], "order": 2, "actions": 2}),
    "RBF": (fpi.RBF, {"centers": [[0.0], [1.0]], "width": 0.5, "actions": 2}),
    "OneHot": (fpi.OneHot, {"states": 3, "actions": 2}),
    "PrefixRidge": (fpi.PrefixRidge, {"dim": 3, "ridge": 1.0}),
    "ActionGrid": (lambda points: fpi.ActionGrid(gym.make("Pendulum-v1"), points), {"points": 3}),
    "RunConfig": (
        lambda **given: experiment.RunConfig(**given).complete(),
        {"env": "CartPole-v1", "episodes": 2, "features": {}, "arguments": {}, "env_args": {}, "action_grid": None},
    ),
    "bootstrap_interval": (statistics.bootstrap_interval, {"values": np.arange(5.0)}),
    "LinBandit": (partial(testbeds.make, "LinBandit"), {"d": 3, "K": 2, "order": "random", "seed": 0}),
    "DeepSea": (partial(testbeds.make, "DeepSea"), {"N": 3, "seed": 0}),
    "Diamond": (partial(testbeds.make, "Diamond"), {"n": 2}),
    "HubCorridor": (partial(testbeds.make, "HubCorridor"), {"B": 1, "m": 1, "K": 2, "seed": 0}),
    "TableBandit": (partial(testbeds.make, "TableBandit"), {"contexts": 2, "K": 2, "N": 3, "seed": 0}),
}
SETTINGS = {
    "explore": "random",
    "delta": 0.05,
    "misspecification": 0.0,
    "theta_bound": None,
    "constants": "tight",
    "reward_range": (0.0, 1.0),
}
MORE: dict[str, dict[str, Any]] = {
    "PAC": {**SETTINGS, "freeze": "exact"},
    "Regret": {**SETTINGS, "scale": 1.0, "elimination": "paper", "first_level": 1, "max_level": 3},
    "TileCoding": {"offsets": None},
}


def _tiles() -> fpi.TileCoding:
    return fpi.TileCoding(**TILES)  # type: ignore[arg-type]


class Odd(gym.Env[Any, Any]):
    """Says something odd once."""

    def __init__(self, **answers: Any) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (2,), np.float64)
        self.action_space = gym.spaces.Discrete(2)
        self.answers = answers
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        start = self.answers.get("start", np.zeros(2))
        return self.answers.get("reset", (start, {}))

    def step(self, action: Any) -> Any:
        self.steps += 1
        if "step" in self.answers:
            return self.answers["step"]
        seen = self.answers.get("observation", np.full(2, 0.1 * self.steps))
        return seen, self.answers.get("reward", 0.5), self.answers.get("terminated", self.steps == 3), False, {}


def run(inputs: int, commands: int) -> Iterator[Outcome]:
    """At most so many inputs of each kind through Python, and through the command line, from here and there."""
    for what, calls in (("Odd arguments", arguments()), ("Odd environments", environments())):
        outcome = Outcome(what)
        for name, call in _some(calls, inputs):
            trouble = trouble_of(call)
            outcome.note(None if trouble is None else f"{name}: {trouble}")
        yield outcome
    outcome = Outcome("Odd command lines")
    for words in _some(command_lines(), commands):
        outcome.note(trouble_of_command(words))
    yield outcome


def _some(things: Iterator[T], most: int) -> list[T]:
    every = list(things)
    return every[:: -(-len(every) // most)] if most else []


def arguments() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every argument of every constructor, and of what agents are asked, with everything odd."""
    for kind, (make, usual) in MAKERS.items():
        for name in (*usual, *MORE.get(kind, {})):
            for text, value in ODD.items():
                given = {**usual, name: value}
                yield f"{kind}({name}={text})", lambda make=make, given=given: make(**given)  # type: ignore[misc]
    agent, env = fpi.PAC(_tiles(), actions=2, horizon=3), Odd()
    agent.learn(env, 5, seed=0)
    before = saved(agent)
    asked: dict[str, Callable[[Any], Any]] = {
        "learn(episodes)": lambda value: agent.learn(env, value) if not _is_large(value) else None,
        "learn(seed)": lambda value: agent.learn(env, 0, seed=value),
        "learn(env)": lambda value: agent.learn(value, 1),
        "learn(callback)": lambda value: agent.learn(env, 0, callback=value),
        "learn(engine)": lambda value: agent.learn(env, 0, engine=value),
        "evaluate(episodes)": lambda value: fpi.evaluate(agent, env, value) if not _is_large(value) else None,
        "evaluate(seed)": lambda value: fpi.evaluate(agent, env, 1, value),
        "evaluate(agent)": lambda value: fpi.evaluate(value, env, 1),
        "predict(observation)": lambda value: agent.predict(value, 0),
        "predict(stage)": lambda value: agent.predict(np.zeros(2), value),
        "predict_batch(observations)": lambda value: agent.predict_batch(value, 0),
        "explain(observation)": lambda value: agent.explain(value, 0),
        "dataset(stage)": lambda value: agent.dataset(value),
        "load(path)": fpi.load,
        "load(features)": lambda value: _load(agent, value),
        "save(path)": lambda value: _save(agent, value),
        "JsonlLog(path)": lambda value: _log(value),
        "report.read(folder)": report.read,
        "compiled.get(name)": compiled.get,
        "compiled.learn(agent)": lambda value: compiled.learn(value, compiled.get("CartPole-v1"), 0),
        "check_agent(agent)": lambda value: fpi.check_agent(value) if value is None else None,
    }
    for name, ask in asked.items():
        for text, value in ODD.items():
            yield f"{name}: {text}", lambda ask=ask, value=value: ask(value)  # type: ignore[misc]
    yield "the agent is what it was", lambda: _same(agent, before)


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and value > 1_000


def _same(agent: Any, before: bytes) -> None:
    if saved(agent) != before:
        raise AssertionError("the agent has changed")


def _load(agent: Any, features: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder, "agent.fpi"))
        fpi.load(Path(folder, "agent.fpi"), features)


def _save(agent: Any, path: Any) -> None:
    with _elsewhere():
        agent.save(path)


def _log(path: Any) -> None:
    with _elsewhere():
        fpi.JsonlLog(path).close()


class _elsewhere(tempfile.TemporaryDirectory[str]):
    """In an empty working folder."""

    def __enter__(self) -> str:
        self.before = os.getcwd()
        os.chdir(self.name)
        return self.name

    def __exit__(self, *error: Any) -> None:
        os.chdir(self.before)
        super().__exit__(*error)


def environments() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Environments that answer something odd, to learning and to evaluation; the agent stays what it was."""
    tuples: dict[str, Any] = {
        "a pair": (np.zeros(2), 0.5),
        "four": (np.zeros(2), 0.5, False, {}),
        "six": (np.zeros(2), 0.5, 0, 0, 0, 0),
    }
    for answer in ("start", "reset", "observation", "reward", "terminated", "step"):
        for text, value in {**ODD, **(tuples if answer in ("step", "reset") else {})}.items():
            for use in (_learn, _evaluate):
                yield f"{answer} is {text}, {use.__name__}", lambda use=use, a=answer, v=value: use(Odd(**{a: v}))  # type: ignore[misc]


def _learn(env: Any) -> None:
    agent = fpi.PAC(_tiles(), actions=2, horizon=3)
    before = saved(agent)
    try:
        agent.learn(env, 2, seed=0)
    except FpiError:
        _same(agent, before)
        raise


def _evaluate(env: Any) -> None:
    fpi.evaluate(fpi.PAC(_tiles(), actions=2, horizon=3), env, 2)


# --- the command line -------------------------------------------------------------------------------------------------


def command_lines() -> Iterator[list[str]]:
    """Command lines with something odd in them."""
    words = [
        "",
        "-1",
        "nan",
        "inf",
        "1e400",
        "ä",
        "\udcff",
        "x" * 300,
        "99999999999999999999",
        "/dev/null",
        "/nowhere/x",
    ]
    small = ["--episodes", "1", "--horizon", "2"]
    for word in words:
        yield ["train", "CartPole-v1", *small, "--out", word]
        yield ["train", word, *small]
        yield ["evaluate", word]
        yield ["reproduce", word]
        yield ["check", word]
    options = ("--episodes", "--seed", "--horizon", "--epsilon", "--ridge", "--freeze", "--tiles", "--log", "--set")
    for option, word in itertools.product(options, words):
        yield ["train", "CartPole-v1", *small, option, word]


def trouble_of_command(words: list[str]) -> str | None:
    """None if a command ends in order: an exit code of 0, 1 or 2, and no traceback."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "import fpi.cli; fpi.cli.main()", *words]
        done = subprocess.run([os.fsencode(each) for each in command], cwd=folder, capture_output=True)
    said = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode in (0, 1, 2) and "Traceback" not in said:
        return None
    return f"fpi {' '.join(words)!r:.100}: exit code {done.returncode}, {said.strip()[-300:]}"

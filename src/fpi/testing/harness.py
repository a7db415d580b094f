"""Where agents are made and tried: the built-in task, environments that look on, and runs to compare."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from fpi.envs import Env, action_count, rollout
from fpi.errors import CheckFailed, InputError
from fpi.features import TileCoding

EPISODES = 20
HALF = EPISODES // 2
SEED = 7
BUILT_IN_HORIZON = 4


class _Corridor(gym.Env[Any, Any]):
    """The built-in task: left or right in [0, 1]; starts and rewards are random, leaving ends the episode."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 2.0, (1,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.position = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        super().reset(seed=seed)
        self.position = float(self.np_random.random())
        return np.array([self.position]), {}

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        self.position += 0.2 if action == 1 else -0.2
        reward = float(self.np_random.random() < self.position)
        return np.array([self.position]), reward, not 0 <= self.position <= 1, False, {}


@dataclass
class _Episode:
    """One episode as the environment saw it, and what the agent showed when it began."""

    number: int
    data_stored: int
    start: Any
    answers: list[int]
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


class RecordingEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper that records what an agent does."""

    def __init__(self, env: Env, agent: Any, harness: Harness) -> None:
        super().__init__(env)
        self.agent = agent
        self.harness = harness
        self.episodes: list[_Episode] = []
        self.shown: list[tuple[Any, Any]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self.episodes.append(
            _Episode(self.agent.episodes, self.agent.data_stored, copy.deepcopy(observation), self.answers())
        )
        return self.show(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.episodes[-1].actions.append(int(action))
        self.episodes[-1].rewards.append(float(reward))
        self.look()
        if not (terminated or truncated):
            observation = self.show(observation)
        return observation, float(reward), terminated, truncated, info

    def show(self, observation: Any) -> Any:
        """What the agent gets to see; a copy of it is kept."""
        shown = copy.deepcopy(observation)
        self.shown.append((shown, copy.deepcopy(observation)))
        return shown

    def answers(self) -> list[int]:
        """What the agent answers while it learns; only some witnesses ask."""
        return []

    def look(self) -> None:
        """A chance to see the agent in the middle of an episode."""

    def learned(self) -> list[_Episode]:
        """The episodes that the agent counted; one that it played again to compare is left out."""
        first: dict[int, _Episode] = {}
        for episode in self.episodes:
            first.setdefault(episode.number, episode)
        return list(first.values())


@dataclass
class Run:
    """All that can be seen of an agent that has learned."""

    agent: Any
    history: NDArray[np.float64]
    episodes: list[_Episode]
    answers: list[int]
    file: bytes

    def difference(self, other: Run) -> str | None:
        """The first thing that differs, in words."""
        if self.history.shape != other.history.shape:
            return f"one history has {len(self.history)} episodes, the other {len(other.history)}"
        for i, (mine, yours) in enumerate(zip(self.history, other.history, strict=True)):
            if not np.array_equal(mine, yours):
                return f"(return, length, stored_stage, data) of episode {i + 1}: {mine.tolist()} and {yours.tolist()}"
        for i, (ours, theirs) in enumerate(zip(self.episodes, other.episodes, strict=False)):
            if ours.actions != theirs.actions:
                return f"the actions of episode {i + 1} are {ours.actions} and {theirs.actions}"
        if self.answers != other.answers:
            return "they predict different actions afterwards"
        if self.file != other.file:
            return "all they did is equal, but the files they save differ"
        return None


class Harness:
    """Where agents are made and tried."""

    def __init__(self, make_agent: Any, make_env: Callable[[], Env] | Env | None) -> None:
        self.agent, self.env = _makers(make_agent, make_env)
        first = self.agent()
        if first is self.agent():
            raise InputError("make_agent gave the same agent twice: let it make a new one at every call.")
        self.name = type(first).__name__
        self.before = int(first.episodes)
        self.probes = _probes(self.env(), first.horizon)

    @cached_property
    def whole(self) -> Run:
        """The undisturbed run that others are compared with."""
        return self.run(EPISODES)

    def answers(self, agent: Any, probes: list[tuple[Any, int]] | None = None) -> list[int]:
        """What the agent predicts, each time for a copy of its own."""
        return [int(agent.predict(copy.deepcopy(observation), stage)) for observation, stage in probes or self.probes]

    def run(
        self,
        *parts: int,
        between: Callable[[Any], Any] = lambda agent: agent,
        world: type[RecordingEnv] = RecordingEnv,
        env: Env | None = None,
        seed: int = SEED,
    ) -> Run:
        """Let a fresh agent learn in parts; `between` two of them the agent may be used or exchanged."""
        agent, histories, episodes = self.agent(), [], []
        for i, part in enumerate(parts):
            agent = between(agent) if i else agent
            witness = world(env or self.env(), agent, self)
            histories.append(rows(agent.learn(witness, part, seed=None if i else seed)))
            episodes += witness.learned()
        return Run(agent, np.concatenate(histories), episodes, self.answers(agent), saved(agent))

    def shows(self, agent: Any) -> tuple[int, int, list[int], bytes]:
        """All that can be seen of an agent from outside."""
        return int(agent.episodes), int(agent.data_stored), self.answers(agent), saved(agent)

    def compare(self, run: Run, situation: str, remedy: str) -> None:
        """Require that a run equals the undisturbed one."""
        difference = run.difference(self.whole)
        require(difference is None, f"{situation}: {difference}", remedy)

    def compare_halves(self, meanwhile: str, remedy: str, **options: Any) -> None:
        """Require that two halves, with something in between, equal the undisturbed run."""
        situation = f"learn({HALF}) twice{meanwhile} is another run than learn({EPISODES})"
        self.compare(self.run(HALF, HALF, **options), situation, remedy)


def _makers(make_agent: Any, make_env: Callable[[], Env] | Env | None) -> tuple[Callable[[], Any], Callable[[], Env]]:
    is_agent = hasattr(make_agent, "learn") and not isinstance(make_agent, type)
    if make_env is None:
        if is_agent:
            raise InputError("an agent was passed without an environment: pass the one it is for as make_env.")
        features = TileCoding([0.0], [1.0], tiles=3, tilings=2, actions=2)
        return lambda: make_agent(features, actions=2, horizon=BUILT_IN_HORIZON), _Corridor
    env = make_env
    return (
        (lambda: copy.deepcopy(make_agent)) if is_agent else make_agent,
        (lambda: env) if isinstance(env, gym.Env) else env,
    )


def _probes(env: Env, horizon: int) -> list[tuple[Any, int]]:
    """Observations of a few episodes of random actions, with their stages."""
    actions = action_count(env)
    first = int(getattr(env.action_space, "start", 0))
    choose = np.random.default_rng(SEED)
    probes = []

    def act(observation: Any, stage: int) -> int:
        probes.append((copy.deepcopy(observation), stage))
        return first + int(choose.integers(actions))

    for episode in range(4):
        observation, _ = env.reset(seed=SEED + episode)
        for _ in rollout(env, observation, act, min(horizon, 6)):
            pass
    return probes


def rows(history: Any) -> NDArray[np.float64]:
    """Return, length, stored stage and number of data of every episode; at most one where nobody counts them."""
    several = getattr(history, "data_stored", None)
    stored = np.asarray(history.stored_stage) >= 0 if several is None else several
    return np.column_stack([history.returns, history.lengths, history.stored_stage, stored]).astype(np.float64)


@contextmanager
def saved_file(agent: Any) -> Iterator[Path]:
    """A file that the agent has written, alone in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.fpi"
        agent.save(path)
        yield path


def saved(agent: Any) -> bytes:
    with saved_file(agent) as path:
        return path.read_bytes()


class CheckSkipped(Exception):
    """A check that cannot be made here, and why."""


def require(kept: bool, what: str, remedy: str) -> None:
    if not kept:
        raise CheckFailed(f"{what}. {remedy}")

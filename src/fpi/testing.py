"""Does an agent keep its promises? For people who write their own.

`check_agent` lets an agent learn in many short runs, looks on from the environment's side, and compares. It knows
agents only by what all of them show: `learn`, `predict`, `policy`, `save`, `episodes`, `data_stored`, `actions`,
`horizon`.
"""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from fpi import algorithms
from fpi.envs import Env, action_count, rollout
from fpi.errors import CheckFailed, InputError
from fpi.features import TileCoding
from fpi.training import evaluate

EPISODES = 20
HALF = EPISODES // 2
SEED = 7
BUILT_IN_HORIZON = 4


@dataclass(frozen=True)
class AgentReport:
    """The checks that an agent passed, and those that could not be made, with the reason."""

    agent: str
    passed: tuple[str, ...]
    skipped: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.agent} passes {len(self.passed)} checks"]
        lines += [f"  passed   {name}" for name in self.passed]
        lines += [f"  skipped  {name}" for name in self.skipped]
        return "\n".join(lines)


def check_agent(make_agent: Any, make_env: Callable[[], Env] | Env | None = None) -> AgentReport:
    """Check that an agent behaves as `fpi` agents do; the first broken promise is a CheckFailed that explains it.

    `make_agent()` gives a fresh agent for the environments that `make_env()` gives. Without `make_env`,
    `make_agent(features, actions=..., horizon=...)` is asked for agents that fit a small built-in task. An agent and an
    environment themselves do as well: then the agent is copied, and the environment is used as it is.
    """
    bench = _Bench(make_agent, make_env)
    passed, skipped = [], []
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        try:
            check(bench)
        except _Impossible as obstacle:
            skipped.append(f"{name}: {obstacle}")
            continue
        except CheckFailed as failure:
            raise CheckFailed(f"{name}: {failure}") from failure.__cause__
        except Exception as error:
            raise CheckFailed(
                f"{name}: this check ended in {error!r}, raised by the agent or its environment. It does nothing "
                "that an agent may refuse; the traceback above shows where it stopped."
            ) from error
        passed.append(name)
    return AgentReport(bench.name, tuple(passed), tuple(skipped))


# --- the bench --------------------------------------------------------------------------------------------------------


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


class _Witness(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that remembers what it sees of an agent."""

    def __init__(self, env: Env, agent: Any, bench: _Bench) -> None:
        super().__init__(env)
        self.agent = agent
        self.bench = bench
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
class _Run:
    """All that can be seen of an agent that has learned."""

    agent: Any
    history: NDArray[np.float64]
    episodes: list[_Episode]
    answers: list[int]
    file: bytes

    def difference(self, other: _Run) -> str | None:
        """The first thing that differs, in words."""
        if self.history.shape != other.history.shape:
            return f"one history has {len(self.history)} episodes, the other {len(other.history)}"
        for i, (mine, yours) in enumerate(zip(self.history, other.history, strict=True)):
            if not np.array_equal(mine, yours):
                return f"(return, length, stored_stage) of episode {i + 1} are {mine.tolist()} and {yours.tolist()}"
        for i, (ours, theirs) in enumerate(zip(self.episodes, other.episodes, strict=False)):
            if ours.actions != theirs.actions:
                return f"the actions of episode {i + 1} are {ours.actions} and {theirs.actions}"
        if self.answers != other.answers:
            return "they predict different actions afterwards"
        if self.file != other.file:
            return "all they did is equal, but the files they save differ"
        return None


class _Bench:
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
    def whole(self) -> _Run:
        """The undisturbed run that others are compared with."""
        return self.run(EPISODES)

    def answers(self, agent: Any, probes: list[tuple[Any, int]] | None = None) -> list[int]:
        """What the agent predicts, each time for a copy of its own."""
        return [int(agent.predict(copy.deepcopy(observation), stage)) for observation, stage in probes or self.probes]

    def run(
        self,
        *parts: int,
        between: Callable[[Any], Any] = lambda agent: agent,
        world: type[_Witness] = _Witness,
        env: Env | None = None,
        seed: int = SEED,
    ) -> _Run:
        """Let a fresh agent learn in parts; `between` two of them the agent may be used or exchanged."""
        agent, histories, episodes = self.agent(), [], []
        for i, part in enumerate(parts):
            agent = between(agent) if i else agent
            witness = world(env or self.env(), agent, self)
            histories.append(_rows(agent.learn(witness, part, seed=None if i else seed)))
            episodes += witness.learned()
        return _Run(agent, np.concatenate(histories), episodes, self.answers(agent), _saved(agent))

    def compare(self, run: _Run, situation: str, remedy: str) -> None:
        """Require that a run equals the undisturbed one."""
        difference = run.difference(self.whole)
        _require(difference is None, f"{situation}: {difference}", remedy)


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


def _rows(history: Any) -> NDArray[np.float64]:
    return np.column_stack([history.returns, history.lengths, history.stored_stage]).astype(np.float64)


def _saved(agent: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.fpi"
        agent.save(path)
        return path.read_bytes()


class _Impossible(Exception):
    """A check that cannot be made here, and why."""


def _require(kept: bool, what: str, remedy: str) -> None:
    if not kept:
        raise CheckFailed(f"{what}. {remedy}")


# --- the checks -------------------------------------------------------------------------------------------------------


def global_generators_are_left_alone(bench: _Bench) -> None:
    before = _global_generators()
    bench.run(EPISODES)
    _require(
        before == _global_generators(),
        "the agent or its environment used the generator of `random` or `np.random`",
        "Other code uses them too. Use a numpy.random.Generator of your own, made from the seed that learn gets.",
    )


def _global_generators() -> tuple[Any, ...]:
    _, keys, *rest = np.random.get_state()  # noqa: NPY002 - this is what is looked at
    return random.getstate(), np.asarray(keys).tobytes(), *rest


def the_same_seed_gives_the_same_run(bench: _Bench) -> None:
    bench.compare(
        bench.run(EPISODES),
        f"two fresh agents learned with seed={SEED} and differ",
        "Nobody could repeat a result. Draw every random number from the seed that learn gets, none from the clock, "
        "the operating system or a generator that agents share; and let save write nothing else.",
    )


def different_seeds_may_give_different_runs(bench: _Bench) -> None:
    starts = [copy.deepcopy(bench.env().reset(seed=seed)[0]) for seed in (SEED, SEED + 1)]
    if np.array_equal(*starts):
        raise _Impossible("the environment has one start state")
    for seed, start in zip((SEED, SEED + 1), starts, strict=True):
        seen = [episode.start for episode in bench.run(EPISODES, seed=seed).episodes]
        _require(
            np.array_equal(seen[0], start),
            f"learn(seed={seed}) began at {seen[0]}, but env.reset(seed={seed}) gives {start}",
            "Pass the seed of learn on to the first reset.",
        )
        _require(
            not all(np.array_equal(start, other) for other in seen),
            f"all {len(seen)} episodes of one run began at the same state, though starts are random",
            "The agent would learn a single start only. Pass the seed to the first reset, and None to the later ones.",
        )


def the_history_tells_what_happened(bench: _Bench) -> None:
    agent = bench.agent()
    empty = agent.learn(bench.env(), 0, seed=SEED)
    _require(
        [len(column) for column in (empty.returns, empty.lengths, empty.stored_stage)] == [0, 0, 0],
        "learn(0) gave a history that is not empty",
        "Its arrays have one entry for each episode.",
    )
    run = bench.whole
    _require(
        len(run.history) == EPISODES == run.agent.episodes - bench.before == len(run.episodes),
        f"after learn({EPISODES}) the history has {len(run.history)} entries, episodes counted "
        f"{run.agent.episodes - bench.before}, and the environment saw {len(run.episodes)}",
        "Count every episode once, when it has ended.",
    )
    for number, (episode, (total, length, explored)) in enumerate(zip(run.episodes, run.history, strict=True), start=1):
        _require(
            length == len(episode.rewards) <= run.agent.horizon,
            f"episode {number} has the length {length:.0f}, the environment saw {len(episode.rewards)} steps, and the "
            f"horizon is {run.agent.horizon}",
            "Play to the end of the episode or to the horizon, and count the steps.",
        )
        _require(
            bool(np.isclose(total, sum(episode.rewards), rtol=1e-9, atol=1e-9)),
            f"episode {number} has the return {total}, and its rewards add up to {sum(episode.rewards)}",
            "Let returns be sums of the rewards as the environment gives them.",
        )
        _require(
            -1 <= explored < length,
            f"episode {number} of {length:.0f} steps has stored_stage = {explored:.0f}",
            "Let it be a stage of the episode, counted from 0, or -1.",
        )


def at_most_one_datum_per_episode(bench: _Bench) -> None:
    run = bench.whole
    counts = [*(episode.data_stored for episode in run.episodes), run.agent.data_stored]
    for number, (before, after) in enumerate(pairwise(counts), start=1):
        _require(
            0 <= after - before <= 1,
            f"data_stored went from {before} to {after} in episode {number}",
            "Only the last uncovered step of an episode has a return that stays true. Store that one, or nothing.",
        )
        _require(
            (after > before) == (run.history[number - 1, 2] >= 0),
            f"data_stored went from {before} to {after} in episode {number}, where History.stored_stage says "
            f"{run.history[number - 1, 2]:.0f}",
            "Let it be the stage of the datum that was stored, or -1.",
        )


def predict_works_before_learning(bench: _Bench) -> None:
    agent = bench.agent()
    for observation, stage in bench.probes:
        action = agent.predict(copy.deepcopy(observation), stage)
        _require(
            isinstance(action, int | np.integer) and 0 <= action < agent.actions,
            f"predict answered {action!r}, with {agent.actions} actions",
            f"Let it return a whole number from 0 to {agent.actions - 1}.",
        )


class _ReadOnly(_Witness):
    def show(self, observation: Any) -> Any:
        shown = super().show(observation)
        shown.flags.writeable = False
        return shown


class _OneBuffer(_Witness):
    """Writes every observation into the same array, as some environments do."""

    def show(self, observation: Any) -> Any:
        if not hasattr(self, "buffer"):
            self.buffer = np.array(observation)
        self.buffer[...] = observation
        return self.buffer


def observations_are_not_changed(bench: _Bench) -> None:
    if not isinstance(bench.probes[0][0], np.ndarray):
        raise _Impossible("observations are not arrays")
    agent = bench.agent()
    witness = _Witness(bench.env(), agent, bench)
    agent.learn(witness, EPISODES, seed=SEED)
    for observation, stage in bench.probes:
        shown = observation.copy()
        agent.predict(shown, stage)
        witness.shown.append((shown, observation))
    _require(
        all(np.array_equal(shown, before) for shown, before in witness.shown),
        "an observation given to the agent came back changed",
        "Environments and users keep theirs. Copy an observation before computing in place.",
    )
    remedy = "Take a copy of what is kept beyond one decision, and write into nothing that was given."
    for world, kind in ((_ReadOnly, "with read-only observations"), (_OneBuffer, "that reuses its observation array")):
        bench.compare(bench.run(EPISODES, world=world), f"an environment {kind} gives another run", remedy)


def learning_goes_on_where_it_stopped(bench: _Bench) -> None:
    bench.compare(
        bench.run(HALF, HALF),
        f"learn({HALF}) twice is another run than learn({EPISODES})",
        "Keep the seed, the count of episodes and the state of the environment's generator after the last episode, and "
        "put that state back when learn is called without a seed.",
    )


def predict_changes_nothing(bench: _Bench) -> None:
    def ask(agent: Any) -> Any:
        bench.answers(agent)
        return agent

    remedy = "People look at a policy while it learns. Let predict compute from what is stored, and store nothing."
    for agent in (bench.agent(), bench.whole.agent):
        shows = agent.episodes, agent.data_stored, _saved(agent)
        first = bench.answers(agent)
        backwards = bench.answers(agent, bench.probes[::-1])[::-1]
        _require(first == backwards, "asked again in another order, predict gives other answers", remedy)
        changed = shows != (agent.episodes, agent.data_stored, _saved(agent))
        _require(not changed, "predict changed episodes, data_stored or the file that save writes", remedy)
    bench.compare(
        bench.run(HALF, HALF, between=ask),
        f"learn({HALF}) twice, with predictions in between, is another run than learn({EPISODES})",
        remedy,
    )


def evaluating_changes_nothing(bench: _Bench) -> None:
    env = bench.env()  # one for all, so that evaluating leaves its generator elsewhere

    def try_out(agent: Any) -> Any:
        evaluate(agent, env, 3, seed=SEED + 1)
        return agent

    bench.compare(
        bench.run(HALF, HALF, between=try_out, env=env),
        f"learn({HALF}) twice, with an evaluation in between, is another run than learn({EPISODES})",
        "Put the environment's generator back to its state after the last episode when learn is called without a seed.",
    )


class _Attentive(_Witness):
    """Asks in the middle of episodes what it asked at their beginning."""

    changed: str | None = None

    def answers(self) -> list[int]:
        return self.bench.answers(self.agent)

    def look(self) -> None:
        began = self.episodes[-1]
        place = f"at step {len(began.actions)} of episode {began.number + 1}"
        if began.data_stored != self.agent.data_stored or began.number != self.agent.episodes:
            self.changed = self.changed or f"data_stored or episodes changed {place}"
        elif began.answers != self.answers():
            self.changed = self.changed or f"predict changed its mind {place}"


def nothing_changes_inside_an_episode(bench: _Bench) -> None:
    agent = bench.agent()
    witness = _Attentive(bench.env(), agent, bench)
    agent.learn(witness, EPISODES, seed=SEED)
    _require(
        witness.changed is None,
        f"{witness.changed}",
        "The return of an episode belongs to one policy. Decide from the data as they were when the episode began, and "
        "store when it has ended.",
    )


def policies_count_stages(bench: _Bench) -> None:
    agent = bench.whole.agent
    remedy = "Let every policy count its own stages, from 0 on and again from 0 after reset()."
    stages = range(min(agent.horizon, 10))
    for observation, _ in bench.probes:
        policy, other = agent.policy(), agent.policy()
        expected = [agent.predict(observation, stage) for stage in stages]
        actions = []
        for _ in stages:
            actions.append(policy(observation))
            other.reset()
            other(observation)
        _require(
            actions == expected,
            f"policy() gave the actions {actions} where predict at stages 0, 1, ... gives {expected}",
            remedy,
        )
        policy.reset()
        short = agent.policy()
        short(observation)
        short.reset()
        _require(
            all(policy(observation) == short(observation) for _ in stages),
            "after reset(), policies whose first episodes had different lengths go different ways",
            remedy,
        )


def saving_replaces_the_file_in_one_piece(bench: _Bench) -> None:
    young, old = bench.run(HALF), bench.whole
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.fpi"
        young.agent.save(path)
        with path.open("rb") as file:
            old.agent.save(path)
            _require(
                file.read() == young.file,
                "save wrote into the file that was there",
                "A crash in the middle would lose both. Write a new file beside it, then os.replace the old one.",
            )
        _require(
            path.read_bytes() == old.file,
            "saved over an older file, an agent gives another file than saved alone",
            "Let equal agents give equal files, whatever stood there before.",
        )
        names = sorted(each.name for each in Path(folder).iterdir())
        _require(names == [path.name], f"save left {names} behind", "Write the file that was asked for, and no other.")


def _loaded(agent: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.fpi"
        agent.save(path)
        return algorithms.load(path, features=agent.features)


def a_loaded_agent_is_the_one_saved(bench: _Bench) -> None:
    if getattr(algorithms, bench.name, None) is not type(bench.agent()):
        raise _Impossible(f"fpi.load does not know {bench.name}")
    whole = bench.whole
    agent = _loaded(whole.agent)
    shows = whole.agent.episodes, whole.agent.data_stored, whole.answers, whole.file
    _require(
        shows == (agent.episodes, agent.data_stored, bench.answers(agent), _saved(agent)),
        "a loaded agent has other episodes, data or answers than the one saved, or saves another file",
        "Save everything that a decision depends on.",
    )
    bench.compare(
        bench.run(HALF, HALF, between=_loaded),
        f"learn({HALF}), save, load and learn({HALF}) is another run than learn({EPISODES})",
        "Save everything that a decision depends on, with the seed, the count of episodes and the state of the "
        "environment's generator.",
    )


class _Sabotage(RuntimeError):
    pass


class _Failing(_Witness):
    """Breaks in the middle of an episode, after some that went well."""

    sabotaged = False

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        middle = len(self.episodes[-1].actions) == min(1, self.agent.horizon - 1)
        if self.agent.episodes - self.bench.before >= HALF and middle:
            self.sabotaged = True
            raise _Sabotage("the environment broke")
        return super().step(action)


class _Undefined(_Witness):
    """Shows NaN in an episode, after some that went well."""

    sabotaged = False

    def show(self, observation: Any) -> Any:
        middle = len(self.episodes[-1].actions) == min(1, self.agent.horizon - 1)
        if self.agent.episodes - self.bench.before >= HALF and middle:
            self.sabotaged = True
            return np.full_like(observation, np.nan)
        return super().show(observation)


def errors_leave_the_agent_as_it_was(bench: _Bench) -> None:
    whole = bench.whole
    worlds: list[type[_Failing] | type[_Undefined]] = [_Failing]
    first = bench.probes[0][0]
    if isinstance(first, np.ndarray) and first.dtype.kind == "f":
        worlds.append(_Undefined)
    for world in worlds:
        agent = bench.agent()
        witness = world(bench.env(), agent, bench)
        try:
            agent.learn(witness, EPISODES, seed=SEED)
        except Exception:
            if not witness.sabotaged:
                raise
        else:
            kind = "an observation of NaN" if world is _Undefined else "an error in env.step"
            _require(
                not witness.sabotaged,
                f"learn went on after {kind}",
                "What was learned from it would be worthless. Let the error out, or raise one.",
            )
            continue
        before = bench.run(agent.episodes - bench.before)
        _require(
            (before.agent.data_stored, before.answers, before.file)
            == (agent.data_stored, bench.answers(agent), _saved(agent)),
            f"an error in episode {agent.episodes + 1} left another agent than {agent.episodes} episodes without it",
            "Change nothing before an episode has ended well.",
        )
        rest = EPISODES - len(before.history)
        _require(
            np.array_equal(_rows(agent.learn(bench.env(), rest)), whole.history[-rest:])
            and _saved(agent) == whole.file,
            "learning on after an error is another run than without it",
            "Put the environment's generator back to its state after the last episode that ended well.",
        )


CHECKS: tuple[Callable[[_Bench], None], ...] = (
    global_generators_are_left_alone,
    the_same_seed_gives_the_same_run,
    different_seeds_may_give_different_runs,
    the_history_tells_what_happened,
    at_most_one_datum_per_episode,
    predict_works_before_learning,
    observations_are_not_changed,
    learning_goes_on_where_it_stopped,
    predict_changes_nothing,
    evaluating_changes_nothing,
    nothing_changes_inside_an_episode,
    policies_count_stages,
    saving_replaces_the_file_in_one_piece,
    a_loaded_agent_is_the_one_saved,
    errors_leave_the_agent_as_it_was,
)

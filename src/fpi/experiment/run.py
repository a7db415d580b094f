"""One run, a slice at a time.

A slice goes on from a checkpoint for some seconds and gives a new one. Checkpoints hold all that the next slice needs,
so that slices of one run may come from different processes and machines; the rows do not depend on where they were cut.
"""

from __future__ import annotations

import importlib
import math
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi import compiled
from fpi.algorithms import Agent, load
from fpi.baselines import Uniform, play
from fpi.callbacks import GapLog
from fpi.compiled import StaleLog
from fpi.compiled.engine import check_agent
from fpi.data import Act
from fpi.datasets import Datasets
from fpi.errors import DamagedResults, FpiError, InputError, NondeterminismWarning
from fpi.evaluation import evaluate
from fpi.experiment.study import Job, probe_episodes
from fpi.history import ATTRIBUTES, History
from fpi.run_config import RunConfig
from fpi.training import Callback, TrainingState, find_engine, together

COLUMNS = {"return": np.float64, "length": np.int32, "stored_stage": np.int32, "covered_steps": np.int32}
RANDOM = 10  # episodes of random play in every judged run
GAP = "gap"  # a further column on testbeds: what the episode lost in expectation
Tensors = dict[str, NDArray[Any]]

PATIENCE = 0.2  # seconds between two looks at the clock, or one episode if that takes longer


class RunFailed(FpiError, RuntimeError):
    """A run cannot be carried out."""


@dataclass(frozen=True)
class Checkpoint:
    """A run between two slices; `model_files.write` takes it as it is."""

    tensors: Tensors
    """The rows and probes so far, in `agent` the bytes of its file, in `log.*` the state of the log of stale data."""
    meta: dict[str, Any]

    @property
    def finished(self) -> bool:
        return bool(self.meta["finished"])

    @property
    def episodes(self) -> int:
        returns = self.tensors.get("return")  # methods have none
        return int(self.meta["episodes"]) if returns is None else len(returns)

    @property
    def rows(self) -> Tensors:
        return {name: each for name, each in self.tensors.items() if name != "agent" and not name.startswith("log.")}

    @property
    def log(self) -> Tensors:
        return {name[4:]: tensor for name, tensor in self.tensors.items() if name.startswith("log.")}

    @property
    def model(self) -> bytes | None:
        """The agent's file; methods have none."""
        return self.tensors["agent"].tobytes() if "agent" in self.tensors else None


Learn = Callable[[Agent, int, int | None, StaleLog | None, GapLog | None], History]
"""Agent, episodes, the seed at the beginning of a run, and the logs of stale data and of losses."""


def make_engine(name: str, setting: RunConfig) -> Learn:
    """How agents of a complete setting learn; an InputError if the engine cannot serve it."""
    find_engine(name)
    if name == "gymnasium":
        env = setting.make_env()

        def learn(agent: Agent, episodes: int, seed: int | None, *logs: Callback | None) -> History:
            known = [log for log in logs if log is not None]
            return agent.learn(env, episodes, seed, callback=together(known) if known else None)

        return learn
    if setting.env_args:
        raise InputError(f"{setting.env} with env_args has no compiled environment. Use the engine gymnasium.")
    module, _, env_name = setting.env.rpartition(":")  # as gymnasium.make reads it
    if module:
        importlib.import_module(module)
    compiled_env = compiled.get(env_name, setting.action_grid)
    check_agent(setting.make_agent())  # an InputError if compiled code does not know such agents
    return lambda agent, episodes, seed, log, _: compiled.learn(agent, compiled_env, episodes, seed, log=log)


def make_log(agent: Agent) -> StaleLog | None:
    """None for agents whose stale data nobody can count."""
    try:
        return StaleLog(agent)
    except InputError:
        return None


class Stopwatch:
    """Processor seconds that an agent takes to decide and to store; environments and logs take theirs besides."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, agent: Agent) -> None:
        """From its second episode in this process on: the first compiles."""
        begin, end = agent.begin_episode, agent.end_episode
        compiled = False

        def begin_episode(training_state: TrainingState) -> Act:
            act = begin(training_state)

            def timed(observation: Any, stage: int) -> tuple[int, bool]:
                before = time.process_time()
                answer = act(observation, stage)
                self.seconds += time.process_time() - before
                return answer

            return timed if compiled else act

        def end_episode(training_state: TrainingState, explored: tuple[int, int, float] | None) -> None:
            nonlocal compiled
            before = time.process_time()
            end(training_state, explored)
            self.seconds += time.process_time() - before if compiled else 0.0
            compiled = True

        agent.begin_episode, agent.end_episode = begin_episode, end_episode  # type: ignore[method-assign]


class Run:
    """A run in this process."""

    def __init__(self, job: Job, checkpoint: Checkpoint | None) -> None:
        self.job = job
        self.learn = make_engine(job.engine, job.setting)
        self.agent = job.setting.make_agent()
        self.agent.notes["train"] = job.setting.environment_notes
        if checkpoint is not None:
            self.agent = _restored(checkpoint, self.agent, job)
            self.agent.warned.update(checkpoint.meta.get("warned", ()))
        looked_at = job.setting.judge is None
        self.testbed = job.setting.find_testbed() if looked_at else None
        self.stopwatch = Stopwatch()
        self.rows: Tensors = {name: np.zeros(0, dtype) for name, dtype in COLUMNS.items()}
        self.rows["probe.episode"] = np.zeros(0, np.int64)
        self.rows["probe.data"] = np.zeros((0, self.agent.horizon), np.int64)
        self.log = make_log(self.agent) if looked_at else None
        if self.log is not None:
            self.rows["probe.stale"] = np.zeros(0)
        if self.testbed is not None:
            self.rows[GAP] = np.zeros(0)
            self.stopwatch.watch(self.agent)
        self.seconds = 0.0
        self.warnings: list[str] = []
        if checkpoint is not None:
            self.rows = checkpoint.rows
            if self.log is not None:
                with _named():
                    self.log.restore(checkpoint.log)
            self.seconds, self.warnings = checkpoint.meta["seconds"], list(checkpoint.meta["warnings"])
            self.stopwatch.seconds = checkpoint.meta.get("cost", {}).get("processor_seconds", 0.0)

    @property
    def episodes(self) -> int:
        return len(self.rows["return"])

    @property
    def finished(self) -> bool:
        return self.episodes == self.job.setting.episodes

    @property
    def cost(self) -> dict[str, float]:
        if self.testbed is None:
            return {}
        cost = {"processor_seconds": self.stopwatch.seconds}
        return cost | ({"bytes": self.agent.datasets.store.nbytes} if isinstance(self.agent.datasets, Datasets) else {})

    def play(self, seconds: float) -> None:
        """Go on for so long, or to the end."""
        began = looked = time.perf_counter()
        stops = probe_episodes(self.job.setting.episodes)
        new: dict[str, list[NDArray[Any]]] = {name: [column] for name, column in self.rows.items()}
        done, portion = self.episodes, 1
        while done < stops[-1] and looked - began < seconds:
            stop = next(each for each in stops if each > done)
            portion = min(portion, stop - done)
            gaps = None if self.testbed is None else GapLog(self.testbed)
            history = self.learn(self.agent, portion, None if done else self.job.seed, self.log, gaps)
            done += portion
            for name, dtype in COLUMNS.items():
                new[name].append(getattr(history, ATTRIBUTES[name]).astype(dtype))
            if gaps is not None:
                new[GAP].append(gaps.gaps)
            if done == stop:
                new["probe.episode"].append(np.array([done]))
                new["probe.data"].append(self.agent.summary().data[np.newaxis])
                if self.log is not None:
                    new["probe.stale"].append(np.array([self.log.share()]))
            now = time.perf_counter()
            portion = max(1, math.ceil(portion * min(2.0, PATIENCE / max(now - looked, 1e-9))))
            looked = now
        self.rows = {name: np.concatenate(columns) for name, columns in new.items()}
        self.seconds += looked - began

    def checkpoint(self) -> Checkpoint:
        tensors = {**self.rows, "agent": np.frombuffer(_to_bytes(self.agent), np.uint8)}
        if self.log is not None:
            tensors |= {f"log.{name}": tensor for name, tensor in self.log.to_tensors().items()}
        meta = _meta(self, int(self.rows["length"].sum(dtype="int64")))
        return Checkpoint(tensors, meta | {"warned": sorted(self.agent.warned)})


class JudgedRun(Run):
    """A run that ends where its policy is good enough, or has had its episodes or its seconds.

    Its further rows: `judge.episode` and `judge.mean`, the mean return of the same starts after so many episodes, and
    `random`, returns of random play. How many episodes fit into the seconds depends on the computer; all else does not.
    """

    def __init__(self, job: Job, checkpoint: Checkpoint | None) -> None:
        super().__init__(job, checkpoint)
        assert job.setting.judge is not None
        self.judge = job.setting.judge
        arguments = {**job.setting.env_args, **self.judge.env_args}
        self.env = replace(job.setting, env_args=arguments).make_env()
        if checkpoint is None:
            chance = Uniform(actions=self.agent.actions, horizon=self.agent.horizon)
            self.rows |= {"judge.episode": np.zeros(0, np.int64), "judge.mean": np.zeros(0)}
            self.rows["random"] = evaluate(chance, self.env, RANDOM, seed=job.seed).returns

    @property
    def finished(self) -> bool:
        means, spent = self.rows["judge.mean"], self.stopwatch.seconds >= self.judge.seconds
        return super().finished or spent or bool((means >= self.judge.threshold).any())

    @property
    def cost(self) -> dict[str, float]:
        return {"processor_seconds": self.stopwatch.seconds}

    def play(self, seconds: float) -> None:
        began = looked = time.perf_counter()
        while not self.finished and looked - began < seconds:
            episodes = min(self.judge.every, self.job.setting.episodes - self.episodes)
            before = time.process_time()
            history = self.learn(self.agent, episodes, None if self.episodes else self.job.seed, None, None)
            _ = getattr(self.agent, "plan", None)  # belongs to learning, not to judging
            self.stopwatch.seconds += time.process_time() - before
            mean = evaluate(self.agent, self.env, self.judge.starts, seed=1).mean
            new = {name: getattr(history, ATTRIBUTES[name]).astype(dtype) for name, dtype in COLUMNS.items()}
            new |= {"judge.episode": np.array([self.episodes + episodes]), "judge.mean": np.array([mean])}
            self.rows |= {name: np.concatenate([self.rows[name], column]) for name, column in new.items()}
            looked = time.perf_counter()
        self.seconds += looked - began


class MethodRun:
    """A run of a method that is compared with, in this process and in one piece: it cannot be saved half-way."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.episodes = 0
        self.seconds = 0.0
        self.warnings: list[str] = []
        self.rows: Tensors = {}
        self.cost: dict[str, float] = {}

    @property
    def finished(self) -> bool:
        return self.episodes == self.job.setting.episodes

    def play(self, seconds: float) -> None:
        setting, seed = self.job.setting, self.job.seed
        testbed, noise = setting.make_testbed()
        steps = setting.episodes * testbed.horizon
        run = play(setting.make_method(seed), testbed, seed=seed, steps=steps, episodes=setting.episodes, noise=noise)
        self.rows = {f"mark.{name}": column for name, column in run.rows.items()} | {"loss": run.losses}
        self.episodes, self.seconds = setting.episodes, float(run.rows["seconds"][-1])

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.rows, _meta(self, int(self.rows["mark.steps"][-1])))


def _meta(run: Run | MethodRun, steps: int) -> dict[str, Any]:
    return {
        "seconds": run.seconds,
        "warnings": list(run.warnings),
        "episodes": run.episodes,
        "finished": run.finished,
        "steps": steps,
        "cost": run.cost,
    }


_held: Run | MethodRun | None = None  # what this process played last: if it is to go on, nothing needs to be restored


def run_slice(job: Job, checkpoint: Checkpoint | None, seconds: float) -> Checkpoint:
    """The next slice of a run."""
    global _held
    run, _held = _held, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if run is None or checkpoint is None or (run.job, run.episodes) != (job, checkpoint.episodes):
                kind = Run if job.setting.judge is None else JudgedRun
                run = MethodRun(job) if job.setting.is_method else kind(job, checkpoint)
            run.play(seconds)
        except FpiError as error:
            raise type(error)(f"{job.id}: {error}") from None
        except Exception as error:  # of the environment, say; it may not survive the way to another process
            file, line, *_ = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join(str(error).split())
            raise RunFailed(f"{job.id} failed in {file}, line {line}: {type(error).__name__}: {text}") from None
    run.warnings += [str(each.message) for each in caught if issubclass(each.category, NondeterminismWarning)]
    _held = run
    return run.checkpoint()


def _to_bytes(agent: Agent) -> bytes:
    with TemporaryDirectory() as folder:
        agent.save(Path(folder, "agent.fpi"))
        return Path(folder, "agent.fpi").read_bytes()


def _restored(checkpoint: Checkpoint, new: Agent, job: Job) -> Agent:
    """The agent of a checkpoint, which must be such a one as a new agent of the same run."""
    with _named(), TemporaryDirectory() as folder:
        Path(folder, "agent.fpi").write_bytes(checkpoint.model or b"")
        agent = load(Path(folder, "agent.fpi"), job.setting.own_features())
        described = [(type(each), each.settings, each.datasets.config) for each in (agent, new)]
        learned = agent.training_state.episodes, agent.training_state.seed
        if learned != (checkpoint.episodes, job.seed) or described[0] != described[1]:
            raise InputError("its agent is another than that of its rows")
        return agent


@contextmanager
def _named() -> Iterator[None]:
    """What cannot be restored is the checkpoint's fault."""
    try:
        yield
    except FpiError as error:
        raise DamagedResults(
            f"checkpoint.fpi is damaged: {str(error).rstrip('.')}. Delete the folder of this run and give the same "
            "command again: only this run is played anew."
        ) from error

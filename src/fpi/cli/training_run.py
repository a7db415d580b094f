"""Training from the command line: choice of engine, running statistics, checkpoints, Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fpi import _files, compiled
from fpi._interrupts import interruptible
from fpi.algorithms import Agent
from fpi.callbacks import JsonlLog, TensorBoardLog
from fpi.cli.train_options import UNFINISHED
from fpi.compiled import CompiledEnv
from fpi.envs import Env
from fpi.errors import EnvironmentMismatch, InputError, SaveError
from fpi.progress import bar
from fpi.statistics import last_tenth
from fpi.training import Callback, Episode, together

ANNOUNCE_AFTER = 2.0  # seconds
STEPS_PER_SLICE = 50_000  # steps at most between two looks at Ctrl-C: a tenth of a second


def choose_engine(name: str, agent: Agent, env: Env, logs: Sequence[str]) -> CompiledEnv | None:
    """The compiled environment to learn in, or None for `env` itself; `logs` are options that want every episode."""
    if name == "gymnasium":
        return None
    try:
        if logs:
            raise InputError(
                f"{logs[0]} writes after every episode, and compiled episodes do not come back to Python in between. "
                "Leave it out, or use --engine gymnasium."
            )
        return compiled.compiled_env_for(agent, env)
    except InputError:
        if name == "compiled":
            raise
        return None


class Tally:
    """What the table at the end of a run tells."""

    def __init__(self) -> None:
        self.returns: list[float] = []
        self.decisions = 0
        self.covered_steps = 0

    def __call__(self, episode: Episode) -> None:
        self.add([episode.total_reward], episode.length, episode.covered_steps)

    def add(self, returns: list[float], decisions: int, covered_steps: int) -> None:
        self.returns += returns
        self.decisions += decisions
        self.covered_steps += covered_steps

    def rows(self, data_stored: int, seconds: float) -> dict[str, str]:
        returns = np.array(self.returns)
        return {
            "mean return, first 10%": f"{last_tenth(returns[::-1]).mean():.2f}",
            "mean return, last 10%": f"{last_tenth(returns).mean():.2f}",
            "data stored": f"{data_stored:,}",
            "decisions at covered states": f"{self.covered_steps / self.decisions:.1%}",
            "time": f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min",
        }


@contextmanager
def locked(*paths: Path | None) -> Iterator[bool]:
    """One `fpi train` at a time for these files. Yields whether the last one was killed at work on all of them."""
    with ExitStack() as held:
        killed = True
        for path in (each for each in paths if each is not None and each.parent.is_dir()):  # else it is told later
            busy = f"another `fpi train` is at work on {path}. Wait for it, stop it, or choose another name."
            try:
                killed &= held.enter_context(_files.locked(_files.lock_of(path), busy))
            except OSError as error:
                raise SaveError(f"The lock of {path}: {error.strerror}. Choose another folder.") from error
        yield killed


class Checkpoints:
    """Save the agent every `every` episodes; never for None. Until the end of a run its file says so (UNFINISHED)."""

    def __init__(self, path: Path, every: int | None) -> None:
        self.path, self.every = path, every

    def save_if_due(self, agent: Agent) -> None:
        if self.every is not None and agent.episodes % self.every == 0:
            self.save(agent, finished=False)

    def save(self, agent: Agent, finished: bool) -> None:
        if not finished:
            agent.notes[UNFINISHED] = True
        try:
            agent.save(self.path)
        finally:
            agent.notes.pop(UNFINISHED, None)

    def left(self, agent: Agent) -> float:
        """Episodes until the next."""
        return np.inf if self.every is None else self.every - agent.episodes % self.every


def learn(
    agent: Agent,
    env: Env | CompiledEnv,
    episodes: int,
    *,
    seed: int | None,
    progress: bool,
    checkpoints: Checkpoints,
    log: Path | None,
    tensorboard: Path | None,
    say: Callable[[str], None],
) -> Tally:
    """Learn until the end, an error or Ctrl-C, and save what was learned whichever it is."""
    tally, before = Tally(), agent.episodes
    with ExitStack() as closing:
        callbacks: list[Callback] = [tally]
        if log is not None:
            callbacks.append(closing.enter_context(JsonlLog(log)))
        if tensorboard is not None:
            callbacks.append(closing.enter_context(TensorBoardLog(tensorboard)))
        callbacks.append(lambda episode: checkpoints.save_if_due(episode.agent))
        try:
            with interruptible("after this episode") as stopping, compiling_announced(say):
                if isinstance(env, CompiledEnv):
                    _learn_compiled(agent, env, episodes, seed, progress, tally, checkpoints, stopping)
                else:
                    agent.learn(env, episodes, seed, progress, together(callbacks, stopping))
        except EnvironmentMismatch as error:
            name = (agent.notes.get("train") or {}).get("environment", "ENV")
            raise EnvironmentMismatch(f"{error} `fpi check {name}` reports what fits.") from error
        except KeyboardInterrupt:
            pass  # the second one; what follows tells how far it came
        finally:
            if agent.episodes > before:
                checkpoints.save(agent, finished=agent.episodes == before + episodes)
    return tally


def _learn_compiled(
    agent: Agent,
    compiled_env: CompiledEnv,
    episodes: int,
    seed: int | None,
    progress: bool,
    tally: Tally,
    checkpoints: Checkpoints,
    stopping: Callable[[], bool],
) -> None:
    """Learn in portions, which give the bits of one piece; between them is time for all that is not learning."""
    most, last = max(1, STEPS_PER_SLICE // agent.horizon), agent.episodes + episodes
    with bar(agent, episodes if progress else 0) as tick:
        while agent.episodes < last and not stopping():
            portion = int(min(most, last - agent.episodes, checkpoints.left(agent)))
            history = compiled.learn(agent, compiled_env, portion, seed)
            seed = None
            assert history.covered_steps is not None  # compiled episodes count them
            steps, covered = int(history.lengths.sum()), int(history.covered_steps.sum())
            tally.add(history.returns.tolist(), steps, covered)
            tick(portion, float(history.returns.sum()), steps, covered)
            checkpoints.save_if_due(agent)


@contextmanager
def compiling_announced(say: Callable[[str], None]) -> Iterator[None]:
    """Say why nothing happens while loops are compiled for the first time; a warm cache is never mentioned."""
    from numba.core import event

    began, said = time.perf_counter(), False

    class Listener(event.Listener):
        def on_start(self, _: Any) -> None:
            nonlocal said
            if not said and time.perf_counter() - began > ANNOUNCE_AFTER:
                said = True
                say("Compiling for this computer, which takes up to a minute; later runs start at once.")

        def on_end(self, _: Any) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield

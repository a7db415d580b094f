"""What goes on beside learning: the tally of episodes, checkpoints, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fpi.training import Callback, Episode

PATIENCE = 2.0  # seconds of silence


class Tally:
    """What the table at the end of a run tells."""

    def __init__(self) -> None:
        self.returns: list[float] = []
        self.decisions = 0
        self.covered_steps = 0

    def __call__(self, episode: Episode) -> None:
        self.returns.append(episode.total_reward)
        self.decisions += episode.length
        self.covered_steps += episode.covered_steps

    def rows(self, data_stored: int, seconds: float) -> dict[str, str]:
        tenth = max(1, len(self.returns) // 10)
        return {
            "mean return, first 10%": f"{_mean(self.returns[:tenth]):.2f}",
            "mean return, last 10%": f"{_mean(self.returns[-tenth:]):.2f}",
            "data stored": f"{data_stored:,}",
            "decisions frozen": f"{self.covered_steps / self.decisions:.1%}",
            "time": f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min",
        }


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


class Checkpoints:
    """Save the agent every so many episodes."""

    def __init__(self, path: Path, every: int) -> None:
        self.path, self.every = path, every

    def __call__(self, episode: Episode) -> None:
        if (episode.number + 1) % self.every == 0:
            episode.agent.save(self.path)


@contextmanager
def compiling_announced(say: Callable[[str], None]) -> Iterator[None]:
    """Say why nothing happens while loops are compiled for the first time; a warm cache is never mentioned."""
    from numba.core import event

    began, said = time.perf_counter(), False

    class Listener(event.Listener):
        def on_start(self, _: Any) -> None:
            nonlocal said
            if not said and time.perf_counter() - began > PATIENCE:
                said = True
                say("Compiling for this computer, which takes up to a minute; later runs start at once.")

        def on_end(self, _: Any) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield


@contextmanager
def interruptible(callbacks: Sequence[Callback]) -> Iterator[Callback]:
    """All callbacks in one, which ends learning after a Ctrl-C.

    The first Ctrl-C waits for the end of the episode, so that model and logs agree; a second one stops at once.
    """
    asked = False

    def ask(*_: Any) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.write(2, b"\nStopping after this episode; Ctrl-C again stops at once.\n")  # print may be interrupted itself

    def after_episode(episode: Episode) -> bool:
        for callback in callbacks:
            callback(episode)
        return asked

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield after_episode
    finally:
        signal.signal(signal.SIGINT, before)

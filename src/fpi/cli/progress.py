"""One live table of all runs of a study."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from fpi.experiment.config import Job
from fpi.experiment.run import Checkpoint
from fpi.experiment.scheduler import OnProgress

RECENT = 100  # episodes behind the return that is shown
AROUND = 6  # lines of the terminal that are not runs


@dataclass
class _Line:
    """What is known about a run."""

    job: Job
    episodes: int = 0
    mean_return: float = float("nan")
    seconds: float = 0.0
    speed: float = 0.0
    """Episodes a second in the last slice."""
    told: float = 0.0

    def update(self, checkpoint: Checkpoint | None) -> None:
        self.told = time.monotonic()
        if checkpoint is None:
            return
        done, seconds = checkpoint.episodes - self.episodes, checkpoint.meta["seconds"] - self.seconds
        self.speed = done / seconds if seconds > 0 else 0.0
        self.episodes, self.seconds = checkpoint.episodes, checkpoint.meta["seconds"]
        self.mean_return = float(checkpoint.tensors["return"][-RECENT:].mean())

    @property
    def total(self) -> int:
        return self.job.setting.episodes

    @property
    def state(self) -> int:
        """Running runs come first, then finished ones, then those that wait."""
        return 2 if not self.told else int(self.episodes == self.total)

    def left(self, speed: float) -> float:
        return (self.total - self.episodes) / speed if speed else float("nan")


class Board:
    """The table; `on_progress` is what `run_study` calls."""

    def __init__(self, jobs: Sequence[Job], kept: int, console: Console) -> None:
        self._lines = {job.id: _Line(job) for job in jobs}
        self._kept, self._console = kept, console

    def on_progress(self, job: Job, checkpoint: Checkpoint | None) -> None:
        self._lines[job.id].update(checkpoint)

    def __rich__(self) -> Table:
        lines = sorted(self._lines.values(), key=lambda line: (line.state, -line.told))
        room = max(3, self._console.height - AROUND)
        table = Table(box=box.SIMPLE, padding=(0, 1), caption=self._caption(lines), caption_justify="left")
        for head in ("run", "progress"):
            table.add_column(head, no_wrap=True)
        for head in ("episodes", "return", "episodes/s", "left"):
            table.add_column(head, justify="right", no_wrap=True, min_width=len(head))
        for line in lines[:room]:
            known = line.episodes > 0
            table.add_row(
                line.job.id,
                ProgressBar(line.total, line.episodes, width=16),
                f"{line.episodes:,}",
                f"{line.mean_return:.1f}" if known else "",
                f"{line.speed:,.0f}" if line.speed and line.state == 0 else "",
                _clock(line.left(line.speed)) if line.state == 0 else ("done" if line.state == 1 else "waits"),
            )
        if len(lines) > room:
            table.add_row(f"and {len(lines) - room} more")
        return table

    def _caption(self, lines: Sequence[_Line]) -> str:
        done = self._kept + sum(line.state == 1 for line in lines)
        seconds, episodes = sum(line.seconds for line in lines), sum(line.episodes for line in lines)
        waiting = sum(line.total - line.episodes for line in lines)
        at_once = max(1, sum(line.state == 0 for line in lines))
        left = waiting * seconds / episodes / at_once if episodes else float("nan")
        return f"{done} of {len(lines) + self._kept} runs done; time left {_clock(left)}"


def _clock(seconds: float) -> str:
    if not np.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


@contextmanager
def live_table(jobs: Sequence[Job], kept: int) -> Iterator[OnProgress]:
    """The table of these runs, where there is a terminal to show it and a person before it; `kept` others are done."""
    console = Console(stderr=True)
    if not console.is_terminal or os.environ.get("CI"):
        yield lambda *_: None
        return
    board = Board(jobs, kept, console)
    with Live(board, console=console, refresh_per_second=2, transient=True):
        yield board.on_progress

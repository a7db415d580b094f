"""Callbacks for `learn`: metrics of every episode in files, and what episodes lost on testbeds.

Episodes count from 0 over the agent's life, so a log goes on where a resumed agent goes on. An episode that is played
again, because the agent was last saved before it, replaces its earlier record.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fpi._files import as_path
from fpi.errors import InputError, SaveError, importing
from fpi.testbeds import Testbed
from fpi.training import Episode

BEGINNING = b'{"episode": '  # of every line
ROUNDING = 1e-12  # gaps below are sums in another order


def metrics(episode: Episode) -> dict[str, float]:
    """What the logs tell of an episode."""
    return {
        "return": episode.total_reward,
        "length": episode.length,
        "stored_stage": episode.stored_stage,
        "covered_share": episode.covered_steps / episode.length,
        "data": episode.agent.data_stored,
    }


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SaveError(
            f"Could not write the log {place}: {error.strerror or error}. The agent keeps what it has learned. Choose "
            "a place that exists, that you may write to and that has space left."
        ) from error


class _Log:
    """A log ends with `close`, or with the `with` block it was made for."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class JsonlLog(_Log):
    """One line of JSON per episode, on disk as soon as the episode ends: `learn(..., callback=JsonlLog(path))`.

    A line holds `episode` (from 0), `return` (the sum of raw rewards), `length` (steps), `stored_stage` (the stage
    whose step was stored, or -1), `covered_share` (of decisions, those taken at covered states), `data` (stored so far)
    and `seconds` (since the log was opened, earlier runs included). A log that is there already is continued.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = as_path(path, "the log")
        with _writing(self.path):
            if self.path.exists() and not self.path.is_file():  # a device might be read for ever
                raise OSError("not an ordinary file")
            self._file = self.path.open("a+b")
        try:
            self._lines_before(math.inf)
        except InputError:
            self._file.close()
            raise
        self._opened = time.perf_counter()
        self._begun = False

    def __call__(self, episode: Episode) -> None:
        """Write the line of this episode."""
        with _writing(self.path):
            if not self._begun:
                end, seconds = self._lines_before(episode.number)
                self._file.truncate(end)
                self._opened -= seconds
                self._begun = True
            seconds = round(time.perf_counter() - self._opened, 6)
            line = {"episode": episode.number, **metrics(episode), "seconds": seconds}
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file; what was logged is there."""
        with _writing(self.path):
            self._file.close()

    def _lines_before(self, episode: float) -> tuple[int, float]:
        """Where the lines of earlier episodes end, and their seconds. A line that was broken off does not count."""
        end, seconds = 0, 0.0
        self._file.seek(0)
        for number, line in enumerate(self._file, start=1):
            if not line.endswith(b"\n") and line[: len(BEGINNING)] == BEGINNING[: len(line)]:
                break
            try:
                entry = json.loads(line)
                if int(entry["episode"]) >= episode:
                    break
                end, seconds = end + len(line), float(entry["seconds"])
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(
                    f"{self.path} is there already and is no log of episodes: its line {number} does not fit. It is "
                    "unchanged; choose another name."
                ) from error
        return end, seconds


class TensorBoardLog(_Log):
    """The numbers of `JsonlLog` as scalars for TensorBoard: `tensorboard --logdir FOLDER` shows them."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        with importing("tensorboard", "A log for TensorBoard needs tensorboard"):
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        self.folder = as_path(folder, "the log")
        self._events, self._summaries = event_pb2, summary_pb2
        with _writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.folder).close()  # the writer's own thread would fail noisily
            self._writer = EventFileWriter(str(self.folder), flush_secs=10)
        self._begun = False

    def __call__(self, episode: Episode) -> None:
        """Write the scalars of this episode."""
        with _writing(self.folder):
            if not self._begun:  # TensorBoard then drops what earlier files hold from this step on
                started = self._events.SessionLog(status=self._events.SessionLog.START)
                self._add(episode.number, session_log=started)
                self._begun = True
            scalars = [
                self._summaries.Summary.Value(tag=f"episode/{name}", simple_value=number)
                for name, number in metrics(episode).items()
            ]
            self._add(episode.number, summary=self._summaries.Summary(value=scalars))

    def close(self) -> None:
        """Write what is left, and close the file."""
        with _writing(self.folder):
            self._writer.close()

    def _add(self, step: int, **content: Any) -> None:
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, **content))


class GapLog:
    """What every episode lost in expectation, V* of its start minus its mean rewards."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self._gaps: list[float] = []

    def __call__(self, episode: Episode) -> None:
        start = self.testbed.state(episode.observations[0])
        gap = self.testbed.regret(start, episode.actions.tolist())
        self._gaps.append(gap if gap > ROUNDING else 0.0)

    @property
    def gaps(self) -> NDArray[np.float64]:
        """One number per episode so far."""
        return np.array(self._gaps)

"""The runs of a study, played from the command line: a line for all of them together, and one for each under way."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from fpi import experiment
from fpi._interrupts import interruptible
from fpi.cli import console
from fpi.cli.main import STOPPED
from fpi.errors import InputError
from fpi.experiment import Study
from fpi.experiment.backends import Backend, Local, Ray
from fpi.experiment.run import Checkpoint
from fpi.experiment.scheduler import OnProgress
from fpi.experiment.study import Job

RECENT = 100  # episodes behind the return that is shown


def make_backend(name: str, address: str | None, workers: int | None) -> Backend:
    if address is not None and name != "ray":
        raise InputError("--address names a Ray cluster: add --backend ray.")
    return Local(workers) if name == "local" else Ray(address, workers)


def play(plan: Study, place: Path, command: str, backend: Backend, engine: str = "gymnasium") -> Study:
    """All runs that are not there yet. Ctrl-C ends the command; given again, it goes on."""
    in_one_piece = any(setting.is_method for setting in plan.settings.values())
    with interruptible("when the runs under way are done" if in_one_piece else "within a minute") as stop:
        command = command.encode(errors="backslashreplace").decode()
        whole = experiment.run_study(
            plan, place, engine=engine, backend=backend, progress=live_table, stop=stop, command=command
        )
        if stop():
            console.say("Stopped. The same command goes on from here.")
            raise typer.Exit(STOPPED)
    return whole


@contextmanager
def live_table(jobs: Sequence[Job], kept: int, console: Console | None = None) -> Iterator[OnProgress]:
    """Lines for these runs, where there is a terminal to show them and a person before it; `kept` others are done."""
    console = console or Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(16),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
        TimeRemainingColumn(),
    )
    hidden = not console.is_terminal or bool(os.environ.get("CI"))
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        everything = progress.add_task("", total=sum(job.setting.episodes for job in jobs), told="")
        lines: dict[Job, TaskID] = {}
        done, finished = dict.fromkeys(jobs, 0), kept

        def on_progress(job: Job, checkpoint: Checkpoint | None) -> None:
            nonlocal finished
            if job not in lines:
                lines[job] = progress.add_task(job.id, total=job.setting.episodes, told="")
            if checkpoint is not None:
                done[job] = checkpoint.episodes
                returns = checkpoint.tensors.get("return")  # methods that are compared have none
                told = "" if returns is None else f"return {returns[-RECENT:].mean():.1f}"
                progress.update(lines[job], completed=done[job], told=told)
                if checkpoint.finished:
                    finished += 1
                    progress.remove_task(lines.pop(job))
            runs = f"{finished} of {len(jobs) + kept} runs done"
            progress.update(everything, description=runs, completed=sum(done.values()), refresh=True)

        yield on_progress

"""The runs of a study, played from the command line."""

from __future__ import annotations

from pathlib import Path

import typer

from fpi import experiment
from fpi._interrupts import interruptible
from fpi.cli import console
from fpi.cli.main import STOPPED
from fpi.cli.progress import live_table
from fpi.errors import InputError
from fpi.experiment import Study
from fpi.experiment.backends import Backend, Local, Ray


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

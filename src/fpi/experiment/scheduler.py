"""Carry a study out: all runs that are not finished yet, as many at a time as the backend has room for."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from fpi import _files
from fpi.errors import InputError
from fpi.experiment import storage
from fpi.experiment.backends import Backend, Local, WorkerDied
from fpi.experiment.run import Checkpoint, RunFailed, make_engine
from fpi.experiment.storage import RunFolder
from fpi.experiment.study import Job, Study

SHARE = 50  # a slice takes at least this part of the time its run has taken: a checkpoint holds all rows; and
LONGEST = 60.0  # no more than so many seconds, unless writing it takes more than a part of these
RETRIES = 3  # of one slice whose worker dies, before something must be wrong with the run

OnProgress = Callable[[Job, Checkpoint | None], Any]
"""Called when a run begins, or goes on, and after every slice."""
Progress = Callable[[Sequence[Job], int], AbstractContextManager[OnProgress]]
"""Given the runs that are to be played, and the number of those that are kept."""


def run_study(
    study: Study,
    out: Path,
    *,
    engine: str = "gymnasium",
    backend: Backend | None = None,
    seconds: float | None = None,
    progress: Progress = lambda *_: nullcontext(lambda *_: None),
    stop: Callable[[], bool] = lambda: False,
    command: str = "",
) -> Study:
    """Play all runs of a study into the folder `out`, and return the study with all settings filled in.

    Finished runs are kept and half-done ones go on. Whatever the backend, its number of workers and the moments at
    which this was killed and started again, the rows are the same to the bit. No slice begins after `stop` gives true.

    `backend` says where runs are played, by default in processes on all cores; a slice of a run takes about `seconds`.
    """
    study = study.complete()
    for setting in study.settings.values():
        if not setting.is_method:
            make_engine(engine, setting)
    jobs = study.jobs(engine)
    with storage.locked(out):
        before = storage.read_study(out).get("name", study.name)
        if before != study.name:
            raise InputError(f"{out} holds the study {before}, and this is {study.name}. Choose another folder.")
        made_by = {"versions": storage.versions(), "revision": storage.revision()}
        places = {job: RunFolder(out, job, made_by) for job in jobs}  # nothing is changed before all was looked at
        for place in places.values():
            place.tidy()
        _files.write_json(out / "study.json", {**study.to_data(), "engine": engine, "command": command, **made_by})
        waiting = deque(job for job in jobs if not places[job].finished)
        if waiting:
            with backend or Local() as host, progress(tuple(waiting), len(jobs) - len(waiting)) as on_progress:
                _play(waiting, places, host, seconds or host.seconds, on_progress, stop, min(study.seeds))
    return study


def _play(
    waiting: deque[Job],
    places: dict[Job, RunFolder],
    backend: Backend,
    seconds: float,
    on_progress: OnProgress,
    stop: Callable[[], bool],
    seed_with_model: int,
) -> None:
    playing = 0
    lost: Counter[Job] = Counter()
    while playing or (waiting and not stop()):
        while waiting and playing < backend.slots and not stop():
            job = waiting.popleft()
            checkpoint = places[job].begin()
            on_progress(job, checkpoint)
            backend.submit(job, checkpoint, slice_length(checkpoint, seconds, backend.seconds))
            playing += 1
        job, after = backend.next()
        playing -= 1
        if isinstance(after, WorkerDied):
            lost[job] += 1
            if lost[job] > RETRIES:
                raise RunFailed(
                    f"{job.id} lost its worker {lost[job]} times in a row, possibly for lack of memory; or a script "
                    'calls run_study outside of `if __name__ == "__main__":`, and workers run it as well. Progress is '
                    "saved: the same command continues."
                )
            waiting.appendleft(job)
            continue
        del lost[job]
        if after.finished:
            places[job].finish(after, keep_model=job.seed == seed_with_model)
        else:
            began = time.perf_counter()
            places[job].keep(after)
            if not stop():
                writing = time.perf_counter() - began
                backend.submit(job, after, slice_length(after, seconds, backend.seconds, writing))
                playing += 1
        on_progress(job, after)


def slice_length(checkpoint: Checkpoint | None, seconds: float, usual: float, writing: float = 0.0) -> float:
    """How long to play until the next checkpoint, if the last took so many seconds to write."""
    played = checkpoint.meta["seconds"] if checkpoint is not None else 0.0
    grown = max(min(LONGEST, played / SHARE), min(played, SHARE * writing))  # the computer may have slept while writing
    return grown if grown > usual else seconds

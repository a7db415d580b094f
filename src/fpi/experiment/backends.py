"""Where slices are played: processes of this computer, or a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import threading
from abc import abstractmethod
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import connection
from typing import Any, Self

from fpi.errors import InputError, importing
from fpi.experiment.run import Checkpoint, RunFailed, run_slice
from fpi.experiment.study import Job

RAY_RETRIES = 3  # by Ray itself, of a slice whose worker or node died


class WorkerDied:
    """What a slice gives whose worker died."""


class Backend(AbstractContextManager[Any]):
    """It can be used within its `with` block."""

    seconds: float
    """How long a slice is: the time between two checkpoints of a run."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """Runs that can be played at the same time."""

    @abstractmethod
    def submit(self, job: Job, checkpoint: Checkpoint | None, seconds: float) -> None: ...

    @abstractmethod
    def next(self) -> tuple[Job, Checkpoint | WorkerDied]:
        """Wait for a slice. An exception of the run itself is raised here."""


class Local(Backend):
    """Processes, each with a run of its own: one that dies takes nothing else along."""

    seconds = 2.0
    slots = 1

    def __init__(self, workers: int | None = None, start: str = "spawn") -> None:
        self.slots = workers or os.cpu_count() or 1
        self._start = start
        self._idle: list[ProcessPoolExecutor] = []
        self._home: dict[Job, ProcessPoolExecutor] = {}  # the process that knows a run goes on with it
        self._playing: dict[Future[Checkpoint], Job] = {}

    def submit(self, job: Job, checkpoint: Checkpoint | None, seconds: float) -> None:
        if job not in self._home:
            self._home[job] = self._idle.pop() if self._idle else self._new_process()
        try:
            slice_of_it = self._home[job].submit(run_slice, job, checkpoint, seconds)
        except BrokenProcessPool:  # it died while it had nothing to do
            self._home[job] = self._new_process()
            slice_of_it = self._home[job].submit(run_slice, job, checkpoint, seconds)
        self._playing[slice_of_it] = job

    def _new_process(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, multiprocessing.get_context(self._start), initializer=_begin_worker)

    def next(self) -> tuple[Job, Checkpoint | WorkerDied]:
        done, _ = wait(self._playing, return_when=FIRST_COMPLETED)
        future = done.pop()
        job = self._playing.pop(future)
        try:
            checkpoint = future.result()
        except BrokenProcessPool:
            self._home.pop(job).shutdown(wait=False)
            return job, WorkerDied()
        if checkpoint.finished:
            self._idle.append(self._home.pop(job))
        return job, checkpoint

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for process in (*self._idle, *self._home.values()):
            workers = list((process._processes or {}).values())
            process.shutdown(wait=kind is None, cancel_futures=True)
            if kind is not None:  # an exit would wait for the slice, which may be long
                for worker in workers:
                    worker.kill()


def _begin_worker() -> None:
    """Ctrl-C is for the parent to handle; exit when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


class Ray(Backend):
    """Tasks of a Ray cluster: the one at `address`, or a small one on this computer.

    Ray plays a slice again when its worker or its node dies. Nodes need fpi installed, and no common folder.
    """

    seconds = 10.0  # each slice may have to be restored in another process

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        with importing("ray", "The backend ray needs Ray"):
            import ray
        self._ray: Any = ray
        self._address, self._workers = address, workers
        self._run_slice: Any = self._ray.remote(num_cpus=1, max_retries=RAY_RETRIES)(run_slice)
        self._playing: dict[Any, Job] = {}

    @property
    def slots(self) -> int:
        """Nodes may join and leave."""
        cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return min(cores, self._workers or cores)

    def submit(self, job: Job, checkpoint: Checkpoint | None, seconds: float) -> None:
        with self._failures_named():
            self._playing[self._run_slice.remote(job, checkpoint, seconds)] = job

    def next(self) -> tuple[Job, Checkpoint | WorkerDied]:
        with self._failures_named():
            (done, *_), _ = self._ray.wait(list(self._playing))
        job = self._playing.pop(done)
        try:
            checkpoint: Checkpoint = self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError:  # the worker, its node or its memory
            return job, WorkerDied()
        return job, checkpoint

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        """What the cluster itself fails at, as when its store is full or its head is gone."""
        try:
            yield
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            told = " ".join(str(error).split())[:300] or type(error).__name__
            raise RunFailed(
                f"the Ray cluster failed: {told}. Progress is saved: the same command continues."
            ) from error

    def __enter__(self) -> Self:
        where: dict[str, Any] = {"address": self._address}
        if self._address is None:
            cores = self._workers or os.cpu_count()
            where = {"address": "local", "num_cpus": cores, "include_dashboard": False}
        try:
            if self._address is not None and re.fullmatch(r"[^/]+:\d+", self._address):
                host, _, port = self._address.rpartition(":")
                socket.create_connection((host, int(port)), timeout=5).close()  # Ray itself would wait for minutes
            self._ray.init(**where, log_to_driver=False, logging_level="ERROR")
        except (OSError, OverflowError, ValueError, RuntimeError) as error:
            raise InputError(
                f"no Ray cluster answers at {self._address}: {error}. `ray start --head` starts one; leave the address "
                "out to have a small one on this computer."
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

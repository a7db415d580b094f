"""A Ray cluster of two nodes on this computer, and what may befall it: the same rows, or one named error.

`python -m benchmarks.faults.cluster ADDRESS FOLDER` is the driver that is killed.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults.outcome import Outcome
from fpi.errors import FpiError
from fpi.experiment import RunConfig, Study, run_study
from fpi.experiment.backends import Local, Ray

SOON = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
POLITE = {"worker_niceness": 0}  # Ray's default of 15 leaves next to nothing beside other work
STUDY = Study(
    name="cluster",
    title="Two runs on a cluster",
    settings={
        "CartPole-v1--exact": RunConfig(
            env="CartPole-v1",
            episodes=2_000,
            features={"type": "TileCoding", "tiles": 3, "tilings": 2},
            arguments={"horizon": 200, "epsilon": 1.0, "ridge": 1e-3},
        )
    },
    seeds=(0, 1),
)
SLICE = 0.1  # seconds
SMALL_STORE, FILLING = 80 * 2**20, 30 * 2**20  # bytes

Disturb = Callable[[Any], bool]
"""Given the second node, during a run: whether it did what it is for."""


@contextmanager
def two_nodes(**head: Any) -> Iterator[tuple[Any, Any]]:
    """A cluster and its second node, which may be killed."""
    os.environ["RAY_AUTH_MODE"] = "disabled"  # Ray would write a token into the home folder
    from ray.cluster_utils import Cluster

    usual = {"num_cpus": 1, "include_dashboard": False, "_system_config": SOON | POLITE}  # notices dead nodes soon
    nodes = Cluster(initialize_head=True, head_node_args={**usual, **head})
    try:
        yield nodes, nodes.add_node(num_cpus=1)
    finally:
        nodes.shutdown()  # type: ignore[no-untyped-call]


def processes(node: Any) -> dict[int, str]:
    """What runs on a node, by process number."""
    raylet = node.all_processes["raylet"][0].process.pid
    children = Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()
    return {raylet: "raylet"} | {int(pid): Path(f"/proc/{pid}/cmdline").read_text() for pid in children}


def kill_node(node: Any) -> bool:
    """All at once, in the middle of a slice."""
    found = processes(node)
    if any("ray::run_slice" in each for each in found.values()):
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return True
    return False


def kill_worker(node: Any) -> bool:
    """As the system does when memory runs out."""
    for pid, command in processes(node).items():
        if "ray::run_slice" in command:
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def fill_store(_: Any) -> bool:
    """With objects that stay: what comes has no room."""
    import ray

    for _ in range(SMALL_STORE // FILLING):
        _kept.append(ray.put(np.zeros(FILLING, np.uint8)))
    return True


_kept: list[Any] = []

DISTURBED: dict[str, tuple[Disturb, dict[str, Any]]] = {
    "A node is killed": (kill_node, {}),
    "A worker is killed, as for lack of memory": (kill_worker, {}),
    "The object store is full": (fill_store, {"object_store_memory": SMALL_STORE}),
}


def rows(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(out.glob("runs/*/rows.safetensors"))}


def play(address: str, out: Path, disturb: Callable[[], bool] = lambda: True) -> None:
    """The study, disturbed once."""
    looks = 0
    done = False

    def tell(*_: object) -> None:
        nonlocal done, looks
        looks += 1
        done = done or (looks > len(STUDY.seeds) and disturb())

    run_study(STUDY, out, backend=Ray(address), seconds=SLICE, progress=lambda *_: nullcontext(tell))
    if not done:
        raise RuntimeError("nothing was disturbed")


def run(times: int) -> Iterator[Outcome]:
    """Each so often."""
    if not times:
        return
    with tempfile.TemporaryDirectory() as folder:
        run_study(STUDY, Path(folder), backend=Local(1))
        expected = rows(Path(folder))
    for what, (disturb, head) in DISTURBED.items():
        outcome = Outcome(f"Ray: {what}")
        for _ in range(times):
            with two_nodes(**head) as (nodes, second), tempfile.TemporaryDirectory() as folder:
                call = partial(play, nodes.address, Path(folder), partial(disturb, second))
                outcome.note(_trouble(call, folder, expected))
            _kept.clear()
        yield outcome
    outcome = Outcome("Ray: the driver is killed, and started again")
    for _ in range(times):
        with two_nodes() as (nodes, _second), tempfile.TemporaryDirectory() as folder:
            call = partial(_driver_killed, nodes.address, Path(folder))
            outcome.note(_trouble(call, folder, expected))
    yield outcome


def _trouble(call: Callable[[], None], folder: str, expected: dict[str, bytes]) -> str | None:
    try:
        call()
    except FpiError as error:
        return None if str(error).strip() else "an error without a text"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if rows(Path(folder)) == expected else "other rows"


def _driver_killed(address: str, out: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.faults.cluster", address, str(out)]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not any(out.glob("runs/*/checkpoint.fpi")):
        if driver.poll() is not None:
            raise RuntimeError("the driver ended too soon")
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-300:])


if __name__ == "__main__":
    play(sys.argv[1], Path(sys.argv[2]))

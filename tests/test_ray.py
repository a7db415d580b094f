"""A real Ray cluster of two nodes on this computer, one of which is killed in the middle."""

import os
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from test_experiment import CARTPOLE, rows, study

from fpi.errors import InputError
from fpi.experiment import run_study
from fpi.experiment.backends import Local, Ray
from fpi.experiment.run import RunFailed

pytestmark = pytest.mark.process

LONGER = replace(CARTPOLE, episodes=2_000, arguments={**CARTPOLE.arguments, "horizon": 200})
STUDY = study(0, 1, exact=LONGER)
SOON = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
POLITE = {"worker_niceness": 0}  # Ray's default of 15 leaves next to nothing beside other tests


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # Ray would write a token into the home folder
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": SOON | POLITE}  # notices dead nodes soon
    nodes = Cluster(initialize_head=True, head_node_args=head)
    yield nodes
    nodes.shutdown()


def processes(node):
    """What runs on a node, by process number."""
    raylet = node.all_processes["raylet"][0].process.pid
    children = Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()
    return {raylet: "raylet"} | {int(pid): Path(f"/proc/{pid}/cmdline").read_text() for pid in children}


def test_a_killed_node_costs_a_retry_and_nothing_else(cluster, tmp_path):
    second = cluster.add_node(num_cpus=1)
    backend, slots, killed = Ray(cluster.address), [], []

    def tell(job, state):
        slots.append(backend.slots)
        if len(slots) > 2 and not killed and any("ray::run_slice" in each for each in processes(second).values()):
            for pid in processes(second):  # in the middle of a slice, and all at once
                os.kill(pid, signal.SIGKILL)
            killed.append(job)

    run_study(STUDY, tmp_path / "ray", backend=backend, seconds=0.1, progress=lambda *_: nullcontext(tell))
    assert killed and slots[0] == 2
    run_study(STUDY, tmp_path / "here", backend=Local(1, start="fork"))
    assert rows(tmp_path / "ray") == rows(tmp_path / "here") and len(rows(tmp_path / "ray")) == 2


class FullStore:
    """A Ray whose object store is full, or whose head is gone."""

    class exceptions:
        class RayError(Exception):
            pass

        class RayTaskError(RayError):
            pass

    def remote(self, *_):
        raise self.exceptions.RayError("Failed to put object in the store: it is full")

    def wait(self, _):
        raise ConnectionError("GCS is gone")


def test_what_the_cluster_fails_at_is_named():
    backend = Ray()
    backend._ray = backend._run_slice = FullStore()
    with pytest.raises(RunFailed, match="cluster failed: Failed to put object.*it is full. Progress is saved"):
        backend.submit(STUDY.jobs("gymnasium")[0], None, 1.0)
    with pytest.raises(RunFailed, match="cluster failed: GCS is gone"):
        backend.next()


def test_a_cluster_that_does_not_answer_is_named(tmp_path):
    with pytest.raises(InputError, match="no Ray cluster answers at 127.0.0.1:1"):
        run_study(study(0), tmp_path, backend=Ray("127.0.0.1:1"))

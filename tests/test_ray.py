"""A real Ray cluster of two nodes on this computer, one of which is killed in the middle."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from test_experiment import study

from benchmarks.faults import cluster
from fpi.errors import InputError
from fpi.experiment import run_study
from fpi.experiment.backends import Local, Ray
from fpi.experiment.run import RunFailed

pytestmark = pytest.mark.process


def apart(function, *arguments):
    """In a process of its own: one that had to do with a cluster may crash when it forks, and other tests fork."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(function, *arguments).result()


def play_and_kill_a_node(out):
    with cluster.two_nodes() as (nodes, second):
        cluster.play(nodes.address, out, lambda: cluster.kill_node(second))


def test_a_killed_node_costs_a_retry_and_nothing_else(tmp_path):
    apart(play_and_kill_a_node, tmp_path / "ray")
    run_study(cluster.STUDY, tmp_path / "here", backend=Local(1, start="fork"))
    assert cluster.rows(tmp_path / "ray") == cluster.rows(tmp_path / "here")
    assert len(cluster.rows(tmp_path / "ray")) == 2


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
        backend.submit(cluster.STUDY.jobs("gymnasium")[0], None, 1.0)
    with pytest.raises(RunFailed, match="cluster failed: GCS is gone"):
        backend.next()


def test_a_cluster_that_does_not_answer_is_named(tmp_path):
    with pytest.raises(InputError, match="no Ray cluster answers at 127.0.0.1:1"):
        apart(play_where_nobody_is, tmp_path)


def play_where_nobody_is(out):
    run_study(study(0), out, backend=Ray("127.0.0.1:1"))

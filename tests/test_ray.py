"""A real Ray cluster of two nodes on this computer, one of which is killed in the middle."""

import pytest
from test_experiment import study

from benchmarks.faults import cluster
from fpi.errors import InputError
from fpi.experiment import run_study
from fpi.experiment.backends import Local, Ray
from fpi.experiment.run import RunFailed

pytestmark = pytest.mark.process


def test_a_killed_node_costs_a_retry_and_nothing_else(tmp_path):
    with cluster.two_nodes() as (nodes, second):
        cluster.play(nodes.address, tmp_path / "ray", lambda: cluster.kill_node(second))
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
        run_study(study(0), tmp_path, backend=Ray("127.0.0.1:1"))

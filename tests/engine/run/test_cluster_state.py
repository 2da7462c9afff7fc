"""A cluster that cannot compute is waited for aloud, and not for ever."""

import logging

import pytest

from qmcif_engine.errors import ExecutionError
from qmcif_engine.run.cluster import LOOK_SECONDS, PATIENCE_SECONDS, ClusterWatch, find_missing


class Cluster:
    """Answers as a client does."""

    def __init__(self, *workers, status="running"):
        self.workers, self.status, self.n_asked = {str(number): {"status": state} for number, state in enumerate(workers)}, status, 0

    def scheduler_info(self, n_workers):
        self.n_asked += 1
        if self.workers.get("0", {}).get("status") == "unreachable":
            msg = "timed out"
            raise OSError(msg)
        return {"workers": self.workers}


class Clock:
    """Seconds that pass when told to."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.mark.parametrize(
    ("cluster", "missing"),
    [
        (Cluster("running", "paused"), None),
        (Cluster(), "a worker (the cluster has none)"),
        (Cluster("paused", "paused"), "a worker with free memory (all 2 are paused because theirs is full)"),
        (Cluster("running", status="connecting"), "the scheduler"),
        (Cluster("unreachable"), "the scheduler"),
    ],
)
def test_what_is_missing_is_named(cluster, missing):
    assert find_missing(cluster) == missing


def test_a_run_says_what_it_waits_for_and_gives_up_after_the_time_it_said(caplog):
    clock, cluster = Clock(), Cluster()
    watch = ClusterWatch(cluster, clock=clock)
    with caplog.at_level(logging.WARNING):
        clock.seconds = LOOK_SECONDS
        watch.look()
        watch.look()
    assert caplog.messages == [f"waiting for a worker (the cluster has none), for {PATIENCE_SECONDS:.0f} s at most"]
    assert cluster.n_asked == 1

    clock.seconds = LOOK_SECONDS + PATIENCE_SECONDS
    with pytest.raises(ExecutionError, match=r"a worker .* did not appear within 120 s.*--resume"):
        watch.look()


def test_a_worker_that_comes_back_ends_the_wait():
    clock, cluster = Clock(), Cluster()
    watch = ClusterWatch(cluster, clock=clock)
    clock.seconds = LOOK_SECONDS
    watch.look()
    cluster.workers = {"0": {"status": "running"}}
    clock.seconds += PATIENCE_SECONDS / 2
    watch.look()
    cluster.workers = {}
    clock.seconds += PATIENCE_SECONDS / 2
    watch.look()  # the patience begins anew

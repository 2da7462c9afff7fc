"""How many cores there are to use."""

import os

import pytest

from qmcif_engine.io.dask_threads import count_cores


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only some systems bind a process to cores")
def test_only_the_cores_that_the_process_may_use_count(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5})

    assert count_cores() == 3


def test_all_cores_count_where_the_system_does_not_say(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)

    assert count_cores() == 7

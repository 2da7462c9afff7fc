"""A Dask cluster for the fusions of this session: one that runs somewhere, or one that is started on this machine."""

from __future__ import annotations

import atexit
from importlib.util import find_spec
from typing import Any

from qmcif_engine import connect_to_scheduler

LOCAL = "local"

_started: list[Any] = []
"""The cluster that was started here; it serves all runs of the session."""


def connect(scheduler: str) -> Any:  # noqa: ANN401 - a client
    """Return a client of the scheduler at an address, or of one on this machine."""
    # without the package there is none to start: connecting tells what to install
    is_local = scheduler == LOCAL and find_spec("distributed") is not None
    return connect_to_scheduler(_start_once().scheduler_address if is_local else scheduler)


def _start_once() -> Any:  # noqa: ANN401 - a cluster
    from distributed import LocalCluster

    if not _started:
        # any free port: the usual one may be taken by a cluster of somebody else
        _started.append(LocalCluster(dashboard_address=":0"))
        # its processes must not outlive the viewer
        atexit.register(_started[0].close)
    return _started[0]

"""A Dask cluster for the fusions of this session: one that runs somewhere, or one that is started on this machine."""

from __future__ import annotations

import atexit
from typing import Any

from qmcif_engine import InvalidConfigError

LOCAL = "local"
CONNECT_SECONDS = 10

_started: list[Any] = []
"""The cluster that was started here; it serves all runs of the session."""


def connect(scheduler: str) -> Any:  # noqa: ANN401 - a client
    """Return a client of the scheduler at an address, or of one on this machine; it takes over no other computation of this process."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        msg = "the package distributed is not installed; it is needed for a cluster: pip install 'napari-qmcif[distributed]'"
        raise InvalidConfigError(msg) from error
    if scheduler == LOCAL and not _started:
        # any free port: the usual one may be taken by a cluster of somebody else
        _started.append(LocalCluster(dashboard_address=":0"))
        # its processes must not outlive the viewer
        atexit.register(_started[0].close)
    address: Any = _started[0] if scheduler == LOCAL else scheduler
    try:
        # not as default, else napari would slice its own lazy layers on that cluster
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        msg = (
            f"the scheduler {scheduler!r} cannot be reached ({str(error) or type(error).__name__}); the address of a running Dask "
            f"scheduler, such as tcp://host:8786, is needed: start one with `dask scheduler`, or write {LOCAL}"
        )
        raise InvalidConfigError(msg) from error

"""The connection to a Dask scheduler; the package for it is imported only by those who have a cluster."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from qmcif_engine.errors import InvalidConfigError

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10
_PLACE_IN_PROCESS = re.compile(r"[^/]+/[0-9]{1,9}/[0-9]{1,9}")


def connect_to_scheduler(address: str) -> Client:
    """Return a client of the Dask scheduler at this address that takes over no other computation of this process.

    Parameters
    ----------
    address : str
        Such as ``tcp://host:8786``.

    Returns
    -------
    distributed.Client
        To be closed by the caller; a ``with`` block does that.

    Raises
    ------
    InvalidConfigError
        When it is no address, or nobody answers there, or the package ``distributed`` is missing.
    """
    try:
        from distributed import Client
    except ImportError as error:
        msg = "the package distributed is not installed; it is needed for a cluster: pip install 'napari-qmcif[distributed]'"
        raise InvalidConfigError(msg) from error
    try:
        _check_address(address)
        # as the default it would also get what the caller computes with dask elsewhere
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        msg = (
            f"the scheduler {address!r} cannot be reached ({str(error) or type(error).__name__}); the address of a running Dask scheduler, "
            "such as tcp://host:8786, is needed: start one with `dask scheduler` or correct the address"
        )
        raise InvalidConfigError(msg) from error


def _check_address(address: str) -> None:
    """Refuse an address that no client can connect to: one that fails on it cannot be closed any more, and hangs.

    Raises
    ------
    ValueError
        Saying what is wrong with it.
    """
    from distributed.comm.addressing import get_address_host_port
    from distributed.security import Security

    scheme, _, place = address.rpartition("://")
    if scheme == "inproc":  # a cluster in this process, which has no port
        if not (_PLACE_IN_PROCESS.fullmatch(place) and int(place.split("/")[1]) == os.getpid()):
            msg = "inproc addresses lead to a cluster of this very process"
            raise ValueError(msg)
        return
    _, port = get_address_host_port(address)
    if not 0 < (port or 0) < 2**16:
        msg = f"{port} is no port"
        raise ValueError(msg)
    if scheme in ("tls", "wss") and Security().get_connection_args("client").get("ssl_context") is None:
        msg = "certificates are needed for encryption: name them in Dask's configuration, distributed.comm.tls"
        raise ValueError(msg)

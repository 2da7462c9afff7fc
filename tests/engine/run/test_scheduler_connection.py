"""A scheduler is connected to by its address; what cannot be one is refused at once."""

import sys

import pytest

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.run import execution
from qmcif_engine.run.execution import connect_to_scheduler


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("tls://127.0.0.1:1", "certificates are needed"),
        ("wss://127.0.0.1:1", "certificates are needed"),
        ("inproc://x", "this very process"),
        ("inproc://²/²/²", "this very process"),
        ("inproc://127.0.0.1/1/1", "this very process"),
        ("tcp://127.0.0.1:99999999", "99999999 is no port"),
        ("foo://bar:1", "unknown address scheme"),
        ("", "missing port"),
    ],
)
def test_an_address_that_no_client_can_connect_to_is_refused_at_once(address, told):
    with pytest.raises(InvalidConfigError, match=told):
        connect_to_scheduler(address)


def test_an_address_where_nobody_answers_is_told(monkeypatch):
    monkeypatch.setattr(execution, "CONNECT_SECONDS", 0.2)

    with pytest.raises(InvalidConfigError, match=r"the scheduler 'tcp://127.0.0.1:9' cannot be reached .* start one with `dask scheduler`"):
        connect_to_scheduler("tcp://127.0.0.1:9")


def test_without_distributed_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)

    with pytest.raises(InvalidConfigError, match=r"distributed is not installed; .* pip install 'napari-qmcif\[distributed\]'"):
        connect_to_scheduler("tcp://127.0.0.1:9")

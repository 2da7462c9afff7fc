"""A cluster is reached by its address, or started on this machine once."""

import sys

import pytest

from napari_qmcif import dask_cluster
from napari_qmcif.dask_cluster import connect
from qmcif_engine import InvalidConfigError


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "tls://127.0.0.1:8786"])
def test_what_is_no_address_is_told_at_once(address):
    # a client of it could not be closed, and would keep napari from ending for 20 s
    with pytest.raises(InvalidConfigError, match=r"cannot be reached .* tcp://host:8786"):
        connect(address)


def test_without_distributed_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setattr(dask_cluster, "find_spec", lambda name: None)

    with pytest.raises(InvalidConfigError, match=r"distributed is not installed; .* pip install 'napari-qmcif\[distributed\]'"):
        connect("local")

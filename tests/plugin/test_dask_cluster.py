"""A cluster is reached by its address, or started on this machine once."""

import sys

import pytest

from napari_qmcif import dask_cluster
from napari_qmcif.dask_cluster import connect
from qmcif_engine import InvalidConfigError


def test_an_address_where_nobody_answers_is_told(monkeypatch):
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 0.2)

    with pytest.raises(InvalidConfigError, match=r"the scheduler 'tcp://127.0.0.1:9' cannot be reached .* start one with `dask scheduler`"):
        connect("tcp://127.0.0.1:9")


def test_without_distributed_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)

    with pytest.raises(InvalidConfigError, match=r"distributed is not installed; .* pip install 'napari-qmcif\[distributed\]'"):
        connect("local")

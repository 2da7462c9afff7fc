"""The public names resolve, lazily, and are few."""

import subprocess
import sys

import pytest

import qmcif_engine


@pytest.mark.parametrize("name", qmcif_engine.__all__)
def test_public_name_resolves_once_and_is_listed(name):
    value = getattr(qmcif_engine, name)

    assert vars(qmcif_engine)[name] is value
    assert name in dir(qmcif_engine)


def test_public_contract_stays_small():
    assert len(qmcif_engine.__all__) <= 30


def test_unknown_name_is_refused_with_the_names_there_are():
    with pytest.raises(AttributeError, match=r"has no attribute 'fuze'; its public names are: .*fuse"):
        _ = qmcif_engine.fuze


def test_import_loads_no_heavy_package():
    program = "import sys, qmcif_engine; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()

    assert not {"PIL", "dask", "napari", "numba", "numpy", "scipy", "sklearn", "tifffile"} & set(loaded)

"""The result goes into memory while it fits, and else to a place the user chose."""

from pathlib import Path
from types import SimpleNamespace

import dask.array as da
import numpy as np
import psutil
import pytest
from napari.layers import Image

from napari_qmcif import destination as destination_module
from napari_qmcif.destination import IN_MEMORY, MAP_PIXEL_BYTES, ON_DISK, Destination, estimate_bytes, settle_target
from napari_qmcif.preferences import Preferences
from napari_qmcif.stack_series import choose_series
from qmcif_engine import InvalidImageError


@pytest.fixture
def box(qtbot):
    box = Destination()
    qtbot.addWidget(box.native)
    return box


@pytest.fixture
def series():
    return choose_series([Image(np.zeros((3, 40, 50), np.uint16), name="leaf")])


def test_memory_counts_the_results_and_what_is_still_to_be_loaded():
    array = np.zeros((4, 40, 50, 3), np.uint8)
    lazy = Image(da.from_array(array), rgb=True)
    times = Image(np.zeros((5, 4, 40, 50), np.uint8), rgb=False)
    some_lazy = [Image(array[0], rgb=True), Image(da.from_array(array[1]), rgb=True)]

    assert estimate_bytes(choose_series([Image(array, rgb=True)])) == 40 * 50 * (3 + MAP_PIXEL_BYTES)
    assert estimate_bytes(choose_series([lazy])) == 40 * 50 * (3 * 5 + MAP_PIXEL_BYTES)
    assert estimate_bytes(choose_series(some_lazy)) == 40 * 50 * (3 * 3 + MAP_PIXEL_BYTES)
    assert estimate_bytes(choose_series([times])) == 5 * 40 * 50 * (1 + MAP_PIXEL_BYTES)


def test_a_small_result_stays_in_memory(box, series):
    assert settle_target(box.value, series) is None
    assert not box.path_box.visible


def test_a_result_beyond_the_free_memory_needs_a_place_on_disk(series, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))

    with pytest.raises(InvalidImageError, match=r"images and result take 0.0 GB and 0.0 GB may be used; a place on disk is needed"):
        settle_target(None, series)


def test_on_disk_needs_a_place(box, series):
    heard = []
    box.changed.connect(heard.append)

    box.kind_box.value = ON_DISK

    assert heard == [Path()]
    with pytest.raises(InvalidImageError, match="no place for the result is chosen; a name is needed"):
        settle_target(box.value, series)


def test_without_a_name_the_scratch_folder_of_preferences_takes_the_result(series, monkeypatch, tmp_path):
    monkeypatch.setattr(destination_module, "read_preferences", lambda: Preferences(scratch_folder=tmp_path))

    assert settle_target(Path(), series) == tmp_path / "leaf.ome.zarr"


@pytest.mark.parametrize("name", ["leaf", "leaf.ome.zarr"])
def test_the_suffix_is_added_where_it_is_missing(box, series, tmp_path, name):
    box.value = tmp_path / name

    assert (box.kind_box.value, settle_target(box.value, series)) == (ON_DISK, tmp_path / "leaf.ome.zarr")
    box.value = None
    assert (box.kind_box.value, box.value) == (IN_MEMORY, None)

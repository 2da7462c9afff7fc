"""The result goes into memory while it fits, and else to a place the user chose."""

from pathlib import Path
from types import SimpleNamespace

import dask.array as da
import numpy as np
import psutil
import pytest
from napari.layers import Image
from qtpy.QtWidgets import QFileDialog

from napari_qmcif.chosen_stack import choose_pictures, choose_planes
from napari_qmcif.destination import MAP_PIXEL_BYTES, DestinationPanel, estimate_bytes
from qmcif_engine import InvalidImageError


@pytest.fixture
def panel(qtbot):
    panel = DestinationPanel()
    qtbot.addWidget(panel)
    return panel


@pytest.fixture
def stack():
    return choose_planes(Image(np.zeros((3, 40, 50), np.uint16)), 0, point=(0, 0, 0))


def test_memory_counts_the_result_and_what_is_still_to_be_loaded():
    array = np.zeros((4, 40, 50, 3), np.uint8)
    in_memory = choose_planes(Image(array, rgb=True), 0, point=(0, 0, 0))
    lazy = choose_planes(Image(da.from_array(array), rgb=True), 0, point=(0, 0, 0))
    some_lazy = choose_pictures([Image(array[0], rgb=True), Image(da.from_array(array[1]), rgb=True)])

    assert estimate_bytes(in_memory) == 40 * 50 * (3 + MAP_PIXEL_BYTES)
    assert estimate_bytes(lazy) == 40 * 50 * (3 * 5 + MAP_PIXEL_BYTES)
    assert estimate_bytes(some_lazy) == 40 * 50 * (3 * 3 + MAP_PIXEL_BYTES)


def test_a_small_result_stays_in_memory(panel, stack):
    assert panel.choose(stack) is None
    assert not panel.path_button.isVisibleTo(panel)


def test_a_result_beyond_the_free_memory_needs_a_place_on_disk(panel, stack, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))

    with pytest.raises(InvalidImageError, match=r"images and result take 0.0 GB and 0.0 GB may be used; a place on disk is needed"):
        panel.choose(stack)


def test_on_disk_needs_a_place(panel, stack, qtbot):
    with qtbot.waitSignal(panel.changed):
        panel.kind_box.setCurrentText("OME-Zarr on disk")

    with pytest.raises(InvalidImageError, match="no place for the result is chosen; a name is needed"):
        panel.choose(stack)


def test_the_place_is_asked_for_and_shown(panel, stack, monkeypatch, tmp_path):
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "leaf"), ""))
    panel.kind_box.setCurrentText("OME-Zarr on disk")

    panel.path_button.click()

    assert panel.choose(stack) == tmp_path / "leaf.ome.zarr"
    assert (panel.path_label.text(), panel.path_label.toolTip()) == ("leaf.ome.zarr", str(tmp_path / "leaf.ome.zarr"))


def test_leaving_the_question_changes_nothing(panel, stack, monkeypatch):
    panel.kind_box.setCurrentText("OME-Zarr on disk")
    panel.set_path(Path("leaf.ome.zarr"))
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: ("", ""))

    panel.path_button.click()

    assert panel.choose(stack) == Path("leaf.ome.zarr")

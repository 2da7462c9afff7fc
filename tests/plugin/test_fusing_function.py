"""The result goes into memory while it fits, and else to a place the user chose."""

from types import SimpleNamespace

import dask.array as da
import numpy as np
import psutil
import pytest
from napari.layers import Image

from napari_qmcif import fusing_function
from napari_qmcif.fusing_function import MAP_PIXEL_BYTES, choose_images, estimate_bytes, settle_target
from napari_qmcif.preferences import Preferences
from napari_qmcif.stack_series import choose_series
from qmcif_engine import InvalidConfigError, InvalidImageError


@pytest.fixture
def series():
    return choose_series([Image(np.zeros((3, 40, 50), np.uint16), name="leaf")])


@pytest.fixture
def full_memory(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))


def test_memory_counts_the_results_and_what_is_still_to_be_loaded():
    array = np.zeros((4, 40, 50, 3), np.uint8)
    lazy = Image(da.from_array(array), rgb=True)
    times = Image(np.zeros((5, 4, 40, 50), np.uint8), rgb=False)
    some_lazy = [Image(array[0], rgb=True), Image(da.from_array(array[1]), rgb=True)]

    assert estimate_bytes(choose_series([Image(array, rgb=True)])) == 40 * 50 * (3 + MAP_PIXEL_BYTES)
    assert estimate_bytes(choose_series([lazy])) == 40 * 50 * (3 * 5 + MAP_PIXEL_BYTES)
    assert estimate_bytes(choose_series(some_lazy)) == 40 * 50 * (3 * 3 + MAP_PIXEL_BYTES)
    assert estimate_bytes(choose_series([times])) == 5 * 40 * 50 * (1 + MAP_PIXEL_BYTES)


def test_a_small_result_stays_in_memory(series):
    assert settle_target(None, series) is None


def test_a_result_beyond_the_free_memory_needs_a_place_on_disk(series, full_memory):
    with pytest.raises(InvalidImageError, match=r"images and result take 0.0 GB and 0.0 GB may be used; a place on disk is needed"):
        settle_target(None, series)


def test_the_scratch_folder_of_preferences_takes_what_does_not_fit_into_memory(series, full_memory, monkeypatch, tmp_path):
    monkeypatch.setattr(fusing_function, "read_preferences", lambda: Preferences(scratch_folder=tmp_path))

    assert settle_target(None, series) == tmp_path / "leaf.ome.zarr"


@pytest.mark.parametrize("name", ["leaf", "leaf.ome.zarr"])
def test_the_suffix_is_added_where_it_is_missing(series, tmp_path, name):
    assert settle_target(tmp_path / name, series) == tmp_path / "leaf.ome.zarr"


def test_slabs_need_a_place(series, tmp_path):
    with pytest.raises(InvalidConfigError, match=r"slabs were asked for .* name a place under Result"):
        settle_target(None, series, slab=3)

    assert settle_target(tmp_path / "leaf", series, slab=3) is not None


def test_a_missing_file_of_transforms_needs_something_to_write_into_it(tmp_path):
    layer = Image(np.zeros((3, 40, 50), np.uint16))

    with pytest.raises(InvalidConfigError, match=r"'found.json' holds no transforms and nothing is aligned; .* set Align"):
        choose_images([layer], "", transforms=tmp_path / "found.json")

    assert choose_images([layer], "", align="affine", transforms=tmp_path / "found.json").first.align == "affine"


def test_the_transforms_of_several_stacks_do_not_overwrite_each_other(tmp_path):
    layer = Image(np.zeros((2, 3, 40, 50), np.uint16), rgb=False)

    with pytest.raises(InvalidConfigError, match=r"2 stacks are aligned and 'found.json' holds the transforms of one: set Series"):
        choose_images([layer], "", align="affine", transforms=tmp_path / "found.json")


def test_a_reference_beyond_a_stack_of_which_nothing_is_left_is_refused_in_words():
    layer = Image(np.zeros((3, 40, 50), np.uint16), name="leaf")

    with pytest.raises(InvalidConfigError, match=r"0 of 3 images are left; at least 2 are needed: leave fewer out"):
        choose_images([layer], "", leave_out="1-3", reference=9)

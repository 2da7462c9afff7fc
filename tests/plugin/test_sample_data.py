"""Opening a sample gives the layers a person expects, in a real viewer."""

import dask.array as da
import numpy as np
import pytest

from napari_qmcif.sample_data import (
    SAMPLES,
    make_color_stack_layers,
    make_gray_stack_layers,
    make_large_stack_layers,
    read_board_layers,
    read_neuron_layers,
)


@pytest.mark.parametrize(
    ("make", "is_color"),
    [
        (make_color_stack_layers, [True, True]),
        (make_gray_stack_layers, [False, False]),
        (make_large_stack_layers, [True]),
        (read_board_layers, [True]),
        (read_neuron_layers, [False]),
    ],
)
def test_sample_names_color_explicitly_because_napari_guesses_it_from_the_shape(make, is_color):
    assert [attributes["rgb"] for _, attributes, _ in make()] == is_color


@pytest.mark.viewer
def test_opening_the_color_sample_adds_the_stack_and_its_hidden_truth(viewer):

    viewer.open_sample("napari-qmcif", "color_focus_stack")

    truth, stack = viewer.layers
    assert (stack.name, stack.rgb, stack.visible, stack.data.shape) == ("focus stack", True, True, (5, 512, 768, 3))
    assert (truth.name, truth.rgb, truth.visible, truth.data.shape) == ("focus stack truth", True, False, (512, 768, 3))
    assert stack.data.dtype == truth.data.dtype == np.uint8
    assert stack.axis_labels == ("focus", "y", "x")
    assert truth.axis_labels == ("y", "x")
    assert viewer.dims.ndim == 3


@pytest.mark.viewer
def test_the_gray_sample_is_a_z_stack_of_16_bits_with_units(viewer):

    viewer.open_sample("napari-qmcif", "gray_z_stack")

    truth, stack = viewer.layers
    assert (stack.data.dtype, stack.data.shape, stack.rgb, truth.visible) == (np.uint16, (7, 512, 512), False, False)
    assert (tuple(stack.scale), stack.axis_labels) == ((4, 0.5, 0.5), ("z", "y", "x"))
    assert {str(unit) for unit in (*stack.units, *truth.units)} == {"micrometer"}
    np.testing.assert_allclose(truth.scale, (0.5, 0.5))


@pytest.mark.viewer
def test_the_large_sample_is_lazy(viewer):

    viewer.open_sample("napari-qmcif", "large_focus_stack")

    (stack,) = viewer.layers
    assert stack.multiscale
    assert stack.data[0].shape == (2, 8192, 8192, 3)
    assert all(isinstance(level, da.Array) for level in stack.data)


@pytest.mark.viewer
@pytest.mark.parametrize(
    ("key", "name", "n_images", "dtype"),
    [("board_photographs", "circuit board", 7, np.uint8), ("neuron_z_stack", "neuron", 25, np.uint16)],
)
def test_the_real_samples_are_stacks_that_show_something(viewer, key, name, n_images, dtype):

    viewer.open_sample("napari-qmcif", key)

    (stack,) = viewer.layers
    low, high = stack.contrast_limits
    assert (stack.name, stack.data.shape[0], stack.data.dtype) == (name, n_images, dtype)
    assert stack.data.min() < high
    assert stack.data.max() > low
    assert viewer.dims.ndim == 3


def test_the_shipped_stacks_are_small_and_each_has_its_license_beside_it():
    folders = [path for path in SAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"]
    files = [path for folder in folders for path in folder.iterdir()]

    assert {folder.name for folder in folders} == {"board", "neuron"}
    assert all("license" in (folder / "LICENSE.txt").read_text(encoding="utf-8").lower() for folder in folders)
    assert sum(path.stat().st_size for path in files) <= 5_000_000

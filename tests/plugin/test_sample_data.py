"""Opening a sample gives the layers a person expects, in a real viewer."""

import dask.array as da
import numpy as np
import pytest

from napari_qmcif.sample_data import SAMPLES

MICROMETERS = (4, 0.5, 0.5)


@pytest.mark.viewer
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("color_focus_stack", [("focus stack truth", True, (512, 768, 3), "uint8"), ("focus stack", True, (5, 512, 768, 3), "uint8")]),
        ("gray_z_stack", [("z-stack truth", False, (512, 512), "uint16"), ("z-stack", False, (7, 512, 512), "uint16")]),
        ("large_focus_stack", [("large focus stack", True, (2, 8192, 8192, 3), "uint8")]),
        ("board_photographs", [("circuit board", True, None, "uint8")]),
        ("neuron_z_stack", [("neuron", False, None, "uint16")]),
    ],
)
def test_a_sample_is_a_visible_stack_with_its_truth_hidden_below(viewer, key, expected):
    viewer.open_sample("napari-qmcif", key)

    layers, stack = list(viewer.layers), viewer.layers[-1]
    levels = [layer.data[0] if layer.multiscale else layer.data for layer in layers]
    shapes = [None if shape is None else samples.shape for samples, (_, _, shape, _) in zip(levels, expected, strict=True)]
    found = [(layer.name, layer.rgb, shape, samples.dtype) for layer, shape, samples in zip(layers, shapes, levels, strict=True)]
    assert found == expected
    assert [layer.visible for layer in layers] == [False] * (len(layers) - 1) + [True]
    assert (viewer.dims.ndim, len(stack.axis_labels)) == (3, 3)
    if key == "gray_z_stack":
        assert (tuple(stack.scale), tuple(layers[0].scale)) == (MICROMETERS, MICROMETERS[1:])
        assert {str(unit) for layer in layers for unit in layer.units} == {"micrometer"}
    if key == "large_focus_stack":
        assert all(isinstance(level, da.Array) for level in stack.data), "generated where one looks"
    else:
        low, high = stack.contrast_limits
        assert np.min(levels[-1]) < high
        assert np.max(levels[-1]) > low


def test_the_shipped_stacks_are_small_and_each_has_its_license_beside_it():
    folders = [path for path in SAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"]
    files = [path for folder in folders for path in folder.iterdir()]
    assert {folder.name for folder in folders} == {"board", "neuron"}
    assert all("license" in (folder / "LICENSE.txt").read_text(encoding="utf-8").lower() for folder in folders)
    assert sum(path.stat().st_size for path in files) <= 5_000_000

"""Opening the sample gives the layers a person expects, in a real viewer."""

import numpy as np
import pytest

from napari_qmcif.sample_data import make_color_stack_layers


def test_sample_names_color_explicitly_because_napari_guesses_it_from_the_shape():
    assert [attributes["rgb"] for _, attributes, _ in make_color_stack_layers()] == [True, True]


@pytest.mark.viewer
def test_opening_the_sample_adds_the_stack_and_its_hidden_truth(make_napari_viewer_proxy):
    viewer = make_napari_viewer_proxy()

    viewer.open_sample("napari-qmcif", "color_focus_stack")

    stack, truth = viewer.layers
    assert (stack.name, stack.rgb, stack.visible, stack.data.shape) == ("focus stack", True, True, (5, 512, 768, 3))
    assert (truth.name, truth.rgb, truth.visible, truth.data.shape) == ("focus stack truth", True, False, (512, 768, 3))
    assert stack.data.dtype == truth.data.dtype == np.uint8
    assert stack.axis_labels == ("focus", "y", "x")
    assert truth.axis_labels == ("y", "x")
    assert viewer.dims.ndim == 3

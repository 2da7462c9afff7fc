"""The images can be looked at as they are fused, and are moved only where one looks."""

from dataclasses import replace

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image

from napari_qmcif.aligning import make_aligned_layer
from napari_qmcif.layers_in import choose_layers, choose_planes
from napari_qmcif.layers_out import is_source
from qmcif_engine import Window, make_focus_stack, open_stack, prepare_stack


@pytest.fixture
def moved():
    scene = make_focus_stack(n_images=2, shape=(200, 240), seed=3).images
    return np.stack([scene[0], np.roll(scene[1], 5, axis=1)])


@pytest.mark.parametrize("has_opacity", [False, True])
def test_the_layer_holds_the_aligned_images_at_the_place_of_their_stack(moved, job, has_opacity):
    opacity = np.full((*moved.shape[:3], 1), 255, np.uint8)
    samples = np.concatenate([moved, opacity], axis=-1) if has_opacity else moved
    space = {"scale": (4, 0.5, 0.5), "translate": (7, 10, 20), "units": ("um",) * 3, "axis_labels": ("z", "y", "x")}
    stack = replace(choose_planes(Image(samples, rgb=True, name="leaf", **space), 0), align="translation")
    expected = prepare_stack(open_stack(list(moved)), align="translation")
    viewer = ViewerModel()

    ((lazy, attributes, _),) = make_aligned_layer(stack, job=job)
    layer = viewer.add_image(lazy, **attributes)

    for number in range(2):
        np.testing.assert_array_equal(np.asarray(lazy[number]), expected.read(number, Window(0, 0, 200, 240)))
    assert (layer.name, layer.rgb, is_source(layer)) == ("leaf: aligned", True, False)
    np.testing.assert_allclose((layer.scale, layer.translate), ((4, 0.5, 0.5), (7, 10, 20)))
    assert (tuple(layer.axis_labels), [str(unit) for unit in layer.units]) == (("z", "y", "x"), ["micrometer"] * 3)


def test_images_lie_one_behind_the_other(moved, job):
    layers = [Image(image, rgb=True, name=name, scale=(0.5, 0.5), shear=[0.1]) for image, name in zip(moved, "ab", strict=True)]

    ((lazy, attributes, _),) = make_aligned_layer(choose_layers(layers), job=job)

    assert lazy.shape == moved.shape
    layer = Image(lazy, **attributes)
    np.testing.assert_allclose(layer.data_to_world((1, 4, 6)), (1, *layers[0].data_to_world((4, 6))))
    np.testing.assert_array_equal(np.asarray(lazy), moved)

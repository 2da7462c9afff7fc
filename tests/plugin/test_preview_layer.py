"""The layer of the previews keeps what the user set on it, and knows how it was made."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_qmcif.chosen_stack import choose_planes
from napari_qmcif.preview import PreviewLayer, compute_preview
from qmcif_engine import FusionConfig, Window

CONFIG = FusionConfig().replaced({"iterations": 1})


@pytest.fixture
def viewer(images):
    viewer = ViewerModel()
    viewer.add_image(images, rgb=True, name="leaf")
    return viewer


@pytest.fixture
def preview_of(viewer, job):
    stack = choose_planes(viewer.layers["leaf"], 0, point=(0, 0, 0))
    return lambda area: compute_preview(stack, CONFIG, area, job=job)


def test_the_next_preview_keeps_opacity_and_visibility(viewer, preview_of):
    shown = PreviewLayer(viewer)
    shown.show(preview_of(Window(0, 0, 24, 32)))
    shown.layer.opacity, shown.layer.visible = 0.5, False

    shown.show(preview_of(Window(8, 8, 40, 40)))

    assert (shown.layer.opacity, shown.layer.visible) == (0.5, False)
    np.testing.assert_allclose(shown.layer.translate, (8, 8))
    assert shown.layer.data.shape == (32, 32, 3)


def test_a_preview_knows_its_settings_its_area_and_that_it_is_one(viewer, preview_of):
    shown = PreviewLayer(viewer)

    shown.show(preview_of(Window(0, 0, 24, 32)))

    record = shown.layer.metadata["qmcif"]
    assert (record["part"], record["area"]) == ("preview", [0, 0, 24, 32])
    assert FusionConfig.from_dict(record["settings"]) == CONFIG


def test_a_preview_of_a_channel_covers_its_source_instead_of_adding_to_it(images, job):
    viewer = ViewerModel()
    layer = viewer.add_image(images[..., 1], rgb=False, name="GFP", blending="additive")
    shown = PreviewLayer(viewer)

    shown.show(compute_preview(choose_planes(layer, 0), CONFIG, Window(0, 0, 24, 32), job=job))

    assert shown.layer.blending == "translucent_no_depth"


def test_removing_a_preview_that_is_gone_does_nothing(viewer, preview_of):
    shown = PreviewLayer(viewer)
    shown.remove()
    shown.show(preview_of(Window(0, 0, 24, 32)))
    viewer.layers.remove(shown.layer)

    shown.remove()

    assert shown.layer is None
    assert [layer.name for layer in viewer.layers] == ["leaf"]

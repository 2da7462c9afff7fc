"""A preview comes in place, is replaced by the next, and follows changes when wished."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_qmcif import preview as preview_module
from napari_qmcif.form_parts import MessageLabel
from napari_qmcif.layers_in import choose_planes
from napari_qmcif.preview import PreviewPanel
from qmcif_engine import FusionConfig, InvalidConfigError

CONFIG = FusionConfig().replaced({"iterations": 1})


@pytest.fixture
def viewer(images):
    viewer = ViewerModel()
    viewer.add_image(images, rgb=True, name="leaf", scale=(1, 0.5, 0.5), translate=(0, 10, 20), units=("um",) * 3)
    return viewer


@pytest.fixture
def panel(viewer, qtbot):
    panel = PreviewPanel(
        viewer,
        choose=lambda: choose_planes(viewer.layers[0], 0, point=viewer.dims.point),
        read_config=lambda: CONFIG,
        message=MessageLabel(),
    )
    qtbot.addWidget(panel.native)
    viewer.layers.events.inserted.connect(panel.reset_choices)
    viewer.layers.events.removed.connect(panel.reset_choices)
    yield panel
    panel.shut_down()
    qtbot.waitUntil(lambda: not panel.is_running)


def wait(panel, qtbot):
    qtbot.waitUntil(lambda: panel.is_running or panel.layer is not None)
    qtbot.waitUntil(lambda: not panel.is_running)


def look_at(viewer, top, left, bottom, right):
    viewer.layers[0].corner_pixels = np.array([[0, top, left], [0, bottom - 1, right - 1]])


def test_preview_lies_on_the_part_it_shows(viewer, panel, qtbot):
    look_at(viewer, 8, 16, 40, 48)

    panel.button.native.click()
    wait(panel, qtbot)

    layer = panel.layer
    assert (layer.name, layer.rgb, layer.data.shape) == ("leaf: preview", True, (32, 32, 3))
    np.testing.assert_allclose(layer.scale, (0.5, 0.5))
    np.testing.assert_allclose(layer.translate, (10 + 8 * 0.5, 20 + 16 * 0.5))
    assert [str(unit) for unit in layer.units] == ["micrometer"] * 2
    assert layer.metadata["qmcif"]["area"] == [8, 16, 40, 48]


def test_the_next_preview_takes_the_place_of_the_last(viewer, panel, qtbot):
    panel.start()
    wait(panel, qtbot)
    look_at(viewer, 8, 16, 40, 48)

    panel.start()
    wait(panel, qtbot)

    assert len(viewer.layers) == 2
    assert panel.layer.data.shape == (32, 32, 3)
    np.testing.assert_allclose(panel.layer.translate, (14, 28))


def test_a_preview_of_another_kind_replaces_the_layer(viewer, panel, qtbot, images):
    panel.start()
    wait(panel, qtbot)
    viewer.layers.remove("leaf")
    viewer.add_image(images[..., 0], rgb=False, name="gray")
    viewer.layers.move(1, 0)

    panel.start()
    wait(panel, qtbot)

    assert [(layer.name, layer.rgb) for layer in viewer.layers] == [("gray", False), ("gray: preview", False)]


def test_a_preview_that_was_deleted_comes_again(viewer, panel, qtbot):
    panel.start()
    wait(panel, qtbot)
    viewer.layers.remove(panel.layer)

    panel.start()
    wait(panel, qtbot)

    assert panel.layer in viewer.layers


def test_what_was_selected_stays_selected(viewer, panel, qtbot):
    viewer.layers.selection.active = viewer.layers["leaf"]

    panel.start()
    wait(panel, qtbot)

    assert viewer.layers.selection.active == viewer.layers["leaf"]


def test_a_drawn_rectangle_is_previewed(viewer, panel, qtbot):
    panel.draw_button.native.click()
    shapes = viewer.layers["preview area"]
    assert (shapes.mode, panel.area_box.current_choice) == ("add_rectangle", "preview area")
    shapes.add_rectangles(np.array([[4.0, 6.0], [4.0, 30.0], [20.0, 30.0], [20.0, 6.0]]))

    panel.start()
    wait(panel, qtbot)

    assert panel.layer.metadata["qmcif"]["area"] == [4, 6, 20, 30]


def test_a_removed_shapes_layer_is_offered_no_more(viewer, panel):
    panel.draw_button.native.click()

    viewer.layers.remove("preview area")

    assert (len(panel.area_box.choices), panel.area_box.current_choice) == (1, "visible field")


def follows(panel, change):
    """Return whether a change winds up the timer of the live preview."""
    panel.timer.stop()
    change()
    is_wound_up = panel.timer.isActive()
    panel.timer.stop()
    return is_wound_up


def test_a_preview_follows_view_sliders_and_rectangle_unless_unwished(viewer, panel, qtbot):
    panel.draw_area()
    rectangle = np.array([[4.0, 6.0], [4.0, 30.0], [20.0, 30.0], [20.0, 6.0]])
    changes = [
        lambda: setattr(viewer.scene.camera, "zoom", viewer.scene.camera.zoom * 2),
        lambda: viewer.dims.set_current_step(0, 1 - viewer.dims.current_step[0]),
        lambda: viewer.layers["preview area"].add_rectangles(rectangle),
    ]
    assert [follows(panel, change) for change in changes] == [False] * 3, "there is no preview yet"
    assert follows(panel, panel.schedule), "but a change of settings shows itself"
    panel.start()
    wait(panel, qtbot)

    assert [follows(panel, change) for change in changes] == [True] * 3
    panel.area_box.value = None
    assert not follows(panel, changes[2]), "another area is chosen now"
    panel.live_box.value = False
    assert [follows(panel, change) for change in changes] == [False] * 3


def test_a_preview_starts_once_things_have_come_to_rest(viewer, panel, qtbot):
    for _ in range(4):
        panel.schedule()
    wait(panel, qtbot)

    assert (panel.layer is not None, panel.message.text()) == (True, "")


def test_a_new_wish_replaces_the_preview_under_way(viewer, panel, qtbot):
    panel.start()
    look_at(viewer, 8, 16, 40, 48)

    panel.start()

    qtbot.waitUntil(lambda: panel.layer is not None and not panel.is_running)
    assert panel.layer.metadata["qmcif"]["area"] == [8, 16, 40, 48]


def test_of_a_large_field_the_middle_is_previewed_and_that_is_said(viewer, panel, qtbot, monkeypatch):
    monkeypatch.setattr(preview_module, "LARGEST_PREVIEW_PX", 48 * 64 // 4)

    panel.start()
    wait(panel, qtbot)

    assert panel.layer.data.shape == (24, 32, 3)
    assert panel.message.text() == "the preview shows the middle 0.0 megapixels of 0.0 megapixels"


def test_what_cannot_be_previewed_is_said(viewer, qtbot):
    def refuse():
        msg = "setting a is wrong; b is needed: change it"
        raise InvalidConfigError(msg)

    panel = PreviewPanel(
        viewer, choose=lambda: choose_planes(viewer.layers[0], 0, point=(0, 0, 0)), read_config=refuse, message=MessageLabel()
    )
    qtbot.addWidget(panel.native)

    panel.start()

    assert panel.message.text() == "setting a is wrong; b is needed: change it"
    assert not panel.is_running


def test_drawing_needs_something_to_draw_on(qtbot):
    def refuse():
        msg = "nothing is chosen; layers are needed: choose them"
        raise InvalidConfigError(msg)

    viewer = ViewerModel()
    panel = PreviewPanel(viewer, choose=refuse, read_config=lambda: CONFIG, message=MessageLabel())
    qtbot.addWidget(panel.native)

    panel.draw_area()

    assert panel.message.text() == "nothing is chosen; layers are needed: choose them"
    assert len(viewer.layers) == 0


def test_shutting_down_takes_the_preview_away_and_hears_nothing_more(viewer, panel, qtbot):
    panel.start()
    wait(panel, qtbot)

    panel.shut_down()
    viewer.scene.camera.zoom = 7

    assert not panel.timer.isActive()
    assert not panel.is_running
    assert [layer.name for layer in viewer.layers] == ["leaf"]


def test_a_preview_can_be_stopped(viewer, panel, qtbot):
    panel.button.native.click()
    assert panel.button.text == "Stop preview"

    panel.button.native.click()
    qtbot.waitUntil(lambda: not panel.is_running)

    assert (panel.layer, panel.button.text) == (None, "Preview")

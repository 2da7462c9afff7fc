"""A preview of what is seen or drawn comes in place, is replaced by the next, and follows changes when wished."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_qmcif import preview as preview_module
from napari_qmcif.form_parts import MessageLabel
from napari_qmcif.layers_in import choose_planes
from napari_qmcif.preview import PreviewPanel, find_drawn_area, find_middle, find_visible_area
from qmcif_engine import FusionConfig, InvalidConfigError, InvalidImageError, Window


def refuse():
    msg = "setting a is wrong; b is needed: change it"
    raise InvalidConfigError(msg)


@pytest.fixture
def viewer(images):
    viewer = ViewerModel()
    viewer.add_image(images, rgb=True, name="leaf", scale=(1, 0.5, 0.5), translate=(0, 10, 20), units=("um",) * 3)
    return viewer


@pytest.fixture
def make_panel(viewer, qtbot):
    made = []

    def make(read_config=FusionConfig, choose=None):
        choose = choose or (lambda: choose_planes(viewer.layers[0], 0, point=viewer.dims.point))
        panel = PreviewPanel(viewer, choose=choose, read_config=read_config, message=MessageLabel())
        qtbot.addWidget(panel.native)
        viewer.layers.events.inserted.connect(panel.reset_choices)
        viewer.layers.events.removed.connect(panel.reset_choices)
        made.append(panel)
        return panel

    yield make
    for panel in made:
        panel.shut_down()
        qtbot.waitUntil(lambda panel=panel: not panel.is_running)


@pytest.fixture
def panel(make_panel):
    return make_panel()


@pytest.fixture
def start(panel, qtbot):
    """Starts a preview and waits for it."""

    def begin():
        panel.start()
        qtbot.waitUntil(lambda: not panel.is_running)
        return panel.layer

    return begin


def look_at(viewer, top, left, bottom, right):
    viewer.layers[0].corner_pixels = np.array([[0, top, left], [0, bottom - 1, right - 1]])


def test_a_preview_lies_on_the_part_it_shows_and_takes_the_place_of_the_last(viewer, panel, start, images):
    viewer.layers.selection.active = viewer.layers["leaf"]
    first = start()
    look_at(viewer, 8, 16, 40, 48)
    layer = start()
    assert (layer is first, len(viewer.layers), viewer.layers.selection.active.name) == (True, 2, "leaf")
    assert (layer.name, layer.rgb, layer.data.shape) == ("leaf: preview", True, (32, 32, 3))
    np.testing.assert_allclose((layer.scale, layer.translate), ((0.5, 0.5), (10 + 8 * 0.5, 20 + 16 * 0.5)))
    assert ([str(unit) for unit in layer.units], layer.metadata["qmcif"]["area"]) == (["micrometer"] * 2, [8, 16, 40, 48])
    viewer.layers.remove(layer)
    assert start() in viewer.layers, "one that was deleted comes again"

    viewer.layers.remove("leaf")
    viewer.add_image(images[..., 0], rgb=False, name="gray")
    viewer.layers.move(1, 0)
    start()
    assert [(layer.name, layer.rgb) for layer in viewer.layers] == [("gray", False), ("gray: preview", False)]
    panel.shut_down()
    viewer.scene.camera.zoom = 7
    assert (panel.timer.isActive(), panel.is_running, [layer.name for layer in viewer.layers]) == (False, False, ["gray"])


RECTANGLE = np.array([[4.0, 6.0], [4.0, 30.0], [20.0, 30.0], [20.0, 6.0]])


def follows(panel, change):
    """Return whether a change starts the timer of the preview."""
    panel.timer.stop()
    change()
    is_started = panel.timer.isActive()
    panel.timer.stop()
    return is_started


def test_a_preview_follows_view_sliders_and_the_drawn_rectangle_unless_unwished(viewer, panel, start):
    panel.draw_button.native.click()
    assert (viewer.layers["preview area"].mode, panel.area_box.current_choice) == ("add_rectangle", "preview area")
    changes = [
        lambda: setattr(viewer.scene.camera, "zoom", viewer.scene.camera.zoom * 2),
        lambda: viewer.dims.set_current_step(0, 1 - viewer.dims.current_step[0]),
        lambda: viewer.layers["preview area"].add_rectangles(RECTANGLE),
    ]
    assert [follows(panel, change) for change in changes] == [False] * 3, "there is no preview yet"
    assert follows(panel, panel.schedule), "but a change of settings shows itself"
    assert start().metadata["qmcif"]["area"] == [4, 6, 20, 30]
    assert [follows(panel, change) for change in changes] == [True] * 3
    panel.area_box.value = None
    assert not follows(panel, changes[2]), "another area is chosen now"
    panel.live_box.value = False
    assert [follows(panel, change) for change in changes] == [False] * 3
    viewer.layers.remove("preview area")
    assert (len(panel.area_box.choices), panel.area_box.current_choice) == (1, "visible field")


def test_the_last_of_several_wishes_is_shown_and_one_can_be_stopped(viewer, panel, qtbot):
    panel.button.native.click()
    assert panel.button.text == "Stop preview"
    panel.button.native.click()
    qtbot.waitUntil(lambda: not panel.is_running)
    assert (panel.layer, panel.button.text) == (None, "Preview")
    for _ in range(4):
        panel.schedule()
    panel.start()
    look_at(viewer, 8, 16, 40, 48)
    panel.start()
    qtbot.waitUntil(lambda: panel.layer is not None and not panel.is_running)
    assert (panel.layer.metadata["qmcif"]["area"], panel.message.text()) == ([8, 16, 40, 48], "")


def test_of_a_large_field_the_middle_is_previewed_and_that_is_said(panel, start, monkeypatch):
    monkeypatch.setattr(preview_module, "LARGEST_PREVIEW_PX", 48 * 64 // 4)
    assert start().data.shape == (24, 32, 3)
    assert panel.message.text() == "the preview shows the middle 0.0 megapixels of 0.0 megapixels"
    assert find_middle(Window(0, 0, 2000, 4000), 2_000_000) == Window(500, 1000, 1500, 3000)
    assert find_middle(Window(3, 4, 13, 24), 2_000_000) == Window(3, 4, 13, 24)


def test_what_cannot_be_previewed_or_drawn_on_is_said(viewer, make_panel):
    for panel, act in ((make_panel(read_config=refuse), PreviewPanel.start), (make_panel(choose=refuse), PreviewPanel.draw_area)):
        act(panel)
        assert (panel.message.text(), panel.is_running) == ("setting a is wrong; b is needed: change it", False)
    assert len(viewer.layers) == 1


def add_stack(viewer, shape=(3, 60, 80), axis=0, **options):
    return choose_planes(viewer.add_image(np.zeros(shape, np.uint8), rgb=False, **options), axis)


def test_the_seen_area_is_counted_in_pixels_of_the_finest_level():
    viewer = ViewerModel()
    stack = add_stack(viewer)
    assert find_visible_area(stack, viewer.dims) == Window(0, 0, 60, 80)
    stack.layers[0].corner_pixels = np.array([[0, 10, 20], [0, 29, 49]])
    assert find_visible_area(stack, viewer.dims) == Window(10, 20, 30, 50), "with its last pixel"
    levels = [np.zeros((3, side, side), np.uint8) for side in (64, 16)]
    coarse = choose_planes(viewer.add_image(levels, multiscale=True, rgb=False), 0)
    coarse.layers[0].data_level = 1
    coarse.layers[0].corner_pixels = np.array([[0, 2, 4], [0, 7, 11]])
    assert find_visible_area(coarse, viewer.dims) == Window(8, 16, 32, 48)
    viewer.add_image(np.zeros((2, 3, 60, 80), np.uint8), rgb=False)
    assert find_visible_area(add_stack(viewer), viewer.dims) == Window(0, 0, 60, 80), "a layer of fewer axes than the viewer"


@pytest.mark.parametrize(
    ("change", "words"), [({"order": (1, 0, 2)}, "the viewer shows other axes than rows"), ({"ndisplay": 3}, "go back to the 2-D view")]
)
def test_other_axes_than_those_of_the_image_are_refused(change, words):
    viewer = ViewerModel()
    stack = add_stack(viewer)
    for name, value in change.items():
        setattr(viewer.dims, name, value)
    with pytest.raises(InvalidImageError, match=words):
        find_visible_area(stack, viewer.dims)


def add_boxes(viewer, *boxes):
    corners = [np.array([[top, left], [top, right], [bottom, right], [bottom, left]], float) for top, left, bottom, right in boxes]
    return viewer.add_shapes(corners, shape_type="rectangle", name="Shapes")


def test_a_drawn_rectangle_is_found_on_the_image():
    viewer = ViewerModel()
    stack = add_stack(viewer, scale=(1, 0.5, 0.5), translate=(0, 100, 200))
    assert find_drawn_area(stack, add_boxes(viewer, (105, 210, 115, 220))) == Window(10, 20, 30, 40)
    plain = add_stack(viewer)
    shapes = add_boxes(viewer, (0, 0, 10, 10), (0, 0, 20, 20), (-5, -5, 9, 7))
    shapes.selected_data = set()
    assert find_drawn_area(plain, shapes) == Window(0, 0, 9, 7), "the last one, cut at the border"
    shapes.selected_data = {1}
    assert find_drawn_area(plain, shapes) == Window(0, 0, 20, 20)
    with pytest.raises(InvalidImageError, match=r"'Shapes.*' holds no shape; a rectangle is needed"):
        find_drawn_area(plain, viewer.add_shapes(name="Shapes"))
    with pytest.raises(InvalidImageError, match="the area to preview covers 0 x 9 pixels of the image; more is needed"):
        find_drawn_area(plain, add_boxes(viewer, (500, 0, 509, 9)))

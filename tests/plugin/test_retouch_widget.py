"""Retouching, driven in a real viewer as a person would: fuse, paint, undo."""

from dataclasses import replace

import numpy as np
import pytest
from napari.utils.notifications import notification_manager

from napari_qmcif.layers_in import choose_layers, choose_planes
from napari_qmcif.layers_out import MAP_NAMES, add_layers, describe_channel, is_index_map, record_provenance
from napari_qmcif.reader import open_files
from napari_qmcif.retouch_widget import RetouchWidget
from napari_qmcif.stack_series import StackSeries
from qmcif_engine import FusionConfig, Transforms, fuse, load_transforms, make_focus_stack, save_transforms, write_image
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel

pytestmark = pytest.mark.viewer

CONFIG = FusionConfig().replaced({"iterations": 1})


@pytest.fixture
def open_widget(viewer, qtbot):
    opened = []

    def open_one():
        widget = RetouchWidget(viewer)
        viewer.window.add_dock_widget(widget)
        opened.append(widget)
        return widget

    yield open_one
    for widget in opened:
        settle(widget, qtbot)
        widget.shut_down()
    opened.clear()


def settle(widget, qtbot):
    qtbot.waitUntil(lambda: widget.session is None or not widget.session.is_running)


def add_fused(viewer, stack, images):
    result = fuse(list(images), CONFIG, with_maps=True)
    parts = {"fused": result.fused, **{name: getattr(result, name) for name in MAP_NAMES}}
    record = record_provenance(stack, CONFIG, focus_range=result.focus_range)
    add_layers(viewer, describe_channel(StackSeries.of_one(stack), 0, parts, record=record))
    return result


def fuse_stack(viewer, images, **space):
    is_color = images.ndim == 4
    layer = viewer.add_image(images, rgb=is_color, name="leaf", contrast_limits=None if is_color else (0, 65535), **space)
    return add_fused(viewer, choose_planes(layer, 0, point=(0,) * layer.ndim), images)


@pytest.mark.parametrize("is_color", [True, False])
def test_paint_and_undo_and_redo_follow_in_the_image_and_the_index(viewer, open_widget, qtbot, is_color):
    images = make_focus_stack(n_images=3, shape=(48, 64), is_color=is_color, dtype=np.uint8 if is_color else np.uint16).images
    result = fuse_stack(viewer, images, scale=(3, 0.5, 0.5), units=("um",) * 3)
    before, decided = result.fused.copy(), result.source_index.copy()
    widget = open_widget()
    assert (widget.result.value.name, widget.source_index.value.name) == ("leaf: fused", "leaf: source map")
    assert widget.start_button.enabled, widget.message.text()
    widget.toggle()
    labels = viewer.layers["retouch"]
    assert not is_index_map(labels)  # Depth in 3-D would take it for one
    fused, index = viewer.layers["leaf: fused"], viewer.layers["leaf: source map"]
    assert (labels.mode, labels.selected_label) == ("paint", 1)
    np.testing.assert_allclose(labels.scale, (0.5, 0.5))

    widget.paint_with.value = 2
    labels.brush_size = 21
    labels.paint((24, 32), labels.selected_label)
    settle(widget, qtbot)
    painted = fused.data.copy()
    np.testing.assert_array_equal(fused.data[20:29, 28:37], images[1][20:29, 28:37])
    assert (index.data[20:29, 28:37] == 1).all()
    assert fused.metadata["qmcif"]["is_retouched"] is True

    labels.undo()
    settle(widget, qtbot)
    np.testing.assert_array_equal(fused.data, before)
    np.testing.assert_array_equal(index.data, decided)
    assert fused.metadata["qmcif"]["is_retouched"] is False

    labels.redo()
    settle(widget, qtbot)
    np.testing.assert_array_equal(fused.data, painted)


def test_strokes_are_taken_back_by_the_button_and_by_label_zero(viewer, open_widget, qtbot, images):
    before = fuse_stack(viewer, images).fused.copy()
    widget = open_widget()
    widget.toggle()
    labels, fused = viewer.layers["retouch"], viewer.layers["leaf: fused"]
    labels.paint((10, 10), 3)
    labels.paint((30, 40), 2)
    settle(widget, qtbot)
    assert (fused.data != before).any()

    widget.paint_with.value = 0
    assert labels.selected_label == 0
    labels.brush_size = 200
    labels.paint((24, 32), labels.selected_label)
    settle(widget, qtbot)
    np.testing.assert_array_equal(fused.data, before)

    labels.paint((10, 10), 3)
    settle(widget, qtbot)
    widget.clear_button.native.click()
    settle(widget, qtbot)
    np.testing.assert_array_equal(fused.data, before)


def test_a_fill_larger_than_one_piece_arrives_piece_by_piece(viewer, open_widget, qtbot, images, monkeypatch):
    from napari_qmcif import retouch_session

    monkeypatch.setattr(retouch_session, "LARGEST_PIECE_PX", 20)
    fuse_stack(viewer, images)
    widget = open_widget()
    widget.toggle()

    viewer.layers["retouch"].fill((5, 5), 3)
    settle(widget, qtbot)

    np.testing.assert_array_equal(viewer.layers["leaf: fused"].data, images[2])


def test_several_layers_are_found_as_sources_and_the_order_of_their_colors_is_that_of_the_labels(viewer, open_widget, qtbot, images):
    layers = [viewer.add_image(image, rgb=True, name=f"frame {number}") for number, image in enumerate(images, start=1)]
    add_fused(viewer, choose_layers(layers), images)
    widget = open_widget()

    widget.toggle()
    assert [widget.paint_with.native.itemText(row) for row in (0, 3)] == ["0: let the engine decide", "3: frame 3"]
    labels = viewer.layers["retouch"]
    labels.paint((24, 32), 3)
    settle(widget, qtbot)

    np.testing.assert_array_equal(viewer.layers["frame 1 + 2: fused"].data[24, 32], images[2][24, 32])
    assert not widget.paint_with.native.itemIcon(1).isNull()
    colors = labels.colormap.color_dict
    assert colors[0][3] == 0
    assert len({tuple(colors[number]) for number in (1, 2, 3)}) == 3
    viewer.add_points(np.zeros((1, 2)))  # layers that come and go change nothing of the choice
    assert widget.paint_with.native.itemText(3) == "3: frame 3"
    labels.selected_label = 9
    assert (labels.selected_label, widget.paint_with.value) == (3, 3)


def test_opacity_follows_the_strokes(viewer, open_widget, qtbot, images):
    opacity = np.arange(100, 103, dtype=np.uint8)[:, None, None, None] * np.ones((3, 48, 64, 1), np.uint8)
    with_opacity = np.concatenate([images, opacity], axis=-1)
    layer = viewer.add_image(with_opacity, rgb=True, name="leaf")
    stack = choose_planes(layer, 0, point=(0, 0, 0))
    result = fuse(list(images), CONFIG, with_maps=True)
    fused = np.dstack([result.fused, (result.source_index + 100).astype(np.uint8)])
    maps = {name: getattr(result, name) for name in MAP_NAMES}
    add_layers(
        viewer,
        describe_channel(
            StackSeries.of_one(stack), 0, {"fused": fused, **maps}, record=record_provenance(stack, CONFIG, focus_range=result.focus_range)
        ),
    )
    widget = open_widget()
    widget.toggle()

    viewer.layers["retouch"].paint((24, 32), 3)
    settle(widget, qtbot)

    np.testing.assert_array_equal(viewer.layers["leaf: fused"].data[24, 32], with_opacity[2, 24, 32])


def test_parts_chosen_by_hand_work_without_a_record(viewer, open_widget, qtbot, images):
    result = fuse(list(images), CONFIG, with_maps=True)
    viewer.add_image(images, rgb=True, name="leaf")
    viewer.add_image(result.source_index, rgb=False, name="which")
    viewer.add_image(result.fused, rgb=True, name="sharp")
    widget = open_widget()
    widget.result.value = viewer.layers["sharp"]
    widget.sources.value = (viewer.layers["leaf"],)
    assert widget.start_button.enabled, widget.message.text()

    widget.toggle()
    viewer.layers["retouch"].paint((24, 32), 3)
    settle(widget, qtbot)

    np.testing.assert_array_equal(viewer.layers["sharp"].data[24, 32], images[2, 24, 32])


def test_what_is_missing_is_said_in_place(viewer, open_widget, images):
    widget = open_widget()
    assert not widget.start_button.enabled
    assert "no fused image is chosen" in widget.message.text()

    viewer.add_image(images, rgb=True, name="leaf")
    widget.sources.value = (viewer.layers["leaf"],)
    assert "no fused image is chosen" in widget.message.text()

    viewer.add_image(images[0], rgb=True, name="sharp")
    assert "no source index is chosen" in widget.message.text()

    viewer.add_image(np.zeros((9, 9), np.uint16), rgb=False, name="which", contrast_limits=(0, 2))
    assert "'which' has (9, 9) pixels and the sources (48, 64)" in widget.message.text()
    assert not widget.start_button.enabled


@pytest.mark.parametrize("name", ["retouch", "leaf: fused", "leaf: source map", "leaf"])
def test_deleting_any_layer_is_safe(viewer, open_widget, qtbot, images, name):
    fuse_stack(viewer, images)
    widget = open_widget()
    widget.toggle()
    viewer.layers["retouch"].paint((24, 32), 3)

    viewer.layers.remove(name)
    settle(widget, qtbot)

    has_ended = name in ("retouch", "leaf: fused")
    assert (widget.session is None) == has_ended
    assert ("was deleted" in widget.message.text()) == has_ended
    if not has_ended:
        viewer.layers["retouch"].paint((10, 10), 2)
        settle(widget, qtbot)
        np.testing.assert_array_equal(viewer.layers["leaf: fused"].data[10, 10], images[1, 10, 10])


def test_stopping_keeps_the_strokes_and_lets_go_of_the_labels(viewer, open_widget, qtbot, images):
    fuse_stack(viewer, images)
    widget = open_widget()
    widget.toggle()
    labels, fused = viewer.layers["retouch"], viewer.layers["leaf: fused"]
    labels.paint((24, 32), 3)
    settle(widget, qtbot)
    after = fused.data.copy()

    widget.toggle()
    labels.paint((10, 10), 2)

    assert (widget.session, widget.start_button.text) == (None, "Start")
    np.testing.assert_array_equal(fused.data, after)


def test_closing_the_widget_ends_the_session(viewer, open_widget, qtbot, images):
    fuse_stack(viewer, images)
    widget = open_widget()
    widget.toggle()
    session = widget.session
    viewer.layers["retouch"].paint((24, 32), 3)

    widget.shut_down()
    qtbot.waitUntil(lambda: not session.is_running)

    assert widget.session is None


def test_a_label_that_stands_for_no_image_is_told_in_the_words_of_the_engine(viewer, open_widget, qtbot, images, monkeypatch):
    told = []
    monkeypatch.setattr(notification_manager, "dispatch", told.append)
    fuse_stack(viewer, images)
    widget = open_widget()
    widget.toggle()

    viewer.layers["retouch"].data_setitem((np.array([5]), np.array([5])), 9)
    settle(widget, qtbot)

    assert "labels from 0 to 9" in widget.message.text()
    assert told == [], "shown once, where one works"


def test_replacing_the_labels_by_others_of_another_size_ends_the_session(viewer, open_widget, images):
    fuse_stack(viewer, images)
    widget = open_widget()
    widget.toggle()

    viewer.layers["retouch"].data = np.zeros((5, 5), np.uint8)

    assert widget.session is None
    assert "another size" in widget.message.text()


def test_strokes_can_be_taken_back_after_stop_and_start(viewer, open_widget, qtbot, images):
    before = fuse_stack(viewer, images).fused.copy()
    widget = open_widget()
    widget.toggle()
    labels, fused, index = viewer.layers["retouch"], viewer.layers["leaf: fused"], viewer.layers["leaf: source map"]
    labels.paint((24, 32), 3)
    settle(widget, qtbot)
    widget.toggle()
    assert fused.metadata["qmcif"]["is_retouched"] is True
    labels.paint((10, 10), 2)  # heeded when it goes on

    widget.toggle()
    settle(widget, qtbot)
    assert widget.source_index.value == index
    assert [layer.name for layer in viewer.layers].count("retouch") == 1
    np.testing.assert_array_equal(fused.data[10, 10], images[1, 10, 10])
    np.testing.assert_array_equal(fused.data[24, 32], images[2, 24, 32])

    labels.undo()
    labels.undo()
    settle(widget, qtbot)
    np.testing.assert_array_equal(fused.data, before)
    assert [layer.metadata["qmcif"]["is_retouched"] for layer in (fused, index)] == [False, False]


def test_strokes_of_a_deleted_layer_come_back_with_the_next_start(viewer, open_widget, qtbot, images):
    before = fuse_stack(viewer, images).fused.copy()
    widget = open_widget()
    widget.toggle()
    viewer.layers["retouch"].paint((24, 32), 3)
    settle(widget, qtbot)
    viewer.layers.remove("retouch")
    assert viewer.layers["leaf: fused"].metadata["qmcif"]["is_retouched"] is True

    widget.toggle()
    widget.clear_button.native.click()
    settle(widget, qtbot)

    np.testing.assert_array_equal(viewer.layers["leaf: fused"].data, before)


def test_a_piece_given_up_by_stop_is_worked_in_by_the_next_start(viewer, open_widget, qtbot, images):
    before = fuse_stack(viewer, images).fused.copy()
    widget = open_widget()
    widget.toggle()
    session = widget.session
    viewer.layers["retouch"].paint((24, 32), 3)
    widget.toggle()  # while the engine is at work
    np.testing.assert_array_equal(viewer.layers["leaf: fused"].data, before)

    widget.toggle()
    settle(widget, qtbot)
    qtbot.waitUntil(lambda: not session.is_running)

    np.testing.assert_array_equal(viewer.layers["leaf: fused"].data[24, 32], images[2, 24, 32])


def test_strokes_are_outlined_tinted_or_hidden(viewer, open_widget, images):
    fuse_stack(viewer, images)
    widget = open_widget()
    widget.toggle()
    labels = viewer.layers["retouch"]

    shown = []
    for widget.strokes.value in ("outlined", "tinted", "hidden"):
        shown.append((labels.contour, labels.opacity))

    assert shown == [(1, 1.0), (0, 0.4), (0, 0.0)]


def test_the_focus_slider_chooses_the_image_to_paint_with(viewer, open_widget, images):
    fuse_stack(viewer, images, scale=(4, 1, 1))
    widget = open_widget()
    widget.toggle()
    viewer.dims.set_current_step(0, 2)
    assert widget.paint_with.value == 1

    widget.follows_slider.value = True
    assert (widget.paint_with.value, viewer.layers["retouch"].selected_label) == (3, 3)
    viewer.dims.set_current_step(0, 1)
    assert viewer.layers["retouch"].selected_label == 2


def test_images_are_named_by_their_files(viewer, open_widget, images, tmp_path):
    for number, image in enumerate(images, start=7):
        write_image(tmp_path / f"shot_{number}.png", image)
    ((lazy, attributes, _),) = open_files([tmp_path])
    layer = viewer.add_image(lazy, **attributes)
    add_fused(viewer, choose_planes(layer, 0, point=(0, 0, 0)), images)
    widget = open_widget()

    names = [widget.paint_with.native.itemText(row) for row in range(4)]

    assert names == ["0: let the engine decide", "1: shot_7.png", "2: shot_8.png", "3: shot_9.png"]


def test_images_that_were_left_out_are_left_out_again(viewer, open_widget, qtbot, images):
    longer = np.concatenate([images[:1], images])
    layer = viewer.add_image(longer, rgb=True, name="leaf", axis_labels=("z", "y", "x"))
    add_fused(viewer, replace(choose_planes(layer, 0, point=(0, 0, 0)), left_out=(0,)), images)
    widget = open_widget()
    widget.toggle()
    assert [name for name, _ in widget._images] == ["0: let the engine decide", "1: z 2", "2: z 3", "3: z 4"]

    viewer.layers["retouch"].paint((24, 32), 3)
    settle(widget, qtbot)

    np.testing.assert_array_equal(viewer.layers["leaf: fused"].data[24, 32], longer[3, 24, 32])
    widget.follows_slider.value = True
    for step, expected in ((2, 2), (0, 2), (1, 1)):
        viewer.dims.set_current_step(0, step)
        assert viewer.layers["retouch"].selected_label == expected


def test_signed_samples_stay_of_their_type(viewer, open_widget, qtbot):
    images = make_focus_stack(n_images=3, shape=(48, 64), is_color=False, dtype=np.uint8).images.astype(np.int16) - 100
    layer = viewer.add_image(images, rgb=False, name="leaf", contrast_limits=(-100, 155))
    stack = choose_planes(layer, 0, point=(0, 0, 0))
    result = fuse(stack.cut_images(), CONFIG, with_maps=True)
    parts = {"fused": stack.restored(result.fused), **{name: getattr(result, name) for name in MAP_NAMES}}
    add_layers(
        viewer,
        describe_channel(StackSeries.of_one(stack), 0, parts, record=record_provenance(stack, CONFIG, focus_range=result.focus_range)),
    )
    widget = open_widget()
    widget.toggle()

    viewer.layers["retouch"].paint((24, 32), 3)
    settle(widget, qtbot)

    fused = viewer.layers["leaf: fused"].data
    assert fused.dtype == np.int16
    np.testing.assert_array_equal(fused[20:29, 28:37], images[2, 20:29, 28:37])


def test_a_result_moved_by_a_file_of_transforms_is_retouched_while_the_file_is_there(viewer, open_widget, qtbot, images, tmp_path):
    moved = np.stack([images[0], np.roll(images[1], 4, axis=1), images[2]])
    matrices, file = (IDENTITY, ((1.0, 0.0, 4.0), *IDENTITY[1:]), IDENTITY), tmp_path / "found.json"
    save_transforms(file, Transforms(matrices=matrices, model=TransformModel.TRANSLATION, image_shape=(48, 64), reference=0))
    layer = viewer.add_image(moved, rgb=True, name="leaf")
    add_fused(viewer, replace(choose_planes(layer, 0, point=(0, 0, 0)), transforms=load_transforms(file), transforms_file=file), images)
    widget = open_widget()
    widget.toggle()

    viewer.layers["retouch"].paint((24, 32), 2)
    settle(widget, qtbot)
    np.testing.assert_array_equal(viewer.layers["leaf: fused"].data[22:27, 30:35], images[1][22:27, 30:35])
    widget.toggle()

    file.unlink()
    widget.check()
    assert "were moved by a file of transforms that is gone; it is needed" in widget.message.text()
    assert not widget.start_button.enabled


def test_every_time_point_of_a_result_is_retouched_by_itself(viewer, open_widget, qtbot, add_time_series):
    scenes = [scene.images for scene in add_time_series(viewer)]
    fused, index = viewer.layers["leaf: fused"], viewer.layers["leaf: source map"]
    before, decided = fused.data.copy(), index.data.copy()
    assert fused.data.shape == (2, 1, 48, 64)
    widget = open_widget()
    assert widget.start_button.enabled, widget.message.text()
    viewer.dims.set_point(0, 1)
    widget.toggle()
    labels = viewer.layers["retouch"]

    labels.brush_size = 21
    labels.paint((1, 0, 24, 32), 2)
    settle(widget, qtbot)
    np.testing.assert_array_equal(fused.data[1, 0, 20:29, 28:37], scenes[1][1, 20:29, 28:37])
    np.testing.assert_array_equal(fused.data[0], before[0])
    assert (index.data[1, 0, 20:29, 28:37] == 1).all()

    viewer.dims.set_point(0, 0)
    labels.paint((0, 0, 24, 32), 3)
    settle(widget, qtbot)
    np.testing.assert_array_equal(fused.data[0, 0, 20:29, 28:37], scenes[0][2, 20:29, 28:37])

    widget.clear_button.native.click()
    settle(widget, qtbot)
    np.testing.assert_array_equal(fused.data, before)
    np.testing.assert_array_equal(index.data, decided)

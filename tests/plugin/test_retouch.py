"""Retouching: a painted pixel is that of the chosen image, and strokes can be undone, taken back, stopped and gone on with."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager

from napari_qmcif import retouch
from napari_qmcif.layers_in import choose_planes
from napari_qmcif.layers_out import color_sources, is_index_map
from napari_qmcif.reader import open_files
from napari_qmcif.retouch import LARGEST_PIECE_PX, RetouchWidget, find_piece, prepare_sources
from qmcif_engine import InvalidImageError, Transforms, fuse, make_focus_stack, save_transforms, write_image
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel

pytestmark = pytest.mark.viewer


@pytest.fixture
def start(viewer, open_page, run):
    """Returns what fuses a stack, opens the page and starts."""

    def begin(images, *, options=(), **look):
        layer = viewer.add_image(images, name="leaf", **{"rgb": images.shape[-1] in (3, 4), **look})
        result = run(viewer, layer, **dict(options))
        page = open_page(RetouchWidget)
        assert page.start_button.enabled, page.message.text()
        page.toggle()
        return SimpleNamespace(fused=result["fused"], index=result["source_index"], labels=viewer.layers["retouch"], page=page)

    return begin


@pytest.mark.parametrize("is_color", [True, False])
def test_paint_and_undo_and_redo_follow_in_the_image_and_the_index(start, wait, is_color):
    images = make_focus_stack(n_images=3, shape=(48, 64), is_color=is_color, dtype=np.uint8 if is_color else np.uint16).images
    on = start(images, scale=(3, 0.5, 0.5), units=("um",) * 3, contrast_limits=None if is_color else (0, 65535))
    before, decided = on.fused.data.copy(), on.index.data.copy()
    assert not is_index_map(on.labels), "Depth in 3-D would take it for one"
    assert (on.labels.mode, on.labels.selected_label) == ("paint", 1)
    np.testing.assert_allclose(on.labels.scale, (0.5, 0.5))

    on.page.paint_with.value = 2
    on.labels.brush_size = 21
    on.labels.paint((24, 32), on.labels.selected_label)
    wait(on.page)
    painted = on.fused.data.copy()
    np.testing.assert_array_equal(painted[20:29, 28:37], images[1][20:29, 28:37])
    assert (on.index.data[20:29, 28:37] == 1).all()
    assert on.fused.metadata["qmcif"]["is_retouched"] is True

    on.labels.undo()
    wait(on.page)
    np.testing.assert_array_equal(on.fused.data, before)
    np.testing.assert_array_equal(on.index.data, decided)
    assert on.fused.metadata["qmcif"]["is_retouched"] is False
    on.labels.redo()
    wait(on.page)
    np.testing.assert_array_equal(on.fused.data, painted)

    on.page.paint_with.value = 0
    on.labels.brush_size = 200
    on.labels.paint((24, 32), on.labels.selected_label)
    wait(on.page)
    np.testing.assert_array_equal(on.fused.data, before)


def test_a_fill_larger_than_one_piece_arrives_piece_by_piece(start, wait, images, monkeypatch):
    monkeypatch.setattr(retouch, "LARGEST_PIECE_PX", 20)
    on = start(images)

    on.labels.fill((5, 5), 3)
    wait(on.page)

    np.testing.assert_array_equal(on.fused.data, images[2])


def test_images_that_are_layers_are_named_and_colored_like_the_labels(viewer, open_page, run, wait, images):
    layers = [viewer.add_image(image, rgb=True, name=f"frame {number}") for number, image in enumerate(images, start=1)]
    run(viewer, *layers)
    page = open_page(RetouchWidget)
    page.toggle()
    labels = viewer.layers["retouch"]
    labels.paint((24, 32), 3)
    wait(page)

    np.testing.assert_array_equal(viewer.layers["frame 1 + 2: fused"].data[24, 32], images[2][24, 32])
    viewer.add_points(np.zeros((1, 2)))  # layers that come and go change nothing of the choice
    assert [page.paint_with.native.itemText(row) for row in (0, 3)] == ["0: let the engine decide", "3: frame 3"]
    assert not page.paint_with.native.itemIcon(1).isNull()
    labels.selected_label = 9
    assert (labels.selected_label, page.paint_with.value) == (3, 3)


@pytest.mark.parametrize("kind", ["opacity", "int16"])
def test_opacity_follows_the_strokes_and_signed_samples_stay_of_their_type(start, wait, images, kind):
    opacity = np.arange(100, 103, dtype=np.uint8)[:, None, None, None] * np.ones((3, 48, 64, 1), np.uint8)
    samples = np.concatenate([images, opacity], axis=-1) if kind == "opacity" else images[..., 1].astype(np.int16) - 100
    on = start(samples, contrast_limits=(-100, 155))

    on.labels.paint((24, 32), 3)
    wait(on.page)

    assert on.fused.data.dtype == samples.dtype
    np.testing.assert_array_equal(on.fused.data[24, 32], samples[2, 24, 32])


def test_parts_chosen_by_hand_work_without_a_record_once_nothing_is_missing(viewer, open_page, wait, images):
    page, result = open_page(RetouchWidget), fuse(list(images))
    assert "no fused image is chosen" in page.message.text()
    viewer.add_image(images, rgb=True, name="leaf")
    viewer.add_image(result.fused, rgb=True, name="sharp")
    page.sources.value = (viewer.layers["leaf"],)
    assert "no source index is chosen" in page.message.text()
    viewer.add_image(np.zeros((9, 9), np.uint16), rgb=False, name="small", contrast_limits=(0, 2))
    assert "'sharp' has shape (48, 64), 'small' (9, 9) and the sources (48, 64)" in page.message.text()
    assert not page.start_button.enabled
    viewer.layers.remove("small")
    viewer.add_image(result.source_index, rgb=False, name="which")
    page.result.value = viewer.layers["sharp"]

    page.toggle()
    viewer.layers["retouch"].paint((24, 32), 3)
    wait(page)

    np.testing.assert_array_equal(viewer.layers["sharp"].data[24, 32], images[2, 24, 32])


@pytest.mark.parametrize("name", ["retouch", "leaf: fused", "leaf: source map", "leaf"])
def test_deleting_any_layer_is_safe(viewer, start, wait, images, name):
    on = start(images)
    on.labels.paint((24, 32), 3)

    viewer.layers.remove(name)
    wait(on.page)

    has_ended = name in ("retouch", "leaf: fused")
    assert (on.page.session is None) == has_ended
    assert ("was deleted" in on.page.message.text()) == has_ended
    if not has_ended:
        on.labels.paint((10, 10), 2)
        wait(on.page)
        np.testing.assert_array_equal(on.fused.data[10, 10], images[1, 10, 10])


def test_strokes_stay_after_stop_and_go_on_with_start(viewer, start, wait, images):
    on = start(images)
    before, session = on.index.data.copy(), on.page.session
    on.labels.paint((24, 32), 3)
    wait(on.page)
    after = on.fused.data.copy()
    on.page.toggle()
    on.labels.paint((10, 10), 2)
    assert (on.page.session, on.page.start_button.text, session.is_running) == (None, "Start", False)
    np.testing.assert_array_equal(on.fused.data, after)

    on.page.toggle()
    wait(on.page)
    assert (on.page.source_index.value, [layer.name for layer in viewer.layers].count("retouch")) == (on.index, 1)
    np.testing.assert_array_equal(on.fused.data[10, 10], images[1, 10, 10])
    np.testing.assert_array_equal(on.fused.data[24, 32], images[2, 24, 32])
    on.labels.undo()
    on.labels.undo()
    wait(on.page)
    np.testing.assert_array_equal(on.index.data, before)
    assert [layer.metadata["qmcif"]["is_retouched"] for layer in (on.fused, on.index)] == [False, False]


def test_strokes_of_a_deleted_layer_come_back_with_the_next_start(viewer, start, wait, images):
    on = start(images)
    before = on.fused.data.copy()
    on.labels.paint((24, 32), 3)
    wait(on.page)
    viewer.layers.remove("retouch")
    assert on.fused.metadata["qmcif"]["is_retouched"] is True

    on.page.toggle()
    on.page.clear_button.native.click()
    wait(on.page)

    np.testing.assert_array_equal(on.fused.data, before)


def test_a_piece_given_up_by_stop_is_worked_in_by_the_next_start(start, wait, images, qtbot):
    on = start(images)
    before, session = on.fused.data.copy(), on.page.session
    on.labels.paint((24, 32), 3)
    on.page.toggle()  # while the engine is at work
    np.testing.assert_array_equal(on.fused.data, before)

    on.page.toggle()
    wait(on.page)
    qtbot.waitUntil(lambda: not session.is_running)

    np.testing.assert_array_equal(on.fused.data[24, 32], images[2, 24, 32])


def test_labels_that_stand_for_no_image_and_of_another_size_are_reported_in_place(start, wait, images, monkeypatch):
    notified = []
    monkeypatch.setattr(notification_manager, "dispatch", notified.append)
    on = start(images)
    on.labels.data_setitem((np.array([5]), np.array([5])), 9)
    wait(on.page)
    assert "labels from 0 to 9" in on.page.message.text()
    assert notified == [], "shown once, where one works"

    on.labels.data = np.zeros((5, 5), np.uint8)
    assert (on.page.session, "another size" in on.page.message.text()) == (None, True)


def test_strokes_are_outlined_tinted_or_hidden(start, images):
    on, shown = start(images), []
    for on.page.strokes.value in ("outlined", "tinted", "hidden"):
        shown.append((on.labels.contour, on.labels.opacity))
    assert shown == [(1, 1.0), (0, 0.4), (0, 0.0)]


def test_the_focus_slider_chooses_the_image_unless_it_was_left_out(viewer, start, wait, images):
    longer = np.concatenate([images[:1], images])
    on = start(longer, options={"leave_out": "1"}, scale=(4, 1, 1), axis_labels=("z", "y", "x"))
    assert [on.page.paint_with.native.itemText(row) for row in range(4)] == ["0: let the engine decide", "1: z 2", "2: z 3", "3: z 4"]
    on.labels.paint((24, 32), 3)
    wait(on.page)
    np.testing.assert_array_equal(on.fused.data[24, 32], longer[3, 24, 32])
    viewer.dims.set_current_step(0, 3)
    assert on.page.paint_with.value == 1, "only where that is wanted"
    on.page.follows_slider.value = True
    for step, expected in ((2, 2), (0, 2), (1, 1), (3, 3)):
        viewer.dims.set_current_step(0, step)
        assert (on.labels.selected_label, on.page.paint_with.value) == (expected, expected)


def test_images_are_named_by_their_files(viewer, start, images, tmp_path):
    for number, image in enumerate(images, start=7):
        write_image(tmp_path / f"shot_{number}.png", image)
    ((lazy, attributes, _),) = open_files([tmp_path])
    attributes.pop("name")

    on = start(lazy, **attributes)

    assert [on.page.paint_with.native.itemText(row) for row in (1, 3)] == ["1: shot_7.png", "3: shot_9.png"]


def test_a_result_moved_by_a_file_of_transforms_is_retouched_while_the_file_is_there(start, wait, images, tmp_path):
    moved = np.stack([images[0], np.roll(images[1], 4, axis=1), images[2]])
    matrices, file = (IDENTITY, ((1.0, 0.0, 4.0), *IDENTITY[1:]), IDENTITY), tmp_path / "found.json"
    save_transforms(file, Transforms(matrices=matrices, model=TransformModel.TRANSLATION, image_shape=(48, 64), reference=0))
    on = start(moved, options={"transforms": file})

    on.labels.paint((24, 32), 2)
    wait(on.page)
    np.testing.assert_array_equal(on.fused.data[22:27, 30:35], images[1][22:27, 30:35])
    on.page.toggle()

    file.unlink()
    on.page.check()
    assert "were moved by a file of transforms that is gone; it is needed" in on.page.message.text()
    assert not on.page.start_button.enabled


def test_every_time_point_of_a_result_is_retouched_by_itself(viewer, start, wait, time_series):
    images = time_series.data
    viewer.dims.set_point(0, 1)
    look = {name: getattr(time_series, name) for name in ("axis_labels", "scale", "units")}
    on = start(images, **look)
    before, decided = on.fused.data.copy(), on.index.data.copy()
    assert before.shape == (2, 1, 48, 64)

    on.labels.brush_size = 21
    on.labels.paint((1, 0, 24, 32), 2)
    wait(on.page)
    np.testing.assert_array_equal(on.fused.data[1, 0, 20:29, 28:37], images[1, 1, 20:29, 28:37])
    np.testing.assert_array_equal(on.fused.data[0], before[0])
    viewer.dims.set_point(0, 0)
    on.labels.paint((0, 0, 24, 32), 3)
    wait(on.page)
    np.testing.assert_array_equal(on.fused.data[0, 0, 20:29, 28:37], images[0, 2, 20:29, 28:37])

    on.page.clear_button.native.click()
    wait(on.page)
    np.testing.assert_array_equal(on.fused.data, before)
    np.testing.assert_array_equal(on.index.data, decided)


def test_what_was_painted_is_found_in_pieces_until_nothing_is_left():
    applied, painted = np.zeros((2, 2, 1, 1100, 1300), np.uint8)
    assert find_piece(painted, applied) is None
    painted[1, 0, 5:9, 7:20] = 2
    assert find_piece(painted, applied) == ((1, 0), (5, 7, 9, 20))
    painted[:], n_pieces = 1, 0
    while (found := find_piece(painted, applied)) is not None:
        (place, window), n_pieces = found, n_pieces + 1
        assert max(window.shape) <= LARGEST_PIECE_PX
        applied[(*place, *window.slices)] = 1
    assert n_pieces == 2 * 9


@pytest.mark.parametrize("n_images", [2, 30])
def test_what_the_engine_decides_is_transparent_and_every_image_has_its_color(n_images):
    colors = color_sources(n_images).color_dict
    assert colors[0][3] == colors[None][3] == 0
    assert len({tuple(np.round(colors[number], 3)) for number in range(1, n_images + 1)}) == n_images


def test_what_does_not_belong_together_or_lies_on_disk_is_refused():
    viewer = ViewerModel()
    stack = choose_planes(viewer.add_image(np.zeros((4, 6, 8), np.uint8), rgb=False), 0)
    flat, several = (viewer.add_image(np.zeros(shape, np.uint8), rgb=False, name="a") for shape in ((6, 8), (2, 6, 8)))
    wide = viewer.add_image(np.zeros((6, 9), np.uint8), rgb=False, name="wide")
    pyramid = viewer.add_image([np.zeros((6, 8)), np.zeros((3, 4))], multiscale=True, rgb=False, name="large")
    for fused, index, words in (
        (flat, None, "no source index is chosen; that of the result is needed: fuse a stack first"),
        (pyramid, flat, "'large' is on disk; .*: run the fusion without a place under Result"),
        (wide, wide, r"'wide' has shape \(6, 9\), 'wide' \(6, 9\) and the sources \(6, 8\)"),
        (several, flat, r"has shape \(2, 6, 8\), 'a' \(6, 8\) and the sources \(6, 8\); the source map and the images of one result"),
    ):
        with pytest.raises(InvalidImageError, match=words):
            prepare_sources(stack, fused=fused, index=index)


def test_the_benchmark_names_every_size_of_stroke(capsys, monkeypatch, qapp):
    script = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "retouch.py"))
    script["main"].__globals__.update(SHAPE=(700, 800), N_REPEATS=1)
    monkeypatch.setattr("sys.argv", ["retouch.py", "--images", "2"])

    script["main"]()

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("stroke")[1].split("px")[0].strip() for line in lines] == ["64 x  64", "256 x 256", "512 x 512"]

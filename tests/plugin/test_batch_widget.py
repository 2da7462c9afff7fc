"""Many stacks are fused from one form; a table says what became of each, and a click opens it."""

import numpy as np
import pytest

from napari_qmcif import batch_widget as module
from napari_qmcif.batch_widget import BatchWidget
from qmcif_engine import PRESETS, fuse, write_image

pytestmark = pytest.mark.viewer


@pytest.fixture
def folder(tmp_path, images):
    for name, chosen in {"a": images, "b": images[:1], "c": images[::-1]}.items():
        (tmp_path / "in" / name).mkdir(parents=True)
        for number, image in enumerate(chosen):
            write_image(tmp_path / "in" / name / f"{number}.png", image)
    return tmp_path


@pytest.fixture
def widget(viewer, folder, qtbot):
    opened = BatchWidget(viewer)
    viewer.window.add_dock_widget(opened)
    opened.form.folder.value, opened.form.results.value, opened.form.preset.value = folder / "in", folder / "out", "fast"
    yield opened
    opened.row.cancel()
    wait_for(opened, qtbot)


def wait_for(widget, qtbot):
    qtbot.waitUntil(lambda: not widget.row.is_running)


def test_every_stack_is_fused_past_one_that_fails(viewer, widget, folder, qtbot, images):
    widget.row.button.native.click()
    wait_for(widget, qtbot)

    assert [(row.name, row.status) for row in widget.rows] == [("a", "fused"), ("b", "failed"), ("c", "fused")]
    assert "at least 2" in widget.rows[1].message
    assert widget.row.message.text() == "2 fused, 1 failed"
    assert widget.table.value["index"] == ("a", "b", "c")
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["a.ome.tif", "a_maps", "c.ome.tif", "c_maps"]

    widget.table.native.cellClicked.emit(0, 1)
    wait_for(widget, qtbot)
    result = fuse(images, PRESETS["fast"])
    np.testing.assert_array_equal(viewer.layers["a"].data, result.fused)
    np.testing.assert_array_equal(viewer.layers["a_maps: source map"].data, result.source_index)
    assert [layer.name for layer in viewer.layers if layer.visible] == ["a"]
    assert viewer.layers.selection.active.name == "a", "not a hidden map"


def test_what_is_there_is_skipped(widget, qtbot):
    for expected in ("fused", "skipped"):
        widget.row.start()
        wait_for(widget, qtbot)
        assert [row.status for row in widget.rows] == [expected, "failed", expected]


def test_cancel_ends_the_batch_and_says_how_far_it_came(widget, qtbot, monkeypatch):
    def cancel(batch, group, job):
        job.cancel()
        job.check_cancelled()

    monkeypatch.setattr(module.Batch, "fuse", cancel)
    widget.row.start()
    wait_for(widget, qtbot)

    assert widget.rows == []
    assert widget.row.message.text() == "3 not begun or interrupted"


def test_a_pattern_names_the_stacks(widget, folder, qtbot, images):
    for number, image in enumerate(images):
        write_image(folder / "in" / f"leaf_{number}.png", image)
    widget.form.pattern.value = "{group}_{frame}.png"

    widget.row.start()
    wait_for(widget, qtbot)

    assert [(row.name, row.status) for row in widget.rows] == [("leaf", "fused")]


def test_a_folder_without_stacks_is_refused(widget, folder):
    (folder / "empty").mkdir()
    widget.form.folder.value = folder / "empty"

    widget.row.start()

    assert "holds no stack" in widget.row.message.text()


def test_nothing_is_fused_before_folders_are_chosen(viewer):
    widget = BatchWidget(viewer)
    viewer.window.add_dock_widget(widget)

    widget.row.start()

    assert "no folder is chosen" in widget.row.message.text()

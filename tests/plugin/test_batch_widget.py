"""What the journey of many stacks leaves open: patterns, cancelling, folders without stacks."""

import pytest

from napari_qmcif import batch_widget as module
from napari_qmcif.batch_widget import BatchWidget
from qmcif_engine import write_image

pytestmark = pytest.mark.viewer


@pytest.fixture
def page(open_page, tmp_path, images):
    for name in ("a", "c"):
        (tmp_path / "in" / name).mkdir(parents=True)
        for number, image in enumerate(images):
            write_image(tmp_path / "in" / name / f"{number}.png", image)
            write_image(tmp_path / "in" / f"leaf_{number}.png", image, overwrite=True)
    page = open_page(BatchWidget)
    page.form.folder.value, page.form.results.value = tmp_path / "in", tmp_path / "out"
    return page


def test_cancel_ends_the_batch_and_says_how_far_it_came(page, wait, monkeypatch):
    def cancel(batch, group, job):
        job.cancel()
        job.check_cancelled()

    monkeypatch.setattr(module.Batch, "fuse", cancel)
    page.row.start()
    wait(page)
    assert (page.rows, page.row.message.text()) == ([], "2 not begun or interrupted")


def test_a_pattern_names_the_stacks_and_maps_are_opened_hidden(viewer, page, wait, tmp_path):
    page.form.pattern.value, page.form.preset.value = "{group}_{frame}.png", "fast"
    page.row.start()
    wait(page)
    assert [(row.name, row.status) for row in page.rows] == [("leaf", "fused")]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["leaf.ome.tif", "leaf_maps"]
    page.table.native.cellClicked.emit(0, 1)
    wait(page)
    assert "leaf_maps: source map" in viewer.layers
    assert [layer.name for layer in viewer.layers if layer.visible] == ["leaf"]
    assert viewer.layers.selection.active.name == "leaf", "not a hidden map"


def test_a_folder_without_stacks_is_refused(page, tmp_path):
    (tmp_path / "empty").mkdir()
    page.form.folder.value = tmp_path / "empty"
    page.row.start()
    assert "holds no stack" in page.row.message.text()

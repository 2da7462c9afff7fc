"""One dock holds everything, fits a small screen, and lets go of the viewer when it is closed."""

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication

from napari_qmcif.dock import PAGES, open_dock, open_page

pytestmark = pytest.mark.viewer


@pytest.fixture
def viewer(make_napari_viewer_proxy):
    return make_napari_viewer_proxy()


@pytest.fixture
def dock(viewer):
    dock = open_dock(viewer)
    yield dock
    dock.shut_down()


def test_every_page_opens_in_the_same_dock(viewer, dock):
    for title in PAGES:
        page = open_page(viewer, title)
        assert page is dock.show_page(title)
        assert dock.tabs.tabText(dock.tabs.currentIndex()) == title
    assert dock.tabs.count() == len(PAGES)


def test_a_page_is_made_when_it_is_first_looked_at(dock):
    assert list(dock._pages) == ["Fuse"]

    dock.tabs.setCurrentIndex(list(PAGES).index("Evaluate"))

    assert list(dock._pages) == ["Fuse", "Evaluate"]
    assert not dock.fusion.run_panel.native.isVisibleTo(dock)


@pytest.mark.parametrize("title", PAGES)
def test_every_page_fits_a_dock_of_300_pixels(dock, title):
    page = dock.show_page(title)
    if title == "Fuse":
        page.settings.expert.expand(animate=False)
        for fold in page.folds.values():
            fold.expand(animate=False)
    QApplication.processEvents()

    assert page.native.minimumSizeHint().width() <= 280, page.native.minimumSizeHint()
    assert dock.minimumSizeHint().height() <= 700


def test_layers_are_followed_until_the_dock_is_closed(viewer, dock):
    viewer.add_image(np.zeros((3, 8, 8), np.uint8), rgb=False, name="a")
    assert [layer.name for layer in dock.fusion.form.layers.choices] == ["a"]

    dock.shut_down()
    viewer.add_image(np.zeros((3, 8, 8), np.uint8), rgb=False, name="b")

    assert [layer.name for layer in dock.fusion.form.layers.choices] == ["a"]


def test_shortcuts_run_preview_and_cancel(viewer, dock, qtbot, images):
    viewer.add_image(images, rgb=True, name="leaf")
    dock.fusion.use_selected_layers()
    run, preview, cancel = dock.shortcuts
    assert [shortcut.key().toString() for shortcut in dock.shortcuts] == ["Ctrl+R", "Ctrl+Shift+R", "Esc"]

    for start, panel in ((run, dock.fusion.run_panel), (preview, dock.fusion.preview)):
        start.activated.emit()
        assert panel.is_running
        cancel.activated.emit()
        qtbot.waitUntil(lambda panel=panel: not panel.is_running)

    assert [layer.name for layer in viewer.layers] == ["leaf"]
    assert all(shortcut.context() == Qt.ShortcutContext.WidgetWithChildrenShortcut for shortcut in dock.shortcuts)

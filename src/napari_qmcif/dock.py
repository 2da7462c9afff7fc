"""The one dock of the plugin: the form that fuses, and a tab for each thing that can be done with a result once there is one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from napari.viewer import Viewer
from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QKeySequence
from qtpy.QtWidgets import QShortcut, QTabWidget, QVBoxLayout, QWidget

from napari_qmcif.form_parts import make_scroll, shrink_boxes
from napari_qmcif.fuse_widget import FuseWidget
from napari_qmcif.layers_out import part_of

PAGES = {
    "Fuse": "fuse_widget:FuseWidget",
    "Retouch": "retouch:RetouchWidget",
    "Compare": "compare:CompareWidget",
    "Evaluate": "evaluate:EvaluateWidget",
    "Depth": "depth_view:DepthView",
    "Batch": "batch_widget:BatchWidget",
}
"""Where each page is made; imported when it is first looked at."""

SMALLEST_WIDTH_PX = 240
DOCK_NAME = "Fuse focus stack (QMCIF focus stacking)"
"""What the Plugins menu calls the dock: the names of widget and plugin in the manifest."""


class FocusDock(QWidget):
    """Tabs of pages, which are made when they are first looked at and scroll where the window is small."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__()
        self._viewer, self._is_docked = napari_viewer, False
        # one may be there under another name: napari's menu and `add_plugin_dock_widget` name it differently
        for dock in _find_docks(napari_viewer):
            napari_viewer.window.remove_dock_widget(dock)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setStyleSheet("QTabBar::tab { padding: 3px 1px; min-width: 0px; }")  # five of them fit into 300 pixels
        self._pages: dict[str, Any] = {}
        for title in PAGES:
            self.tabs.addTab(make_scroll(), title)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2, 2, 2, 2)
        layout.addWidget(self.tabs)
        self.fusion: FuseWidget = self.show_page("Fuse")
        self.tabs.currentChanged.connect(lambda number: self.show_page(list(PAGES)[number]))
        # with the focus in the dock only: elsewhere these keys are napari's
        context = Qt.ShortcutContext.WidgetWithChildrenShortcut
        for keys, act in {"Ctrl+R": self.fusion.run, "Ctrl+Shift+R": self.fusion.preview.toggle, "Esc": self._cancel}.items():
            shortcut = QShortcut(QKeySequence(keys), self)
            shortcut.setContext(context)
            shortcut.activated.connect(act)
        self.setMinimumWidth(SMALLEST_WIDTH_PX)

    def show_page(self, title: str) -> Any:  # noqa: ANN401 - a page
        """Turn to a page and return it."""
        number = list(PAGES).index(title)
        if title not in self._pages:
            module, _, name = PAGES[title].partition(":")
            self._pages[title] = page = getattr(import_module(f"napari_qmcif.{module}"), name)(self._viewer)
            shrink_boxes(page.native)
            # rows stay together at the top of a high dock
            page.native.layout().addStretch()
            scroll: Any = self.tabs.widget(number)
            scroll.setWidget(page.native)
        self.tabs.setTabVisible(number, True)
        self.tabs.setCurrentIndex(number)
        self._show_tabs()
        return self._pages[title]

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - napari's events
        """Follow the layers of the viewer; napari calls this when they change."""
        self._show_tabs()
        for page in self._pages.values():
            page.reset_choices()

    def shut_down(self) -> None:
        """Let go of the viewer."""
        events = self._viewer.layers.events
        # napari connects these to every docked widget, and leaves them connected when it is closed
        for emitter in (events.inserted, events.removed, events.reordered, events.renamed):
            emitter.disconnect(self.reset_choices)
        for page in self._pages.values():
            page.shut_down()
        self._pages = {}

    def changeEvent(self, event: QEvent | None) -> None:
        """Let go of the viewer when the dock is closed: napari then takes the widget out and keeps it, so that no close event comes."""
        super().changeEvent(event)
        if event is not None and event.type() == QEvent.Type.ParentChange:
            was_docked, self._is_docked = self._is_docked, self.parent() is not None
            if was_docked and not self._is_docked:
                self.shut_down()

    def _show_tabs(self) -> None:
        """Show the pages that can do something, and no bar where that is the form alone; fusing many stacks is asked for in the menu."""
        has_result, shown = any(part_of(layer) == "fused" for layer in self._viewer.layers), self.tabs.currentIndex()
        for number, title in enumerate(PAGES):
            can_do_something = title in self._pages if title == "Batch" else has_result
            self.tabs.setTabVisible(number, number in (0, shown) or can_do_something)
        bar: Any = self.tabs.tabBar()
        bar.setVisible(has_result or shown > 0)

    def _cancel(self) -> None:
        self.fusion.row.cancel()
        self.fusion.preview.stop()


def _find_docks(viewer: Viewer) -> list[FocusDock]:
    return [dock for dock in viewer.window.dock_widgets.values() if isinstance(dock, FocusDock)]


def open_page(viewer: Viewer, title: str = "Fuse") -> Any:  # noqa: ANN401 - a page
    """Open the dock, or bring it to the front, and turn to a page."""
    docks = _find_docks(viewer)
    if not docks:
        # not by `add_plugin_dock_widget`: its docks have another name than those of the menu
        docks.append(FocusDock(viewer))
        viewer.window.add_dock_widget(docks[0], name=DOCK_NAME)
    frame: Any = docks[0].parent()
    frame.show()
    frame.raise_()
    return docks[0].show_page(title)


def _make_opener(title: str) -> Callable[[Viewer], None]:
    # npe2 passes the viewer by the annotation of the parameter, which a partial does not have
    def show(viewer: Viewer) -> None:
        open_page(viewer, title)

    return show


# the commands of the manifest
show_retouch, show_comparison, show_evaluation, show_depth_page, show_batch = (_make_opener(title) for title in PAGES if title != "Fuse")

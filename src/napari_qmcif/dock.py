"""The one dock of the plugin: the form that fuses, and a tab for each thing that can be done with a result once there is one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from magicgui.widgets import Container
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtGui import QKeySequence
from qtpy.QtWidgets import QShortcut, QTabWidget, QVBoxLayout, QWidget

from napari_qmcif.form_parts import call_when_closed, make_scroll, shrink_boxes
from napari_qmcif.fuse_widget import FuseWidget
from napari_qmcif.layers_out import part_of

PAGES = {
    "Fuse": "fuse_widget:FuseWidget",
    "Retouch": "retouch_widget:RetouchWidget",
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
        self._viewer = napari_viewer
        _close_others(napari_viewer)
        self.tabs = QTabWidget()
        self._bar: Any = self.tabs.tabBar()
        self.tabs.setDocumentMode(True)
        self.tabs.setStyleSheet("QTabBar::tab { padding: 3px 1px; min-width: 0px; }")  # five of them fit into 300 pixels
        self._pages: dict[str, Any] = {}
        for title in PAGES:
            self.tabs.addTab(make_scroll(), title)
        # fusing many stacks needs none in the viewer, and is asked for in the menu
        self.tabs.setTabVisible(list(PAGES).index("Batch"), False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2, 2, 2, 2)
        layout.addWidget(self.tabs)
        self.fusion: FuseWidget = self.show_page("Fuse")
        self.reset_choices()
        self.tabs.currentChanged.connect(self._on_tab)
        # with the focus in the dock only: elsewhere these keys are napari's
        context = Qt.ShortcutContext.WidgetWithChildrenShortcut
        for keys, act in {"Ctrl+R": self.fusion.run, "Ctrl+Shift+R": self.fusion.preview.toggle, "Esc": self._cancel}.items():
            shortcut = QShortcut(QKeySequence(keys), self)
            shortcut.setContext(context)
            shortcut.activated.connect(act)
        self.setMinimumWidth(SMALLEST_WIDTH_PX)
        call_when_closed(self, self.shut_down)

    def show_page(self, title: str) -> Any:  # noqa: ANN401 - a page
        """Turn to a page and return it."""
        number = list(PAGES).index(title)
        if title not in self._pages:
            module, _, name = PAGES[title].partition(":")
            page: Container[Any] = getattr(import_module(f"napari_qmcif.{module}"), name)(self._viewer)
            self._pages[title] = page
            shrink_boxes(page.native)
            # rows stay together at the top of a high dock
            rows: Any = page.native.layout()
            rows.addStretch()
            scroll: Any = self.tabs.widget(number)
            scroll.setWidget(page.native)
        self.tabs.setTabVisible(number, True)
        self._bar.setVisible(number > 0 or self._has_result())
        self.tabs.setCurrentIndex(number)
        return self._pages[title]

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - napari's events
        """Follow the layers of the viewer; napari calls this when they change."""
        has_result, shown = self._has_result(), self.tabs.currentIndex()
        for number, title in enumerate(PAGES):
            if title not in ("Fuse", "Batch"):
                self.tabs.setTabVisible(number, has_result or number == shown)
        self._bar.setVisible(has_result or shown > 0)
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

    def _has_result(self) -> bool:
        return any(part_of(layer) == "fused" for layer in self._viewer.layers)

    def _on_tab(self, number: int) -> None:
        self.show_page(list(PAGES)[number])

    def _cancel(self) -> None:
        self.fusion.row.cancel()
        self.fusion.preview.stop()


def _find_docks(viewer: Viewer) -> list[FocusDock]:
    return [dock for dock in viewer.window.dock_widgets.values() if isinstance(dock, FocusDock)]


def _close_others(viewer: Viewer) -> None:
    """Close the dock that is there under another name: napari's menu and `add_plugin_dock_widget` name it differently."""
    for dock in _find_docks(viewer):
        viewer.window.remove_dock_widget(dock)


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

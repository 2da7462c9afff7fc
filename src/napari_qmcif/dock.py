"""The one dock of the plugin, with a tab for each thing it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magicgui.widgets.bases import BaseContainerWidget
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtGui import QKeySequence
from qtpy.QtWidgets import QFrame, QScrollArea, QShortcut, QTabWidget, QVBoxLayout, QWidget

from napari_qmcif.batch_widget import BatchWidget
from napari_qmcif.comparing import CompareWidget
from napari_qmcif.depth_view import DepthView
from napari_qmcif.evaluation_widget import EvaluationWidget
from napari_qmcif.form_parts import call_when_closed, calm_wheel, shrink_boxes, tidy_rows
from napari_qmcif.fusion_widget import FusionWidget
from napari_qmcif.retouch_widget import RetouchWidget

PAGES: dict[str, Callable[[Viewer], Any]] = {
    "Fuse": FusionWidget,
    "Retouch": RetouchWidget,
    "Compare": CompareWidget,
    "Evaluate": EvaluationWidget,
    "Depth": DepthView,
    "Batch": BatchWidget,
}
SMALLEST_WIDTH_PX = 240
DOCK_NAME = "Fuse focus stack (QMCIF focus stacking)"
"""What the Plugins menu calls the dock: the names of widget and plugin in the manifest."""


class FocusDock(QWidget):
    """Tabs of pages; a page is made when it is first looked at, and scrolls where the window is small."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__()
        self._viewer = napari_viewer
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setUsesScrollButtons(True)
        self.tabs.setStyleSheet("QTabBar::tab { padding: 3px 1px; min-width: 0px; }")  # six of them fit into 300 pixels
        self._pages: dict[str, Any] = {}
        for title in PAGES:
            self.tabs.addTab(_make_scroll(), title)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2, 2, 2, 2)
        layout.addWidget(self.tabs)
        self.fusion: FusionWidget = self.show_page("Fuse")
        # below the form that scrolls: Run, Cancel and messages are always seen
        layout.addWidget(self.fusion.run_panel.native)
        self.tabs.currentChanged.connect(self._on_tab)
        self._add_shortcuts()
        self.setMinimumWidth(SMALLEST_WIDTH_PX)
        call_when_closed(self, self.shut_down)

    def show_page(self, title: str) -> Any:  # noqa: ANN401 - a page
        """Turn to a page and return it."""
        number = list(PAGES).index(title)
        if title not in self._pages:
            self._pages[title] = page = PAGES[title](self._viewer)
            for form in (page, *page):
                if isinstance(form, BaseContainerWidget) and title != "Fuse":  # that one has arranged itself
                    tidy_rows(form)
            shrink_boxes(page.native)
            calm_wheel(page.native)
            # rows stay together at the top of a high dock
            page.native.layout().addStretch()
            scroll: Any = self.tabs.widget(number)
            scroll.setWidget(page.native)
            # boxes find the viewer once they are in its window
            page.reset_choices()
        self.tabs.setCurrentIndex(number)
        return self._pages[title]

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - napari's events
        """Follow the layers of the viewer; napari calls this when they change."""
        for page in self._pages.values():
            page.reset_choices()

    def shut_down(self) -> None:
        """Stop what runs and let go of the viewer."""
        events = self._viewer.layers.events
        # napari connects these to every docked widget, and leaves them connected when it is closed
        for emitter in (events.inserted, events.removed, events.reordered, events.renamed):
            emitter.disconnect(self.reset_choices)
        for page in self._pages.values():
            page.shut_down()

    def _on_tab(self, number: int) -> None:
        title = list(PAGES)[number]
        self.fusion.run_panel.native.setVisible(title == "Fuse")
        self.show_page(title)

    def _add_shortcuts(self) -> None:
        actions = {"Ctrl+R": self.fusion.run, "Ctrl+Shift+R": self.fusion.preview.toggle, "Esc": self._cancel}
        self.shortcuts = [QShortcut(QKeySequence(keys), self) for keys in actions]
        for shortcut, act in zip(self.shortcuts, actions.values(), strict=True):
            # with the focus in the dock only: elsewhere these keys are napari's
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(act)

    def _cancel(self) -> None:
        self.fusion.run_panel.cancel()
        self.fusion.preview.stop()


def _make_scroll() -> QScrollArea:
    scroll = QScrollArea()
    scroll.setWidgetResizable(True)
    scroll.setFrameShape(QFrame.Shape.NoFrame)
    scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    return scroll


def open_dock(viewer: Viewer) -> FocusDock:
    """Open the dock of a viewer, or bring the one that is there to the front."""
    found = [dock for dock in viewer.window.dock_widgets.values() if isinstance(dock, FocusDock)]
    if not found:
        # not by `add_plugin_dock_widget`: its docks have another name than those of the menu, so that both would open one
        found.append(FocusDock(viewer))
        viewer.window.add_dock_widget(found[0], name=DOCK_NAME)
    frame: Any = found[0].parent()
    frame.show()
    frame.raise_()
    return found[0]


def open_page(viewer: Viewer, title: str) -> Any:  # noqa: ANN401 - a page
    """Open the dock, or bring it to the front, and turn to a page."""
    return open_dock(viewer).show_page(title)


def _make_opener(title: str) -> Callable[[Viewer], None]:
    # npe2 passes the viewer by the annotation of the parameter, which a partial does not have
    def show(viewer: Viewer) -> None:
        open_page(viewer, title)

    return show


# the commands of the manifest
show_retouch, show_comparison, show_evaluation, show_depth_page, show_batch = (_make_opener(title) for title in PAGES if title != "Fuse")

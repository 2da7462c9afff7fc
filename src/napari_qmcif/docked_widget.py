"""Docked widgets that let go of the viewer when a person closes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from napari.viewer import Viewer
from qtpy.QtCore import QEvent
from qtpy.QtWidgets import QWidget


class DockedWidget(QWidget):
    """Follow the layers of a viewer until the widget leaves its dock: that is all napari does when a person closes it."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__()
        self._viewer = viewer
        self._is_docked = False
        self._connections: list[tuple[Any, Callable[..., None]]] = []

    def follow(self, events: Any, callback: Callable[..., None]) -> None:  # noqa: ANN401 - one of napari's emitters
        """Call back on an event of the viewer until the widget is closed."""
        events.connect(callback)
        self._connections.append((events, callback))

    def follow_layers(self, callback: Callable[..., None]) -> None:
        """Call back whenever the list of layers changes."""
        events = self._viewer.layers.events
        for emitter in (events.inserted, events.removed, events.reordered, events.renamed):
            self.follow(emitter, callback)

    def shut_down(self) -> None:
        """Let go of the viewer; a closed widget hears nothing any more."""
        for events, callback in self._connections:
            events.disconnect(callback)
        self._connections.clear()

    def event(self, event: QEvent | None) -> bool:
        """Shut down when the widget is taken out of its dock."""
        if event is not None and event.type() == QEvent.Type.ParentChange:
            if self._is_docked and self.parent() is None:
                self.shut_down()
            self._is_docked = self.parent() is not None
        return super().event(event)

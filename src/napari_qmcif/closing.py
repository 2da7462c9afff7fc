"""Widgets that hear when a person closes them: all that napari does then is to take them out of their dock."""

from __future__ import annotations

from collections.abc import Callable

from qtpy.QtCore import QEvent, QObject
from qtpy.QtWidgets import QWidget


class _Leaving(QObject):
    """Event filter that calls back when its widget loses the parent it had."""

    def __init__(self, widget: QWidget, callback: Callable[[], None]) -> None:
        super().__init__(widget)
        self._callback, self._is_docked = callback, False

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is not None and event.type() == QEvent.Type.ParentChange and isinstance(watched, QWidget):
            if self._is_docked and watched.parent() is None:
                self._callback()
            self._is_docked = watched.parent() is not None
        return False


def call_when_closed(widget: QWidget, callback: Callable[[], None]) -> None:
    """Call back when a widget is taken out of its dock."""
    widget.installEventFilter(_Leaving(widget, callback))

"""Forms that can be scrolled: a turn of the wheel changes no value that the pointer merely passes over."""

from __future__ import annotations

from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtWidgets import QAbstractSlider, QAbstractSpinBox, QComboBox, QScrollBar, QWidget

CAREFUL_KINDS = (QAbstractSpinBox, QComboBox, QAbstractSlider)


class _WheelGuard(QObject):
    """Event filter that leaves the wheel to the form around a box without focus."""

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is None or event.type() != QEvent.Type.Wheel or not isinstance(watched, QWidget) or watched.hasFocus():
            return False
        event.ignore()
        return True


def calm_wheel(form: QWidget) -> None:
    """Make every box of a form heed the wheel only when it has the focus; call it again where boxes were added."""
    guards = form.findChildren(_WheelGuard, options=Qt.FindChildOption.FindDirectChildrenOnly)
    guard = guards[0] if guards else _WheelGuard(form)
    for kind in CAREFUL_KINDS:
        for box in form.findChildren(kind):
            if not isinstance(box, QScrollBar):
                box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
                box.installEventFilter(guard)

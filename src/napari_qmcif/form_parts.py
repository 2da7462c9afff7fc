"""Parts of forms in a narrow dock: rows, folds, messages in place, a calm wheel, and word of being closed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from html import escape
from typing import Any

from magicgui.widgets import Container, Table
from magicgui.widgets.bases import BaseContainerWidget, Widget
from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtWidgets import QAbstractSlider, QAbstractSpinBox, QComboBox, QLabel, QLineEdit, QScrollBar, QVBoxLayout, QWidget
from superqt import QCollapsible

from napari_qmcif.worker import describe_failure

LABEL_PX = 92
BOX_PX = 60
ROW_NAME_PX = 110
"""Room for the names of rows in a table, so that a narrow dock shows its columns too."""

LINK_COLOR = "#4a90d9"
"""Qt's own blue cannot be read in the dark theme; this one can in both."""


def group(*widgets: Widget, layout: str = "horizontal") -> Container[Any]:
    """Return widgets beside each other, or below, that need no labels and no room around them."""
    made: Container[Any] = Container(widgets=widgets, layout=layout, labels=False)
    made.margins = (0, 0, 0, 0)
    return made


def tidy_rows(form: BaseContainerWidget[Any], *, wide: Collection[str] = ()) -> None:
    """Give labels one width and a capital, and let boxes shrink; rows named in `wide` need no label and take the whole width."""
    for widget in form:
        for name in ("label", "text"):  # beside a box, and of a box to tick
            words = getattr(widget, name, None)
            if isinstance(words, str):
                setattr(widget, name, words[:1].upper() + words[1:])
        # private to magicgui, but there is no other way to the label of a row
        labeled = widget._labeled_widget()
        if labeled is None:
            continue
        labeled._label_widget.native.setFixedWidth(LABEL_PX)
        labeled._label_widget.native.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        labeled._label_widget.visible = widget.name not in wide
    shrink_boxes(form.native)


def shrink_boxes(form: QWidget) -> None:
    """Allow every box of a form to be as narrow as a dock may be."""
    for box in form.findChildren(QComboBox):
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        # else a box is as wide as the longest name in it
        box.setMinimumContentsLength(6)
    for kind in (QLineEdit, QAbstractSpinBox):
        for field in form.findChildren(kind):
            # a spin box has a field inside, whose width is its own affair
            if not isinstance(field.parent(), QAbstractSpinBox):
                field.setMinimumWidth(BOX_PX)


def make_table(height_px: int, *, tooltip: str = "") -> Table:
    """Return a table with named rows that is hidden until it has any."""
    table = Table(tooltip=tooltip)
    table.native.setFixedHeight(height_px)
    table.native.verticalHeader().setMaximumWidth(ROW_NAME_PX)
    table.native.verticalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
    table.visible = False
    return table


def make_fold(title: str, content: QWidget) -> QCollapsible:
    """Return a heading that hides its content until it is clicked on."""
    fold = QCollapsible(title, expandedIcon="▾", collapsedIcon="▸")
    # an animation would lay the whole page out anew at every step
    fold.setDuration(0)
    layout: Any = fold.layout()
    layout.setContentsMargins(0, 0, 0, 0)
    fold.setContent(content)
    # superqt gives a closed fold no height, but Tab would still go through its boxes
    fold.toggled.connect(content.setVisible)
    fold.collapse(animate=False)
    content.setVisible(False)
    return fold


def fold_rows(form: BaseContainerWidget[Any], title: str, names: Sequence[str]) -> QCollapsible:
    """Move rows of a form, with their labels, into a fold at the place of the first of them; the form itself stays what it is."""
    layout: Any = form.native.layout()
    rows = [_row_of(form[name]) for name in names]
    place = layout.indexOf(rows[0])
    content = QWidget()
    column = QVBoxLayout(content)
    column.setContentsMargins(6, 0, 0, 0)
    column.setSpacing(2)
    for row in rows:
        column.addWidget(row)
    fold = make_fold(title, content)
    layout.insertWidget(place, fold)
    return fold


def _row_of(widget: Any) -> QWidget:  # noqa: ANN401 - a widget of magicgui
    """Return the row a widget stands in: beside its label, or alone as buttons do."""
    labeled = widget._labeled_widget()
    row: QWidget = widget.native if labeled is None else labeled.native
    return row


CAREFUL_KINDS = (QAbstractSpinBox, QComboBox, QAbstractSlider)


class _WheelGuard(QObject):
    """Event filter that leaves the wheel to the form around a box without focus."""

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is None or event.type() != QEvent.Type.Wheel or not isinstance(watched, QWidget) or watched.hasFocus():
            return False
        # ignored here, it goes on to the area that scrolls
        event.ignore()
        return True


def calm_wheel(form: QWidget) -> None:
    """Make every box of a form heed the wheel only when it has the focus; call it again where boxes were added."""
    guards = form.findChildren(_WheelGuard, options=Qt.FindChildOption.FindDirectChildrenOnly)
    # owned by the form: Qt does not keep filters alive
    guard = guards[0] if guards else _WheelGuard(form)
    for kind in CAREFUL_KINDS:
        for box in form.findChildren(kind):
            # a scroll bar is a slider to Qt
            if not isinstance(box, QScrollBar):
                # by default the wheel itself would give the focus
                box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
                box.installEventFilter(guard)


class _Leaving(QObject):
    """Event filter that calls back when its widget loses the parent it had."""

    def __init__(self, widget: QWidget, callback: Callable[[], None]) -> None:
        super().__init__(widget)
        self._callback, self._is_docked = callback, False

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is not None and event.type() == QEvent.Type.ParentChange and isinstance(watched, QWidget):
            # napari takes a closed widget out of its dock and keeps it: no close event comes
            if self._is_docked and watched.parent() is None:
                self._callback()
            self._is_docked = watched.parent() is not None
        return False


def call_when_closed(widget: QWidget, callback: Callable[[], None]) -> None:
    """Call back when a widget is taken out of its dock."""
    widget.installEventFilter(_Leaving(widget, callback))


class MessageLabel(QLabel):
    """A text that wraps and can be copied; without one it takes no room."""

    def __init__(self) -> None:
        super().__init__()
        self.setWordWrap(True)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
        self.setOpenExternalLinks(True)
        self.say("")

    def say(self, text: str) -> None:
        """Show a text in place of the last one; addresses in it can be followed."""
        link = rf'<a href="\1" style="color: {LINK_COLOR}">\1</a>'
        # names of files may hold < and &
        linked, n_links = re.subn(r"(https?://\S+)", link, escape(text, quote=False))
        self.setTextFormat(Qt.TextFormat.RichText if n_links else Qt.TextFormat.PlainText)
        self.setText(linked if n_links else text)
        self.setVisible(bool(text))

    def complain(self, error: Exception) -> None:
        """Show an error in words."""
        self.say(describe_failure(error))

"""Rows of magicgui forms as a narrow dock needs them: labels of one width, boxes that shrink, and folds for what is seldom wanted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from magicgui.widgets.bases import BaseContainerWidget
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QAbstractSpinBox, QComboBox, QLineEdit, QVBoxLayout, QWidget
from superqt import QCollapsible

LABEL_PX = 92
BOX_PX = 60


def tidy_rows(form: BaseContainerWidget[Any], *, wide: Collection[str] = ()) -> None:
    """Give labels one width and let boxes shrink; rows named in `wide` need no label and take the whole width."""
    for widget in form:
        labeled = widget._labeled_widget()
        if labeled is None:
            continue
        labeled._label_widget.native.setFixedWidth(LABEL_PX)
        labeled._label_widget.native.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        labeled._label_widget.visible = widget.name not in wide
    shrink_boxes(form.native)


def shrink_boxes(form: QWidget) -> None:
    """Let every box of a form be as narrow as a dock may be."""
    for box in form.findChildren(QComboBox):
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        box.setMinimumContentsLength(6)
    for kind in (QLineEdit, QAbstractSpinBox):
        for field in form.findChildren(kind):
            if not isinstance(field.parent(), QAbstractSpinBox):
                field.setMinimumWidth(BOX_PX)


def make_fold(title: str, content: QWidget) -> QCollapsible:
    """Return a heading that hides its content until it is clicked on."""
    fold = QCollapsible(title, expandedIcon="▾", collapsedIcon="▸")
    fold.setDuration(0)
    layout: Any = fold.layout()
    layout.setContentsMargins(0, 0, 0, 0)
    fold.setContent(content)
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

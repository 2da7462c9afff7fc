"""Parts of forms in a narrow dock: choices of layers, folds, tables, bars, messages, a calm wheel, and notice of being closed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from magicgui.widgets import ComboBox, Container, Table
from magicgui.widgets.bases import Widget
from napari.layers import Layer
from napari.utils.theme import get_theme
from napari.viewer import Viewer
from qtpy.QtCore import QEvent, QObject, QRectF, Qt
from qtpy.QtGui import QColor, QPainter, QPaintEvent
from qtpy.QtWidgets import (
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QFrame,
    QLabel,
    QLineEdit,
    QScrollArea,
    QScrollBar,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)
from superqt import QCollapsible

from napari_qmcif.layers_out import find_recording, is_source, part_of
from napari_qmcif.stack_series import list_stacks
from napari_qmcif.worker import describe_failure

BOX_PX = 60
QWIDGETSIZE_MAX = 2**24 - 1
"""Qt's own limit, which its bindings leave out."""

ROW_NAME_PX = 110
"""Room for the names of rows in a table, so that a narrow dock shows its columns too."""

LINK_COLOR = "#4a90d9"
"""Qt's own blue cannot be read in the dark theme; this one can in both."""

Layers = tuple[Layer, ...]


class _SteadyBox(ComboBox):
    """Choice that keeps what was chosen when names or order change: magicgui knows entries by name and loses those that are renamed."""

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - events
        """Offer the present choices; emit a change only where what was chosen is gone."""
        before = self.value
        # for a moment the first entry is chosen, which nobody is to notice
        with self.changed.blocked():
            # emptied first: old entries are found by name, and renamed ones appended at the end
            self.native.clear()
            super().reset_choices()
            if before in self.choices:
                self.value = before
        if self.value != before:
            self.changed.emit(self.value)


class LayerBox(_SteadyBox):
    """Choice of one layer of a viewer, the topmost first."""

    def __init__(self, viewer: Viewer, fits: Callable[[Layer], bool], **options: Any) -> None:  # noqa: ANN401 - magicgui's
        super().__init__(choices=lambda _: [layer for layer in viewer.layers if fits(layer)][::-1], **options)


class OfferedBox(_SteadyBox):
    """Choice out of what is offered at the time, such as the axes of the chosen layer."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - magicgui's
        self._offered: list[tuple[str, Any]] = [("", "")]
        super().__init__(**{**options, "choices": lambda _: self._offered})

    def offer(self, choices: list[tuple[str, Any]], *, first: Any = None) -> None:  # noqa: ANN401 - a value
        """Offer other choices; what was chosen stays chosen where it is still offered, else `first` is."""
        if choices == self._offered:
            return
        self._offered = choices
        self.reset_choices()
        # other layers, other axes: what was chosen of the last ones means nothing here
        if first is not None and first in self.choices:
            self.value = first


class StackBox(_SteadyBox):
    """Choice of the images of one stack: one layer, the channels of a recording, images of one size, or the selected layers.

    The obvious stack is chosen: that of the selected layers, else that of the selected result, else the last visible one. The value is a
    tuple of layers, empty where there is none.
    """

    def __init__(self, viewer: Viewer, **options: Any) -> None:  # noqa: ANN401 - magicgui's
        self._viewer = viewer
        super().__init__(choices=lambda _: self._list() or [("no stack is open", ())], **options)

    def choose_obvious(self, made_from: Layers = ()) -> None:
        """Follow the viewer's layers and their selection; what was chosen stays where nothing else is selected."""
        before = self.value
        self.reset_choices()
        chosen = before if self.value == before else ()
        stacks = [stack for _, stack in self._list() if all(layer.visible for layer in stack)]
        selected = [layer for layer in self._find_selected() if layer.visible]
        if len(selected) == 1 and selected[0] in chosen:
            return
        if len(selected) > 1:
            wanted = [stack for stack in stacks if set(stack) == set(selected)]
        else:
            wanted = sorted((stack for stack in stacks if selected and selected[0] in stack), key=len)
        if not wanted and not chosen:
            wanted = [*stacks, *(stack for stack in stacks if set(stack) == set(made_from))]
        if wanted:
            self.value = wanted[-1]

    def _list(self) -> list[tuple[str, Layers]]:
        layers = [layer for layer in self._viewer.layers if is_source(layer) and part_of(layer) is None]
        return list_stacks(layers, self._find_selected(), recording_of=find_recording)

    def _find_selected(self) -> Layers:
        return tuple(layer for layer in self._viewer.layers if layer in self._viewer.layers.selection and is_source(layer))


def group(*widgets: Widget, layout: str = "horizontal") -> Container[Any]:
    """Return widgets beside each other, or below, that need no labels and no room around them."""
    made: Container[Any] = Container(widgets=widgets, layout=layout, labels=False)
    made.margins = (0, 0, 0, 0)
    return made


def shrink_boxes(form: QWidget) -> None:
    """Allow every box of a form to be as narrow as a dock may be, and let only boxes with the focus heed the wheel."""
    guards = form.findChildren(_WheelGuard, options=Qt.FindChildOption.FindDirectChildrenOnly)
    guard = guards[0] if guards else _WheelGuard(form)  # owned by the form: Qt does not keep filters alive
    for box in form.findChildren(QWidget):
        if isinstance(box, QComboBox):
            box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            # else a box is as wide as the longest name in it
            box.setMinimumContentsLength(6)
        elif isinstance(box, QLineEdit | QAbstractSpinBox) and not isinstance(box.parent(), QAbstractSpinBox):
            # a spin box has a field inside, which takes the width it gets
            box.setMinimumWidth(BOX_PX)
        if isinstance(box, QComboBox | QAbstractSpinBox | QAbstractSlider) and not isinstance(box, QScrollBar):
            # by default the wheel itself would give the focus
            box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            box.installEventFilter(guard)


class _WheelGuard(QObject):
    """Event filter that leaves the wheel to the form around a box without focus."""

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is None or event.type() != QEvent.Type.Wheel or not isinstance(watched, QWidget) or watched.hasFocus():
            return False
        # ignored here, it goes on to the area that scrolls
        event.ignore()
        return True


def make_table(height_px: int, *, tooltip: str = "") -> Table:
    """Return a table with named rows that is hidden until it has any."""
    table = Table(tooltip=tooltip)
    table.native.setFixedHeight(height_px)
    table.native.verticalHeader().setMaximumWidth(ROW_NAME_PX)
    table.native.verticalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
    table.visible = False
    return table


def make_fold(title: str, build: Callable[[], QWidget]) -> QCollapsible:
    """Return a heading that hides its content, which is built when the heading is first clicked on."""
    fold, content = QCollapsible(title, expandedIcon="▾", collapsedIcon="▸"), QWidget()
    QVBoxLayout(content).setContentsMargins(6, 0, 0, 0)
    # an animation would lay the whole page out anew at every step
    fold.setDuration(0)
    layout: Any = fold.layout()
    layout.setContentsMargins(0, 0, 0, 0)
    fold.setContent(content)

    def show(is_open: bool) -> None:
        rows: Any = content.layout()
        if is_open and rows.count() == 0:
            rows.addWidget(build())
            shrink_boxes(content)
        # superqt gives a closed fold no height, but Tab would still go through its boxes
        content.setVisible(is_open)
        # and an open one that of its content before it was built
        content.setMaximumHeight(QWIDGETSIZE_MAX if is_open else 0)

    fold.toggled.connect(show)
    fold.collapse(animate=False)
    content.setVisible(False)
    return fold


def make_scroll(content: QWidget | None = None) -> QScrollArea:
    """Return an area in which a form of the width of the dock scrolls up and down."""
    scroll = QScrollArea()
    scroll.setWidgetResizable(True)
    scroll.setFrameShape(QFrame.Shape.NoFrame)
    scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    if content is not None:
        scroll.setWidget(content)
    return scroll


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


class BarPlot(QWidget):
    """Figures as bars in the colors of the viewer's theme, named and with their values; the longest bar is 1 or the largest figure."""

    ROW_PX, SMALLEST_ROW_PX, LARGEST_HEIGHT_PX = 22, 3, 440
    LABEL_SHARE, FIGURE_SHARE, BAR_SHARE = 0.24, 0.2, 0.55

    def __init__(self) -> None:
        super().__init__()
        self.figures: dict[str, float] = {}
        self._marked: int | None = None
        self._text, self._bar, self._ground = (QColor(name) for name in ("white", "gray", "black"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setVisible(False)

    def show_figures(self, figures: Mapping[str, float], *, theme: str, marked: int | None = None) -> None:
        """Draw other figures, one of them marked; without any take no room, and with many little for each."""
        self.figures, self._marked = dict(figures), marked
        colors = get_theme(theme)
        self._text, self._bar, self._ground = (QColor(color.as_hex()) for color in (colors.text, colors.current, colors.foreground))
        self._row_px = max(self.SMALLEST_ROW_PX, min(self.ROW_PX, self.LARGEST_HEIGHT_PX // max(1, len(figures))))
        self.setFixedHeight(self._row_px * len(figures))
        self.setVisible(bool(figures))
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Draw the bars."""
        painter, alignment = QPainter(self), Qt.AlignmentFlag
        label_px, figure_px = self.width() * self.LABEL_SHARE, self.width() * self.FIGURE_SHARE
        room_px = self.width() - label_px - figure_px
        longest, height = max([1.0, *self.figures.values()]), max(self._row_px, painter.fontMetrics().height())
        for row, (name, figure) in enumerate(self.figures.items()):
            top = row * self._row_px
            bar = QRectF(label_px, top + self._row_px * (1 - self.BAR_SHARE) / 2, room_px, self._row_px * self.BAR_SHARE)
            painter.fillRect(bar, self._ground)
            # some scores can be negative; a bar cannot
            bar.setWidth(room_px * max(figure, 0.0) / longest)
            painter.fillRect(bar, self._text if row == self._marked else self._bar)
            # no room for words: of hundreds of images only the marked one is named
            if self._row_px < painter.fontMetrics().height() and row != self._marked:
                continue
            painter.setPen(self._text)
            place = QRectF(0, top + (self._row_px - height) / 2, label_px - 4, height)
            painter.drawText(place, alignment.AlignVCenter | alignment.AlignLeft, name)
            place = QRectF(label_px + room_px, place.top(), figure_px, height)
            painter.drawText(place, alignment.AlignVCenter | alignment.AlignRight, f"{figure:.3f}")
        # not left to the garbage collector: Qt warns of painters that outlive the paint event
        painter.end()

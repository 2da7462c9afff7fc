"""Parts of forms in a narrow dock: choices of layers, folds, tables, bars, messages, and a wheel that changes no box without focus."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from magicgui.widgets import ComboBox, Container, Table
from magicgui.widgets.bases import Widget
from napari.layers import Layer
from napari.viewer import Viewer
from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtWidgets import (
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QFrame,
    QLabel,
    QLineEdit,
    QProgressBar,
    QScrollArea,
    QScrollBar,
    QVBoxLayout,
    QWidget,
)
from superqt import QCollapsible

from napari_qmcif.layers_in import finest_level
from napari_qmcif.layers_out import find_recording, find_sources, is_source, part_of
from napari_qmcif.worker import describe_failure

BOX_PX = 60
QWIDGETSIZE_MAX = 2**24 - 1
"""Qt's own limit, which its bindings leave out."""

ROW_NAME_PX = 110
"""Room for the names of rows in a table, so that a narrow dock shows its columns too."""

LINK_COLOR = "#4a90d9"
"""Qt's own blue cannot be read in the dark theme; this one can in both."""

BAR_PX, SMALLEST_BAR_PX, LARGEST_PLOT_PX = 20, 3, 440

Layers = tuple[Layer, ...]


class _SteadyBox(ComboBox):
    """Choice that keeps what was chosen when names or order change: magicgui knows entries by name and loses those that are renamed."""

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - events
        """Offer the present choices; emit a change only where what was chosen is gone."""
        before = self.value
        # for a moment the first entry is chosen, which is no change
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

    def choose_sources(self, result: Layer | None) -> None:
        """Choose what a result was made from according to its record, where that is offered."""
        stack = None if result is None else find_sources(result, list(self._viewer.layers))
        if stack is not None and stack.layers in self.choices:
            self.value = stack.layers

    def _list(self) -> list[tuple[str, Layers]]:
        layers = [layer for layer in self._viewer.layers if is_source(layer) and part_of(layer) is None]
        return list_stacks(layers, self._find_selected())

    def _find_selected(self) -> Layers:
        return tuple(layer for layer in self._viewer.layers if layer in self._viewer.layers.selection and is_source(layer))


def list_stacks(sources: Sequence[Any], selected: Layers = ()) -> list[tuple[str, Layers]]:
    """Return what may be fused, by the name that a person reads: single stacks, channels of one recording, visible images of one size.

    Several selected layers are offered as they are. Channels share a recording and a shape.
    """
    found: list[tuple[str, Layers]] = []
    groups: dict[Any, list[Any]] = {}
    for layer in sources:
        shape = tuple(finest_level(layer).shape)
        if layer.ndim > 2:
            found.append((str(layer.name), (layer,)))
            groups.setdefault(("channels", find_recording(layer) or id(layer), shape), []).append(layer)
        elif layer.visible:
            groups.setdefault(("images", layer.rgb, layer.dtype, shape), []).append(layer)
    for key, layers in groups.items():
        # images of one recording are its channels, not its focus positions
        if len(layers) > 1 and (key[0] == "channels" or len({find_recording(layer) for layer in layers} - {()}) != 1):
            *_, height, width = key[-1][: layers[0].ndim]
            common = str(layers[0].name).rpartition(": ")[0] or str(layers[0].name)
            name = f"{len(layers)} images, {width} x {height}" if key[0] == "images" else f"{common}: {len(layers)} channels"
            found.append((name, tuple(layers)))
    if len(selected) > 1 and not any(set(stack) == set(selected) for _, stack in found):
        found.append((f"{len(selected)} selected layers", selected))
    names = [name for name, _ in found]
    repeats = [names[:number].count(name) for number, name in enumerate(names)]
    # a choice is found by its name
    return [(f"{name} ({repeat + 1})" if repeat else name, stack) for (name, stack), repeat in zip(found, repeats, strict=True)]


def group(*widgets: Widget, layout: str = "horizontal", labels: bool = False) -> Container[Any]:
    """Return widgets beside each other, or below, without room around them."""
    made: Container[Any] = Container(widgets=widgets, layout=layout, labels=labels)
    made.margins = (0, 0, 0, 0)
    return made


def shrink_boxes(form: QWidget) -> None:
    """Allow every box of a form to be as narrow as a dock may be, and let only boxes with the focus follow the wheel."""
    guard = _WheelGuard(form)  # owned by the form: Qt does not keep filters alive
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


class MessageLabel(QLabel):
    """A text that wraps and can be copied; without one it takes no room."""

    def __init__(self) -> None:
        super().__init__()
        self.setWordWrap(True)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
        self.setOpenExternalLinks(True)
        self.show_text("")

    def show_text(self, text: str) -> None:
        """Show a text in place of the last one; addresses in it can be followed."""
        link = rf'<a href="\1" style="color: {LINK_COLOR}">\1</a>'
        # names of files may hold < and &
        linked, n_links = re.subn(r"(https?://\S+)", link, escape(text, quote=False))
        self.setTextFormat(Qt.TextFormat.RichText if n_links else Qt.TextFormat.PlainText)
        self.setText(linked if n_links else text)
        self.setVisible(bool(text))

    def show_error(self, error: Exception) -> None:
        """Show an error in words."""
        self.show_text(describe_failure(error))


class BarPlot(QWidget):
    """Figures as bars with their names and values; the longest bar is 1 or the largest figure."""

    def __init__(self) -> None:
        super().__init__()
        self.figures: dict[str, float] = {}
        self._bars: list[QProgressBar] = []
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self.setVisible(False)

    def show_figures(self, figures: Mapping[str, float], *, marked: int | None = None) -> None:
        """Show other figures, one of them marked; without any take no room, and with many little for each."""
        self.figures, column = dict(figures), self.layout()
        for bar in self._bars:
            bar.setParent(None)
        self._bars = [QProgressBar() for _ in figures]
        bar_px = max(SMALLEST_BAR_PX, min(BAR_PX, LARGEST_PLOT_PX // max(1, len(figures))))
        longest = max([1.0, *figures.values()])
        for number, (bar, (name, figure)) in enumerate(zip(self._bars, figures.items(), strict=True)):
            # some scores can be negative; a bar cannot
            bar.setRange(0, 1000)
            bar.setValue(round(1000 * max(figure, 0.0) / longest))
            bar.setFormat(f" {figure:.3f}  {name}{'  ◂' * (number == marked)}")
            # of hundreds of images only the marked one is named
            bar.setTextVisible(bar_px == BAR_PX or number == marked)
            bar.setFixedHeight(BAR_PX if number == marked else bar_px)
            # napari's themes put the text in the middle
            bar.setStyleSheet("text-align: left")
            if column is not None:
                column.addWidget(bar)
        self.setVisible(bool(figures))

"""Figures drawn as bars, in the colors of the viewer's theme."""

from __future__ import annotations

from collections.abc import Mapping

from napari.utils.theme import get_theme
from qtpy.QtCore import QRectF, Qt
from qtpy.QtGui import QColor, QPainter, QPaintEvent
from qtpy.QtWidgets import QSizePolicy, QWidget

ROW_PX = 22
SMALLEST_ROW_PX, LARGEST_HEIGHT_PX = 3, 440
"""Rows lower than a line of text have bars only."""

BAR_SHARE = 0.55
LABEL_SHARE = 0.24
FIGURE_SHARE = 0.2


class BarPlot(QWidget):
    """One bar a figure, its name before and its value behind it; the longest bar is 1 or the largest figure."""

    def __init__(self) -> None:
        super().__init__()
        self._figures: dict[str, float] = {}
        self._marked: int | None = None
        self._row_px = ROW_PX
        self._text, self._bar, self._ground = (QColor(name) for name in ("white", "gray", "black"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.show_figures({})

    @property
    def figures(self) -> dict[str, float]:
        """What is shown."""
        return dict(self._figures)

    def show_figures(self, figures: Mapping[str, float], *, marked: int | None = None) -> None:
        """Draw other figures, one of them marked; without any take no room, and with many little for each."""
        self._figures, self._marked = dict(figures), marked
        self._row_px = max(SMALLEST_ROW_PX, min(ROW_PX, LARGEST_HEIGHT_PX // max(1, len(self._figures))))
        self.setFixedHeight(self._row_px * len(self._figures))
        self.setVisible(bool(self._figures))
        self.update()

    def follow_theme(self, name: str) -> None:
        """Take the colors of one of napari's themes."""
        theme = get_theme(name)
        self.set_colors(text=theme.text.as_hex(), bar=theme.current.as_hex(), ground=theme.foreground.as_hex())

    def set_colors(self, *, text: str, bar: str, ground: str) -> None:
        """Draw in other colors."""
        self._text, self._bar, self._ground = QColor(text), QColor(bar), QColor(ground)
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Draw the bars."""
        painter = QPainter(self)
        label_px, figure_px = self.width() * LABEL_SHARE, self.width() * FIGURE_SHARE
        room_px = self.width() - label_px - figure_px
        longest = max([1.0, *self._figures.values()])
        for row, (name, figure) in enumerate(self._figures.items()):
            top = row * self._row_px
            bar = QRectF(label_px, top + self._row_px * (1 - BAR_SHARE) / 2, room_px, self._row_px * BAR_SHARE)
            painter.fillRect(bar, self._ground)
            # some scores can be negative; a bar cannot
            bar.setWidth(room_px * max(figure, 0.0) / longest)
            painter.fillRect(bar, self._text if row == self._marked else self._bar)
            # no room for words: of hundreds of images only the marked one is named
            if self._row_px < painter.fontMetrics().height() and row != self._marked:
                continue
            painter.setPen(self._text)
            vertical, height = Qt.AlignmentFlag.AlignVCenter, max(self._row_px, painter.fontMetrics().height())
            place = QRectF(0, top + (self._row_px - height) / 2, label_px - 4, height)
            painter.drawText(place, vertical | Qt.AlignmentFlag.AlignLeft, name)
            place = QRectF(label_px + room_px, place.top(), figure_px, height)
            painter.drawText(place, vertical | Qt.AlignmentFlag.AlignRight, f"{figure:.3f}")
        # not left to the garbage collector: Qt warns of painters that outlive the paint event
        painter.end()

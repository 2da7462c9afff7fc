"""Draw a few figures as bars, in the colors of the viewer's theme."""

from __future__ import annotations

from collections.abc import Mapping

from qtpy.QtCore import QRectF, Qt
from qtpy.QtGui import QColor, QPainter, QPaintEvent
from qtpy.QtWidgets import QSizePolicy, QWidget

ROW_PX = 22
BAR_PX = 12
LABEL_SHARE = 0.24
FIGURE_SHARE = 0.2


class BarPlot(QWidget):
    """Show one bar a figure, its name before and its value behind it; the longest bar is 1 or the largest figure."""

    def __init__(self) -> None:
        super().__init__()
        self._figures: dict[str, float] = {}
        self._text, self._bar, self._ground = (QColor(name) for name in ("white", "gray", "black"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.show_figures({})

    @property
    def figures(self) -> dict[str, float]:
        """What is shown."""
        return dict(self._figures)

    def show_figures(self, figures: Mapping[str, float]) -> None:
        """Draw other figures; without any take no room."""
        self._figures = dict(figures)
        self.setFixedHeight(ROW_PX * len(self._figures))
        self.setVisible(bool(self._figures))
        self.update()

    def set_colors(self, *, text: str, bar: str, ground: str) -> None:
        """Follow a theme."""
        self._text, self._bar, self._ground = QColor(text), QColor(bar), QColor(ground)
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Draw the bars."""
        painter = QPainter(self)
        label_px, figure_px = self.width() * LABEL_SHARE, self.width() * FIGURE_SHARE
        room_px = self.width() - label_px - figure_px
        longest = max([1.0, *self._figures.values()])
        for row, (name, figure) in enumerate(self._figures.items()):
            top = row * ROW_PX
            bar = QRectF(label_px, top + (ROW_PX - BAR_PX) / 2, room_px, BAR_PX)
            painter.fillRect(bar, self._ground)
            bar.setWidth(room_px * max(figure, 0.0) / longest)
            painter.fillRect(bar, self._bar)
            painter.setPen(self._text)
            vertical = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(0, top, label_px - 4, ROW_PX), vertical | Qt.AlignmentFlag.AlignLeft, name)
            painter.drawText(QRectF(label_px + room_px, top, figure_px, ROW_PX), vertical | Qt.AlignmentFlag.AlignRight, f"{figure:.3f}")
        painter.end()

"""List figures by their symbols, with what each of them means."""

from __future__ import annotations

from collections.abc import Mapping

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem

ROW_PX = 24
MEANINGS = {
    "Q_MI": "mutual information kept from the sources",
    "Q_G": "gradients kept from the sources",
    "Q_P": "phase congruency kept from the sources",
    "Q_E": "edge-dependent similarity to the sources",
    "Q_Y": "structural similarity to the sources",
    "Q_CB": "contrast kept, as the eye sees it",
    "PSNR": "peak signal-to-noise ratio against the truth",
    "PSNR_inner": "the same without a frame of 8 px",
    "SSIM": "structural similarity of the gray levels to the truth",
    "Q_SSIM": "quaternion structural similarity of the colors to the truth",
}


def is_decibel(symbol: str) -> bool:
    """Say whether a figure is a ratio in decibel rather than a share."""
    return symbol.startswith("PSNR")


class FigureTable(QTableWidget):
    """Show one row a figure, all rows at once; without any take no room."""

    def __init__(self) -> None:
        super().__init__(0, 2)
        self.setHorizontalHeaderLabels(["Metric", "Value"])
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        across, down = self.horizontalHeader(), self.verticalHeader()
        if across is not None and down is not None:
            across.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
            across.setFixedHeight(ROW_PX)
            down.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
            down.setDefaultSectionSize(ROW_PX)
            down.setVisible(False)
        self.show_figures({})

    def show_figures(self, figures: Mapping[str, float]) -> None:
        """Show other figures."""
        self.setRowCount(len(figures))
        for row, (symbol, figure) in enumerate(figures.items()):
            value = QTableWidgetItem(f"{figure:.2f} dB" if is_decibel(symbol) else f"{figure:.4f}")
            value.setTextAlignment(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight)
            for column, item in enumerate((QTableWidgetItem(symbol), value)):
                item.setToolTip(MEANINGS.get(symbol, ""))
                self.setItem(row, column, item)
        self.setFixedHeight(ROW_PX * (len(figures) + 1) + 2 * self.frameWidth())
        self.setVisible(bool(figures))

"""Decide where a result goes: into memory, or onto the disk where it may be larger than that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QFileDialog, QFormLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.opened_files import PYRAMID_SUFFIX
from napari_qmcif.setting_box import CalmComboBox
from qmcif_engine import InvalidImageError

SHARE_OF_FREE_MEMORY = 0.5
"""The rest is for the computation itself and for the viewer."""

MAP_PIXEL_BYTES = 10
"""Source index, base map and detail map of two bytes a pixel, confidence of four."""


class DestinationPanel(QWidget):
    """Ask whether to keep the result in memory or to write it to an OME-Zarr folder, and to which."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._path: Path | None = None
        self.kind_box = CalmComboBox()
        self.kind_box.addItems(["In memory", "OME-Zarr on disk"])
        self.kind_box.setToolTip("Results larger than memory are written tile by tile and opened as a pyramid")
        self.path_button = QPushButton("Choose place …")
        self.path_label = QLabel()
        self.path_label.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        form = QFormLayout()
        form.addRow("Keep", self.kind_box)
        layout.addLayout(form)
        layout.addWidget(self.path_button)
        layout.addWidget(self.path_label)
        self.kind_box.currentIndexChanged.connect(self._show_state)
        self.path_button.clicked.connect(self._ask)
        self._show_state()

    @property
    def is_on_disk(self) -> bool:
        """Whether the result is to be written."""
        return self.kind_box.currentIndex() == 1

    def choose(self, stack: ChosenStack) -> Path | None:
        """Return the folder to write to, or None for memory.

        Raises
        ------
        InvalidImageError
            When the result does not fit into memory, or no place was chosen.
        """
        if self.is_on_disk:
            if self._path is None:
                msg = "no place for the result is chosen; a name is needed: press Choose place under Result"
                raise InvalidImageError(msg)
            return self._path
        needed, free = estimate_bytes(stack), int(psutil.virtual_memory().available * SHARE_OF_FREE_MEMORY)
        if needed > free:
            msg = (
                f"images and result take {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB may be used; a place on disk is needed: "
                "choose OME-Zarr on disk under Result"
            )
            raise InvalidImageError(msg)
        return None

    def set_path(self, path: Path) -> None:
        """Write to this folder; the suffix is added where it is missing."""
        self._path = path if path.name.endswith(PYRAMID_SUFFIX) else path.with_name(path.name + PYRAMID_SUFFIX)
        self._show_state()

    def _ask(self) -> None:
        start, kind = str(self._path or f"fused{PYRAMID_SUFFIX}"), f"OME-Zarr (*{PYRAMID_SUFFIX})"
        name, _ = QFileDialog.getSaveFileName(self, "Write the result to", start, kind)
        if name:
            self.set_path(Path(name))

    def _show_state(self) -> None:
        self.path_button.setVisible(self.is_on_disk)
        self.path_label.setVisible(self.is_on_disk and self._path is not None)
        self.path_label.setText("" if self._path is None else self._path.name)
        self.path_label.setToolTip("" if self._path is None else str(self._path))
        self.changed.emit()


def estimate_bytes(stack: ChosenStack) -> int:
    """Return the memory of what has to be loaded and of the result."""
    height, width = stack.picture_shape
    picture_bytes = height * width * stack.n_channels * stack.dtype.itemsize
    n_lazy = 0 if all(isinstance(array, np.ndarray) for array in stack.arrays) else stack.n_images
    return (n_lazy + 1) * picture_bytes + height * width * MAP_PIXEL_BYTES

"""Where a result goes: into memory, or onto the disk where it may be larger than that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psutil
from magicgui.types import FileDialogMode
from magicgui.widgets import ComboBox, FileEdit
from magicgui.widgets.bases import ValuedContainerWidget

from napari_qmcif.own_outputs import PYRAMID_SUFFIX
from napari_qmcif.preferences import read_preferences
from napari_qmcif.stack_series import StackSeries
from qmcif_engine import InvalidImageError

SHARE_OF_FREE_MEMORY = 0.5
"""The rest is for the computation itself and for the viewer."""

MAP_PIXEL_BYTES = 10
"""Source index, base map and detail map of two bytes per pixel, confidence of four."""

IN_MEMORY, ON_DISK = "in memory", "OME-Zarr on disk"


class Destination(ValuedContainerWidget[Path | None]):
    """Choice between memory and an OME-Zarr folder; its value is the folder, or None for memory."""

    def __init__(self, value: Any = None, **options: Any) -> None:  # noqa: ANN401 - magicgui's
        self.kind_box = ComboBox(choices=[IN_MEMORY, ON_DISK], name="kind")
        self.kind_box.tooltip = "Results larger than memory are written tile by tile and opened as a pyramid"
        self.path_box = FileEdit(mode=FileDialogMode.OPTIONAL_FILE, filter=f"OME-Zarr (*{PYRAMID_SUFFIX})", name="path", nullable=True)
        self.path_box.tooltip = "The folder to write; where none is named, one in the scratch folder of Preferences"
        self.path_box.margins = (0, 0, 0, 0)
        super().__init__(**{**options, "widgets": [self.kind_box, self.path_box], "labels": False, "nullable": True})
        self.margins = (0, 0, 0, 0)
        self.path_box.visible = False
        self.set_value(value if isinstance(value, str | Path) else None)
        self.kind_box.changed.connect(self._tell)
        self.path_box.changed.connect(self._tell)

    @property
    def is_on_disk(self) -> bool:
        """Whether the result is to be written."""
        return bool(self.kind_box.value == ON_DISK)

    def get_value(self) -> Path | None:
        """Return the folder, or None for memory; where none is named yet, an empty path."""
        if not self.is_on_disk:
            return None
        chosen = self.path_box.line_edit.value.strip()
        return Path(chosen).expanduser() if chosen else Path()

    def set_value(self, value: str | Path | None) -> None:
        """Choose a folder, or memory."""
        if value is not None:
            self.path_box.line_edit.value = str(value)
        self.kind_box.value = IN_MEMORY if value is None else ON_DISK
        self.path_box.visible = self.is_on_disk

    def _tell(self) -> None:
        self.path_box.visible = self.is_on_disk
        self.changed.emit(self.get_value())


def settle_target(destination: Path | None, series: StackSeries) -> Path | None:
    """Return the folder to write to, its suffix added, or None for memory.

    Raises
    ------
    InvalidImageError
        When the result does not fit into memory, or no place was chosen.
    """
    if destination is None:
        needed, free = estimate_bytes(series), int(psutil.virtual_memory().available * SHARE_OF_FREE_MEMORY)
        if needed <= free:
            return None
        msg = (
            f"images and result take {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB may be used; a place on disk is needed: "
            f"set Result to {ON_DISK}"
        )
        raise InvalidImageError(msg)
    scratch = read_preferences().scratch_folder
    if destination == Path() and scratch is not None:
        destination = scratch / series.channels[0].title
    if destination == Path():
        msg = "no place for the result is chosen; a name is needed: choose one under Result, or a scratch folder in Preferences"
        raise InvalidImageError(msg)
    name = destination.name.removesuffix(PYRAMID_SUFFIX)
    return destination.with_name(name + PYRAMID_SUFFIX)


def estimate_bytes(series: StackSeries) -> int:
    """Return the memory of what has to be loaded and of the results."""
    stack = series.first
    height, width = stack.picture_shape
    picture_bytes = height * width * stack.n_channels * stack.dtype.itemsize
    n_lazy = 0 if all(isinstance(array, np.ndarray) for array in stack.arrays) else stack.n_images
    n_results = series.n_points * len(series.channels)
    return n_lazy * picture_bytes + n_results * (picture_bytes + height * width * MAP_PIXEL_BYTES)

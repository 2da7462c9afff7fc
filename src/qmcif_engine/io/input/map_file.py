"""A map that was written as TIFF, read back by window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qmcif_engine.io.input.file_stack import show_frames
from qmcif_engine.io.input.frame_source import FramePosition
from qmcif_engine.io.input.segment_cache import SegmentCache
from qmcif_engine.io.tiff.tiff_source import TiffSource

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from qmcif_engine.stack.window import Window


class MapFile:
    """A map that was written as TIFF, with a page for each channel where these were decided on one by one, read by window."""

    def __init__(self, path: Path, *, n_channels: int = 1) -> None:
        # pages of a map are its channels, whatever TIFF would take them for
        axes = "CYX" if n_channels > 1 else None
        cache = SegmentCache()
        source = TiffSource(path, cache=cache, axes=axes)
        self._view = show_frames(
            source, cache, positions=[FramePosition(0, 0)], channels=range(n_channels), has_channel_axis=n_channels > 1
        )
        self.shape: tuple[int, ...] = self._view.image_shape
        self.dtype: np.dtype[Any] = self._view.dtype

    def read(self, window: Window) -> NDArray[Any]:
        """Return the samples of a window."""
        return self._view.read(0, window)

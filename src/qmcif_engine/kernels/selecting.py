"""Pixels taken from one image where a map names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qmcif_engine.arrays import IndexArray


@compiled
def take_pixels(rows: NDArray[np.uint8], index: IndexArray, source: int, pixel_bytes: int, out: NDArray[np.uint8]) -> None:
    """Copy the pixels whose index names this image, run by run; `rows` and `out` are images as bytes, shape (h, w * pixel_bytes)."""
    height, width = index.shape
    for y in range(height):
        x = 0
        while x < width:
            if index[y, x] != source:
                x += 1
                continue
            # whole runs are copied at once: decisions seldom change within a row
            start = x
            while x < width and index[y, x] == source:
                x += 1
            for position in range(start * pixel_bytes, x * pixel_bytes):
                out[y, position] = rows[y, position]

"""Stand-in until the rule lands: means over cells of 16 px."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.stack.window import Window

CELL_PX = 16
MARGIN_PX = 16


def coarsen(block: FloatArray, *, highest: float | None, inner: Window) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means, fine detail and share of clipped samples of the coarse cells of a band."""
    band = block[:, inner.top : inner.bottom, inner.left : inner.right]
    rows, columns = (-(-side // CELL_PX) for side in band.shape[1:])
    pad = ((0, 0), (0, rows * CELL_PX - band.shape[1]), (0, columns * CELL_PX - band.shape[2]))
    cells = np.pad(band, pad, mode="edge").reshape(len(band), rows, CELL_PX, columns, CELL_PX)
    means = cells.mean(axis=(2, 4))
    clipped = np.zeros_like(means[0]) if highest is None else (cells >= highest).mean(axis=(0, 2, 4), dtype=np.float32)
    return means, cells.var(axis=(2, 4)).mean(axis=0), clipped

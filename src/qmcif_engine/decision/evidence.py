"""Stand-in until the rule lands: local variance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.rules import StackStatistics

CELL_PX = 2
REACH_PX = 16


def local_variance(planes: FloatArray) -> FloatArray:
    """Return the variance around each pixel."""
    mean = planes.mean(axis=0, dtype=np.float64)
    low = ndimage.uniform_filter(mean, 9)
    return np.maximum(ndimage.uniform_filter((mean - low) ** 2, 9), 0).astype(np.float32)


def image_evidence(block: FloatArray, _statistics: StackStatistics, _config: FusionConfig) -> FloatArray:
    """Return evidence on cells of 2 px, shape (scales, rows, columns)."""
    level = local_variance(block)[::CELL_PX, ::CELL_PX]
    return np.stack([level, level])

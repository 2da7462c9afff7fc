"""Stand-in until the rule lands: noise of a stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config.fusion_config import StackOrder
from qmcif_engine.rules import StackStatistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.rules import CoarseCopy


def measure_noise(planes: Sequence[FloatArray]) -> float:
    """Return the standard deviation of the noise of some blocks."""
    return float(np.median([np.abs(np.diff(block, axis=-1)).mean() for block in planes if block.shape[-1] > 1] or [0.0]))


def measure_statistics(samples_planes: Sequence[FloatArray], coarse: CoarseCopy, n_images: int, config: FusionConfig) -> StackStatistics:
    """Return the statistics of a stack."""
    is_ordered = n_images > 2 and config.decision.order is StackOrder.ORDERED
    return StackStatistics(n_images=n_images, is_ordered=is_ordered, noise=max(measure_noise(samples_planes), 0.29), coarse=coarse)

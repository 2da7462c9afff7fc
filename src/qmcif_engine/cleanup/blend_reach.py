"""How far blends reach from an edge of the decision map, by the settings alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.cleanup.regularization import SLOPE_FADE_PX, SLOPE_REACH_PX
from qmcif_engine.cleanup.seams import REACH_PX as SEAM_REACH_PX

if TYPE_CHECKING:
    from qmcif_engine.config.fusion_config import DecisionConfig


def reach_of_blend(config: DecisionConfig) -> int:
    """Return how far from a decision edge two images may be mixed; a hard cut has no feather either."""
    # a hard cut
    if not config.blend_radius_px:
        return 0
    # a feather of 1 px is none: its window would be a single pixel
    if config.feather_px < 2:
        return 2 * config.blend_radius_px
    return max(2 * config.blend_radius_px, config.feather_px, SLOPE_REACH_PX + SLOPE_FADE_PX, SEAM_REACH_PX)


def reach_of_feather(config: DecisionConfig) -> int:
    """Return how far from a border brightness is blended: the reach of two means, one after the other, over a window of odd side."""
    # each of the two means has a window of 2 (feather_px // 2) + 1 px
    return config.feather_px // 2 * 2 if config.blend_radius_px else 0

"""Decisions for pixels without evidence of their own.

Not in the paper, and off in the ``paper`` preset. The reach in pixels is bounded, so that a tile with an overlap sees what the whole image
would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.config.stage import Reach, Stage
from qmcif_engine.method.patches import nearest_values

if TYPE_CHECKING:
    from qmcif_engine.arrays import BoolArray, IndexArray


def follow_neighbors(index: IndexArray, is_decided: BoolArray, *, reach_px: int) -> IndexArray:
    """Give undecided pixels the decision of the nearest decided one, as far as the reach; beyond it they keep what `index` says.

    Saturated and textureless areas carry no evidence of their own: what is around them is the best guess.
    """
    # switched off, nothing asked, or nobody to follow
    if reach_px == 0 or is_decided.all() or not is_decided.any():
        return index
    return nearest_values(index, is_decided, ~is_decided, reach_px=reach_px)


FOLLOWING = Stage(
    name="cleanup.fill.follow_neighbors",
    reaches=(Reach(lambda config, _side: config.decision.follow_reach_px, "`follow_reach_px`", adds_up=True),),
    overlap_px=lambda config, _side: config.decision.follow_reach_px,
    acts_far=True,
)

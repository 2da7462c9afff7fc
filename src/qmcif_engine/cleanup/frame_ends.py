"""Ends of aligned frames inside the fused image: decisions leave an image before its frame ends, and blends fade it out up to there.

An aligned image covers only a part of the fused image, and ends along straight lines. If it were chosen up to its last pixel, there
would be nothing to blend with its neighbor beyond that, and the line would show. So where another image has the pixel, an image is chosen
only as far from its end as a narrow blend reaches; that blend ignores the content, and wide ones fade out over the same distance.

None of this is in the paper, whose images all cover the whole field; the ``paper`` preset blends nothing and keeps the ends as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from qmcif_engine.cleanup.blend_reach import reach_of_blend
from qmcif_engine.config.stage import Reach, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, IndexArray
    from qmcif_engine.config.fusion_config import DecisionConfig
    from qmcif_engine.stack.window import Window

LARGEST_REACH_PX = 8
"""How far from its end an image is chosen: far enough to hide a line, and near enough to lose little of what it alone shows sharp."""


def reach_of_ends(config: DecisionConfig) -> int:
    """Return how far from its end an image is chosen, no farther than blends reach anyway; even, and 0 for a hard cut."""
    return min(LARGEST_REACH_PX, reach_of_blend(config)) // 2 * 2


class FrameEnds:
    """What the images of an aligned stack may give to a window, near the ends of their frames.

    Parameters
    ----------
    valid : callable
        Returns which pixels of a window, shape (h, w), an image has. It is asked for `reach_px` more than the window, so that a pixel is
        the same in all windows.
    window : Window
    n_images : int
    shape : tuple of int
        Height and width of the fused image, whose own border is no end of a frame.
    reach_px : int
        How far from an end an image is chosen, and over how many pixels its shares fade out.
    """

    def __init__(
        self, valid: Callable[[int, Window], BoolArray], window: Window, *, n_images: int, shape: tuple[int, int], reach_px: int
    ) -> None:
        self._valid, self._reach_px = valid, reach_px
        # distances up to the reach are exact in the window only if the pixels around it are known
        self._outer = window.grown(reach_px, shape)
        self._inner = window.relative_to(self._outer).slices
        self._is_covered = np.zeros(window.shape, bool)
        for number in range(n_images):
            self._is_covered |= self._depth(number) > reach_px
            # the rest need not be asked
            if self._is_covered.all():
                break

    def choosable(self, number: int) -> BoolArray:
        """Return where an image may be chosen, shape (h, w): wherever it is, if no image lies deep enough inside its frame."""
        depth = self._depth(number)
        return np.asarray((depth > self._reach_px) | ((depth > 0) & ~self._is_covered))

    def fade(self, number: int) -> NDArray[np.float32]:
        """Return by what shares of an image are multiplied, shape (h, w): 0 where it has no pixel, 1 far from its end."""
        return (self._depth(number) / (self._reach_px + 1)).astype(np.float32)

    def find(self, index: IndexArray) -> BoolArray:
        """Return what lies within reach of an edge where the chosen image may not be chosen any further, shape (h, w).

        It looks as far at the map, and at which pixels images have by the reach once more: so far from its end an edge may lie.
        """
        is_end = np.zeros(index.shape, bool)
        for number in np.flatnonzero(np.bincount(index.reshape(-1))):
            # pixels of an image beside one where it may not be chosen
            is_end |= (index == number) & ndimage.maximum_filter(~self.choosable(int(number)), 3)
        return np.asarray(ndimage.maximum_filter(is_end, 2 * self._reach_px + 1))

    def _depth(self, number: int) -> NDArray[np.int32]:
        """Return how far it is to the next pixel that an image lacks, 0 there, and no more than one beyond the reach."""
        is_valid = self._valid(number, self._outer)
        farthest = np.int32(self._reach_px + 1)
        if is_valid.all():  # there is nothing to measure a distance to
            return np.full(self._is_covered.shape, farthest)
        # the distance of rows or columns, whichever is larger, as windows of blends have
        distance: NDArray[np.int32] = ndimage.distance_transform_cdt(is_valid, metric="chessboard")
        return np.minimum(distance[self._inner], farthest)


FRAME_ENDS = Stage(
    name="cleanup.frame_ends.FrameEnds",
    reaches=(
        Reach(
            lambda config, _side: 2 * reach_of_ends(config.decision) + 1 if reach_of_ends(config.decision) else 0,
            "2 `cleanup.frame_ends.LARGEST_REACH_PX` + 1, with the reach of the blend's map where it is less; 0 for a hard cut",
            of="which pixels images have",
        ),
        Reach(
            lambda config, _side: reach_of_ends(config.decision),
            "`LARGEST_REACH_PX` = 8, or that of the blend's map where it is less",
            of="map",
        ),
    ),
)

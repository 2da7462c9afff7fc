"""Places of a scene where results differ most: what a reader should look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from qmcif_engine.arrays import FloatArray

N_PLACES = 2
BORDER_PX = 8
"""Width of the border left out: the dark borders that software left in some data sets would win everywhere."""

# large enough to recognize the place, small enough for a row of methods side by side
_SMALLEST_SIDE_PX, _LARGEST_SIDE_PX = 48, 160
_SHARE_OF_IMAGE = 1 / 8
_SMALLEST_SPREAD = 1e-6
"""Rounding of the running mean leaves less than this where nothing differs; one gray level at one pixel leaves more."""


class Place(NamedTuple):
    """A square window of an image: its upper left corner and its side."""

    row: int
    column: int
    side_px: int

    def cut(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the window of an image, shape (side, side) or (side, side, 3)."""
        return image[self.row : self.row + self.side_px, self.column : self.column + self.side_px]


def find_places(images: Sequence[NDArray[np.uint8]], *, n_places: int = N_PLACES) -> list[Place]:
    """Find the windows with the largest mean spread between the images, the largest first, without overlap.

    Parameters
    ----------
    images : sequence of ndarray of uint8, shape (H, W) or (H, W, 3)
        Two or more of one scene.
    n_places : int
        How many to return at most.

    Returns
    -------
    list of Place
        Fewer where the image has no room for more; none where the images are equal.

    Notes
    -----
    The spread of a pixel is its largest minus its smallest sample over the images, largest over the channels.
    """
    spread = _measure_spread(images)
    shortest = min(spread.shape)
    side = min(shortest, int(np.clip(shortest * _SHARE_OF_IMAGE, _SMALLEST_SIDE_PX, _LARGEST_SIDE_PX)))
    if shortest >= side + 2 * BORDER_PX:
        # zeros in place of the border keep the coordinates of the image
        spread = np.pad(spread[BORDER_PX:-BORDER_PX, BORDER_PX:-BORDER_PX], BORDER_PX)
    means = ndimage.uniform_filter(spread, side, mode="constant")
    before = side // 2
    # only windows that lie in the image, indexed by their upper left corner
    means = means[before : before + spread.shape[0] - side + 1, before : before + spread.shape[1] - side + 1]
    places: list[Place] = []
    while len(places) < n_places and means.max() > _SMALLEST_SPREAD:
        row, column = (int(position) for position in np.unravel_index(np.argmax(means), means.shape))
        places.append(Place(row, column, side))
        # all windows that would overlap this one are out
        means[max(0, row - side + 1) : row + side, max(0, column - side + 1) : column + side] = 0
    return places


def _measure_spread(images: Sequence[NDArray[np.uint8]]) -> FloatArray:
    """Keep running extremes, so that many large images need no more memory than three."""
    low, high = images[0], images[0]
    for image in images[1:]:
        low, high = np.minimum(low, image), np.maximum(high, image)
    spread = (high - low).astype(np.float64)
    return spread.max(axis=2) if spread.ndim == 3 else spread

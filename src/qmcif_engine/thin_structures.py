"""Keep what is thin and long, such as hairs, bristles and fibers, when islands of a decision map are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

if TYPE_CHECKING:
    from qmcif_engine.array_types import IndexArray


def restore_thin_islands(before: IndexArray, after: IndexArray, *, elongation: float) -> IndexArray:
    """Return the map after islands were removed, with the long and thin ones among them put back.

    Parameters
    ----------
    before, after : ndarray of uint16, shape (h, w)
        The map with and without its islands.
    elongation : float
        An island is put back where the square of its bounding box's longer side is at least this many times its area: 1 for a square,
        1.3 for a disc, 5 for a band five times as long as wide. 0 puts none back.

    Returns
    -------
    ndarray of uint16, shape (h, w)
    """
    is_removed = before != after
    if elongation == 0 or not is_removed.any():
        return after
    restored = after.copy()
    for value in np.unique(before[is_removed]):
        labels, _ = ndimage.label(is_removed & (before == value))
        areas = np.bincount(labels.reshape(-1))
        for label, box in enumerate(ndimage.find_objects(labels), start=1):
            longest = max(side.stop - side.start for side in box)
            if longest**2 >= elongation * areas[label]:
                restored[box][labels[box] == label] = value
    return restored

"""The row filters of PNG undone: each byte was stored as its difference to its neighbors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.compiled import compiled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LEFT, _ABOVE, _MEAN, _NEAREST = 1, 2, 3, 4


@compiled
def undo_filters(rows: NDArray[np.uint8], above: NDArray[np.uint8], pixel_bytes: int) -> int:
    """Undo the filters of some rows in place and return how many rows have one that exists; all but damaged ones.

    Parameters
    ----------
    rows : ndarray of uint8, shape (n, 1 + bytes of a row)
        The number of its filter in front of every row.
    above : ndarray of uint8, shape (bytes of a row,)
        The row above the first, zeros for the topmost; replaced by the last.
    pixel_bytes : int
        How far the neighbor to the left is.
    """
    n_rows: int = rows.shape[0]
    n_bytes = rows.shape[1] - 1
    for y in range(n_rows):
        kind = rows[y, 0]
        if kind > _NEAREST:
            return y
        for x in range(n_bytes):
            left = int(rows[y, 1 + x - pixel_bytes]) if x >= pixel_bytes else 0
            up = int(above[x])
            corner = int(above[x - pixel_bytes]) if x >= pixel_bytes else 0
            if kind == _LEFT:
                guess = left
            elif kind == _ABOVE:
                guess = up
            elif kind == _MEAN:
                guess = (left + up) // 2
            elif kind == _NEAREST:
                # the standard's predictor: whichever of the three is nearest to left + up - corner; ties in the order left, up, corner
                to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
                nearer = up if to_up <= to_corner else corner
                guess = left if to_left <= min(to_up, to_corner) else nearer
            else:
                guess = 0
            # sums of bytes wrap around, by the standard
            rows[y, 1 + x] = (int(rows[y, 1 + x]) + guess) & 0xFF
        for x in range(n_bytes):
            above[x] = rows[y, 1 + x]
    return n_rows

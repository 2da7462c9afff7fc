"""Isolated pixels that stand out of everything around them, such as hot and dead pixels of a sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.flat import copy

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray


@compiled
def _range_of_two(above: FloatArray, below: FloatArray, low: FloatArray, high: FloatArray) -> None:
    for x in range(low.size):
        low[x] = min(above[x], below[x])
        high[x] = max(above[x], below[x])


@compiled
def _clip(values: FloatArray, low: FloatArray, high: FloatArray, excess: float, out: FloatArray) -> None:
    """Bring the values to the range of their eight neighbors where they leave it by more than its width and the excess allowed.

    `low` and `high` hold the range of the rows above and below. All but `out` have a pixel more on each side.
    """
    for x in range(out.size):
        least = min(min(min(low[x], low[x + 1]), low[x + 2]), min(values[x], values[x + 2]))
        most = max(max(max(high[x], high[x + 1]), high[x + 2]), max(values[x], values[x + 2]))
        # texture has neighbors that differ as much; a pixel that is alone with its value has not
        allowed = most - least + excess
        value = values[x + 1]
        value = most if value > most + allowed else value
        out[x] = least if value < least - allowed else value


@compiled
def clip_outliers(plane: FloatArray, scratch: FloatArray, out: FloatArray) -> None:
    """Put a plane whose isolated outliers are brought to the range of their eight neighbors into `out`; border pixels are copied.

    Parameters
    ----------
    plane : ndarray of float, shape (h, w)
    scratch : ndarray of float, shape (3, w)
        Its last row holds, in the first entry, by how much a pixel may leave the range of its neighbors beyond the width of that range.
    out : ndarray of float, shape (h, w)
    """
    h, w = plane.shape
    for y in range(h):
        copy(plane[y], out[y])
        if 0 < y < h - 1 and w > 2:
            _range_of_two(plane[y - 1], plane[y + 1], scratch[0], scratch[1])
            _clip(plane[y], scratch[0], scratch[1], scratch[2, 0], out[y][1 : w - 1])

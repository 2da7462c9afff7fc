"""Isolated pixels that stand out of everything around them, such as hot and dead pixels of a sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from qmcif_engine.kernels.array_types import FloatArray


@compiled
def _widen(low: FloatArray, high: FloatArray, values: FloatArray) -> None:
    for x in range(low.size):
        low[x] = min(low[x], values[x])
        high[x] = max(high[x], values[x])


@compiled
def _clip(values: FloatArray, low: FloatArray, high: FloatArray, excess: FloatArray, out: FloatArray) -> None:
    """Bring the values to the range of their neighbors where they leave it by more than its width and the excess allowed."""
    for x in range(out.size):
        allowed = high[x] - low[x] + excess[0]
        value = values[x]
        value = high[x] if value > high[x] + allowed else value
        out[x] = low[x] if value < low[x] - allowed else value


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
    low, high, excess = scratch[0], scratch[1], scratch[2]
    for y in range(h):
        out[y] = plane[y]
        if y == 0 or y == h - 1 or w < 3:
            continue
        inner_low, inner_high = low[1 : w - 1], high[1 : w - 1]
        inner_low[:] = plane[y - 1, 1 : w - 1]
        inner_high[:] = plane[y - 1, 1 : w - 1]
        _widen(inner_low, inner_high, plane[y + 1][1 : w - 1])
        for row in range(y - 1, y + 2):
            _widen(inner_low, inner_high, plane[row][: w - 2])
            _widen(inner_low, inner_high, plane[row][2:])
        _clip(plane[y][1 : w - 1], inner_low, inner_high, excess, out[y][1 : w - 1])

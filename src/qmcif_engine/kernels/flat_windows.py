"""Sums over the square window around each pixel of a flat picture (`qmcif_engine.kernels.cells`).

All are short sums in a fixed order, not running ones: what lies outside a window does not even change the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from qmcif_engine.kernels.array_types import FloatArray


@compiled
def _add_three(a: FloatArray, b: FloatArray, c: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = (a[x] + c[x]) + b[x]


@compiled
def _add_four(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = (a[x] + b[x]) + (c[x] + d[x])


@compiled
def _add_five(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray, e: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = ((a[x] + e[x]) + (b[x] + d[x])) + c[x]


@compiled
def sum_three(values: FloatArray, width: int, rows: FloatArray, out: FloatArray) -> None:
    """Sum over windows of 3 x 3 pixels, where they fit; `rows` is a buffer."""
    n = values.size
    _add_three(values, values[width:], values[2 * width :], rows[width : n - width])
    inner = rows[width:]
    _add_three(inner, inner[1:], inner[2:], out[width + 1 : n - width - 1])


@compiled
def sum_five(values: FloatArray, width: int, rows: FloatArray, out: FloatArray) -> None:
    """Sum over windows of 5 x 5 pixels, where they fit; `rows` is a buffer."""
    n, skipped = values.size, 2 * width
    _add_five(values, values[width:], values[2 * width :], values[3 * width :], values[4 * width :], rows[skipped : n - skipped])
    inner = rows[skipped:]
    _add_five(inner, inner[1:], inner[2:], inner[3:], inner[4:], out[skipped + 2 : n - skipped - 2])


@compiled
def _sum_along(values: FloatArray, step: int, fours: FloatArray, out: FloatArray) -> None:
    """Sum 17 pixels that lie `step` apart, from each on: four fours and one."""
    _add_four(values, values[step:], values[2 * step :], values[3 * step :], fours[: values.size - 3 * step])
    _add_five(fours, fours[4 * step :], fours[8 * step :], fours[12 * step :], values[16 * step :], out)


@compiled
def sum_seventeen(values: FloatArray, width: int, buffers: FloatArray, out: FloatArray) -> None:
    """Sum over windows of 17 x 17 pixels, where they fit; `buffers` have shape (2, n)."""
    n, skipped = values.size, 8 * width
    rows = buffers[1][: n - 2 * skipped]
    _sum_along(values, width, buffers[0], rows)
    _sum_along(rows, 1, buffers[0], out[skipped + 8 : n - skipped - 8])

"""Arithmetic of flat images (`qmcif_engine.kernels.cells`): powers, choices, and sums over the square window around each pixel.

All sums are short ones in a fixed order, not running ones: what lies outside a window does not even change the last bit. Values are read
before they are chosen from, and few arrays are written at once; otherwise the compiler makes no vectors of the loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray


@compiled
def fill(values: FloatArray, number: float | np.floating[Any]) -> None:
    """Set all values."""
    for x in range(values.size):
        values[x] = number


@compiled
def copy(values: NDArray[Any], out: NDArray[Any]) -> None:
    """Copy the first values; an assignment of arrays would do the same, but takes the compiler a second for its error message."""
    for x in range(out.size):
        out[x] = values[x]


@compiled
def choose(is_first: BoolArray, first: FloatArray, second: FloatArray, out: FloatArray) -> None:
    """Take each value from the first or the second image."""
    for x in range(out.size):
        # both are read whatever the choice, so that the loop has no branch
        one, other = first[x], second[x]
        out[x] = one if is_first[x] else other


@compiled
def take_where_less(values: FloatArray, least: FloatArray, source: FloatArray, out: FloatArray) -> None:
    """Replace what is in `out` where a value is less than the least so far."""
    for x in range(out.size):
        new, old = source[x], out[x]
        out[x] = new if values[x] < least[x] else old


@compiled
def take_least(values: FloatArray, least: FloatArray) -> None:
    """Keep the least of what was seen."""
    for x in range(least.size):
        least[x] = min(least[x], values[x])


@compiled
def _add_squares(
    a: FloatArray, b: FloatArray, c: FloatArray, other_a: FloatArray, other_b: FloatArray, other_c: FloatArray, out: FloatArray
) -> None:
    for x in range(out.size):
        first, second, third = a[x] - other_a[x], b[x] - other_b[x], c[x] - other_c[x]
        out[x] = (first * first + second * second) + third * third


@compiled
def measure_difference(planes: FloatArray, others: FloatArray, skipped: int, out: FloatArray) -> None:
    """Put the squared distance of two colors at each pixel, from one on, into `out`; the planes have shape (3, n)."""
    _add_squares(
        planes[0][skipped:], planes[1][skipped:], planes[2][skipped:], others[0][skipped:], others[1][skipped:], others[2][skipped:], out
    )


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
    # three rows, then three columns; the result belongs to the pixel in the middle
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
    # sums of four are formed once and used four times, seven additions in place of sixteen
    _add_four(values, values[step:], values[2 * step :], values[3 * step :], fours[: values.size - 3 * step])
    _add_five(fours, fours[4 * step :], fours[8 * step :], fours[12 * step :], values[16 * step :], out)


@compiled
def sum_seventeen(values: FloatArray, width: int, fours: FloatArray, rows: FloatArray, out: FloatArray) -> None:
    """Sum over windows of 17 x 17 pixels, where they fit; `fours` and `rows` are buffers."""
    n, skipped = values.size, 8 * width
    tall = rows[: n - 2 * skipped]
    _sum_along(values, width, fours, tall)
    _sum_along(tall, 1, fours, out[skipped + 8 : n - skipped - 8])

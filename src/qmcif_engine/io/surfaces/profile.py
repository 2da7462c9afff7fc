"""Heights along a straight line, as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from scipy import ndimage

from qmcif_engine.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qmcif_engine.io.surfaces.height_file import HeightGrid


def cut_profile(grid: HeightGrid, line: Sequence[float]) -> NDArray[np.float64]:
    """Return distance, column, row and height of points about a pixel apart, shape (points, 4).

    Heights between pixels are interpolated linearly.

    Parameters
    ----------
    grid : HeightGrid
        Not thinned out.
    line : sequence of four floats
        Column and row of its start, then of its end, in pixels.

    Raises
    ------
    InvalidConfigError
        For a line that leaves the image or has no length.
    """
    height, width = grid.heights.shape
    left, top, right, bottom = (float(value) for value in line)
    is_inside = all(0 <= x <= width - 1 for x in (left, right)) and all(0 <= y <= height - 1 for y in (top, bottom))
    length_px = math.hypot(right - left, bottom - top)
    if not is_inside or length_px == 0:
        msg = (
            f"the line {left:g},{top:g} to {right:g},{bottom:g} was given; two different points within columns 0 to {width - 1} and "
            f"rows 0 to {height - 1} are needed: correct it"
        )
        raise InvalidConfigError(msg)
    share = np.linspace(0, 1, math.ceil(length_px) + 1)
    columns, rows = left + share * (right - left), top + share * (bottom - top)
    heights = ndimage.map_coordinates(grid.heights.astype(np.float64), [rows, columns], order=1, mode="nearest")
    # in the unit of a pixel's size, whose sides may differ
    distance = share * math.hypot((right - left) * grid.pixel_size[1], (bottom - top) * grid.pixel_size[0])
    return np.stack([distance, columns, rows, heights], axis=1)


def write_profile(stream: BinaryIO, profile: NDArray[np.float64], unit: str | None) -> None:
    """Write a profile as CSV with one line of headings."""
    unit_text = f" ({unit})" if unit else ""
    lines = [f"distance{unit_text},column (px),row (px),height{unit_text}"]
    lines += [",".join(f"{value:.9g}" for value in point) for point in profile.tolist()]
    stream.write(("\n".join(lines) + "\n").encode("ascii"))

"""Smoothing of a height map that crosses neither its steps nor the edges of the image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray


@compiled
def smooth_heights(
    heights: NDArray[np.float32],
    weights: NDArray[np.float32],
    guide: NDArray[np.float32],
    scales: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Put the mean of the heights around each pixel into `out`, which is smaller by the radius on every side.

    A neighbor counts by its weight, less the more its guide differs and nothing at all where its height differs by `scales[0]`;
    `scales[1]` is the difference of the guide at which it counts half.
    """
    radius = (heights.shape[0] - out.shape[0]) // 2
    largest, contrast = scales
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            height, tone = heights[y + radius, x + radius], guide[y + radius, x + radius]
            total, shift = np.float32(0), np.float32(0)
            for row in range(y, y + 2 * radius + 1):
                for column in range(x, x + 2 * radius + 1):
                    difference = heights[row, column] - height
                    # falls to 0 at a step of the surface, so that nothing is averaged across it
                    likeness = np.float32(1) - (difference / largest) ** 2
                    if likeness > 0:
                        step = (guide[row, column] - tone) / contrast
                        weight = weights[row, column] * likeness * likeness / (np.float32(1) + step * step)
                        total += weight
                        shift += weight * difference
            # differences, not heights, are averaged: rounding is that of small numbers
            out[y, x] = height + shift / total

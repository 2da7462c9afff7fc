"""Comparison of large images with the truth: error, structure, and structure in color."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from qmcif_engine.metrics.local_moments import relate_moments
from qmcif_engine.metrics.truth import CONSTANTS, WINDOW, convert_to_decibels, sum_color_similarity
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.metrics.by_block.block_run import BlockRun
    from qmcif_engine.metrics.by_block.scratch_levels import ScratchLevels

ROWS_A_CHUNK, COLUMNS_A_CHUNK = 256, 1024
"""Few rows, because dask keeps a row of chunks for the windows that reach into the next one."""

N_PASSES = 3


def score_against_truth(
    colors: Sequence[ScratchLevels], grays: Sequence[ScratchLevels], run: BlockRun, *, border_px: int
) -> dict[str, float]:
    """Measure all that the truth tells, as `qmcif_engine.metrics.truth` does.

    Parameters
    ----------
    colors, grays : sequence of two ScratchLevels, shape (H, W) or (H, W, 3), and (H, W)
        The fused image and the truth.
    run : BlockRun
    border_px : int
        Width of the border left out of the second signal-to-noise ratio.
    """
    shape = (colors[0].shape[0], colors[0].shape[1])
    # a border that would leave nothing is not left out
    inside = slice(border_px, -border_px) if 0 < 2 * border_px < min(shape) else slice(None)
    # squares of 8-bit differences fit 32 bits; their sum over a large image needs 64
    difference = _open(colors[0]).astype(np.int32) - _open(colors[1]).astype(np.int32)
    squared = difference**2
    inner = squared[inside, inside]
    # both sums in one pass over the images
    errors = run.compute("truth", *(part.sum(dtype=np.int64, split_every=4) for part in (squared, inner)))
    similarity = _compare_grays(*(_open(gray).astype(np.float64) for gray in grays))
    (structure,) = run.compute("truth", similarity.sum(split_every=4))
    color, n_windows = run.add_up("truth", partial(_compare_colors, colors), shape)
    return {
        "signal_to_noise_db": convert_to_decibels(int(errors[0]), n_samples=squared.size),
        "inner_signal_to_noise_db": convert_to_decibels(int(errors[1]), n_samples=inner.size),
        "truth_similarity": float(structure / similarity.size),
        "truth_quaternion_similarity": float(color / n_windows),
    }


def _open(levels: ScratchLevels) -> da.Array:
    chunks = (ROWS_A_CHUNK, COLUMNS_A_CHUNK, *levels.shape[2:])
    opened: da.Array = da.from_array(levels, chunks=chunks, name=False, meta=np.empty((0,) * levels.ndim, np.uint8))
    return opened


def _compare_grays(first: da.Array, second: da.Array) -> da.Array:
    """Return the structural similarity of every complete window, which the Gaussian filter of dask-image averages over."""
    from dask_image.ndfilters import gaussian_filter

    reach = WINDOW.side // 2
    means = [
        # `truncate` so that the filter ends exactly where the window does
        gaussian_filter(plane, WINDOW.sigma, mode="constant", truncate=reach / WINDOW.sigma)
        for plane in (first, second, first * first, second * second, first * second)
    ]
    # the border, where the filter saw padding, is cut off: complete windows only
    similarity: da.Array = da.map_blocks(_relate_means, *means, dtype=np.float64)[reach:-reach, reach:-reach]
    return similarity


def _relate_means(*means: Any) -> FloatArray:  # noqa: ANN401 - blocks of five arrays
    first, second, power_first, power_second, product = means
    variances = np.maximum(power_first - first * first, 0.0), np.maximum(power_second - second * second, 0.0)
    return relate_moments((first, second), variances, product - first * second, constants=CONSTANTS)


def _compare_colors(colors: Sequence[ScratchLevels], block: Window) -> tuple[float, int]:
    """Return the sum of the color similarities of the windows that begin in a block, and how many there are."""
    height, width = colors[0].shape[:2]
    near = Window(block.top, block.left, min(block.bottom + WINDOW.side - 1, height), min(block.right + WINDOW.side - 1, width))
    return sum_color_similarity(*(color[near.slices] for color in colors)) if min(near.shape) >= WINDOW.side else (0.0, 0)

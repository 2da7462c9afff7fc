"""Q_MI, Q_G, Q_E and Q_Y of large images: local, so that their blocks add up to the values of the whole image."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from qmcif_engine.metrics.edge_similarity import WINDOW as EDGE_WINDOW
from qmcif_engine.metrics.edge_similarity import combine_indices, sum_similarities
from qmcif_engine.metrics.gradient import combine_slopes, sum_kept_edges
from qmcif_engine.metrics.levels import tabulate_stretching
from qmcif_engine.metrics.mutual_information import N_LEVELS, count_joint_levels, rate_joint_levels
from qmcif_engine.metrics.structural_similarity import WINDOW as SIMILARITY_WINDOW
from qmcif_engine.metrics.structural_similarity import sum_rates
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.metrics.by_block.block_run import BlockRun
    from qmcif_engine.metrics.by_block.scratch_levels import ScratchLevels
    from qmcif_engine.metrics.levels import Levels

GRADIENT_CHUNK_PX = 1024


def score_windows(images: Sequence[ScratchLevels], run: BlockRun) -> tuple[dict[str, float], list[Levels]]:
    """Measure Q_MI, Q_E and Q_Y in one pass, in which each block looks at one window of every image.

    Parameters
    ----------
    images : sequence of ScratchLevels, shape (H, W)
        Gray levels of the sources and, last, of the fused image.
    run : BlockRun

    Returns
    -------
    figures : dict
    tables : list of ndarray of uint8, shape (256,)
        What each level of each image becomes when the image is stretched to the whole range.
    """
    shape = (images[0].shape[0], images[0].shape[1])
    indices, rate, count, joints = run.add_up("edge_similarity", partial(_measure_windows, images), shape)
    tables = [_tabulate(joint.sum(axis=1)) for joint in joints]
    # all joint histograms have the same fused image along their columns
    tables.append(_tabulate(joints[0].sum(axis=0)))
    figures = {
        "mutual_information": rate_joint_levels([_stretch(joint, table, tables[-1]) for joint, table in zip(joints, tables, strict=False)]),
        "edge_similarity": combine_indices(indices),
        "structural_similarity": float(rate / count),
    }
    return figures, tables


def _measure_windows(images: Sequence[ScratchLevels], block: Window) -> tuple[FloatArray, float, int, NDArray[np.int64]]:
    """Return the sums of Q_E, the sum and the number of the rates of Q_Y, and the pairs of levels, for windows that begin in a block."""
    height, width = images[0].shape[:2]

    def reaching(side: int) -> Window:
        # a window belongs to the block it begins in, so that each is counted once
        return Window(block.top, block.left, min(block.bottom + side - 1, height), min(block.right + side - 1, width))

    indices: FloatArray = np.zeros((2, 2))
    rate, count = 0.0, 0
    near = reaching(EDGE_WINDOW.side)
    # a sliver at the far border holds no complete window
    if min(near.shape) >= EDGE_WINDOW.side:
        # edges need one neighbor on every side, which exists except at the border of the image
        *sources, fused = (image.read_padded(near, margin=1) for image in images)
        indices = sum_similarities(sources, fused)
    near = reaching(SIMILARITY_WINDOW.side)
    if min(near.shape) >= SIMILARITY_WINDOW.side:
        *sources, fused = (image[near.slices] for image in images)
        rate, count = sum_rates(sources, fused)
    # levels are counted pixel by pixel: no overlap here
    *sources, fused = (image[block.slices] for image in images)
    return indices, rate, count, np.stack([count_joint_levels(source, fused) for source in sources])


def _tabulate(counts: NDArray[np.int64]) -> Levels:
    present = np.flatnonzero(counts)
    return tabulate_stretching(int(present[0]), int(present[-1]))


def _stretch(joint: NDArray[np.int64], of_source: Levels, of_fused: Levels) -> FloatArray:
    """Return the share of pixels with each pair of stretched levels from the number of those with each pair of levels."""
    stretched = np.zeros((N_LEVELS, N_LEVELS))
    # levels beyond the extremes all become 0 or 255: assigning in place of adding would overwrite real counts with their zeros
    np.add.at(stretched, (of_source[:, np.newaxis], of_fused[np.newaxis]), joint)
    shares: FloatArray = stretched / joint.sum()
    return shares


def score_gradient(images: Sequence[ScratchLevels], run: BlockRun) -> float:
    """Measure Q_G with the Sobel operator of dask-image, one source after the other, so that memory does not grow with their number."""
    *sources, fused = images
    slopes_fused = _find_slopes(fused)
    carried, total = 0.0, 0.0
    for source in sources:
        sums = da.map_blocks(_rate_slopes, *_find_slopes(source), *slopes_fused, dtype=np.float64, new_axis=2, chunks=(1, 1, 2))
        (pair,) = run.compute("gradient", sums.sum(axis=(0, 1), split_every=4))
        carried, total = carried + pair[0], total + pair[1]
    return float(carried / total)


def _find_slopes(image: ScratchLevels) -> tuple[da.Array, da.Array]:
    """Return the slopes along rows and along columns, zero-padded at the border; 16 bits hold them exactly."""
    from dask_image.ndfilters import sobel

    levels = da.from_array(image, chunks=GRADIENT_CHUNK_PX, name=False, meta=np.empty((0, 0), np.uint8)).astype(np.int16)
    return sobel(levels, axis=1, mode="constant"), sobel(levels, axis=0, mode="constant")


def _rate_slopes(*slopes: Any) -> FloatArray:  # noqa: ANN401 - blocks of four arrays
    across, down, across_fused, down_fused = (slope.astype(np.float64) for slope in slopes)
    return np.array([[sum_kept_edges(combine_slopes(across, down), combine_slopes(across_fused, down_fused))]])

"""What is measured once for a stack, on a fixed subsample of it: its noise, and the energy that noise has in the evidence."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import cv2
import numpy as np

from qmcif_engine.config.fusion_config import NoiseHandling, StackOrder
from qmcif_engine.decision.cleaning import clip_outliers
from qmcif_engine.decision.coarse import COARSE_NOISE_ENERGY, coarse_energy
from qmcif_engine.decision.evidence import CELL_PX, scale_energies
from qmcif_engine.decision.filters import average_cells, smooth
from qmcif_engine.rules import StackStatistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import FusionConfig

BLOCK_PX = 16
"""Side of the blocks whose noise is measured one by one."""

SMOOTH_QUANTILE = 0.1
"""The share of the blocks that has next to no texture."""

ROUNDING = 12**-0.5
"""Standard deviation of rounding, in steps of the samples."""

LEAST_STEP = 255 / 65535
"""Step on the 0-255 scale of samples that have none, as floats: that of 16 bits."""

FEWEST_BLOCKS = 10

EXPOSURE_CELL_PX = 16
"""Side of the cells whose means are compared to find how bright images are: wide enough that focus hardly matters."""

EXPOSURE_TOLERANCE = 0.02
"""Ratios of brightness this near to each other, as a logarithm, count as one."""

EXPOSURE_SHARE = 0.25
"""The share of the cells that must have one ratio for two neighbors to differ in exposure, and not in what they show."""

FEWEST_CELLS = 20

LEAST_BRIGHTNESS = 5.0
"""Gray levels below which a ratio says nothing."""

_MEDIAN_MODULUS = 0.6745
"""Median of the modulus of a Gaussian of standard deviation 1."""

FLOOR_FACTOR = 1.5
"""Energies up to so many times that of the noise say little: compression makes blocks, and noise is not the same everywhere."""

_FLAT_POWER = (0.0037, 0.0010, 0.00025)
"""A twentieth of the energy that white noise of deviation 1 has at each scale: the least floor, where rounding is all the noise."""


def measure_noise(planes: Iterable[FloatArray], *, step: float) -> float:
    """Return the standard deviation of the noise of some planes, at least that of rounding.

    Parameters
    ----------
    planes : iterable of ndarray, shape (c, h, w)
    step : float
        Step of the samples in the unit of the planes; 0 for samples that have none.

    Notes
    -----
    The `SMOOTH_QUANTILE` of the robust deviation of a Laplacian of planes smoothed by 1 px, over all blocks. Blocks without differences are
    clipped or empty and do not count.
    """
    point = np.zeros((33, 33), np.float32)
    point[16, 16] = 1
    gain = float((_band_pass(point) ** 2).sum())
    rounding = max(step, 0.0) * ROUNDING
    variance = np.concatenate(
        [(block_medians(np.abs(_band_pass(plane))) / _MEDIAN_MODULUS) ** 2 / gain for block in planes for plane in block] or [np.empty(0)]
    )
    variance = variance[variance > rounding**2 / 2]
    return max(rounding, float(np.sqrt(np.quantile(variance, SMOOTH_QUANTILE))) if variance.size > FEWEST_BLOCKS else 0.0)


def measure_gains(blocks: Sequence[Sequence[FloatArray]], *, highest: float | None) -> tuple[float, ...]:
    """Return how bright each image of a stack is as a whole, beside the usual one.

    Parameters
    ----------
    blocks : sequence of sequence of ndarray, shape (c, h, w)
        The same windows of each image on the 0-255 scale; NaN where an image lacks a pixel.
    highest : float or None
        Samples from this on are clipped.

    Notes
    -----
    Exposure changes all of an image by one ratio, what is out of focus each place by its own: the ratio of two neighbors is that which most
    cells have, if `EXPOSURE_SHARE` of them have it. Ratios of neighbors are multiplied up along the stack. Where all images differ by less
    than `EXPOSURE_TOLERANCE`, they count as equally bright.
    """
    most = np.inf if highest is None else 0.95 * highest
    cells = [[average_cells(block, EXPOSURE_CELL_PX).mean(axis=0).reshape(-1) for block in image] for image in blocks]
    means = [np.concatenate(image) for image in cells]
    ratios = [0.0]
    for one, other in pairwise(means):
        is_used = (np.minimum(one, other) > LEAST_BRIGHTNESS) & (np.maximum(one, other) < most)
        ratios.append(_find_ratio(np.log(other[is_used] / one[is_used])))
    levels = np.cumsum(ratios)
    if np.ptp(levels) < EXPOSURE_TOLERANCE:
        return (1.0,) * len(means)
    gains: tuple[float, ...] = tuple(np.exp(levels - np.median(levels)).tolist())
    return gains


def _find_ratio(ratios: FloatArray) -> float:
    """Return the ratio that most cells have, as a logarithm, 0 where they do not agree."""
    if ratios.size < FEWEST_CELLS:
        return 0.0
    ordered = np.sort(ratios)
    counts = np.searchsorted(ordered, ordered + 2 * EXPOSURE_TOLERANCE, side="right") - np.arange(ordered.size)
    first = int(counts.argmax())
    return float(np.median(ordered[first : first + counts[first]])) if counts[first] >= EXPOSURE_SHARE * ordered.size else 0.0


def measure_statistics(
    blocks: Sequence[FloatArray], config: FusionConfig, *, n_images: int, step: float, gains: tuple[float, ...] = ()
) -> StackStatistics:
    """Return noise and floors of a stack.

    Parameters
    ----------
    blocks : sequence of ndarray of float32, shape (c, h, w)
        A fixed subsample of the stack on the 0-255 scale.
    config : FusionConfig
    n_images : int
    step : float
        Step of the samples on the 0-255 scale; 0 for floats.
    gains : tuple of float
        As `measure_gains` returns them.

    Notes
    -----
    The floor of a scale is `FLOOR_FACTOR` times the `SMOOTH_QUANTILE` of the medians of its energy over all blocks, that of the coarse
    decision of the energies of all cells.
    """
    least = max(step, LEAST_STEP)
    noise = least * ROUNDING
    if config.decision.noise is NoiseHandling.AUTO:
        blocks = [clip_outliers(block) for block in blocks]
        noise = measure_noise(blocks, step=least)
    seen = [block / np.float32(noise) for block in blocks]
    energies = [scale_energies(block, config.decision.measure, n_scales=len(_FLAT_POWER)) for block in seen]
    rounding = (least * ROUNDING / noise) ** 2

    def find_floor(levels: list[FloatArray], lowest: float) -> float:
        known = np.concatenate([*levels, np.empty(0)])
        known = known[known > lowest]
        return FLOOR_FACTOR * (float(np.quantile(known, SMOOTH_QUANTILE)) if known.size > FEWEST_BLOCKS else lowest)

    return StackStatistics(
        n_images=n_images,
        is_ordered=config.decision.order is StackOrder.ORDERED,
        noise=noise,
        floors=tuple(
            find_floor([block_medians(energy[scale], BLOCK_PX // CELL_PX) for energy in energies], power * rounding)
            for scale, power in enumerate(_FLAT_POWER)
        ),
        gains=gains,
        coarse_floor=find_floor([coarse_energy(block).reshape(-1) for block in seen], COARSE_NOISE_ENERGY),
    )


def _band_pass(plane: FloatArray) -> FloatArray:
    """Return the Laplacian of a plane smoothed by 1 px, of differences of neighbors."""
    smoothed = smooth(np.ascontiguousarray(plane), 1.0)
    result = np.empty_like(smoothed)
    cv2.Laplacian(smoothed, -1, dst=result, borderType=cv2.BORDER_REFLECT)
    return result


def block_medians(plane: FloatArray, side: int = BLOCK_PX) -> FloatArray:
    """Return the medians of all whole blocks of a plane."""
    rows, columns = (length // side for length in plane.shape)
    blocks = plane[: rows * side, : columns * side].reshape(rows, side, columns, side).swapaxes(1, 2)
    medians: FloatArray = np.median(blocks.reshape(rows * columns, side * side), axis=1)
    return medians

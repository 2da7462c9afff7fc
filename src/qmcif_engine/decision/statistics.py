"""What is measured once for a stack, on a fixed subsample of it: exposure, noise, and the energy that noise has in the evidence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import cv2
import numpy as np

from qmcif_engine.config.fusion_config import NoiseHandling, StackOrder
from qmcif_engine.decision.cleaning import clip_outliers
from qmcif_engine.decision.evidence import CELL_PX, scale_energies
from qmcif_engine.decision.filters import average_cells, smooth
from qmcif_engine.rules import StackStatistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import FusionConfig

BLOCK_PX = 16
"""Side of the blocks whose noise and brightness are measured one by one: so wide that focus hardly changes their brightness."""

SMOOTH_QUANTILE = 0.1
"""The share of the blocks that has next to no texture."""

ROUNDING = 12**-0.5
"""Standard deviation of rounding, in steps of the samples."""

LEAST_STEP = 255 / 65535
"""Step on the 0-255 scale of samples that have none, as floats: that of 16 bits."""

FEWEST_BLOCKS = 10

EXPOSURE_TOLERANCE = 0.02
"""Ratios of brightness this near to each other, as a logarithm, count as one."""

EXPOSURE_SHARE = 0.25
"""The share of the blocks that must have one ratio for images to differ in exposure, and not in what they show."""

LEAST_BRIGHTNESS = 5.0
"""Gray levels below which a ratio says nothing."""

_SIGNIFICANT = 3
"""Standard errors from which a ratio differs from 1."""

_MEDIAN_MODULUS = 0.6745
"""Median of the modulus of a Gaussian of standard deviation 1."""

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


def measure_gains(pairs: Sequence[Sequence[tuple[FloatArray, FloatArray]]]) -> tuple[float, ...]:
    """Return how bright each image of a stack is as a whole, beside the usual one; none if all are equally bright.

    Parameters
    ----------
    pairs : sequence of sequence of tuple of ndarray, shape (h, w)
        The light of each image and of the next one in the same windows, in gray levels from black; NaN where a pixel is clipped or missing.

    Notes
    -----
    Exposure changes all of an image by one ratio, what is out of focus each place by its own: the ratio of two neighbors is the median of
    all blocks, where it is more than `_SIGNIFICANT` of its standard errors. Ratios of neighbors are multiplied up along the stack. Fewer
    than `EXPOSURE_SHARE` of the blocks that have them, in the median of all neighbors, are no exposure, nor is a range of all images below
    `EXPOSURE_TOLERANCE`.
    """
    found = []
    for blocks in pairs:
        cells = [[average_cells(block, BLOCK_PX).reshape(-1) for block in blocks_of_one] for blocks_of_one in zip(*blocks, strict=True)]
        one, other = (np.concatenate(means) for means in cells) if cells else (np.empty(0), np.empty(0))
        found.append(_find_ratio(one, other))
    ratios, shares = zip(*found, strict=True)
    levels = np.cumsum([0.0, *ratios])
    if np.median(shares) < EXPOSURE_SHARE or np.ptp(levels) < EXPOSURE_TOLERANCE:
        return ()
    gains: tuple[float, ...] = tuple(np.exp(levels - np.median(levels)).tolist())
    return gains


def _find_ratio(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Return the median ratio of blocks, as a logarithm, 0 where it is none beside its standard error, and the share that has it."""
    darker = np.minimum(one, other)
    is_bright = darker > LEAST_BRIGHTNESS
    ratios = np.log(other[is_bright] / one[is_bright])
    if ratios.size <= FEWEST_BLOCKS:
        return 0.0, 0.0
    ratio = float(np.median(ratios))
    distance = np.abs(ratios - ratio)
    error = float(np.median(distance)) / _MEDIAN_MODULUS * math.sqrt(math.pi / 2 / ratios.size)
    share = np.count_nonzero(distance < EXPOSURE_TOLERANCE) / np.count_nonzero(~np.isnan(darker))
    return (ratio if abs(ratio) > _SIGNIFICANT * error else 0.0), share


def measure_statistics(
    blocks: Sequence[FloatArray], config: FusionConfig, *, n_images: int, step: float, gains: tuple[float, ...] = (), pedestal: float = 0.0
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
    pedestal : float
        That of `StackStatistics`.

    Notes
    -----
    The floor of a scale is the `SMOOTH_QUANTILE` of the medians of its energy over all blocks.
    """
    least = max(step, LEAST_STEP)
    noise = least * ROUNDING
    if config.decision.noise is NoiseHandling.AUTO:
        blocks = [clip_outliers(block) for block in blocks]
        noise = measure_noise(blocks, step=least)
    energies = [scale_energies(block / np.float32(noise), config.decision.measure, n_scales=len(_FLAT_POWER)) for block in blocks]
    floors = []
    for scale, power in enumerate(_FLAT_POWER):
        floor = power * (least * ROUNDING / noise) ** 2
        medians = np.concatenate([block_medians(energy[scale], BLOCK_PX // CELL_PX) for energy in energies] or [np.empty(0)])
        medians = medians[medians > floor]
        floors.append(max(floor, float(np.quantile(medians, SMOOTH_QUANTILE))) if medians.size > FEWEST_BLOCKS else floor)
    is_ordered = config.decision.order is StackOrder.ORDERED
    return StackStatistics(n_images=n_images, is_ordered=is_ordered, noise=noise, floors=tuple(floors), gains=gains, pedestal=pedestal)


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

"""A plain focus measure for comparison: the local energy of the Laplacian of the brightness."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from qmcif_engine.config.stage import Reach, Stage, bytes_per_pixel
from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.method.cell_grid import average_cells, mean_around
from qmcif_engine.method.focus import FINEST_WINDOW_PX, NEGLIGIBLE_LEVEL, mirror_borders
from qmcif_engine.method.focus_measures.focus_measure import CellFocus, FocusMeasure, ImageFocus
from qmcif_engine.method.patches import pad_to_grid, sum_patches, window_mean
from qmcif_engine.stack.samples import FULL_SCALE

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.method.focus_measures.focus_measure import MeasuringTask


def measure_by_laplacian(block: FloatArray, config: FusionConfig, task: MeasuringTask) -> ImageFocus:
    """Return the focus levels of one image from its Laplacian; nothing is decomposed, and there are no layers.

    Notes
    -----
    The root of the mean of ``(L y)^2`` over each patch or window, where ``y`` is the mean of the three planes and ``L`` the difference of
    a pixel's four neighbors and four times itself; times ``2 r + 1``, the factor of `qmcif_engine.method.focus.fine_focus`, which brings
    the levels to the scale that the later stages expect.
    """
    task.check_cancelled()
    energy = _energy(block, config)
    mirrored = mirror_borders(energy, border_px=config.focus.border_px, borders=task.borders)
    detail = _level(mirrored, side_px=task.detail_patch_px, config=config)
    detail[detail < NEGLIGIBLE_LEVEL] = 0
    fine = _level(energy, side_px=FINEST_WINDOW_PX + task.adaptation.window_growth_px, config=config)
    patch = config.decomposition.base_patch_px
    base = np.sqrt(sum_patches(pad_to_grid(mirrored, patch_px=patch), patch_px=patch))
    return ImageFocus(base, detail, np.maximum(fine - np.asarray(task.adaptation.faint_level, fine.dtype), 0))


def average_energy(block: FloatArray, config: FusionConfig, task: MeasuringTask) -> tuple[FloatArray, ...]:
    """Return the energy of the Laplacian of the brightness, averaged over each cell."""
    task.check_cancelled()
    return (average_cells(_energy(block, config)),)


def level_energy(averages: tuple[FloatArray, ...], config: FusionConfig, task: MeasuringTask) -> CellFocus:
    """Return the levels of `measure_by_laplacian`, one per cell."""
    (energy,) = averages
    patch = config.decomposition.base_patch_px // CELL_PX
    mirrored = mirror_borders(energy, border_px=round(config.focus.border_px / CELL_PX), borders=task.borders)
    scale = np.asarray((2 * config.focus.amplification_radius_px + 1) / FULL_SCALE, energy.dtype)
    detail = scale * np.sqrt(mean_around(mirrored, side_px=task.detail_patch_px))
    detail[detail < NEGLIGIBLE_LEVEL] = 0
    fine = scale * np.sqrt(mean_around(energy, side_px=FINEST_WINDOW_PX + task.adaptation.window_growth_px))
    # mean over a cell times its pixels gives the sum, and the root of CELL_PX squared is taken out
    base = CELL_PX * np.sqrt(sum_patches(pad_to_grid(mirrored, patch_px=patch), patch_px=patch))
    return CellFocus(base, detail, np.maximum(fine - np.asarray(task.adaptation.faint_level, fine.dtype), 0))


def _energy(block: FloatArray, config: FusionConfig) -> FloatArray:
    brightness = block.mean(axis=0, dtype=np.float64).astype(config.decomposition.precision.value)
    # rounding of flat ground is no energy: what is left of it is far below the least level that counts
    energy: FloatArray = np.square(ndimage.laplace(brightness, mode="nearest"))
    return energy


def _level(energy: FloatArray, *, side_px: int, config: FusionConfig) -> FloatArray:
    """Return the root of the mean energy over the window around each pixel, on the scale of focus levels."""
    scale = (2 * config.focus.amplification_radius_px + 1) / FULL_SCALE
    # running sums can leave a mean of zeros a little below zero
    mean = window_mean(energy, side_px=side_px)
    level: FloatArray = np.sqrt(np.maximum(mean, 0)) * np.asarray(scale, energy.dtype)
    return level


def _reach(config: FusionConfig, detail_patch_px: int) -> int:
    return max(1, 2 * config.focus.border_px) + detail_patch_px // 2


LAPLACIAN = Stage(
    name="method.focus_measures.laplacian_measure.measure_by_laplacian",
    reaches=(Reach(_reach, "1, and (s − 1) / 2; 2 `border_px` in place of 1 near the image border; only with `measure=laplacian`"),),
    overlap_px=lambda _config, side: 1 + max(side, FINEST_WINDOW_PX) // 2,
    working_bytes=bytes_per_pixel(40),
)
LAPLACIAN_MEASURE = FocusMeasure(measure_by_laplacian, average_energy, level_energy, (LAPLACIAN,))

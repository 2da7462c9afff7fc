"""The paper's focus measure: gradients of the detail layer that the decomposition finds, section III-B."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config.fusion_config import Precision
from qmcif_engine.config.stage import Stage
from qmcif_engine.kernels.cell_sums import CELL_PX, sum_amplified_gradients, sum_gradients
from qmcif_engine.method.cell_grid import cell_grid, count_pixels, mean_around
from qmcif_engine.method.decomposition import Decomposition, decompose
from qmcif_engine.method.decomposition.detail_solve import MOST_ITERATIONS, solve_detail
from qmcif_engine.method.focus import (
    AMPLIFICATION,
    BASE_FOCUS,
    DETAIL_FOCUS,
    FINE_FOCUS,
    FINE_WEIGHT,
    FINEST_WINDOW_PX,
    GRADIENTS,
    NEGLIGIBLE_LEVEL,
    Borders,
    base_focus,
    detail_focus,
    fine_focus,
    mirror_borders,
)
from qmcif_engine.method.focus_measures.focus_measure import CellFocus, FocusMeasure, ImageFocus
from qmcif_engine.method.patches import pad_to_grid, spread_patches, sum_patches
from qmcif_engine.stack.samples import FULL_SCALE
from qmcif_engine.stack.window import Window, cut_side

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.config.stage import TileSize
    from qmcif_engine.method.focus_measures.focus_measure import MeasuringTask

SOLVE_MARGIN_PX = 24
"""The screened solve forgets what is this far away: the detail layer then changes by less than a hundredth of a gray level."""

SOLVED_PIXEL_BYTES = 100
"""What the solve holds for each pixel of the part it works on."""

LOW_RANK_PIXEL_BYTES = 400
"""What the low-rank term adds to that: coefficients of every base patch."""


def measure_by_decomposition(block: FloatArray, config: FusionConfig, task: MeasuringTask) -> ImageFocus:
    """Return the focus levels of one image from its decomposition."""
    base, detail_layer, parts = _solve_in_parts(block, config, task)
    return ImageFocus(
        base,
        detail_focus(detail_layer, detail_patch_px=task.detail_patch_px, config=config.focus, borders=task.borders),
        fine_focus(detail_layer, growth_px=task.adaptation.window_growth_px, faint_level=task.adaptation.faint_level, config=config.focus),
        parts if task.keep_layers else None,
    )


def average_detail(block: FloatArray, config: FusionConfig, task: MeasuringTask) -> tuple[FloatArray, ...]:
    """Return, averaged over each cell, the gradients of the detail layer, those of the amplified one, and what coefficients add.

    Notes
    -----
    The summands of [QMCIF, Eqs. (14) and (15)]; the last is zero without the low-rank term.
    """
    task.check_cancelled()
    # a gray image comes as one plane that stands for three equal ones
    settings, n_equal, patch = task.adaptation.decomposition(config.decomposition), 3 // len(block), config.decomposition.base_patch_px
    coefficients: FloatArray | None = None
    # what the relaxed solve cannot do is solved exactly
    if settings.is_low_rank or settings.tolerance or settings.iterations > MOST_ITERATIONS:
        color = np.ascontiguousarray(np.broadcast_to(block, (3, *block.shape[1:])))
        parts, n_equal = decompose(color, settings, check_cancelled=task.check_cancelled, keep_history=False), 1
        detail, coefficients = parts.detail, parts.coefficients
    else:
        detail = solve_detail(block, settings, n_equal=n_equal)
    shape, modulus_scale = (detail.shape[-2], detail.shape[-1]), np.float32(math.sqrt(n_equal))
    gradients, amplified = np.empty(cell_grid(shape), detail.dtype), np.empty(cell_grid(shape), detail.dtype)
    sum_gradients(detail, gradients)
    sum_amplified_gradients(detail, config.focus.amplification_radius_px, amplified)
    # sums to means, and moduli of one plane to those of three
    gradients *= modulus_scale / count_pixels(shape)
    # the amplified layer is sampled in every other row only
    amplified *= modulus_scale / count_pixels(shape, row_step=2)
    added = np.zeros_like(gradients)
    if coefficients is not None:
        energy = np.sqrt(np.einsum("clp,clp->p", coefficients, coefficients, dtype=np.float64)).reshape(
            [-(-side // patch) for side in shape]
        )
        # a patch has a whole number of cells; a mean per pixel, as the gradients beside it are
        spread = spread_patches(energy, patch_px=patch // CELL_PX)[: added.shape[0], : added.shape[1]]
        added += config.focus.coefficient_weight * spread / patch**2
    return gradients, amplified, added


def level_detail(averages: tuple[FloatArray, ...], config: FusionConfig, task: MeasuringTask) -> CellFocus:
    """Return the focus levels of one image, one per cell, from what `average_detail` returns.

    Notes
    -----
    Those of `qmcif_engine.method.focus`, [QMCIF, Eqs. (14) and (15)], of windows of about the same size that lie on cells.
    """
    gradients, amplified, added = averages
    patch = config.decomposition.base_patch_px
    # 4 px, the default, are one cell
    border_cells = round(config.focus.border_px / CELL_PX)
    mirrored = mirror_borders(gradients, border_px=border_cells, borders=task.borders)
    in_patches = pad_to_grid(mirrored + added, patch_px=patch // CELL_PX)
    base = sum_patches(in_patches, patch_px=patch // CELL_PX)
    amplified = mirror_borders(amplified, border_px=border_cells, borders=task.borders)
    # on the 0-1 scale, as `detail_focus`
    level = mean_around(amplified, side_px=task.detail_patch_px, scale=1 / FULL_SCALE)
    level[level < NEGLIGIBLE_LEVEL] = 0
    fine_scale = FINE_WEIGHT * (2 * config.focus.amplification_radius_px + 1) / FULL_SCALE
    # from levels that are not mirrored, as `fine_focus`
    fine = mean_around(gradients, side_px=FINEST_WINDOW_PX + task.adaptation.window_growth_px, scale=fine_scale)
    return CellFocus(base, level, np.maximum(fine - np.asarray(task.adaptation.faint_level, fine.dtype), 0))


def _solve_in_parts(block: FloatArray, config: FusionConfig, task: MeasuringTask) -> tuple[FloatArray, FloatArray, Decomposition | None]:
    """Return the base-scale focus, the detail layer and, of a block solved in one piece, all layers.

    A larger block is solved in parts of about the published image size.

    The published parameters mean what they mean at that size, since singular values grow with the number of patches; and memory stays
    small. Each part is solved with a margin that the screened solve does not see across.
    """
    settings = task.adaptation.decomposition(config.decomposition)
    shape, patch = (block.shape[-2], block.shape[-1]), settings.base_patch_px
    part_px = solved_side(config)
    rows, columns = (cut_side(side, shape=shape, tile_px=part_px, multiple_of=patch) for side in shape)
    if len(rows) * len(columns) == 1:
        parts = decompose(block, settings, check_cancelled=task.check_cancelled, keep_history=task.keep_layers)
        return base_focus(parts, base_patch_px=patch, config=config.focus, borders=task.borders), parts.detail, parts
    # whole patches, so that those of a part lie on the grid of the block
    margin = -(-SOLVE_MARGIN_PX // patch) * patch
    base_level = np.empty([-(-side // patch) for side in shape])
    detail = np.empty(block.shape, settings.precision.value)
    for core in (Window(top, left, bottom, right) for top, bottom in rows for left, right in columns):
        padded = core.grown(margin, shape)
        part = np.ascontiguousarray(block[:, *padded.slices])
        parts = decompose(part, settings, check_cancelled=task.check_cancelled, keep_history=False)
        inner = core.relative_to(padded)
        # a side of a part is a border of the image only where the block ends and the image with it
        at_border = Borders(*(end and border for end, border in zip(padded.ends_of(shape), task.borders, strict=True)))
        level = base_focus(parts, base_patch_px=patch, config=config.focus, borders=at_border)
        base_level[_in_patches(core, patch).slices] = level[_in_patches(inner, patch).slices]
        detail[:, *core.slices] = parts.detail[:, *inner.slices]
    return base_level, detail, None


def solved_side(config: FusionConfig) -> int:
    """Return the side of the parts that are solved at once."""
    return config.tiling.tile_px // 2


def _in_patches(window: Window, patch_px: int) -> Window:
    """Return which base patches a window covers that starts on a patch."""
    return Window(window.top // patch_px, window.left // patch_px, -(-window.bottom // patch_px), -(-window.right // patch_px))


def _kept_bytes(config: FusionConfig, size: TileSize) -> int:
    """Return what the solve takes of the part it works on; its arrays are too small to go back to the system when they are freed."""
    # parts are solved one after the other
    solved_px = min(size.padded_px, solved_side(config) ** 2)
    scale = 2 if config.decomposition.precision is Precision.DOUBLE else 1
    return scale * (SOLVED_PIXEL_BYTES + (LOW_RANK_PIXEL_BYTES if config.decomposition.is_low_rank else 0)) * solved_px


SOLVE = Stage(name="method.decomposition.solver.decompose", overlap_px=lambda _config, _side: SOLVE_MARGIN_PX, kept_bytes=_kept_bytes)
DECOMPOSITION_MEASURE = FocusMeasure(
    measure_by_decomposition,
    average_detail,
    level_detail,
    (SOLVE, AMPLIFICATION, GRADIENTS, BASE_FOCUS, DETAIL_FOCUS, FINE_FOCUS),
    n_averages=3,
)

"""Parts of a tile: what is measured, and later drawn to the pixel, at once, so that a tile of any size works in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.method.decomposition.detail_solve import FIRST_SWEEPS, SWEEPS
from qmcif_engine.method.focus_measures.decomposition_measure import SOLVE_MARGIN_PX
from qmcif_engine.stack.window import Window, cut_side, multiple_above

if TYPE_CHECKING:
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.stack.noise import NoiseAdaptation

DRAWING_MARGIN_PX = 64
"""How far around a part decisions are drawn to the pixel: what lies farther away matters to its edges and blends by rare chains only."""

BLOCK_PX = 64
"""Side of the blocks of which the parts of a deep stack that are measured consist, at least."""


def decides_on_cells(config: FusionConfig) -> bool:
    """Return whether decisions are made cell by cell: where they are made to fit together, and base patches consist of cells."""
    return config.decision.consistency > 0 and config.decomposition.base_patch_px % CELL_PX == 0


def part_side(config: FusionConfig) -> int:
    """Return how long a side of a part is at most: a good half of that of a tile, so that a tile and its overlap are four parts."""
    return config.tiling.tile_px * 5 // 8


def cut_parts(window: Window, config: FusionConfig) -> list[Window]:
    """Cut a window into parts, which start on base patches counted from its corner."""
    rows, columns = (
        cut_side(side, shape=window.shape, tile_px=part_side(config), multiple_of=config.decomposition.base_patch_px)
        for side in window.shape
    )
    return [Window(top, left, bottom, right).moved(window.top, window.left) for top, bottom in rows for left, right in columns]


def part_margin(config: FusionConfig, adaptation: NoiseAdaptation) -> int:
    """Return what a part is measured with around it: how far the focus of a cell can depend on samples, in whole base patches."""
    # each half-sweep looks one pixel further, and so do the gradients of each iteration; exact solves forget what is farther away
    swept_px = FIRST_SWEEPS + (SWEEPS + 1) * config.decomposition.iterations
    smoothing_px = 1 + adaptation.reach_px  # outliers are told by their neighbors, then the blur
    gradients_px = config.focus.amplification_radius_px + 1
    return multiple_above(min(swept_px, SOLVE_MARGIN_PX) + smoothing_px + gradients_px, config.decomposition.base_patch_px)


def block_side(config: FusionConfig) -> int:
    """Return the side of a block: a number of base patches."""
    return multiple_above(BLOCK_PX, config.decomposition.base_patch_px)


def in_cells(window: Window) -> Window:
    """Return the cells of a window that starts on one."""
    return Window(window.top // CELL_PX, window.left // CELL_PX, -(-window.bottom // CELL_PX), -(-window.right // CELL_PX))

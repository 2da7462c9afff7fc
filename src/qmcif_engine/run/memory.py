"""Know how much memory a tile takes, and from that how many tiles may be computed at once.

A budget decides on the number of tiles in flight, never on their size: it changes no byte of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from qmcif_engine.cleanup.regularization import BLOCK_CELLS, CELL_PX, ROUNDS
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.samples import PLANES_IN_MEMORY_BYTES
from qmcif_engine.stack.separate_channels import count_decisions
from qmcif_engine.stack.stack import decides_each
from qmcif_engine.tiles.stages import LEVELS_IN_MEMORY_BYTES
from qmcif_engine.tiles.task import SAMPLES_IN_MEMORY_BYTES

if TYPE_CHECKING:
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.tiles.plan import TilePlan

SHARE_OF_FREE_MEMORY = 0.5
PIXEL_BYTES = 100
"""What the stages hold for each pixel of a padded window at their peak, measured (`benchmarks/scaling.py`)."""

SOLVED_PIXEL_BYTES = 100
"""What the solve holds for each pixel of the part it works on."""

LOW_RANK_PIXEL_BYTES = 400
"""What the low-rank term adds to that: coefficients of every base patch."""


CELL_LEVEL_BYTES = 6 / CELL_PX**2
"""What the levels of one image take for each pixel, kept one a cell, in single and in half precision."""

BLOCK_OF_CELLS_BYTES = 12 * 4 * (BLOCK_CELLS + 2 * ROUNDS) ** 2
"""What belief propagation holds for each image of a block: costs, beliefs, and messages of two rounds to four neighbors."""

RESULT_PIXEL_BYTES = 44
"""What each channel that is decided on by itself keeps of its result until all are done, and once more while they are put together."""


def estimate_tile_bytes(plan: TilePlan, config: FusionConfig, *, stack: Stack) -> int:
    """Return an upper bound of the memory that one tile takes while it is computed."""
    padded_px = plan.largest_padded_px
    solved_px = min(padded_px, config.tiling.tile_px**2)
    scale = 2 if config.decomposition.precision.value == "float64" else 1
    solve = SOLVED_PIXEL_BYTES + (LOW_RANK_PIXEL_BYTES if config.decomposition.is_low_rank else 0)
    planes = min(stack.n_images * 12 * padded_px, PLANES_IN_MEMORY_BYTES)
    levels = min(stack.n_images * 4 * padded_px, LEVELS_IN_MEMORY_BYTES)
    cells = int(stack.n_images * (CELL_LEVEL_BYTES * padded_px + BLOCK_OF_CELLS_BYTES))
    results = RESULT_PIXEL_BYTES * count_decisions(stack) * padded_px if decides_each(stack) else 0
    return results + PIXEL_BYTES * padded_px + scale * solve * solved_px + estimate_samples_bytes(plan, stack) + planes + levels + cells


def estimate_samples_bytes(plan: TilePlan, stack: Stack) -> int:
    """Return an upper bound of what the windows of a stack, or of a guide, take while a tile is computed."""
    window_bytes = stack.dtype.itemsize * (stack.image_shape[2] if len(stack.image_shape) == 3 else 1) * plan.largest_padded_px
    return min(stack.n_images * window_bytes, SAMPLES_IN_MEMORY_BYTES) + 2 * window_bytes


def choose_tiles_at_once(tile_bytes: int, *, budget_bytes: int | None, n_workers: int) -> int:
    """Return how many tiles may be in memory at once.

    Raises
    ------
    InvalidConfigError
        When the budget does not hold a single tile.
    """
    if budget_bytes is None:
        return max(1, min(n_workers, int(psutil.virtual_memory().available * SHARE_OF_FREE_MEMORY) // tile_bytes))
    if budget_bytes < tile_bytes:
        needed = -(-tile_bytes // 10**6)
        msg = (
            f"the memory budget is {budget_bytes / 10**6:g} MB; one tile needs {needed} MB: raise it to {needed}MB or make tiles smaller "
            "with the setting tile_px"
        )
        raise InvalidConfigError(msg)
    return min(n_workers, budget_bytes // tile_bytes)

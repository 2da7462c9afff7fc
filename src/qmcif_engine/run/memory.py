"""How much memory a tile takes, and from that how many tiles may be computed at once.

A budget decides on the number of tiles in flight, never on their size: it changes no byte of the result.
"""

from __future__ import annotations

import psutil

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.separate_channels import count_decisions
from qmcif_engine.stack.stack import Stack
from qmcif_engine.tiles.plan import TilePlan
from qmcif_engine.tiles.task import RULES
from qmcif_engine.tiles.window_images import SAMPLES_IN_MEMORY_BYTES

SHARE_OF_FREE_MEMORY = 0.5
RESULT_PIXEL_BYTES = 44
"""What each channel that is decided on by itself keeps of its result until all are done, and once more while they are put together."""


def estimate_tile_bytes(plan: TilePlan, config: FusionConfig, *, stack: Stack) -> int:
    """Return an upper bound of the least that one tile can be computed in: its samples and results, and what its rule holds."""
    n_px = plan.largest_padded_px
    results = RESULT_PIXEL_BYTES * count_decisions(stack) * n_px if stack.decides_each else 0
    return estimate_samples_bytes(plan, stack) + results + RULES[config.decision.rule].working_bytes(config, n_px, stack.n_images)


def estimate_samples_bytes(plan: TilePlan, stack: Stack, *, held_bytes: int = SAMPLES_IN_MEMORY_BYTES) -> int:
    """Return an upper bound of what the windows of a stack, or of a guide, take while a tile is computed and may hold so much of them."""
    window_bytes = stack.dtype.itemsize * (stack.image_shape[2] if len(stack.image_shape) == 3 else 1) * plan.largest_padded_px
    # beyond that bound windows wait in a temporary file; two more are on their way, as read and as converted
    return min(stack.n_images * window_bytes, held_bytes) + 2 * window_bytes


def check_whole_images(whole_bytes: int, *, tile_bytes: int, budget_bytes: int | None, name: str) -> None:
    """Refuse images that can only be decoded as a whole and, beside a tile, take more than the budget.

    Raises
    ------
    InvalidConfigError
        Naming the image.
    """
    if budget_bytes is not None and whole_bytes > max(budget_bytes - tile_bytes, 0):
        # rounded up: the advice must suffice
        needed = -(-(whole_bytes + tile_bytes) // 10**6)
        msg = (
            f"the memory budget is {budget_bytes / 10**6:g} MB; {name} can only be decoded as a whole, which needs {needed} MB: "
            f"raise it to {needed}MB, or save the images as tiled TIFF"
        )
        raise InvalidConfigError(msg)


def choose_tiles_at_once(tile_bytes: int, *, budget_bytes: int | None, n_workers: int) -> int:
    """Return how many tiles may be in memory at once.

    Raises
    ------
    InvalidConfigError
        When the budget does not hold a single tile.
    """
    if budget_bytes is None:
        # at least one, even on a full machine: without a budget nobody asked to be refused
        return max(1, min(n_workers, _free_bytes() // tile_bytes))
    if budget_bytes < tile_bytes:
        # rounded up: the advice must suffice
        needed = -(-tile_bytes // 10**6)
        msg = (
            f"the memory budget is {budget_bytes / 10**6:g} MB; one tile needs {needed} MB: raise it to {needed}MB or make tiles smaller "
            "with the setting tile_px"
        )
        raise InvalidConfigError(msg)
    return min(n_workers, budget_bytes // tile_bytes)


def share_spare_bytes(tile_bytes: int, *, whole_bytes: int, budget_bytes: int | None, tiles_at_once: int, n_stacks: int) -> int:
    """Return how much of the windows of each of its stacks a tile may hold: the least, and its share of what the budget leaves.

    A window in memory is not written to a temporary file, and not read from it again by every stage.
    """
    budget = _free_bytes() if budget_bytes is None else budget_bytes
    spare = (budget - whole_bytes) // tiles_at_once - tile_bytes
    return SAMPLES_IN_MEMORY_BYTES + max(0, spare) // n_stacks


def _free_bytes() -> int:
    return int(psutil.virtual_memory().available * SHARE_OF_FREE_MEMORY)

"""How much memory a tile takes, and from that how many tiles may be computed at once.

A budget decides on the number of tiles in flight, never on their size: it changes no byte of the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.stack import Stack
from qmcif_engine.tiles.plan import TilePlan, find_rule
from qmcif_engine.tiles.planes import SAMPLES_IN_MEMORY_BYTES

SHARE_OF_FREE_MEMORY = 0.5
RESULT_PIXEL_BYTES = 44
"""What each channel that is decided on by itself keeps of its result until all are done, and once more while they are put together."""


class MemoryPlan(NamedTuple):
    """How memory is used.

    Attributes
    ----------
    tiles_at_once : int
    tile_bytes : int
        Memory of one tile while it is computed, at most.
    samples_bytes : int
        What of that may be windows of the stack, and of the guide, each: a window in memory is not written to a temporary file, and not
        read from it again by every stage.
    """

    tiles_at_once: int
    tile_bytes: int
    samples_bytes: int


def plan_memory(plan: TilePlan, config: FusionConfig, stacks: Sequence[Stack], *, budget_bytes: int | None, n_workers: int) -> MemoryPlan:
    """Return how many tiles may be in memory at once, and what each may hold.

    Parameters
    ----------
    plan : TilePlan
    config : FusionConfig
    stacks : sequence of Stack
        What is fused, and the guide if there is one.
    budget_bytes : int or None
        Half of the free memory where it is None.
    n_workers : int

    Raises
    ------
    InvalidConfigError
        When the budget does not hold a single tile beside images that can only be decoded as a whole.
    """
    n_px, stack = plan.largest_padded_px, stacks[0]
    windows = [(given.n_images, given.dtype.itemsize * math.prod(given.image_shape[2:]) * n_px) for given in stacks]

    def samples_bytes(held_bytes: int) -> int:
        # beyond that bound windows wait in a temporary file; two more are on their way, as read and as converted
        return sum(min(n_images * window_bytes, held_bytes) + 2 * window_bytes for n_images, window_bytes in windows)

    results = RESULT_PIXEL_BYTES * stack.n_decisions * n_px if stack.decides_each else 0
    working_bytes = results + find_rule(config).working_bytes(config, n_px, stack.n_images)
    least_bytes = working_bytes + samples_bytes(SAMPLES_IN_MEMORY_BYTES)
    whole_bytes = max(given.whole_bytes for given in stacks)
    if budget_bytes is not None:
        _check_budget(budget_bytes, least_bytes, stacks)
    budget = _free_bytes() if budget_bytes is None else budget_bytes
    # at least one, even on a full machine: without a budget nobody asked to be refused
    tiles_at_once = max(1, min(n_workers, budget // least_bytes))
    spare = (budget - whole_bytes) // tiles_at_once - least_bytes
    held_bytes = SAMPLES_IN_MEMORY_BYTES + max(0, spare) // len(stacks)
    return MemoryPlan(tiles_at_once, working_bytes + samples_bytes(held_bytes), held_bytes)


def _check_budget(budget_bytes: int, tile_bytes: int, stacks: Sequence[Stack]) -> None:
    for stack in stacks:
        if stack.whole_bytes > max(budget_bytes - tile_bytes, 0):
            # rounded up: the advice must suffice
            name, needed = stack.names[0], -(-(stack.whole_bytes + tile_bytes) // 10**6)
            msg = (
                f"the memory budget is {budget_bytes / 10**6:g} MB; {name} can only be decoded as a whole, which needs {needed} MB: "
                f"raise it to {needed}MB, or save the images as tiled TIFF"
            )
            raise InvalidConfigError(msg)
    if budget_bytes < tile_bytes:
        needed = -(-tile_bytes // 10**6)
        msg = (
            f"the memory budget is {budget_bytes / 10**6:g} MB; one tile needs {needed} MB: raise it to {needed}MB or make tiles smaller "
            "with the setting tile_px"
        )
        raise InvalidConfigError(msg)


def _free_bytes() -> int:
    return int(psutil.virtual_memory().available * SHARE_OF_FREE_MEMORY)

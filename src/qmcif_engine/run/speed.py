"""An estimate of how long a run will take, from a small image that is fused on this machine first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.run.measurement import measure_run
from qmcif_engine.stack.samples import FULL_SCALE
from qmcif_engine.stack.separate_channels import count_decisions
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.tiles.plan import plan_tiles
from qmcif_engine.tiles.task import TileTask

if TYPE_CHECKING:
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.tiles.plan import TilePlan

TRIAL_SIDE_PX = 256


def estimate_seconds(plan: TilePlan, config: FusionConfig, *, stack: Stack) -> float:
    """Return about how many CPU seconds the tiles of a plan take together; reading and writing come on top."""
    side = min(TRIAL_SIDE_PX, config.tiling.tile_px)
    generator = np.random.default_rng(0)
    texture = generator.integers(0, int(FULL_SCALE), (side, side), dtype=np.uint8)
    pair = stack_arrays([texture, texture[::-1]])
    focus_range, measured = measure_run(pair, config, (0, FULL_SCALE))
    task = TileTask(stack=pair, config=config, focus_range=focus_range, measured=measured)
    (trial,) = plan_tiles((side, side), config).tiles
    task(trial)  # compiles and loads what the measured run will find ready
    # CPU time, not time on the clock: other programs do not count
    started = time.process_time()
    task(trial)
    # two images
    seconds_a_pixel = (time.process_time() - started) / (2 * side**2)
    return seconds_a_pixel * plan.padded_px * stack.n_images * count_decisions(stack)

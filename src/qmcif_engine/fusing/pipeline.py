"""What every fusion begins with: channels, guide, tiles and memory are chosen and checked once, before a sample is read."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.run.execution import Steps, TileSink, count_workers, run_tiles
from qmcif_engine.run.measurement import measure_run
from qmcif_engine.run.memory import (
    check_whole_images,
    choose_tiles_at_once,
    estimate_samples_bytes,
    estimate_tile_bytes,
    share_spare_bytes,
)
from qmcif_engine.stack.guide import settle_guide
from qmcif_engine.stack.samples import FULL_SCALE, GivenRanges
from qmcif_engine.stack.separate_channels import count_decisions, settle_channels
from qmcif_engine.stack.stack import Stack, check_number, companions_of, stack_arrays
from qmcif_engine.tiles.plan import Tile, TilePlan, plan_tiles
from qmcif_engine.tiles.task import TileTask
from qmcif_engine.tiles.window_images import SAMPLES_IN_MEMORY_BYTES

if TYPE_CHECKING:
    from distributed import Client


TRIAL_SIDE_PX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A fusion that is known to be possible, whoever takes its tiles: arrays in memory, dask arrays or files.

    Attributes
    ----------
    stack : Stack
    config : FusionConfig
    guide : Stack or None
        What decides, where it is not the stack itself.
    companions : Stack or None
        Planes composed by the same decisions.
    plan : TilePlan
    tiles_at_once : int
    tile_bytes : int
        Memory of one tile while it is computed, at most.
    samples_bytes : int
        What of that may be windows of the stack, and of the guide, each.
    """

    stack: Stack
    config: FusionConfig
    guide: Stack | None
    companions: Stack | None
    plan: TilePlan
    tiles_at_once: int
    tile_bytes: int
    samples_bytes: int

    @classmethod
    def prepare(
        cls,
        stack: Stack,
        config: FusionConfig | None = None,
        *,
        guide: Stack | None = None,
        companions: Stack | None = None,
        channels: str | None = None,
        memory_bytes: int | None = None,
        workers: int | None = None,
    ) -> Pipeline:
        """Choose and check everything that follows from shapes and settings; the parameters are those of `qmcif_engine.fuse`.

        Raises
        ------
        InvalidImageError
            For fewer than two images, and for a guide that does not fit.
        InvalidConfigError
            When the memory does not hold a single tile.
        """
        settings = FusionConfig() if config is None else config
        stack = settle_channels(stack, channels)
        check_number(stack)
        deciding = settle_guide(guide, stack)
        # shape and settings alone: memory and workers come later and must not change it
        plan = plan_tiles((stack.image_shape[0], stack.image_shape[1]), settings)
        stacks = (stack,) if deciding is None else (stack, deciding)
        least_bytes = estimate_tile_bytes(plan, settings, stack=stack)
        least_bytes += sum(estimate_samples_bytes(plan, further) for further in stacks[1:])
        # images that can only be read whole take memory beside the tiles
        for given in stacks:
            check_whole_images(given.whole_bytes, tile_bytes=least_bytes, budget_bytes=memory_bytes, name=given.names[0])
        tiles_at_once = choose_tiles_at_once(least_bytes, budget_bytes=memory_bytes, n_workers=count_workers(workers))
        samples_bytes = share_spare_bytes(
            least_bytes,
            whole_bytes=max(given.whole_bytes for given in stacks),
            budget_bytes=memory_bytes,
            tiles_at_once=tiles_at_once,
            n_stacks=len(stacks),
        )
        more_bytes = sum(
            estimate_samples_bytes(plan, given, held_bytes=samples_bytes) - estimate_samples_bytes(plan, given) for given in stacks
        )
        return cls(
            stack=stack,
            config=settings,
            guide=deciding,
            companions=companions_of(stack) if companions is None else companions,
            plan=plan,
            tiles_at_once=tiles_at_once,
            tile_bytes=least_bytes + more_bytes,
            samples_bytes=samples_bytes,
        )

    @property
    def steps_a_tile(self) -> int:
        """Steps of a tile: one for each image that is measured, and one for decision and composition."""
        return count_decisions(self.stack) * self.stack.n_images + 1

    def measure(
        self, focus_range: GivenRanges | None = None, *, with_position: bool = False, with_maps: bool = False, client: Client | None = None
    ) -> TileTask:
        """Return the task of all tiles, once range and noise of the whole stack are measured: no tile depends on its surroundings alone."""
        known: dict[str, Any] = {"guide": self.guide, "companions": self.companions}
        bounds, measured = measure_run(self.stack, self.config, focus_range, **known)
        return TileTask(
            stack=self.stack,
            config=self.config,
            focus_range=bounds,
            measured=measured,
            with_position=with_position,
            with_maps=with_maps,
            # what the workers of a cluster can spare is theirs
            samples_bytes=self.samples_bytes if client is None else SAMPLES_IN_MEMORY_BYTES,
            **known,
        )

    def run(self, task: TileTask, tiles: Iterable[Tile], *, sink: TileSink, steps: Steps, client: Client | None) -> None:
        """Compute tiles, which the sink takes."""
        run_tiles(task, tiles, sink=sink, tiles_at_once=self.tiles_at_once, steps=steps, client=client)

    def estimate_seconds(self) -> float:
        """Return about how many CPU seconds all tiles take together; a small image is fused on this machine to find that out."""
        side = min(TRIAL_SIDE_PX, self.config.tiling.tile_px)
        texture = np.random.default_rng(0).integers(0, int(FULL_SCALE), (side, side), dtype=np.uint8)
        trial = Pipeline.prepare(stack_arrays([texture, texture[::-1]]), self.config)
        task, (tile,) = trial.measure((0, FULL_SCALE)), trial.plan.tiles
        task(tile)  # compiles and loads what the measured run will find ready
        # CPU time, not time on the clock: other programs do not count
        started = time.process_time()
        task(tile)
        # two images
        seconds_a_pixel = (time.process_time() - started) / (2 * side**2)
        return seconds_a_pixel * self.plan.padded_px * self.stack.n_images * count_decisions(self.stack)

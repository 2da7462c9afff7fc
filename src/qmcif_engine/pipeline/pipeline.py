"""What every fusion begins with: channels, guide, tiles and memory are chosen and checked once, before a sample is read.

A memory budget decides on the number of tiles in flight, never on their size: it changes no byte of the result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psutil

from qmcif_engine import __version__
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.run.execution import Steps, TileSink, count_workers, run_tiles
from qmcif_engine.run.job_folder import digest
from qmcif_engine.run.measurement import measure_run
from qmcif_engine.stack.deciding import EACH, choose_deciding_channels, join_guide
from qmcif_engine.stack.samples import FULL_SCALE, FocusRanges, GivenRanges, check_number, list_bounds
from qmcif_engine.stack.stack import Stack, stack_arrays
from qmcif_engine.tiles.plan import Tile, TilePlan, find_rule, plan_tiles
from qmcif_engine.tiles.planes import SAMPLES_IN_MEMORY_BYTES
from qmcif_engine.tiles.task import TileTask

if TYPE_CHECKING:
    from distributed import Client


TRIAL_SIDE_PX = 256

SHARE_OF_FREE_MEMORY = 0.5
RESULT_PIXEL_BYTES = 44
"""What each channel that is decided on by itself keeps of its result until all are done, and once more while they are put together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A fusion that is known to be possible, for every sink of its tiles: arrays in memory, dask arrays or files.

    Attributes
    ----------
    stack : Stack
    config : FusionConfig
    guide : Stack or None
        What decides, where it is not the stack itself.
    companions : Stack or None
        Planes composed by the same decisions.
    plan : TilePlan
    tiles_at_once, tile_bytes, samples_bytes : int
        As `MemoryPlan` has them.
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
        stack = choose_deciding_channels(stack, channels)
        check_number(stack.n_images)
        deciding = join_guide(guide, stack)
        # shape and settings alone: memory and workers come later and must not change it
        plan = plan_tiles((stack.image_shape[0], stack.image_shape[1]), settings)
        stacks = (stack,) if deciding is None else (stack, deciding)
        memory = plan_memory(plan, settings, stacks, budget_bytes=memory_bytes, n_workers=count_workers(workers))
        return cls(
            stack=stack,
            config=settings,
            guide=deciding,
            companions=stack.further_planes if companions is None else companions,
            plan=plan,
            **memory._asdict(),
        )

    @property
    def steps_a_tile(self) -> int:
        """Steps of a tile: one for each image that is measured, and one for decision and composition."""
        return self.stack.n_decisions * self.stack.n_images + 1

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

    def describe(self, focus_range: FocusRanges) -> dict[str, Any]:
        """Return version, settings and the kind of the input and of the guide, without times, names and paths.

        The same samples and settings give the same description, wherever and however the samples are stored.
        """
        stack, guide = self.stack, self.guide
        return {
            "version": __version__,
            "images": stack.n_images,
            "image_shape": list(stack.image_shape),  # tifffile takes "shape" in a description for its own
            "dtype": stack.dtype.name,
            "focus_range": list_bounds(focus_range),
            "settings": self.config.to_dict(),
            # said only where it applies
            **({"channels": EACH} if stack.decides_each else {}),
            **({} if guide is None else {"guide": {"image_shape": list(guide.image_shape), "dtype": guide.dtype.name}}),
        }

    def identify(self, focus_range: FocusRanges) -> str:
        """Return the identity that a run would have, by reading every sample and fusing none."""
        task = TileTask(stack=self.stack, config=self.config, focus_range=focus_range, companions=self.companions, guide=self.guide)
        return digest([self.describe(focus_range), [task.digest_input(tile).hex() for tile in self.plan]])

    def estimate_seconds(self) -> float:
        """Return about how many CPU seconds all tiles take together; a small image is fused on this machine to find that out."""
        side = min(TRIAL_SIDE_PX, self.config.tiling.tile_px)
        texture = np.random.default_rng(0).integers(0, int(FULL_SCALE), (side, side), dtype=np.uint8)
        trial = Pipeline.prepare(stack_arrays([texture, texture[::-1]]), self.config)
        task, (tile,) = trial.measure((0, FULL_SCALE)), trial.plan
        task(tile)  # compiles and loads what the measured run will find ready
        # CPU time, not time on the clock: other programs do not count
        started = time.process_time()
        task(tile)
        # two images
        seconds_a_pixel = (time.process_time() - started) / (2 * side**2)
        return seconds_a_pixel * self.plan.padded_px * self.stack.n_images * self.stack.n_decisions


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

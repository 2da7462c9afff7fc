"""What a run from files to files keeps of every tile, and what it takes, before it does anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.io.output.output_formats import choose_format
from qmcif_engine.io.remote.remote_path import RemotePath
from qmcif_engine.io.zarr.growing_image import GrowingImage
from qmcif_engine.run.execution import count_workers
from qmcif_engine.run.job import Job
from qmcif_engine.run.job_folders import JOB_SUFFIX
from qmcif_engine.run.memory import (
    check_whole_images,
    choose_tiles_at_once,
    estimate_samples_bytes,
    estimate_tile_bytes,
    share_spare_bytes,
)
from qmcif_engine.run.tile_files import PlaneKind
from qmcif_engine.stack.separate_channels import channel_planes
from qmcif_engine.stack.stack import check_number, companions_of
from qmcif_engine.stack.window import multiple_above
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS, WRITTEN_MAPS
from qmcif_engine.tiles.plan import TilePlan, chunk_side, plan_tiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.io.remote.remote_path import Location
    from qmcif_engine.stack.stack import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What a run will do and take, before it does anything.

    Attributes
    ----------
    tiles : TilePlan
    tiles_at_once : int
    tile_bytes : int
        Memory of one tile while it is computed, at most.
    samples_bytes : int
        What of that may be windows of the stack, and of the guide, each.
    job_bytes : int
        Disk space beside the target while the run lasts, and beside the store that becomes the target.
    transcoded_bytes : int
        Disk space for images that cannot be read by window.
    output_bytes : int
        Size of the outputs before compression.
    """

    tiles: TilePlan
    tiles_at_once: int
    tile_bytes: int
    samples_bytes: int
    job_bytes: int
    transcoded_bytes: int
    output_bytes: int


def plan_run(
    stack: Stack,
    config: FusionConfig,
    *,
    with_maps: bool = False,
    with_height: bool = False,
    guide: Stack | None = None,
    memory_bytes: int | None = None,
    workers: int | None = None,
    target: Location | None = None,
) -> RunPlan:
    """Report what fusing a stack will take, without reading a sample; a target in Zarr is built in place.

    Raises
    ------
    InvalidImageError
        For fewer than two images.
    InvalidConfigError
        When the memory does not hold a single tile.
    """
    check_number(stack)
    tiles = plan_tiles((stack.image_shape[0], stack.image_shape[1]), config)
    stacks = (stack,) if guide is None else (stack, guide)
    least_bytes = estimate_tile_bytes(tiles, config, stack=stack)
    least_bytes += sum(estimate_samples_bytes(tiles, further) for further in stacks[1:])
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
        estimate_samples_bytes(tiles, given, held_bytes=samples_bytes) - estimate_samples_bytes(tiles, given) for given in stacks
    )
    planes = kept_planes(stack, with_maps=with_maps, with_height=with_height)
    n_pixels = tiles.shape[0] * tiles.shape[1]
    output_bytes = n_pixels * sum(kind.pixel_bytes for kind in planes.values())
    is_store = target is not None and choose_format(target).is_store
    # these planes go to the target at once and never wait in the job folder
    stored_bytes = n_pixels * sum(planes[name].pixel_bytes for name in shown_planes(stack)) if is_store else 0
    return RunPlan(
        tiles=tiles,
        tiles_at_once=tiles_at_once,
        tile_bytes=least_bytes + more_bytes,
        samples_bytes=samples_bytes,
        job_bytes=output_bytes - stored_bytes,
        transcoded_bytes=stack.scratch_bytes + (0 if guide is None else guide.scratch_bytes),
        output_bytes=output_bytes,
    )


def kept_planes(stack: Stack, *, with_maps: bool, with_height: bool) -> dict[str, PlaneKind]:
    """Return the planes of a result, the image first."""
    companions = companions_of(stack)
    planes = {"fused": PlaneKind(stack.dtype, stack.image_shape[2:])}
    if companions is not None:
        planes["companions"] = PlaneKind(companions.dtype, companions.image_shape[2:])
    wanted = [*(WRITTEN_MAPS if with_maps else ()), *(("confidence", "position") if with_height else ())]
    # confidence may be asked for twice, as a map and with the heights
    return planes | {name: PlaneKind(np.dtype(OUTPUT_MAPS[name].dtype), channel_planes(stack)) for name in dict.fromkeys(wanted)}


def shown_planes(stack: Stack) -> tuple[str, ...]:
    """Return the planes that are the fused image: all channels where only some decide, else the stack and its alpha."""
    if stack.companions is not None:
        return ("companions",)
    return ("fused",) if stack.alpha is None else ("fused", "companions")


def make_job(target: Location, run: RunPlan, planes: Mapping[str, PlaneKind], *, stack: Stack, config: FusionConfig) -> Job:
    """Return the job of a run: tiles in files and, where the target is a Zarr, the image in a store that will become it."""
    folder = job_folder(target)
    if not choose_format(target).is_store:
        return Job(folder, run.tiles, planes, n_images=stack.n_images)
    shown, chunk = shown_planes(stack), chunk_side(config)
    first = planes[shown[0]]
    n_colors = first.channels[0] if first.channels else 1
    core = run.tiles.tiles[0].core.shape
    store = GrowingImage(
        folder=target if isinstance(target, RemotePath) else folder,
        shape=(*run.tiles.shape, *(first.channels if len(shown) == 1 else (n_colors + 1,))),
        dtype=first.dtype,
        n_colors=n_colors,
        chunk_px=chunk,
        # cores of the last row and column are shorter; the first one has the full size
        block_px=(multiple_above(core[0], chunk), multiple_above(core[1], chunk)),
    )
    further = {name: kind for name, kind in planes.items() if name not in shown}
    return Job(folder, run.tiles, further, n_images=stack.n_images, store=store, stored_planes=shown)


def job_folder(target: Location) -> Path:
    """Return where the tiles of a run wait until all of them are there: beside the target, or in the working folder for one on a server."""
    if isinstance(target, RemotePath):  # receipts are kept here, chunks go to the bucket
        return Path.cwd() / f"{target.name}-{target.key[:8]}{JOB_SUFFIX}"
    return target.parent / f"{target.name}{JOB_SUFFIX}"

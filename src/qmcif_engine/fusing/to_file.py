"""Fuse from files to files, tile by tile, so that neither images nor results have to fit into memory."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine import __version__
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.depth import HeightRequest, assemble_heights, settle_scale
from qmcif_engine.errors import OutputError
from qmcif_engine.fusing.run_plan import MAP_KINDS, kept_planes, make_job, plan_run, shown_planes
from qmcif_engine.io.output.map_files import check_maps_target, map_path
from qmcif_engine.io.output.picture import PictureContent
from qmcif_engine.io.output.placement import check_sources_kept
from qmcif_engine.io.output.streamed_output import stream_outputs
from qmcif_engine.io.output.writers import check_target
from qmcif_engine.io.zarr.ome_attributes import Extremes
from qmcif_engine.run.execution import run_tiles
from qmcif_engine.run.smaller_levels import grow_smaller_levels
from qmcif_engine.run.steps import FusionProgress, Steps
from qmcif_engine.stack.guide import settle_guide
from qmcif_engine.stack.noise import settle_range_and_noise
from qmcif_engine.stack.picture_metadata import PictureMetadata, name_planes
from qmcif_engine.stack.samples import list_bounds
from qmcif_engine.stack.separate_channels import EACH, channel_planes, count_decisions, settle_channels
from qmcif_engine.stack.stack import Stack, companions_of, settle_range
from qmcif_engine.tiles.plan import plan_tiles
from qmcif_engine.tiles.task import TileTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from distributed import Client

    from qmcif_engine.io.zarr.growing_picture import GrowingPicture
    from qmcif_engine.run.job import Job
    from qmcif_engine.stack.samples import FocusRanges, GivenRanges
    from qmcif_engine.tiles.plan import Tile


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What a finished run did.

    Attributes
    ----------
    outputs : tuple of Path
    n_images : int
    image_shape : tuple of int
    dtype : str
    focus_range : FocusRange, or tuple of one a channel
    n_tiles, n_resumed : int
        Tiles in all, and those that an earlier, interrupted run had finished.
    pixels_by_image : tuple of int
        How many pixels each image gave; images with none could have been left out.
    identity : str
        Digest of version, settings and every sample that went in, as `identify_run` returns it.
    """

    outputs: tuple[Path, ...]
    n_images: int
    image_shape: tuple[int, ...]
    dtype: str
    focus_range: FocusRanges
    n_tiles: int
    n_resumed: int
    pixels_by_image: tuple[int, ...]
    identity: str


def fuse_to_file(
    stack: Stack,
    output: Path | str,
    config: FusionConfig | None = None,
    *,
    maps: Path | str | None = None,
    height: HeightRequest | None = None,
    guide: Stack | None = None,
    focus_range: GivenRanges | None = None,
    channels: str | None = None,
    memory_bytes: int | None = None,
    workers: int | None = None,
    client: Client | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checked: tuple[Path, ...] | None = None,
    on_progress: Callable[[FusionProgress], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> FileReport:
    """Fuse a stack of any size and write the result.

    Parameters
    ----------
    stack : Stack
        What `qmcif_engine.open_stack` returns.
    output : Path
        The suffix chooses the format: .ome.zarr, .ome.tif, .tif, .png or .jpg.
    config : FusionConfig, optional
    maps : Path, optional
        A folder for the source index, base map, detail map and confidence.
    height : HeightRequest, optional
        Where a height map goes, and how it is made.
    guide, focus_range, channels : optional
        See `qmcif_engine.fuse`. Where each channel is decided on by itself, maps and heights have a page for each, in the order of the
        channels.
    memory_bytes : int, optional
        Tiles in flight take no more than this; half of the free memory where it is left out.
    workers : int, optional
        Tiles computed at once on this machine.
    client : distributed.Client, optional
        See `qmcif_engine.fuse`. Workers that see the folder of the target write their tiles themselves.
    resume : bool
        Go on with an interrupted run of the same images and settings.
    overwrite : bool
        Replace existing outputs, and throw an unfinished run away.
    checked : tuple of Path, optional
        What `qmcif_engine.fusing.to_file.check_outputs` returned for the same outputs, which are then not checked again.
    on_progress, is_cancelled : callable, optional
        See `qmcif_engine.fuse`. A cancelled run can be resumed.

    Returns
    -------
    FileReport
    """
    settings = FusionConfig() if config is None else config
    stack = settle_channels(stack, channels)
    stack.expect_all()
    target, folder = Path(output), None if maps is None else Path(maps)
    outputs = checked or check_outputs(stack, target, folder, height=height, overwrite=overwrite)
    kept = {"with_maps": folder is not None, "with_height": height is not None}
    check_sources_kept(outputs, () if guide is None else guide.sources)
    decided = settle_guide(guide, stack)
    run = plan_run(stack, settings, **kept, guide=decided, memory_bytes=memory_bytes, workers=workers, target=target)
    bounds, noise_levels = settle_range_and_noise(stack if decided is None else decided, focus_range)
    companions = companions_of(stack)
    planes = kept_planes(stack, **kept)
    job = make_job(target, run, planes, stack=stack, config=settings)
    description = describe_run(stack, settings, bounds, guide=decided)
    job.begin(_digest([description, list(planes)]), resume=resume, overwrite=overwrite)
    try:
        task = TileTask(stack, settings, bounds, companions, with_position=height is not None, noise_levels=noise_levels, guide=decided)
        tiles = run.tiles.tiles
        is_finished = [job.is_finished(tile) for tile in tiles]
        _check_input(job, task, compress(tiles, is_finished))
        n_missing = is_finished.count(False)
        logger.info("fusing %d images of shape %s, %d of %d tiles", stack.n_images, stack.image_shape, n_missing, len(tiles))
        steps_a_tile = count_decisions(stack) * stack.n_images + 1
        steps = Steps(n_tiles=n_missing, steps_a_tile=steps_a_tile, on_progress=on_progress, is_cancelled=is_cancelled)
        missing = (tile for tile, is_there in zip(tiles, is_finished, strict=True) if not is_there)
        run_tiles(task, missing, sink=job, tiles_at_once=run.tiles_at_once, steps=steps, client=client)
        samples, pixels, extremes = _gather_receipts(job, tiles, n_images=stack.n_images)
        provenance = {**description, "identity": _digest([description, samples])}
        own_range = bounds if decided is None else settle_range(stack, None)  # the picture's edges are on the scale of its own samples
        if job.store is not None:
            grow_smaller_levels(job.store, tiles_at_once=run.tiles_at_once, client=client, is_cancelled=is_cancelled)
            job.store.finish(_describe_store(job.store, stack, provenance), extremes)
        heights = {} if height is None else _heights_of(job, height, stack=stack, sample_range=own_range, provenance=provenance)
        writing: dict[str, Any] = {"provenance": provenance, "overwrite": overwrite, "check_cancelled": steps.check_cancelled}
        _write(job, target, folder, stack=stack, further=heights, **writing)
    except BaseException:
        if not any(job.is_finished(tile) for tile in run.tiles.tiles):
            job.remove()  # nothing to go on with
        raise
    job.remove()
    return FileReport(
        outputs=outputs,
        n_images=stack.n_images,
        image_shape=stack.image_shape,
        dtype=stack.dtype.name,
        focus_range=bounds,
        n_tiles=len(tiles),
        n_resumed=is_finished.count(True),
        pixels_by_image=pixels,
        identity=provenance["identity"],
    )


def _check_input(job: Job, task: TileTask, finished: Iterable[Tile]) -> None:
    """Refuse to go on with tiles that were made of other samples."""
    if any(job.receipt(tile).input_digest != task.digest_input(tile) for tile in finished):
        raise job.refuse_other_input()


def _gather_receipts(job: Job, tiles: Iterable[Tile], *, n_images: int) -> tuple[list[str], tuple[int, ...], Extremes]:
    """Return the digests of all tiles, how many pixels each image gave, and the least and largest sample where tiles know them."""
    digests, counts, extremes = [], np.zeros(n_images, np.int64), Extremes()
    for tile in tiles:
        receipt = job.receipt(tile)
        digests.append(receipt.input_digest.hex())
        counts += receipt.pixels_by_image
        if receipt.extremes is not None:
            extremes.widen(*receipt.extremes)
    return digests, tuple(counts.tolist()), extremes


def _describe_store(store: GrowingPicture, stack: Stack, provenance: Mapping[str, object]) -> PictureContent:
    has_alpha = len(shown_planes(stack)) > 1
    return PictureContent(picture=store.full_level, has_alpha=has_alpha, metadata=describe_picture(stack), provenance=provenance)


def check_outputs(
    stack: Stack, target: Path, maps_folder: Path | None, *, height: HeightRequest | None = None, overwrite: bool
) -> tuple[Path, ...]:
    """Return every file that will be written, once all of them can be."""
    channels = stack.companions
    has_alpha = channels is None and stack.alpha is not None
    shape = stack.image_shape if channels is None else channels.image_shape
    check_target(target, overwrite=overwrite, samples_dtype=stack.dtype, has_alpha=has_alpha, shape=shape)
    maps = () if maps_folder is None else tuple(map_path(maps_folder, name) for name in MAP_KINDS)
    if maps_folder is not None:
        check_maps_target(maps_folder, MAP_KINDS, overwrite=overwrite, picture=target)
    heights = () if height is None else _check_heights(stack, height, overwrite=overwrite)
    outputs = (target, *maps, *heights)
    if len({path.resolve() for path in outputs}) < len(outputs):
        msg = f"{', '.join(repr(str(path)) for path in outputs)} are to be written; a name of its own is needed for each: choose others"
        raise OutputError(msg)
    check_sources_kept(outputs, stack.sources)
    return outputs


def _check_heights(stack: Stack, height: HeightRequest, *, overwrite: bool) -> tuple[Path, Path]:
    settle_scale(stack.metadata, z_step=height.z_step, unit=height.unit)
    targets = (height.target, height.confidence_target)
    for target in targets:
        check_target(target, overwrite=overwrite, samples_dtype=np.float32, shape=(*stack.image_shape[:2], *channel_planes(stack)))
    return targets


def describe_run(stack: Stack, config: FusionConfig, focus_range: FocusRanges, *, guide: Stack | None = None) -> dict[str, Any]:
    """Return version, settings and the kind of the input and of the guide, without times, names and paths.

    The same samples and settings give the same description, wherever and however the samples are stored.
    """
    return {
        "version": __version__,
        "images": stack.n_images,
        "image_shape": list(stack.image_shape),  # tifffile takes "shape" in a description for its own
        "dtype": stack.dtype.name,
        "focus_range": list_bounds(focus_range),
        "settings": config.to_dict(),
        **({"channels": EACH} if stack.decides_each else {}),
        **({} if guide is None else {"guide": {"image_shape": list(guide.image_shape), "dtype": guide.dtype.name}}),
    }


def describe_picture(stack: Stack) -> PictureMetadata:
    """Return the metadata of what is made of a stack; channels that were recorded one by one are named, so that none passes for a color."""
    known = stack.metadata
    if not stack.n_separate_channels:
        return known
    shown = stack.companions or stack
    return replace(known, channel_names=name_planes(known.channel_names, shown.image_shape[2]))


def identify_run(stack: Stack, config: FusionConfig, focus_range: FocusRanges) -> str:
    """Return the identity that a run would have, by reading every sample and fusing none."""
    task = TileTask(stack, config, focus_range, companions_of(stack))
    tiles = plan_tiles((stack.image_shape[0], stack.image_shape[1]), config).tiles
    return _digest([describe_run(stack, config, focus_range), [task.digest_input(tile).hex() for tile in tiles]])


def _digest(description: object) -> str:
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def _heights_of(
    job: Job, height: HeightRequest, *, stack: Stack, sample_range: FocusRanges, provenance: Mapping[str, object]
) -> dict[Path, PictureContent]:
    return assemble_heights(
        height,
        position=job.picture("position"),
        confidence=job.picture("confidence"),
        guide=job.picture("fused"),
        guide_range=sample_range,
        metadata=describe_picture(stack),
        provenance=provenance,
    )


def _write(
    job: Job,
    target: Path,
    maps_folder: Path | None,
    *,
    stack: Stack,
    provenance: Mapping[str, object],
    further: Mapping[Path, PictureContent],
    overwrite: bool,
    check_cancelled: Callable[[], None],
) -> None:
    """Put the tiles together in the formats that the targets name; a store is complete and only moved."""
    shown, *alpha = [None] if job.store is not None else [job.picture(name) for name in shown_planes(stack)]
    stream_outputs(
        target,
        shown,
        alpha=alpha[0] if alpha else None,
        built=None if job.store is None else job.store.folder,
        maps_folder=maps_folder,
        maps={} if maps_folder is None else {name: job.picture(name) for name in MAP_KINDS},
        metadata=describe_picture(stack),
        provenance=provenance,
        further=further,
        overwrite=overwrite,
        scratch_folder=job.folder,
        check_cancelled=check_cancelled,
    )

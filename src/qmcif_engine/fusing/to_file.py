"""Fusion from files to files, tile by tile, so that neither images nor results have to fit into memory."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.depth import HeightRequest, assemble_heights, describe_request
from qmcif_engine.errors import Cancelled
from qmcif_engine.fusing.file_outputs import are_all_there, check_outputs, check_placed
from qmcif_engine.fusing.identity import describe_fused, describe_run, digest, identify_run
from qmcif_engine.fusing.run_plan import job_folder, kept_planes, make_job, plan_run, shown_planes
from qmcif_engine.io.output.placement import check_sources_kept
from qmcif_engine.io.output.streamed_output import stream_outputs
from qmcif_engine.io.output.windowed_image import ImageContent
from qmcif_engine.io.remote.remote_path import RemotePath, locate
from qmcif_engine.io.zarr.ome_attributes import Extremes
from qmcif_engine.run.execution import run_tiles
from qmcif_engine.run.job_folders import recover
from qmcif_engine.run.measurement import measure_run
from qmcif_engine.run.smaller_levels import grow_smaller_levels
from qmcif_engine.run.steps import FusionProgress, Steps
from qmcif_engine.stack.guide import settle_guide
from qmcif_engine.stack.separate_channels import count_decisions, settle_channels
from qmcif_engine.stack.stack import Stack, companions_of, settle_range
from qmcif_engine.tiles.output_maps import WRITTEN_MAPS
from qmcif_engine.tiles.task import TileTask
from qmcif_engine.tiles.window_images import SAMPLES_IN_MEMORY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from distributed import Client

    from qmcif_engine.fusing.run_plan import RunPlan
    from qmcif_engine.io.remote.remote_path import Location
    from qmcif_engine.io.zarr.growing_image import GrowingImage
    from qmcif_engine.run.job import Job
    from qmcif_engine.stack.samples import FocusRanges, GivenRanges
    from qmcif_engine.tiles.plan import Tile


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What a finished run did.

    Attributes
    ----------
    outputs : tuple of Path or RemotePath
    n_images : int
    image_shape : tuple of int
    dtype : str
    focus_range : FocusRange, or tuple of one per channel
    n_tiles, n_resumed : int
        Tiles in all, and those that an earlier, interrupted run had finished.
    pixels_by_image : tuple of int
        How many pixels each image gave; images with none could have been left out. Empty where a resumed run had nothing left to do.
    identity : str
        Digest of version, settings and every sample that went in, as `identify_run` returns it.
    """

    outputs: tuple[Location, ...]
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
    output: Location | str,
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
    checked: tuple[Location, ...] | None = None,
    compose: Callable[..., Mapping[Path, Any]] | None = None,
    on_progress: Callable[[FusionProgress], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> FileReport:
    """Fuse a stack of any size and write the result.

    Parameters
    ----------
    stack : Stack
        What `qmcif_engine.open_stack` returns.
    output : Path, RemotePath or str
        The suffix chooses the format: .ome.zarr, .ome.tif, .tif, .png or .jpg. An OME-Zarr may go to ``s3://``, with the extra ``remote``.
    config : FusionConfig, optional
    maps : Path, optional
        A folder for the maps, those of `qmcif_engine.tiles.output_maps.MapPlanes` but the position.
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
        Go on with an interrupted run of the same images and settings; if it was allowed to replace outputs, it still is. Outputs of a
        run that was finished are left as they are.
    overwrite : bool
        Replace existing outputs, and throw an unfinished run away.
    checked : tuple of Path, optional
        What `qmcif_engine.fusing.file_outputs.check_outputs` returned for the same outputs, which are then not checked again.
    compose : callable, optional
        Returns what else is written with the outputs, given what returns a plane of the result by its name, and the report.
    on_progress, is_cancelled : callable, optional
        See `qmcif_engine.fuse`. A cancelled run can be resumed.

    Returns
    -------
    FileReport
    """
    settings = FusionConfig() if config is None else config
    stack = settle_channels(stack, channels)
    # tiles overlap, so most samples are read more than once: readers may keep what they decode
    stack.expect_all()
    target = locate(output) if isinstance(output, str) else output
    folder = None if maps is None else Path(maps)
    outputs = checked or check_outputs(stack, target, folder, height=height, overwrite=overwrite, resume=resume)
    # a run that was killed after its last move has everything in place, and no job folder to say so
    is_placed = resume and not overwrite and are_all_there(outputs, target)
    # whether the run that is resumed was allowed to replace is noted in its folder
    overwrite = overwrite or (resume and recover(job_folder(target)))
    kept = {"with_maps": folder is not None, "with_height": height is not None}
    check_sources_kept(outputs, () if guide is None else guide.sources)
    decided = settle_guide(guide, stack)
    run = plan_run(stack, settings, **kept, guide=decided, memory_bytes=memory_bytes, workers=workers, target=target)
    companions = companions_of(stack)
    bounds, measured = measure_run(stack, settings, focus_range, guide=decided, companions=companions)
    report = _begin_report(outputs, stack, run, bounds)
    if is_placed:
        return _recognize_outputs(report, stack, settings, guide=decided, height=height)
    planes = kept_planes(stack, **kept)
    job = make_job(target, run, planes, stack=stack, config=settings)
    description = describe_run(stack, settings, bounds, guide=decided)
    # what a cluster's workers can spare is theirs
    samples_bytes = run.samples_bytes if client is None else SAMPLES_IN_MEMORY_BYTES
    wanted: dict[str, Any] = {"with_position": height is not None, "with_maps": folder is not None, "samples_bytes": samples_bytes}
    fixed: dict[str, Any] = {"stack": stack, "config": settings, "focus_range": bounds, "companions": companions, "guide": decided}
    task = TileTask(**fixed, measured=measured, **wanted)
    # planes and noise too: tiles of a run without maps, or of another noise level, cannot be used
    job.begin(
        digest([description, list(planes), [statistics.noise for statistics in measured.statistics]]), resume=resume, overwrite=overwrite
    )

    def is_over() -> bool:
        job.beat()
        return is_cancelled is not None and is_cancelled()

    try:
        finished = _complete_tiles(job, task, run, client=client, on_progress=on_progress, is_over=is_over)
        provenance = {**description, "identity": digest([description, finished.digests])}
        identity = provenance["identity"]
        report = replace(report, n_resumed=finished.n_resumed, pixels_by_image=finished.pixels_by_image, identity=identity)
        own_range = bounds if decided is None else settle_range(stack, None)  # the image's edges are on the scale of its own samples
        if job.store is not None:
            # after all tiles: a smaller level mixes pixels of neighboring tiles
            grow_smaller_levels(job.store, tiles_at_once=run.tiles_at_once, client=client, is_cancelled=is_over)
            job.finish_store(_describe_store(job.store, stack, provenance), finished.extremes)
        further = {} if height is None else _heights_of(job, height, stack=stack, sample_range=own_range, provenance=provenance)
        if compose is not None:
            further |= compose(job.image, report)
        writing: dict[str, Any] = {"provenance": provenance, "overwrite": overwrite, "check_cancelled": finished.check_cancelled}
        _write(job, target, folder, stack=stack, further=further, n_workers=run.tiles_at_once, **writing)
    except BaseException:
        # also for Ctrl+C: the lock is given back, and finished tiles stay for --resume
        job.give_up()
        raise
    job.remove()
    return report


def _begin_report(outputs: tuple[Location, ...], stack: Stack, run: RunPlan, bounds: FocusRanges) -> FileReport:
    """Return what is known before any tile is looked at."""
    return FileReport(
        outputs=outputs,
        n_images=stack.n_images,
        image_shape=(stack.companions or stack).image_shape,
        dtype=stack.dtype.name,
        focus_range=bounds,
        n_tiles=len(run.tiles.tiles),
        n_resumed=len(run.tiles.tiles),
        pixels_by_image=(),
        identity="",
    )


def _recognize_outputs(
    report: FileReport, stack: Stack, config: FusionConfig, *, guide: Stack | None, height: HeightRequest | None
) -> FileReport:
    """Return the report of outputs that are all in place, once they are known to be those of this run."""
    identity = identify_run(stack, config, report.focus_range, guide=guide)
    heights: dict[Location, Mapping[str, object]] = {} if height is None else {height.target: describe_request(height, stack.metadata)}
    check_placed(report.outputs, identity, heights=heights)
    return replace(report, identity=identity)


class _FinishedTiles(NamedTuple):
    """What is known of the tiles of a job once all are there: how many an earlier run had finished, and what their receipts say."""

    n_resumed: int
    digests: list[str]
    pixels_by_image: tuple[int, ...]
    extremes: Extremes
    check_cancelled: Callable[[], None]


def _complete_tiles(
    job: Job,
    task: TileTask,
    run: RunPlan,
    *,
    client: Client | None,
    on_progress: Callable[[FusionProgress], None] | None,
    is_over: Callable[[], bool],
) -> _FinishedTiles:
    """Compute the tiles that no earlier run has finished."""
    stack, tiles = task.stack, run.tiles.tiles
    # asked once: tiles that others finish while this run lasts do not count as resumed
    is_finished = list(map(job.is_finished, _watched(tiles, is_over)))
    # finished tiles are trusted only if the samples under them are still the same
    _check_input(job, task, _watched(compress(tiles, is_finished), is_over))
    n_missing = is_finished.count(False)
    logger.info("fusing %d images of shape %s, %d of %d tiles", stack.n_images, stack.image_shape, n_missing, len(tiles))
    steps_a_tile = count_decisions(stack) * stack.n_images + 1
    steps = Steps(n_tiles=n_missing, steps_a_tile=steps_a_tile, on_progress=on_progress, is_cancelled=is_over)
    missing = (tile for tile, is_there in zip(tiles, is_finished, strict=True) if not is_there)
    run_tiles(task, missing, sink=job, tiles_at_once=run.tiles_at_once, steps=steps, client=client)
    # in the order of the plan, whoever computed what and when, so that the identity is the same
    receipts = _gather_receipts(job, task, _watched(tiles, is_over), is_finished)
    return _FinishedTiles(is_finished.count(True), *receipts, steps.check_cancelled)


def _watched(tiles: Iterable[Tile], is_over: Callable[[], bool]) -> Iterator[Tile]:
    """Yield tiles, each after a chance to stop: on a large job even looking at what is there takes long."""
    for number, tile in enumerate(tiles):
        if is_over():
            msg = f"the run was cancelled while its finished tiles were looked at, after {number}; they are kept: continue with --resume"
            raise Cancelled(msg)
        yield tile


def _check_input(job: Job, task: TileTask, finished: Iterable[Tile]) -> None:
    """Refuse to go on with tiles that were made of other samples."""
    if any(job.receipt(tile).input_digest != task.digest_input(tile) for tile in finished):
        raise job.refuse_other_input()


def _gather_receipts(
    job: Job, task: TileTask, tiles: Iterable[Tile], is_known: Iterable[bool]
) -> tuple[list[str], tuple[int, ...], Extremes]:
    """Return the digests of all tiles, how many pixels each image gave, and the least and largest sample where tiles know them.

    Tiles that neither this run wrote nor were compared with its input when it began come from a run that lost the folder to this one;
    they are compared now.
    """
    digests, counts = [], np.zeros(task.stack.n_images, np.int64)
    extremes = Extremes(1 if job.store is None else job.store.n_colors)
    for tile, was_there in zip(tiles, is_known, strict=True):
        receipt = job.receipt(tile)
        if receipt.session != job.session and not was_there:
            _check_input(job, task, [tile])
        digests.append(receipt.input_digest.hex())
        counts += receipt.pixels_by_image
        if receipt.stored is not None:
            extremes.widen(receipt.stored.extremes)
    return digests, tuple(counts.tolist()), extremes


def _describe_store(store: GrowingImage, stack: Stack, provenance: Mapping[str, object]) -> ImageContent:
    has_alpha = len(shown_planes(stack)) > 1
    return ImageContent(image=store.full_level, has_alpha=has_alpha, metadata=describe_fused(stack), provenance=provenance)


def _heights_of(
    job: Job, height: HeightRequest, *, stack: Stack, sample_range: FocusRanges, provenance: Mapping[str, object]
) -> dict[Path, ImageContent]:
    return assemble_heights(
        height,
        position=job.image("position"),
        confidence=job.image("confidence"),
        guide=job.image("fused"),
        guide_range=sample_range,
        metadata=describe_fused(stack),
        provenance=provenance,
    )


def _write(
    job: Job,
    target: Location,
    maps_folder: Path | None,
    *,
    stack: Stack,
    provenance: Mapping[str, object],
    further: Mapping[Path, ImageContent],
    n_workers: int,
    overwrite: bool,
    check_cancelled: Callable[[], None],
) -> None:
    """Put the tiles together in the formats that the targets name; a store is complete and only moved."""
    if isinstance(target, RemotePath) and maps_folder is None and not further:
        job.journal().commit()  # the store is where it belongs, and nothing else is to be placed
        return
    # a Zarr is built in place already: nothing is to be assembled
    shown, *alpha = [None] if job.store is not None else [job.image(name) for name in shown_planes(stack)]
    stream_outputs(
        target,
        shown,
        alpha=alpha[0] if alpha else None,
        built=job.store.folder if job.store is not None and isinstance(job.store.folder, Path) else None,
        maps_folder=maps_folder,
        maps={} if maps_folder is None else {name: job.image(name) for name in WRITTEN_MAPS},
        metadata=describe_fused(stack),
        provenance=provenance,
        further=further,
        overwrite=overwrite,
        scratch_folder=job.folder,
        journal=job.journal(),
        n_workers=n_workers,
        check_cancelled=check_cancelled,
    )

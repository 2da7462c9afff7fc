"""``qmcif fuse``: a stack opened and fused, all outputs written at once, and a report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from qmcif_engine import __version__
from qmcif_engine.cli.alignment_options import check_alignment, estimate_transforms, prepare_inputs
from qmcif_engine.cli.chosen_settings import gather_settings
from qmcif_engine.cli.named_stacks import open_guide, open_inputs, prepare_guide
from qmcif_engine.cli.options import Request
from qmcif_engine.cli.targets import Targets, gather_targets, label_times
from qmcif_engine.cli.terminal import (
    peak_memory_bytes,
    printable,
    progress_bar,
    report_compilation,
    report_outputs_among,
    report_repeated,
    show_bytes,
    show_seconds,
)
from qmcif_engine.cli.time_series import fuse_series, is_series
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.fusing.file_outputs import check_outputs
from qmcif_engine.fusing.identity import identify_run
from qmcif_engine.fusing.joined_times import check_series_target
from qmcif_engine.fusing.run_plan import job_folder, plan_run
from qmcif_engine.fusing.to_file import FileReport, fuse_to_file
from qmcif_engine.io.input.file_stack import FileStack
from qmcif_engine.io.output.placement import check_sources_kept
from qmcif_engine.io.remote.remote_path import Location
from qmcif_engine.run.execution import count_workers
from qmcif_engine.run.scheduler_connection import connect_to_scheduler
from qmcif_engine.run.speed import estimate_seconds
from qmcif_engine.slabs import fuse_in_slabs, plan_slabs
from qmcif_engine.stack.guide import settle_guide
from qmcif_engine.stack.samples import FocusRanges, GivenRanges, list_bounds
from qmcif_engine.stack.stack import settle_range

if TYPE_CHECKING:
    from distributed import Client

LARGEST_LIST = 10
"""Names that a line of text lists before it only counts."""

NOTHING_LEFT = "nothing is left to fuse: every time point is there already"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """A finished fusion.

    Attributes
    ----------
    report : FileReport
    unused_images : tuple of str
        Names of the images that gave no pixel.
    wall_seconds, cpu_seconds : float
    """

    report: FileReport
    unused_images: tuple[str, ...]
    wall_seconds: float
    cpu_seconds: float


def run(options: Request) -> None:
    """Fuse the named inputs as the options say."""
    settings = gather_settings(preset_name=options.preset, config_file=options.config, assignments=options.assignments)
    if options.dry_run:
        with open_inputs(options) as stack:
            render_plan(stack, settings, options, guide=open_guide(stack, options), points=points_in_time(stack, options))
        return
    results = fuse_inputs(options, settings)
    render(results, settings, options)
    if not options.quiet:
        report_repeated(options.images)
        report_outputs_among(options.images, [path for result in results for path in result.report.outputs])


def fuse_inputs(options: Request, settings: FusionConfig, *, skips_finished: bool = False) -> list[Fused]:
    """Fuse what the options name, every time point by itself, and write it; finished ones may be left out."""
    with ExitStack() as closing:
        closing.enter_context(report_compilation(is_quiet=options.quiet or options.json))
        stack = closing.enter_context(open_inputs(options))
        guide = open_guide(stack, options)
        if guide is not None:
            closing.enter_context(guide)
        points = points_in_time(stack, options)
        # everything that can be refused is, before a cluster is asked or an image is decoded
        outputs = _check_request(stack, options, points, guide=guide)
        client = closing.enter_context(connect_to_scheduler(options.scheduler)) if options.scheduler else None
        if client is not None and not options.quiet and not options.json:
            print(f"computing on the cluster at {options.scheduler}; its dashboard is at {client.dashboard_link}")
        for opened in (stack,) if guide is None else (stack, guide):
            if opened.scratch_bytes and not options.quiet and not options.json:
                print(f"decoding {opened.n_images} images once into {show_bytes(opened.scratch_bytes)} of scratch space")
        estimate_transforms(stack, options)
        fuse = partial(_fuse_point, settings=settings, guide=guide, client=client)
        if is_series(stack, options):
            return fuse_series(stack, options, settings, fuse=fuse, identify=partial(_identify_point, settings=settings, guide=guide))
        # those that are there first: what they are is known before anything is fused
        order = sorted(points, key=lambda number: options.resume and not points[number].output.exists())
        results = _fuse_all(stack, options, {number: partial(fuse, targets=points[number], outputs=outputs[number]) for number in order})
        leaves_out = skips_finished or len(points) > 1
        # no pixels are counted of what was there already
        return [result for result in results if result.report.pixels_by_image or not leaves_out]


def _fuse_all(stack: FileStack, options: Request, points: dict[int, Callable[..., Fused]]) -> list[Fused]:
    """Fuse one time point after the other."""
    results: list[Fused] = []
    for number, fuse in points.items():
        try:
            results.append(fuse(stack, number, options))
        except KeyboardInterrupt:
            if results:
                msg = "what is finished is kept: continue with --resume"
                raise KeyboardInterrupt(msg) from None
            raise
    return results


def _fuse_point(
    stack: FileStack,
    number: int,
    options: Request,
    *,
    settings: FusionConfig,
    guide: FileStack | None,
    client: Client | None,
    targets: Targets,
    outputs: tuple[Location, ...],
    is_cancelled: Callable[[], bool] | None = None,
) -> Fused:
    with ExitStack() as leaving:  # it removes decoded copies, which would add up
        point = leaving.enter_context(stack.at_time(number))
        deciding = None if guide is None else leaving.enter_context(guide.at_time(number))
        how: dict[str, Any] = {"outputs": outputs, "client": client, "is_cancelled": is_cancelled}
        return _fuse(point, settings, options, guide=deciding, targets=targets, **how)


def _identify_point(
    stack: FileStack, number: int, options: Request, *, settings: FusionConfig, guide: FileStack | None
) -> tuple[str, FocusRanges]:
    """Return what the report of a time point would say of its identity and range, by reading every sample and fusing none."""
    with ExitStack() as leaving:
        point = leaving.enter_context(stack.at_time(number))
        deciding = None if guide is None else leaving.enter_context(guide.at_time(number))
        prepared = prepare_inputs(point, options)
        decided = settle_guide(prepare_guide(deciding, prepared, options), prepared)
        bounds = settle_range(prepared if decided is None else decided, _given_ranges(options))
        return identify_run(prepared, settings, bounds, guide=decided), bounds


def _check_request(
    stack: FileStack, options: Request, points: dict[int, Targets], *, guide: FileStack | None
) -> dict[int, tuple[Location, ...]]:
    """Refuse what cannot be met before anything is computed; return what will be written for each time point."""
    outputs = {}
    if is_series(stack, options):
        # what is there may turn out to be the result of this run
        check_series_target(stack, options.output, stack.n_times, overwrite=options.overwrite or options.resume)
    for number, targets in points.items():
        allowed = {"overwrite": options.overwrite, "resume": options.resume}
        outputs[number] = check_outputs(stack, targets.output, targets.maps, height=targets.height, **allowed)
        check_sources_kept(outputs[number], () if guide is None else guide.sources)
        check_alignment(stack, options, outputs[number])
        if targets.slabs is not None:
            plan_slabs(stack.n_images, size=targets.slabs.size, overlap=targets.slabs.overlap)
    return outputs


def points_in_time(stack: FileStack, options: Request) -> dict[int, Targets]:
    """Return where the result of each time point goes, the one that was asked for or all; those of a series go to one place."""
    targets = gather_targets(options)
    if options.time is not None or stack.n_times == 1:
        return {options.time or 0: targets}
    if is_series(stack, options):
        return dict.fromkeys(range(stack.n_times), targets)
    return {number: targets.at_time(label) for number, label in label_times(stack.n_times).items()}


def _fuse(
    stack: FileStack,
    settings: FusionConfig,
    options: Request,
    *,
    guide: FileStack | None,
    targets: Targets,
    outputs: tuple[Location, ...],
    client: Client | None,
    is_cancelled: Callable[[], bool] | None,
) -> Fused:
    started_wall, started_cpu = time.perf_counter(), time.process_time()
    prepared = prepare_inputs(stack, options)
    fuse = partial(fuse_to_file, guide=prepare_guide(guide, prepared, options))
    if targets.slabs is not None:
        fuse = partial(fuse_in_slabs, slabs=targets.slabs, channels=options.channels)
    try:
        with progress_bar("fusing", is_quiet=options.quiet) as move:
            report = fuse(
                prepared,
                targets.output,
                settings,
                maps=targets.maps,
                height=targets.height,
                focus_range=_given_ranges(options),
                memory_bytes=options.memory,
                workers=options.workers,
                client=client,
                resume=options.resume,
                overwrite=options.overwrite,
                checked=outputs,
                on_progress=lambda progress: move(*progress),
                is_cancelled=is_cancelled,
            )
    except KeyboardInterrupt:
        folders = [job_folder(targets.output), *([] if targets.slabs is None else [targets.slabs.folder])]
        if any(folder.exists() for folder in folders):
            msg = "finished tiles are kept: continue with --resume, or discard them with --overwrite"
            raise KeyboardInterrupt(msg) from None
        raise
    counts = report.pixels_by_image or (None,) * report.n_images  # none are known where all outputs were in place
    unused = tuple(name for name, n_pixels in zip(prepared.names, counts, strict=True) if n_pixels == 0)
    return Fused(
        report=report,
        unused_images=unused,
        wall_seconds=round(time.perf_counter() - started_wall, 3),
        cpu_seconds=round(time.process_time() - started_cpu, 3),
    )


def _given_ranges(options: Request) -> GivenRanges | None:
    """Return one range for all channels, or one for each where the option was repeated."""
    if options.focus_range is None:
        return None
    pairs = [(low, high) for low, high in options.focus_range]
    return pairs[0] if len(pairs) == 1 else pairs


def render(results: list[Fused], settings: FusionConfig, options: Request) -> None:
    """Report what was done: one JSON object, or a line or two for each time point."""
    if options.json:
        contents = [describe_fusion(result, settings) for result in results]
        print(json.dumps(contents[0] if len(contents) == 1 else {"times": contents}))
        return
    if not results and not options.quiet:
        print(NOTHING_LEFT)
    # time points of one file: they are told of in one line
    is_joined = len(results) > 1 and len({result.report.outputs for result in results}) == 1
    if is_joined and not options.quiet:
        seconds, report = sum(result.wall_seconds for result in results), results[0].report
        outputs = ", ".join(map(str, report.outputs))
        print(f"fused {report.n_images} images at {len(results)} time points in {seconds:.1f} s: {outputs}")
    for result in [] if options.quiet or is_joined else results:
        report = result.report
        print(
            f"fused {report.n_images} images in {result.wall_seconds:.1f} s: {', '.join(printable(str(path)) for path in report.outputs)}"
        )
        if result.unused_images:
            print(f"{len(result.unused_images)} of {report.n_images} images gave no pixel: {_shorten(result.unused_images)}")


def _shorten(names: Sequence[str]) -> str:
    shown = ", ".join(map(printable, names[:LARGEST_LIST]))
    return shown if len(names) <= LARGEST_LIST else f"{shown} and {len(names) - LARGEST_LIST} more"


def describe_fusion(result: Fused, settings: FusionConfig) -> dict[str, Any]:
    """Return a finished fusion as JSON tells it."""
    report = result.report
    return {
        "version": __version__,
        "images": report.n_images,
        "shape": list(report.image_shape),
        "dtype": report.dtype,
        "wall_seconds": result.wall_seconds,
        "cpu_seconds": result.cpu_seconds,
        "peak_memory_bytes": peak_memory_bytes(),
        "tiles": report.n_tiles,
        "resumed_tiles": report.n_resumed,
        "focus_range": list_bounds(report.focus_range),
        "pixels_by_image": list(report.pixels_by_image),
        "unused_images": list(result.unused_images),
        "settings": settings.to_dict(),
        "outputs": [str(path) for path in report.outputs],
    }


def render_plan(stack: FileStack, settings: FusionConfig, options: Request, *, guide: FileStack | None, points: dict[int, Targets]) -> None:
    """Report what the run would take, once it is known to be possible."""
    _check_request(stack, options, points, guide=guide)
    kept: dict[str, Any] = {"with_maps": options.maps is not None, "with_height": options.depth is not None}
    target = next(iter(points.values())).output
    plan = plan_run(stack, settings, **kept, guide=guide, memory_bytes=options.memory, workers=options.workers, target=target)
    cpu_seconds = len(points) * estimate_seconds(plan.tiles, settings, stack=stack)
    tiles_at_once = min(plan.tiles_at_once, len(plan.tiles.tiles))
    content = {
        "images": stack.n_images,
        "times": len(points),
        "shape": list((stack.companions or stack).image_shape),
        "dtype": stack.dtype.name,
        "tiles": len(plan.tiles.tiles),
        "tile_core": list(plan.tiles.tiles[0].core.shape),
        "overlap_px": plan.tiles.overlap_px,
        "tiles_at_once": tiles_at_once,
        "memory_bytes": tiles_at_once * plan.tile_bytes,
        "scratch_bytes": plan.job_bytes + plan.transcoded_bytes,
        "output_bytes": len(points) * plan.output_bytes,
        "cpu_seconds": round(cpu_seconds, 1),
        "wall_seconds": round(cpu_seconds / tiles_at_once, 1),
    }
    if options.json:
        print(json.dumps(content))
        return
    height, width = plan.tiles.tiles[0].core.shape
    times = "" if len(points) == 1 else f", at {len(points)} time points"
    print(f"images      {stack.n_images} of {stack.image_shape[1]} x {stack.image_shape[0]} pixels, {stack.dtype.name}{times}")
    print(f"tiles       {content['tiles']} of {width} x {height} pixels, overlap {plan.tiles.overlap_px}, {tiles_at_once} at once")
    n_wanted = min(count_workers(options.workers), len(plan.tiles.tiles))
    if tiles_at_once < n_wanted:
        # rounded up: the advice must suffice
        print(f"            --memory {-(-n_wanted * plan.tile_bytes // 10**6)}MB would allow {n_wanted} at once, one for each worker")
    print(f"memory      at most {show_bytes(tiles_at_once * plan.tile_bytes)} for tiles")
    print(f"scratch     {show_bytes(plan.job_bytes + plan.transcoded_bytes)} on disk while it runs")
    print(f"output      at most {show_bytes(len(points) * plan.output_bytes)} before compression and smaller copies")
    print(f"time        about {show_seconds(cpu_seconds / tiles_at_once)} for tiles; start, alignment and files come on top")

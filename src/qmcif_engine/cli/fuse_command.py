"""``qmcif fuse``: a stack opened and fused, all outputs written at once, and a report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from qmcif_engine import __version__
from qmcif_engine.cli import stacks
from qmcif_engine.cli.options import Request
from qmcif_engine.cli.terminal import peak_memory_bytes, printable, progress_bar, report_compilation, show_bytes, show_seconds
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.io.input.file_stack import FileStack
from qmcif_engine.pipeline.batch import run_list
from qmcif_engine.pipeline.file_run import FileReport, FileRun
from qmcif_engine.pipeline.outputs import label_times
from qmcif_engine.run.execution import connect_to_scheduler, count_workers
from qmcif_engine.run.job_folder import name_job_folder, recover
from qmcif_engine.stack.preparation import prepare_stack
from qmcif_engine.stack.samples import GivenRanges, list_bounds
from qmcif_engine.stack.stack import Stack

if TYPE_CHECKING:
    from distributed import Client

LARGEST_LIST = 10
"""Names that a line of text lists before it only counts."""

NOTHING_LEFT = "nothing is left to fuse: every time point is there already"


class Fused(NamedTuple):
    """A finished fusion, the names of the images that gave no pixel, and its times."""

    report: FileReport
    unused_images: tuple[str, ...]
    wall_seconds: float
    cpu_seconds: float


def run(options: Request) -> None:
    """Fuse the named inputs as the options say."""
    settings = stacks.gather_settings(preset_name=options.preset, config_file=options.config, assignments=options.assignments)
    if options.dry_run:
        with stacks.open_inputs(options) as stack:
            guide = stacks.open_guide(stack, options)
            render_plan(stack, prepare_runs(stack, options, settings, guide=guide, may_replace=options.overwrite), options)
        return
    results = fuse_inputs(options, settings)
    render(results, settings, options)
    if not options.quiet:
        stacks.report_misplaced(options.images, [path for result in results for path in result.report.outputs])


def fuse_inputs(
    options: Request, settings: FusionConfig, *, skips_finished: bool = False, is_cancelled: Callable[[], bool] | None = None
) -> list[Fused]:
    """Fuse what the options name, every time point by itself, and write it; finished ones may be left out."""
    with ExitStack() as closing:
        closing.enter_context(report_compilation(is_quiet=not options.is_verbose))
        stack = closing.enter_context(stacks.open_inputs(options))
        guide = stacks.open_guide(stack, options)
        if guide is not None:
            closing.enter_context(guide)
        numbers = _list_points(stack, options)
        listed, may_replace = None, options.overwrite
        if len(numbers) > 1 and options.split_time:
            listed = name_job_folder(options.output)
            may_replace |= options.resume and recover(listed)
        # everything that can be refused is, before a cluster is asked or an image is decoded
        runs = prepare_runs(stack, options, settings, guide=guide, may_replace=may_replace)
        client = closing.enter_context(connect_to_scheduler(options.scheduler)) if options.scheduler else None
        if client is not None and options.is_verbose:
            print(f"computing on the cluster at {options.scheduler}; its dashboard is at {client.dashboard_link}")
        stacks.report_decoding(options, stack, *(() if guide is None else (guide,)))
        stacks.estimate_transforms(stack, options)
        if listed is not None:
            several = closing.enter_context(run_list(listed, settings, resume=options.resume, overwrite=options.overwrite))
            is_cancelled = several.watch(is_cancelled)
        results: list[Fused] = []
        # those that are there first: what they are is known before anything is fused
        for run in sorted(runs, key=lambda run: options.resume and not run.outputs.image.exists()):
            results += _fuse(run, stack, options, client=client, is_cancelled=is_cancelled)
            if listed is not None:
                several.has_results = True
        # no pixels are counted of what was there already
        leaves_out = skips_finished or len(numbers) > 1
        return [result for result in results if result.report.pixels_by_image or not leaves_out]


def prepare_runs(
    stack: FileStack, options: Request, settings: FusionConfig, *, guide: FileStack | None, may_replace: bool
) -> list[FileRun]:
    """Return one run for all time points, or one for each where these are to be split, once all of them are known to be possible."""
    outputs, numbers = stacks.gather_outputs(options), _list_points(stack, options)
    # one range for all channels, or one for each where the option was repeated
    ranges = [(low, high) for low, high in options.focus_range]
    focus_range: GivenRanges | None = ranges if len(ranges) > 1 else next(iter(ranges), None)
    groups = {outputs: numbers}
    if options.split_time and len(numbers) > 1:
        groups = {outputs.at_time(label): [number] for number, label in label_times(stack.n_times).items()}
    runs = []
    for place, points in groups.items():
        run = FileRun.prepare(
            stack,
            place,
            settings,
            points=[partial(_open_point, stack, guide, number, options) for number in points],
            guide=guide,
            channels=options.channels,
            focus_range=focus_range,
            memory_bytes=options.memory,
            workers=options.workers,
            resume=options.resume,
            overwrite=may_replace,
        )
        stacks.check_alignment(stack, options, run.files)
        runs.append(run)
    return runs


def _list_points(stack: FileStack, options: Request) -> list[int]:
    """Return the time points that are fused: the one that was asked for, or all."""
    return list(range(stack.n_times)) if options.time is None else [options.time]


@contextmanager
def _open_point(stack: FileStack, guide: FileStack | None, number: int, options: Request) -> Iterator[tuple[Stack, Stack | None]]:
    """Open one time point as the options say; leaving it removes decoded copies, which would add up."""
    with ExitStack() as leaving:
        point = leaving.enter_context(stack.at_time(number))
        deciding = None if guide is None else leaving.enter_context(guide.at_time(number))
        prepared = stacks.prepare_inputs(point, options)
        if deciding is None:
            yield prepared, None
            return
        deciding.expect_all()
        # moved as its stack was, and its own images evened out where that is asked for
        reference = None if options.reference is None else options.reference - 1
        how: dict[str, Any] = {"transforms": prepared.transforms, "even_exposure": options.even_exposure}
        yield prepared, prepare_stack(deciding, reference=reference, **how)


def _fuse(
    run: FileRun, stack: FileStack, options: Request, *, client: Client | None, is_cancelled: Callable[[], bool] | None
) -> list[Fused]:
    """Carry out one run, and return what became of each of its time points."""
    started_wall, started_cpu = time.perf_counter(), time.process_time()
    try:
        with progress_bar("fusing", is_quiet=options.quiet) as move:
            reports = run(client=client, on_progress=lambda progress: move(*progress), is_cancelled=is_cancelled)
    except KeyboardInterrupt:
        if name_job_folder(run.outputs.image).exists():
            msg = "finished tiles are kept: continue with --resume, or discard them with --overwrite"
            raise KeyboardInterrupt(msg) from None
        raise
    wall_seconds, cpu_seconds = time.perf_counter() - started_wall, time.process_time() - started_cpu
    return [
        Fused(
            report,
            # none are known where all outputs were in place
            tuple(name for name, n_pixels in zip(stack.names, report.pixels_by_image, strict=False) if n_pixels == 0),
            # time points share the time of their run
            round(wall_seconds / len(reports), 3),
            round(cpu_seconds / len(reports), 3),
        )
        for report in reports
    ]


def render(results: list[Fused], settings: FusionConfig, options: Request) -> None:
    """Report what was done: one JSON object, or a line or two for each time point."""
    if options.json:
        contents = [describe_fusion(result, settings) for result in results]
        print(json.dumps(contents[0] if len(contents) == 1 else {"times": contents}))
    if not options.is_verbose:
        return
    if not results:
        print(NOTHING_LEFT)
    # time points of one file are reported in one line
    if len(results) > 1 and len({result.report.outputs for result in results}) == 1:
        seconds, report = sum(result.wall_seconds for result in results), results[0].report
        print(f"fused {report.n_images} images at {len(results)} time points in {seconds:.1f} s: {', '.join(map(str, report.outputs))}")
        return
    for report, unused_images, seconds, _ in results:
        print(f"fused {report.n_images} images in {seconds:.1f} s: {', '.join(printable(str(path)) for path in report.outputs)}")
        if unused_images:
            further = f" and {len(unused_images) - LARGEST_LIST} more" if len(unused_images) > LARGEST_LIST else ""
            shown = ", ".join(map(printable, unused_images[:LARGEST_LIST]))
            print(f"{len(unused_images)} of {report.n_images} images gave no pixel: {shown}{further}")


def describe_fusion(result: Fused, settings: FusionConfig) -> dict[str, Any]:
    """Return a finished fusion for the JSON output."""
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


def render_plan(stack: FileStack, runs: list[FileRun], options: Request) -> None:
    """Report what the runs would take, which are known to be possible."""
    run, n_times = runs[0], sum(len(run.points) for run in runs)
    plan = run.pipeline
    tiles = plan.plan
    cpu_seconds = n_times * plan.estimate_seconds()
    output_bytes = sum(run.output_bytes for run in runs)
    tiles_at_once = min(plan.tiles_at_once, len(tiles))
    content = {
        "images": stack.n_images,
        "times": n_times,
        "shape": list((stack.companions or stack).image_shape),
        "dtype": stack.dtype.name,
        "tiles": len(tiles),
        "tile_core": list(tiles[0].core.shape),
        "overlap_px": plan.plan.overlap_px,
        "tiles_at_once": tiles_at_once,
        "memory_bytes": tiles_at_once * plan.tile_bytes,
        "scratch_bytes": run.job_bytes + run.transcoded_bytes,
        "output_bytes": output_bytes,
        "cpu_seconds": round(cpu_seconds, 1),
        "wall_seconds": round(cpu_seconds / tiles_at_once, 1),
    }
    if options.json:
        print(json.dumps(content))
        return
    height, width = tiles[0].core.shape
    times = "" if n_times == 1 else f", at {n_times} time points"
    print(f"images      {stack.n_images} of {stack.image_shape[1]} x {stack.image_shape[0]} pixels, {stack.dtype.name}{times}")
    print(f"tiles       {content['tiles']} of {width} x {height} pixels, overlap {plan.plan.overlap_px}, {tiles_at_once} at once")
    n_wanted = min(count_workers(options.workers), len(tiles))
    if tiles_at_once < n_wanted:
        # rounded up: the advice must suffice
        print(f"            --memory {-(-n_wanted * plan.tile_bytes // 10**6)}MB would allow {n_wanted} at once, one for each worker")
    print(f"memory      at most {show_bytes(tiles_at_once * plan.tile_bytes)} for tiles")
    print(f"scratch     {show_bytes(run.job_bytes + run.transcoded_bytes)} on disk while it runs")
    print(f"output      at most {show_bytes(output_bytes)} before compression and smaller copies")
    print(f"time        about {show_seconds(cpu_seconds / tiles_at_once)} for tiles; start, alignment and files come on top")

"""Carry out ``qmcif fuse``: open, fuse, write all outputs at once, report."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from qmcif_engine import __version__
from qmcif_engine.cli.alignment import prepare_inputs
from qmcif_engine.cli.progress import progress_bar
from qmcif_engine.cli.quantities import show_bytes, show_seconds
from qmcif_engine.cli.resources import peak_memory_bytes
from qmcif_engine.cli.settings import gather_settings
from qmcif_engine.io.stack_input import open_stack
from qmcif_engine.speed import estimate_seconds
from qmcif_engine.streaming import FileReport, check_outputs, fuse_to_file, job_folder, plan_run

if TYPE_CHECKING:
    from argparse import Namespace

    from distributed import Client

    from qmcif_engine.config import FusionConfig
    from qmcif_engine.io.file_stack import FileStack
    from qmcif_engine.stack import Stack


def run(options: Namespace) -> None:
    """Fuse the named inputs as the options say."""
    settings = gather_settings(preset_name=options.preset, config_file=options.config, assignments=options.assignments)
    with ExitStack() as closing:
        stack = closing.enter_context(open_inputs(options))
        if options.dry_run:
            _render_plan(stack, settings, options)
            return
        check_outputs(stack, options.output, options.maps, overwrite=options.overwrite)
        client = closing.enter_context(_connect(options.scheduler)) if options.scheduler else None
        if stack.scratch_bytes and not options.quiet and not options.json:
            print(f"decoding {stack.n_images} images once into {show_bytes(stack.scratch_bytes)} of scratch space")
        _fuse(prepare_inputs(stack, options), settings, options, client=client)


def open_inputs(options: Namespace) -> FileStack:
    """Open the stack that the options name."""
    return open_stack(
        [str(path) for path in options.images],
        exclude=options.exclude,
        order=options.order,
        axes=options.axes,
        time=options.time,
        channels=options.channels,
        scratch_folder=options.scratch,
    )


def _connect(address: str) -> Client:
    # a heavy import that only clusters need
    from qmcif_engine.cluster import connect

    return connect(address)


def _fuse(stack: Stack, settings: FusionConfig, options: Namespace, *, client: Client | None) -> None:
    started_wall, started_cpu = time.perf_counter(), time.process_time()
    try:
        with progress_bar("fusing", is_quiet=options.quiet) as move:
            report = fuse_to_file(
                stack,
                options.output,
                settings,
                maps=options.maps,
                focus_range=None if options.focus_range is None else tuple(options.focus_range),
                memory_bytes=options.memory,
                workers=options.workers,
                client=client,
                resume=options.resume,
                overwrite=options.overwrite,
                on_progress=lambda progress: move(*progress),
            )
    except KeyboardInterrupt:
        if job_folder(options.output).exists():
            msg = "finished tiles are kept: go on with --resume, or throw them away with --overwrite"
            raise KeyboardInterrupt(msg) from None
        raise
    seconds = {
        "wall_seconds": round(time.perf_counter() - started_wall, 3),
        "cpu_seconds": round(time.process_time() - started_cpu, 3),
    }
    _render(report, settings, options, seconds)


def _render(report: FileReport, settings: FusionConfig, options: Namespace, seconds: dict[str, float]) -> None:
    outputs = [str(path) for path in report.outputs]
    if options.json:
        content: dict[str, Any] = {
            "version": __version__,
            "images": report.n_images,
            "shape": list(report.image_shape),
            "dtype": report.dtype,
            **seconds,
            "peak_memory_bytes": peak_memory_bytes(),
            "tiles": report.n_tiles,
            "resumed_tiles": report.n_resumed,
            "focus_range": list(report.focus_range),
            "settings": settings.to_dict(),
            "outputs": outputs,
        }
        print(json.dumps(content))
    elif not options.quiet:
        print(f"fused {report.n_images} images in {seconds['wall_seconds']:.1f} s: {', '.join(outputs)}")


def _render_plan(stack: FileStack, settings: FusionConfig, options: Namespace) -> None:
    """Say what the run would take, once it is known to be possible."""
    check_outputs(stack, options.output, options.maps, overwrite=options.overwrite)
    plan = plan_run(stack, settings, with_maps=options.maps is not None, memory_bytes=options.memory, workers=options.workers)
    cpu_seconds = estimate_seconds(plan.tiles, settings, stack=stack)
    content = {
        "images": stack.n_images,
        "shape": list(stack.image_shape),
        "dtype": stack.dtype.name,
        "tiles": len(plan.tiles.tiles),
        "tile_core": list(plan.tiles.tiles[0].core.shape),
        "halo_px": plan.tiles.halo_px,
        "tiles_at_once": plan.tiles_at_once,
        "memory_bytes": plan.tiles_at_once * plan.tile_bytes,
        "scratch_bytes": plan.job_bytes + plan.transcoded_bytes,
        "output_bytes": plan.output_bytes,
        "cpu_seconds": round(cpu_seconds, 1),
        "wall_seconds": round(cpu_seconds / plan.tiles_at_once, 1),
    }
    if options.json:
        print(json.dumps(content))
        return
    height, width = plan.tiles.tiles[0].core.shape
    print(f"images      {stack.n_images} of {stack.image_shape[1]} x {stack.image_shape[0]} pixels, {stack.dtype.name}")
    print(f"tiles       {content['tiles']} of {width} x {height} pixels and a halo of {plan.tiles.halo_px}, {plan.tiles_at_once} at once")
    print(f"memory      at most {show_bytes(plan.tiles_at_once * plan.tile_bytes)} for tiles")
    print(f"scratch     {show_bytes(plan.job_bytes + plan.transcoded_bytes)} on disk while it runs")
    print(f"output      at most {show_bytes(plan.output_bytes)} before compression and smaller copies")
    print(f"time        about {show_seconds(cpu_seconds / plan.tiles_at_once)}")

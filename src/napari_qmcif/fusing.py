"""Fusions of layers by the engine: what is to be done, runs and previews. What takes a worker runs in its thread."""

from __future__ import annotations

import atexit
import re
import time
import uuid
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import psutil
from napari.layers import Layer
from napari.types import LayerDataTuple

from napari_qmcif.aligning import align_images, open_channels, prepare, read_samples
from napari_qmcif.layers_in import ChosenStack, StackSeries, choose_series
from napari_qmcif.layers_out import describe_channel, record_provenance
from napari_qmcif.preferences import PYRAMID_SUFFIX, RunOptions, read_preferences
from napari_qmcif.worker import EngineWorker
from qmcif_engine import (
    FusionConfig,
    FusionProgress,
    HeightRequest,
    InvalidConfigError,
    InvalidImageError,
    SlabLayout,
    Stack,
    Window,
    WrittenImage,
    connect_to_scheduler,
    fuse,
    fuse_in_slabs,
    fuse_to_file,
    height_map,
    load_transforms,
    save_transforms,
)

MARGIN_PX = 64
"""So far around a preview is read too: about as far as a decision looks."""

LOCAL = "local"
SHARE_OF_FREE_MEMORY = 0.5
"""The rest is for the computation itself and for the viewer."""

MAP_PIXEL_BYTES = 10
"""Source map and the maps of both scales of two bytes per pixel, confidence of four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRequest:
    """What a run does: its images, prepared; the settings of the method; and what becomes of the result, in memory without a target."""

    series: StackSeries
    config: FusionConfig
    options: RunOptions
    target: Path | None = None

    def target_of(self, *parts: str) -> Path | None:
        """Return where one of several fusions is written."""
        if self.target is None or not any(parts):
            return self.target
        stem = self.target.name.removesuffix(PYRAMID_SUFFIX)
        words = [re.sub(r"[^\w.-]+", "_", part) for part in parts if part]
        return self.target.with_name("-".join([stem, *words]) + PYRAMID_SUFFIX)


class Outcome(NamedTuple):
    """What fusions give to the viewer: ``fused`` and the maps by name, what stood for black and white, and the file, if there is one."""

    parts: dict[str, Any]
    focus_range: Any
    path: Path | None = None


def choose_images(layers: Sequence[Any], options: RunOptions, *, point: Sequence[float] = ()) -> StackSeries:
    """Return what is to be fused, prepared as the options specify; nothing is read but a file of transforms."""
    series = choose_series(layers, options.axis, decide_by=options.decide_by, point=point if options.is_shown_only else None)
    numbers, reference = parse_numbers(options.leave_out, n_images=series.first.n_images), options.reference
    if reference in [number + 1 for number in numbers]:
        msg = f"image {reference} is left out and is the reference too; one that is fused is needed: choose another"
        raise InvalidConfigError(msg)
    series = series.changed(left_out=numbers)
    frames = series.first.frame_numbers
    if len(frames) < 2:
        msg = f"{len(frames)} of {len(frames) + len(numbers)} images are left; at least 2 are needed: leave fewer out"
        raise InvalidConfigError(msg)
    if reference > 0 and reference - 1 not in frames:
        msg = f"image {reference} was given as the reference; the stack has {frames[-1] + 1}: choose one of them, or 0 for the middle one"
        raise InvalidConfigError(msg)
    file = options.transforms
    known = load_transforms(file) if file is not None and file.is_file() else None
    if file is not None and known is None:
        _check_can_write(file, series, options.align)
    prepared = {"align": options.align, "even_exposure": options.even_exposure, "transforms": known}
    return series.changed(
        **prepared, transforms_file=file if known else None, reference=frames.index(reference - 1) if reference > 0 else None
    )


def _check_folder(target: Path) -> None:
    """Refuse a place in a folder that is not there, before anything is aligned or fused for it."""
    if not target.parent.is_dir():
        msg = f"the folder {str(target.parent)!r} does not exist; an existing one is needed: make it, or choose another"
        raise InvalidConfigError(msg)


def _check_can_write(transforms: Path, series: StackSeries, align: str) -> None:
    """Refuse a file of transforms that there will be nothing to write to, or more than it holds."""
    _check_folder(transforms)
    if align == "none":
        msg = f"{transforms.name!r} holds no transforms and nothing is aligned; one of both is needed: choose another file, or set Align"
        raise InvalidConfigError(msg)
    if series.n_fusions > 1:
        msg = (
            f"{series.n_fusions} stacks are aligned and {transforms.name!r} holds the transforms of one: set Series to where the sliders "
            "stand to write them, and then fuse all with that file"
        )
        raise InvalidConfigError(msg)


def parse_numbers(text: str, *, n_images: int) -> tuple[int, ...]:
    """Return the images that a text such as ``1, 4-6`` names, 0-based; refuse any other, and images that there are none of."""
    numbers: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"(\d+)(?:\s*-\s*(\d+))?", part)
        first, last = (int(found.group(1)), int(found.group(2) or found.group(1))) if found else (0, 0)
        if not 1 <= first <= last <= n_images:
            msg = f"{part!r} names no images of this stack; numbers from 1 to {n_images} are needed: write for example 1, 4-6"
            raise InvalidConfigError(msg)
        numbers |= set(range(first - 1, last))
    return tuple(sorted(numbers))


def choose_target(options: RunOptions, series: StackSeries) -> Path | None:
    """Return the OME-Zarr folder to write to, its suffix added, or None for memory.

    Where none is named, a result that does not fit into memory goes into the scratch folder of Preferences, or is refused without one.
    """
    destination, preferred, needed = options.destination, read_preferences(), estimate_bytes(series)
    free = int(psutil.virtual_memory().available * SHARE_OF_FREE_MEMORY)
    if destination is None and needed <= free:
        if options.slab:
            msg = "slabs were asked for and the result goes into memory; they are kept on disk: name a place under Result"
            raise InvalidConfigError(msg)
        return None
    if destination is None and preferred.scratch_folder is None:
        msg = (
            f"images and result take {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB may be used; a place on disk is needed: "
            "name one under Result, or a scratch folder in Preferences"
        )
        raise InvalidImageError(msg)
    place = destination.expanduser() if destination is not None else Path(preferred.scratch_folder or "") / series.titles[0]
    _check_folder(place)
    return place.with_name(place.name.removesuffix(PYRAMID_SUFFIX) + PYRAMID_SUFFIX)


def estimate_bytes(series: StackSeries) -> int:
    """Return the memory of what has to be loaded and of the results."""
    stack = series.first
    height, width = stack.size_px
    image_bytes = height * width * stack.n_channels * stack.dtype.itemsize
    # arrays in memory cost nothing more, lazy ones are loaded
    n_lazy = 0 if all(isinstance(array, np.ndarray) for array in stack.arrays) else stack.n_images
    n_results = series.n_points * len(series.titles)
    return n_lazy * image_bytes + n_results * (image_bytes + height * width * MAP_PIXEL_BYTES)


def run_fusion(request: FusionRequest, run: int, *, job: EngineWorker) -> list[LayerDataTuple]:
    """Fuse, and return the layers of the result; runs in a worker thread."""
    started_at, series, layers = time.monotonic(), request.series, []
    channels = {"n_channels": len(series.titles), "of_result": uuid.uuid4().hex} if len(series.titles) > 1 else {}
    for number, found in enumerate(fuse_series(request, job=job)):
        stack = series.stacks[number][0]
        z_step, unit = stack.z_step
        record = record_provenance(stack, request.config, focus_range=found.focus_range, path=found.path) | channels
        if request.options.height:
            counted = "" if stack.axis is None else "pixel"  # heights of separate images count images
            record["height"] = {"z_step": z_step, "unit": unit or counted, "smoothing_px": request.options.height_smoothing}
        layers += describe_channel(series, number, found.parts, record=record, z_step=z_step, run=run)
    n_fusions = "" if series.n_fusions == 1 else f", {series.n_fusions} times"
    job.remarks.insert(0, f"fused {series.first.n_images} images{n_fusions} in {time.monotonic() - started_at:.1f} s")
    return layers


def fuse_series(request: FusionRequest, *, job: EngineWorker) -> list[Outcome]:
    """Fuse every channel at every point, one after the other; return what each channel gave, its points put together."""
    series, scheduler, joined = request.series, request.options.scheduler.strip(), []
    if scheduler:
        job.note("connecting to the Dask scheduler")
    # closed at the end of the run; a local cluster stays for the next
    with _connect(scheduler) if scheduler else nullcontext() as client:
        job.remark("" if client is None else f"dashboard: {client.dashboard_link}")
        options = {"memory_bytes": read_preferences().memory_bytes, "client": client, "is_cancelled": job.is_cancelled}
        by_point = [_fuse_point(request, point, job=job, options=options) for point in range(series.n_points)]
    for outcomes in zip(*by_point, strict=True):
        parts = {name: series.arrange([outcome.parts[name] for outcome in outcomes]) for name in outcomes[0].parts}
        joined.append(outcomes[0]._replace(parts=parts))
    return joined


@cache
def _start_cluster() -> Any:  # noqa: ANN401 - a cluster
    """Return the cluster on this machine, which is started once and serves all runs of the session."""
    from distributed import LocalCluster

    # any free port, and on this machine only: the usual one may be taken by a cluster of somebody else
    cluster = LocalCluster(dashboard_address="127.0.0.1:0")
    # its processes must not outlive the viewer
    atexit.register(cluster.close)
    return cluster


def _connect(scheduler: str) -> Any:  # noqa: ANN401 - a client
    """Return a client of the scheduler at an address, or of one on this machine."""
    # without the package there is none to start: connecting names what to install
    is_started_here = scheduler == LOCAL and find_spec("distributed") is not None
    return connect_to_scheduler(_start_cluster().scheduler_address if is_started_here else scheduler)


def _fuse_point(request: FusionRequest, point: int, *, job: EngineWorker, options: dict[str, Any]) -> list[Outcome]:
    """Return the result of each channel at one point of the further axes."""
    series = request.series
    stacks = [channel[point] for channel in series.stacks]
    place = f"{point:03d}" if series.n_points > 1 else ""

    def run(opened: Stack, stack: ChosenStack, number: int, *names: str) -> Outcome:
        def report(progress: FusionProgress) -> None:
            """Report one of several fusions as a part of all."""
            job.report(FusionProgress(number * progress.total + progress.done, series.n_fusions * progress.total))

        return _fuse(opened, stack, request, target=request.target_of(*names, place), job=job, options={**options, "on_progress": report})

    if series.decided_by is not None:
        deciding = stacks[series.decided_by]
        outcome = run(prepare(open_channels(stacks, series.decided_by, job=job), deciding, job=job), deciding, point)
        return _split_channels(outcome, stacks, series.decided_by)
    outcomes = []
    for number, (title, stack) in enumerate(zip(series.titles, stacks, strict=True), start=point * len(stacks)):
        # for a result in memory lazy images are read once; the engine would read the surroundings of every tile again
        images = stack.cut_images() if request.target is not None else [read_samples(image, job=job) for image in stack.cut_images()]
        outcomes.append(run(align_images(images, stack, job=job), stack, number, title if len(stacks) > 1 else ""))
    return outcomes


def _fuse(
    opened: Stack, stack: ChosenStack, request: FusionRequest, *, target: Path | None, job: EngineWorker, options: dict[str, Any]
) -> Outcome:
    wanted, client = request.options, options.get("client")
    if wanted.transforms is not None and stack.transforms is None and opened.transforms is not None:
        # before the fusion: whoever cancels it has them all the same
        save_transforms(wanted.transforms, opened.transforms, overwrite=True)
    job.note(f"fusing {stack.title}" if client is None else f"fusing {stack.title}, dashboard: {client.dashboard_link}")
    if target is not None:
        return _fuse_to_disk(opened, stack, request, target, options)
    result = fuse(opened, request.config, with_position=wanted.height, with_maps=wanted.scale_maps, **options)
    # where there are opacity or further channels, the companions are all of them
    parts = {"fused": stack.restored(result.fused if result.companions is None else result.companions)}
    parts |= {name: found for name in wanted.map_names if (found := getattr(result, name)) is not None}
    if result.position is not None:
        form: dict[str, Any] = {"z_step": stack.z_step[0], "smoothing_px": wanted.height_smoothing}
        parts["height"] = height_map(result.position, confidence=result.confidence, guide=result.fused, **form).height
    return Outcome(parts, result.focus_range)


def _fuse_to_disk(opened: Stack, stack: ChosenStack, request: FusionRequest, target: Path, options: dict[str, Any]) -> Outcome:
    """Fuse into files beside each other, tile by tile, and open them; an interrupted run is gone on with."""
    stem, wanted = target.name.removesuffix(PYRAMID_SUFFIX), request.options
    z_step, unit = stack.z_step
    height = HeightRequest(
        target=target.with_name(f"{stem}-height.tif"), z_step=z_step, unit=unit or None, smoothing_px=wanted.height_smoothing
    )
    maps = target.with_name(f"{stem}-maps")
    # a run that was cancelled left its finished tiles beside the target
    options = {**options, "maps": maps, "height": height if wanted.height else None, "resume": True}
    if wanted.slab:
        layout = SlabLayout(size=wanted.slab, overlap=wanted.slab // 4, folder=target.with_name(f"{stem}-slabs"))
        report = fuse_in_slabs(opened, target, request.config, slabs=layout, **options)
    else:
        report = fuse_to_file(opened, target, request.config, **options)
    parts: dict[str, Any] = {"fused": list(WrittenImage.open(target).levels)}
    parts |= {name: WrittenImage.open(maps / f"{name}.tif").levels[0] for name in wanted.map_names}
    if wanted.height:
        parts["height"] = WrittenImage.open(height.target).levels[0]
    return Outcome(parts, report.focus_range, target)


def _split_channels(outcome: Outcome, stacks: list[ChosenStack], decided_by: int) -> list[Outcome]:
    """Return the channels of a result one by one; the maps belong to the one that decided."""
    fused = outcome.parts["fused"]
    split = []
    for number in range(len(stacks)):
        own = [level[..., number] for level in fused] if isinstance(fused, list) else fused[..., number]
        # one decision for all channels: its maps are shown once
        maps = {name: samples for name, samples in outcome.parts.items() if name != "fused"} if number == decided_by else {}
        split.append(Outcome({"fused": own, **maps}, outcome.focus_range, outcome.path))
    return split


def fuse_area(stack: ChosenStack, config: FusionConfig, area: Window, *, job: EngineWorker) -> Outcome:
    """Fuse one rectangle of a chosen stack; the surroundings that decide along its edges are read too, and cut off again."""
    outer = area.grown(MARGIN_PX, stack.size_px)
    # what belongs into the rectangle may lie beside it in an image that moved: cut after aligning
    if stack.is_prepared:
        opened = align_images(stack.cut_images(), stack, job=job).cut(outer)
    else:
        images = stack.cut_images(*outer.slices)
        opened = align_images([read_samples(image, job=job) for image in images], stack, job=job)
    request = FusionRequest(series=StackSeries.of_one(stack), config=config, options=RunOptions())
    outcome = _fuse(opened, stack, request, target=None, job=job, options={"on_progress": job.report, "is_cancelled": job.is_cancelled})
    inner = area.relative_to(outer).slices
    return outcome._replace(parts={name: samples[inner] for name, samples in outcome.parts.items()})


def fuse_focus_stack(layers: Sequence[Layer], settings: FusionConfig | None = None, **options: Any) -> list[LayerDataTuple]:  # noqa: ANN401 - see below
    """Fuse layers into images that are sharp everywhere, and return the result as layers for a viewer.

    Parameters
    ----------
    layers : sequence of napari.layers.Image
        Images of one scene, each sharp somewhere else; or one layer that holds them all; or several such layers, one per channel.
    settings : FusionConfig, optional
        Settings of the method.
    **options
        Fields of `napari_qmcif.preferences.RunOptions`, such as ``align="similarity"`` or ``height=True``.

    Returns
    -------
    list of (data, attributes, "image")
        The fused image and its source map, for each channel; ``viewer.add_layer(Layer.create(*entry))`` adds one.
    """
    places = {name: Path(options[name]) for name in ("transforms", "destination") if options.get(name)}
    wanted = RunOptions(**{**options, **places})
    series = choose_images(layers, wanted)
    request = FusionRequest(
        series=series, config=FusionConfig() if settings is None else settings, options=wanted, target=choose_target(wanted, series)
    )
    # what the work needs of a worker, where the caller waits for it: nothing is shown, and nothing is cancelled
    quiet = dict.fromkeys(("note", "remark", "report"), lambda _: None) | dict.fromkeys(("check_cancelled", "is_cancelled"), lambda: None)
    alone: Any = SimpleNamespace(remarks=[], **quiet)
    return run_fusion(request, 1, job=alone)

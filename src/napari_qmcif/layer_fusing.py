"""Fusions of layers by the engine; everything here runs in a worker thread."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_qmcif.aligning import align_images, hint_at_preparation, open_channels, prepare
from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.dask_cluster import connect
from napari_qmcif.layers import MAP_NAMES
from napari_qmcif.own_outputs import PYRAMID_SUFFIX
from napari_qmcif.stack_series import StackSeries
from napari_qmcif.worker import EngineWorker, Progress
from qmcif_engine import (
    FusionConfig,
    FusionProgress,
    HeightRequest,
    SlabLayout,
    Stack,
    Window,
    WrittenImage,
    fuse,
    fuse_in_slabs,
    fuse_to_file,
    height_map,
    save_transforms,
)

MARGIN_PX = 64
"""So far around a preview is read too: about as far as a decision looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRequest:
    """What a run is to do.

    Without a target results stay in memory, and heights, slabs and transforms are made only where they are asked for. The scheduler is the
    address of one of Dask, or ``local`` for a cluster on this machine; threads compute where it is empty. Without a number of bytes, tiles
    in flight take half of the memory that is free.
    """

    series: StackSeries
    config: FusionConfig
    target: Path | None = None
    with_maps: bool = True
    with_height: bool = False
    height_smoothing_px: int = 0
    slab_size: int = 0
    transforms_target: Path | None = None
    scheduler: str = ""
    memory_bytes: int | None = None

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
    focus_range: tuple[float, float]
    path: Path | None = None


def fuse_series(request: FusionRequest, *, job: EngineWorker) -> list[Outcome]:
    """Fuse every channel at every point, one after the other; return what each channel gave, its points put together."""
    series = request.series
    job.remark(hint_at_preparation(series.first, job=job))
    if request.scheduler:
        job.note("connecting to the Dask scheduler")
    # closed at the end of the run; a local cluster stays for the next
    with connect(request.scheduler) if request.scheduler else nullcontext() as client:
        job.remark("" if client is None else f"dashboard: {client.dashboard_link}")
        options = {"memory_bytes": request.memory_bytes, "client": client}
        by_point = [_fuse_point(request, point, job=job, options=options) for point in range(series.n_points)]
    joined = []
    for outcomes in zip(*by_point, strict=True):
        parts = {name: series.arrange([outcome.parts[name] for outcome in outcomes]) for name in outcomes[0].parts}
        joined.append(outcomes[0]._replace(parts=parts))
    return joined


def _fuse_point(request: FusionRequest, point: int, *, job: EngineWorker, options: dict[str, Any]) -> list[Outcome]:
    """Return the result of each channel at one point of the further axes."""
    series = request.series
    stacks = [channel.stacks[point] for channel in series.channels]
    place = f"{point:03d}" if series.n_points > 1 else ""

    def run(opened: Stack, stack: ChosenStack, number: int, *names: str) -> Outcome:
        def report(progress: Progress) -> None:
            """Report one of several fusions as a part of all."""
            job.report(FusionProgress(number * progress.total + progress.done, series.n_fusions * progress.total))

        return _fuse(opened, stack, request, target=request.target_of(*names, place), job=job, options={**options, "on_progress": report})

    if series.decided_by is not None:
        deciding = stacks[series.decided_by]
        outcome = run(prepare(open_channels(stacks, series.decided_by, job=job), deciding, job=job), deciding, point)
        return _split_channels(outcome, stacks, series.decided_by)
    outcomes = []
    for number, (channel, stack) in enumerate(zip(series.channels, stacks, strict=True), start=point * len(stacks)):
        # for a result in memory lazy images are read once; the engine would read the surroundings of every tile again
        images = stack.cut_images() if request.target is not None else [read_samples(image, job=job) for image in stack.cut_images()]
        outcomes.append(run(align_images(images, stack, job=job), stack, number, channel.title if len(stacks) > 1 else ""))
    return outcomes


def _fuse(
    opened: Stack, stack: ChosenStack, request: FusionRequest, *, target: Path | None, job: EngineWorker, options: dict[str, Any]
) -> Outcome:
    if request.transforms_target is not None and opened.transforms is not None:
        # before the fusion: whoever cancels it has them all the same
        save_transforms(request.transforms_target, opened.transforms, overwrite=True)
    client = options.get("client")
    job.note(f"fusing {stack.title}" if client is None else f"fusing {stack.title}, dashboard: {client.dashboard_link}")
    further = {**options, "is_cancelled": job.is_cancelled}
    return _fuse_in_memory(opened, stack, request, further) if target is None else _fuse_to_disk(opened, stack, request, target, further)


def _fuse_in_memory(opened: Stack, stack: ChosenStack, request: FusionRequest, options: dict[str, Any]) -> Outcome:
    result = fuse(opened, request.config, with_position=request.with_height, with_maps=request.with_maps, **options)
    # where there are opacity or further channels, the companions are all of them
    parts = {"fused": stack.restored(result.fused if result.companions is None else result.companions)}
    parts |= {name: found for name in MAP_NAMES if (found := getattr(result, name)) is not None}
    if result.position is not None:
        form: dict[str, Any] = {"z_step": stack.z_step[0], "smoothing_px": request.height_smoothing_px}
        parts["height"] = height_map(result.position, confidence=result.confidence, guide=result.fused, **form).height
    return Outcome(parts, _to_pair(result.focus_range))


def _fuse_to_disk(opened: Stack, stack: ChosenStack, request: FusionRequest, target: Path, options: dict[str, Any]) -> Outcome:
    """Fuse into files beside each other, tile by tile, and open them; an interrupted run is gone on with."""
    stem = target.name.removesuffix(PYRAMID_SUFFIX)
    z_step, unit = stack.z_step
    height = HeightRequest(
        target=target.with_name(f"{stem}-height.tif"), z_step=z_step, unit=unit or None, smoothing_px=request.height_smoothing_px
    )
    maps = target.with_name(f"{stem}-maps") if request.with_maps else None
    # a run that was cancelled left its finished tiles beside the target
    options = {**options, "maps": maps, "height": height if request.with_height else None, "resume": True}
    if request.slab_size:
        layout = SlabLayout(size=request.slab_size, overlap=request.slab_size // 4, folder=target.with_name(f"{stem}-slabs"))
        report = fuse_in_slabs(opened, target, request.config, slabs=layout, **options)
    else:
        report = fuse_to_file(opened, target, request.config, **options)
    parts: dict[str, Any] = {"fused": list(WrittenImage.open(target).levels)}
    if maps is not None:
        parts |= {name: WrittenImage.open(maps / f"{name}.tif").levels[0] for name in MAP_NAMES}
    if request.with_height:
        parts["height"] = WrittenImage.open(height.target).levels[0]
    return Outcome(parts, _to_pair(report.focus_range), target)


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


def _to_pair(focus_range: Any) -> tuple[float, float]:  # noqa: ANN401 - a range of the engine
    """Return the range as plain numbers; one decision looks at gray or color images, whose channels share one."""
    low, high = focus_range
    return float(low), float(high)


def read_samples(image: Any, *, job: EngineWorker) -> NDArray[Any]:  # noqa: ANN401 - any array
    """Return an image in memory; of a lazy one, no further block is begun once the job is cancelled."""
    job.check_cancelled()
    if isinstance(image, np.ndarray):
        return image

    def go_on(block: NDArray[Any]) -> NDArray[Any]:
        job.check_cancelled()
        return block

    # Dask's threads: a client that is active elsewhere could not ask this job
    # meta is given, else dask would try the function on an empty block
    samples: NDArray[Any] = image.map_blocks(go_on, meta=np.empty((0,) * image.ndim, image.dtype)).compute(scheduler="threads")
    return samples


def fuse_area(stack: ChosenStack, config: FusionConfig, *, area: Window, job: EngineWorker) -> Outcome:
    """Fuse one rectangle of a chosen stack; the surroundings that decide along its edges are read too, and cut off again."""
    outer = area.grown(MARGIN_PX, stack.size_px)
    # what belongs into the rectangle may lie beside it in an image that moved: cut after aligning
    if stack.is_prepared:
        opened = align_images(stack.cut_images(), stack, job=job).cut(outer)
    else:
        images = stack.cut_images(*outer.slices)
        opened = align_images([read_samples(image, job=job) for image in images], stack, job=job)
    request = FusionRequest(series=StackSeries(channels=()), config=config, with_maps=False)
    outcome = _fuse(opened, stack, request, target=None, job=job, options={"on_progress": job.report})
    inner = area.relative_to(outer).slices
    return outcome._replace(parts={name: samples[inner] for name, samples in outcome.parts.items()})

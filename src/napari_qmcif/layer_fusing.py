"""Ask the engine for a fusion of layers; everything here runs in a worker thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_qmcif.aligning import N_COLORS, CutStack, align_images
from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.layers import MAP_NAMES
from napari_qmcif.opened_files import PYRAMID_SUFFIX, open_pyramid, open_tiles
from napari_qmcif.preview_area import Area
from napari_qmcif.worker import BackgroundJob
from qmcif_engine import Cancelled, FusionConfig, Stack, fuse, fuse_to_file

MARGIN_PX = 64
"""So far around a preview is read too: about as far as a decision looks."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gives to the viewer.

    Attributes
    ----------
    pictures : dict
        ``fused`` and the maps by name.
    focus_range : tuple of float
        The samples that stood for black and white in the decisions.
    path : Path or None
        Where the fused picture was written.
    """

    pictures: dict[str, Any]
    focus_range: tuple[float, float]
    path: Path | None = None


def fuse_in_memory(images: Sequence[Any], config: FusionConfig, *, job: BackgroundJob) -> Outcome:
    """Read the images and fuse them, cancellable and with progress.

    Parameters
    ----------
    images : sequence of ndarray or dask array, shape (Y, X), (Y, X, 3) or (Y, X, 4)
    config : FusionConfig
    job : BackgroundJob
        Hears of each step and says whether to go on.
    """
    samples = [_read(image, job) for image in images]
    has_opacity = samples[0].ndim == N_COLORS and samples[0].shape[-1] > N_COLORS
    result = fuse(
        [image[..., :N_COLORS] for image in samples] if has_opacity else samples,
        config,
        companions=[image[..., N_COLORS:] for image in samples] if has_opacity else None,
        on_progress=job.report,
        is_cancelled=job.is_cancelled,
    )
    maps = {name: getattr(result, name) for name in MAP_NAMES}
    planes: list[NDArray[Any]] = [result.fused] if result.companions is None else [result.fused, result.companions]
    fused = np.concatenate(planes, axis=-1) if has_opacity else result.fused
    return Outcome({"fused": fused, **maps}, _to_pair(result.focus_range))


def _to_pair(focus_range: Any) -> tuple[float, float]:  # noqa: ANN401 - a range of the engine
    """Return the range as plain numbers; layers hold gray or color pictures, whose channels share one."""
    low, high = focus_range
    return float(low), float(high)


def _read(image: Any, job: BackgroundJob) -> NDArray[Any]:  # noqa: ANN401 - any array
    if job.is_cancelled():
        msg = "the fusion was cancelled while its images were read; nothing was returned: start it again"
        raise Cancelled(msg)
    return np.asarray(image)


def fuse_layers(stack: ChosenStack, config: FusionConfig, *, job: BackgroundJob) -> Outcome:
    """Fuse a chosen stack as a whole."""
    if not stack.is_prepared:
        return fuse_in_memory(stack.cut_images(), config, job=job)
    samples = [_read(image, job) for image in stack.cut_images()]
    return _fuse_aligned(align_images(samples, stack, job=job), config, job=job)


def _fuse_aligned(aligned: Stack, config: FusionConfig, *, job: BackgroundJob) -> Outcome:
    result = fuse(aligned, config, on_progress=job.report, is_cancelled=job.is_cancelled)
    # where there is opacity, the companions are all channels
    fused = result.fused if result.companions is None else result.companions
    maps = {name: getattr(result, name) for name in MAP_NAMES}
    return Outcome({"fused": fused, **maps}, _to_pair(result.focus_range))


def fuse_to_disk(stack: ChosenStack, config: FusionConfig, *, target: Path, job: BackgroundJob) -> Outcome:
    """Fuse a chosen stack into files beside each other, tile by tile, and open them; an interrupted run is gone on with."""
    maps = target.with_name(f"{target.name.removesuffix(PYRAMID_SUFFIX)}-maps")
    report = fuse_to_file(
        align_images(stack.cut_images(), stack, job=job),
        target,
        config,
        maps=maps,
        resume=True,
        on_progress=job.report,
        is_cancelled=job.is_cancelled,
    )
    written = {path.stem: path for path in report.outputs if path != target}
    pictures = {"fused": open_pyramid(target), **{name: open_tiles(written[name]) for name in MAP_NAMES}}
    return Outcome(pictures, _to_pair(report.focus_range), target)


def fuse_area(stack: ChosenStack, config: FusionConfig, *, area: Area, job: BackgroundJob) -> Outcome:
    """Fuse one rectangle of a chosen stack; the surroundings that decide along its edges are read too, and cut off again."""
    outer = area.grown(MARGIN_PX, stack.picture_shape)
    if not stack.is_prepared:
        images = stack.cut_images(slice(outer.top, outer.bottom), slice(outer.left, outer.right))
        outcome = fuse_in_memory(images, config, job=job)
    else:
        outcome = _fuse_aligned(CutStack(align_images(stack.cut_images(), stack, job=job), outer), config, job=job)
    top, left = area.top - outer.top, area.left - outer.left
    height, width = area.shape
    cut = {name: picture[top : top + height, left : left + width] for name, picture in outcome.pictures.items()}
    return Outcome(cut, outcome.focus_range)

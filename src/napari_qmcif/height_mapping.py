"""Heights of the layers of a result; the work itself runs in a worker thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray

from napari_qmcif.aligning import align_images
from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.layer_placement import Placement
from napari_qmcif.provenance import METADATA_KEY, read_record
from napari_qmcif.result_parts import finest_level, prepare_alike, read_settings
from napari_qmcif.worker import EngineWorker
from qmcif_engine import fuse, height_map

N_COLORS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HeightWork:
    """What heights are made of: the layers of a result by part, the distance of its images, and a stack to look between them."""

    parts: dict[str, Layer]
    stack: ChosenStack | None
    z_step: float
    unit: str
    smoothing_px: int


def map_heights(work: HeightWork, *, job: EngineWorker) -> NDArray[np.float32]:
    """Return heights in the unit of the z step, shape (Y, X); smoothed ones keep the edges of the fused picture.

    Where a person has retouched the source index, that is taken for the position.
    """
    index = np.asarray(finest_level(work.parts["source_index"]))
    position: Any = index
    if work.stack is not None:
        job.note("looking between the images …")
        again = _fuse_again(work, work.stack, job)
        position = np.where(again.source_index == index, again.position, index.astype(np.float32))
    confidence, fused = work.parts.get("confidence"), work.parts.get("fused")
    known = np.ones(index.shape, np.float32) if confidence is None else np.asarray(finest_level(confidence), np.float32)
    guide = None if fused is None else np.asarray(finest_level(fused))
    if guide is not None and guide.ndim == N_COLORS:
        guide = guide[..., :N_COLORS]
    job.check_cancelled()
    heights = height_map(position, z_step=work.z_step, confidence=known, guide=guide, smoothing_px=work.smoothing_px).height
    return np.asarray(heights, np.float32)


def describe_height_layer(work: HeightWork, heights: NDArray[np.float32]) -> dict[str, Any]:
    """Return the arguments of the layer with the heights, whose name and record say their unit."""
    index = work.parts["source_index"]
    low, high = float(heights.min()), float(heights.max())
    record = {**read_record(index), "part": "height"}
    record["height"] = {"z_step": work.z_step, "unit": work.unit, "smoothing_px": work.smoothing_px}
    return {
        "name": f"{str(index.name).split(':')[0]}: height in {work.unit}",
        "rgb": False,
        "colormap": "viridis",
        "contrast_limits": (low, high if high > low else low + 1),
        "metadata": {METADATA_KEY: record},
        **Placement.of_layer(index, (0, 1)).as_layer_arguments(),
    }


def _fuse_again(work: HeightWork, stack: ChosenStack, job: EngineWorker) -> Any:  # noqa: ANN401 - the engine's result
    """Fuse the stack as its result says, with the position of the focus between the images."""
    fused = work.parts["fused"]
    prepared = prepare_alike(stack, fused)
    config, focus_range = read_settings(fused)
    opened = align_images(prepared.cut_images(), prepared, job=job)
    return fuse(opened, config, focus_range=focus_range, with_position=True, on_progress=job.report, is_cancelled=job.is_cancelled)

"""Heights of the layers of a result, as a map and as a surface."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray

from napari_qmcif.aligning import align_images
from napari_qmcif.chosen_stack import ChosenStack, drop_opacity, finest_level
from napari_qmcif.layer_placement import Placement
from napari_qmcif.layers import choose_colors
from napari_qmcif.provenance import METADATA_KEY, read_record
from napari_qmcif.result_parts import Place, name_place, prepare_alike, read_settings
from napari_qmcif.worker import EngineWorker
from qmcif_engine import fuse, height_map

LARGEST_N_CORNERS = 250_000
"""More would make turning the surface slow; larger maps are thinned out."""


class HeightSurface(NamedTuple):
    """Corners (V, 3) in pixels and images, triangles (F, 3), and by how much the map was thinned out."""

    corners: Any
    triangles: Any
    stride: int


def make_surface(depth: Any) -> HeightSurface:  # noqa: ANN401 - any array
    """Return the surface of a map, shape (Y, X), of numbers of images, whole or between them."""
    stride = 1
    while -(-depth.shape[0] // stride) * -(-depth.shape[1] // stride) > LARGEST_N_CORNERS:
        stride += 1
    thinned = np.asarray(depth[::stride, ::stride], np.float32)
    n_rows, n_columns = thinned.shape
    # in pixels of the whole map, so that a thinned surface lies over it
    rows, columns = np.mgrid[:n_rows, :n_columns] * stride
    corners = np.stack([thinned.ravel(), rows.ravel(), columns.ravel()], axis=1).astype(np.float32)
    number = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    first, right, below, across = (part.ravel() for part in (number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:]))
    triangles = np.concatenate([np.stack([first, right, below], 1), np.stack([right, across, below], 1)])
    return HeightSurface(corners, triangles, stride)


def place_surface(layer: Layer, *, z_step: float) -> dict[str, Any]:
    """Return the layer arguments that put a surface over a map, neighboring images `z_step` apart in the unit of its pixels."""
    place = Placement.of_layer(layer)
    return place.with_depth(z_step, start=0.0, unit=str(layer.units[-1]), label="z")


def color_surface(layer: Layer | None, stride: int, *, depths: tuple[float, float], place: Place = ()) -> dict[str, Any]:
    """Return the layer arguments that paint a thinned out surface like an image on its map, or by depth where there is none."""
    if layer is None:
        # napari takes no equal limits, which a flat surface would have
        return {"colormap": "turbo", "contrast_limits": (depths[0], max(depths[1], depths[0] + 1e-6)), "shading": "smooth"}
    samples = np.asarray(finest_level(layer)[place][::stride, ::stride])
    if not layer.rgb:
        return {"colormap": layer.colormap, "contrast_limits": tuple(layer.contrast_limits), "shading": "none"}
    # colors of corners go from 0 to 1
    white = np.iinfo(samples.dtype).max if samples.dtype.kind == "u" else 1
    return {"vertex_colors": samples[..., :3].reshape(-1, 3) / np.float32(white), "shading": "none"}


class HeightWork(NamedTuple):
    """What heights are made of: the layers of a result by part, the distance of its images, and a stack to look between them.

    Of a result with several images, such as one per time point, `place` says which is meant.
    """

    parts: dict[str, Layer]
    place: Place
    stack: ChosenStack | None
    z_step: float
    unit: str
    smoothing_px: int


def map_heights(work: HeightWork, *, job: EngineWorker) -> NDArray[np.float32]:
    """Return heights in the unit of the z step, shape (Y, X); smoothed ones keep the edges of the fused image."""
    used = ("source_index", "confidence", "fused")
    images = {part: finest_level(layer)[work.place] for part, layer in work.parts.items() if part in used}
    index = np.asarray(images["source_index"])
    position: Any = index
    if work.stack is not None:
        job.note("looking between the images")
        again = _fuse_again(work, work.stack, job)
        # where a person has retouched the source index, that is the position
        position = np.where(again.source_index == index, again.position, index.astype(np.float32))
    known = np.asarray(images.get("confidence", np.ones(index.shape)), np.float32)
    guide = np.asarray(drop_opacity(images["fused"])) if "fused" in images else None
    # smoothing takes a while and asks nobody
    job.check_cancelled()
    heights = height_map(position, z_step=work.z_step, confidence=known, guide=guide, smoothing_px=work.smoothing_px).height
    return np.asarray(heights, np.float32)


def describe_height_layer(work: HeightWork, heights: NDArray[np.float32]) -> dict[str, Any]:
    """Return the arguments of the layer with the heights, whose name and record say their unit."""
    index = work.parts["source_index"]
    record = {**read_record(index), "part": "height"}
    record["height"] = {"z_step": work.z_step, "unit": work.unit, "smoothing_px": work.smoothing_px}
    return {
        "name": f"{index.name.rpartition(': ')[0] or index.name}{name_place(index, work.place)}: height in {work.unit}",
        "rgb": False,
        **choose_colors("height", (float(heights.min()), float(heights.max()))),
        "metadata": {METADATA_KEY: record},
        **Placement.of_layer(index).as_layer_arguments(),
    }


def _fuse_again(work: HeightWork, stack: ChosenStack, job: EngineWorker) -> Any:  # noqa: ANN401 - the engine's result
    """Fuse the stack as its result says, with the position of the focus between the images."""
    fused = work.parts["fused"]
    prepared = prepare_alike(stack, fused)
    config, focus_range = read_settings(fused)
    opened = align_images(prepared.cut_images(), prepared, job=job)
    return fuse(opened, config, focus_range=focus_range, with_position=True, on_progress=job.report, is_cancelled=job.is_cancelled)

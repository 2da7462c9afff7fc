"""Layers of results: how they look, the record of their origin, and how sources and parts are found again by it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Layer
from napari.types import LayerDataTuple
from napari.utils.colormaps import DirectLabelColormap, ensure_colormap
from napari.viewer import Viewer

from napari_qmcif.layers_in import ChosenStack, StackSeries, choose_layers, choose_planes, choose_series, finest_level, list_axes
from qmcif_engine import OUTPUT_MAPS, FusionConfig, InvalidImageError, QmcifError, __version__, load_transforms

METADATA_KEY = "qmcif"
"""Under this name a layer's metadata holds the record."""

MAP_NAMES = tuple(name for name, declared in OUTPUT_MAPS.items() if declared.is_written)
ALIGNMENTS = ("none", "translation", "similarity", "affine", "homography")
PART_NAMES = {"source_index": "source map", "base_map": "base scale", "detail_map": "detail scale"}
"""Names of parts in layer lists, where they differ from those in files."""

Place = tuple[int, ...]
"""One image of a layer that has several: its step along every axis before rows and columns."""

_OWN_TO_A_PART = ("part", "is_retouched", "height", "n_channels", "of_result")
"""Entries in which the records of the layers of one result may differ."""


def record_provenance(
    stack: ChosenStack, config: FusionConfig, *, focus_range: tuple[float, float], path: Path | None = None
) -> dict[str, Any]:
    """Return what is needed to make the result again, in plain values that survive any file format."""
    names = list_axes(stack.layers[0])
    further = [axis for axis, step in enumerate(stack.index) if isinstance(step, int) and axis not in (stack.axis, *stack.image_axes)]
    return {
        "version": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": config.to_dict(),
        # by identity and by file: layers are found again in this session under any name, files in the next
        "inputs": [
            {"layer": str(layer.name), "id": str(layer.unique_id), "path": None if layer.source.path is None else str(layer.source.path)}
            for layer in stack.layers
        ],
        "n_images": stack.n_images,
        "axis": None if stack.axis is None else names[stack.axis],
        "position": {names[axis]: stack.index[axis] for axis in further},
        "z_step": list(stack.z_step) if stack.z_step[1] else None,
        "align": stack.align,
        "even_exposure": stack.even_exposure,
        "reference": stack.reference,
        "left_out": list(stack.left_out),
        "has_transforms": stack.transforms is not None,
        "transforms_file": None if stack.transforms_file is None else str(stack.transforms_file),
        "focus_range": [float(bound) for bound in focus_range],
        "path": None if path is None else str(path),
    }


def read_record(layer: Layer) -> dict[str, Any]:
    """Return the record of a layer of a result; nothing for any other layer."""
    record = dict(layer.metadata).get(METADATA_KEY)
    return record if isinstance(record, dict) else {}


def part_of(layer: Layer) -> str | None:
    """Return which part of a result a layer is, such as ``fused`` or ``source_index``; None for any other layer."""
    part = read_record(layer).get("part")
    return part if isinstance(part, str) else None


def is_source(layer: Layer) -> bool:
    """Return whether a layer may be fused or shown beside a result: an image, but no map and no preview."""
    return isinstance(layer, Image) and part_of(layer) in (None, "fused")


def is_fused_or_flat(layer: Layer) -> bool:
    """Return whether a layer is an image of two axes, or a fused image, which may have more, such as time."""
    return isinstance(layer, Image) and part_of(layer) in ("fused", *[None] * (layer.ndim == 2))


def is_index_map(layer: Layer) -> bool:
    """Return whether a layer may be a source map: whole numbers over two axes, or a source map of a result, which may have more."""
    if not isinstance(layer, Image | Labels) or (isinstance(layer, Image) and layer.rgb):
        return False
    return part_of(layer) in ("source_index", *[None] * (layer.ndim == 2)) and layer.dtype.kind in "iu"


def describe_fused(stack: ChosenStack, *, part: str, record: dict[str, Any], name: str = "") -> dict[str, Any]:
    """Return the look of an image that looks like its sources; it is named after them unless it has a name."""
    arguments = {"name": name or name_part(stack.title, part), "rgb": stack.is_color, "metadata": {METADATA_KEY: {**record, "part": part}}}
    if stack.is_color:
        return arguments
    first = stack.layers[0]
    # to find limits of its own, a layer would go through all pixels on the GUI thread
    lows, highs = zip(*(layer.contrast_limits for layer in stack.layers), strict=True)
    return {
        **arguments,
        "contrast_limits": (min(lows), max(highs)),
        "colormap": first.colormap,
        "gamma": first.gamma,
        "blending": first.blending,
    }


def choose_colors(part: str, bounds: tuple[float, float]) -> dict[str, Any]:
    """Return colors and contrast of a map whose images, or heights, have these bounds."""
    is_share = part in OUTPUT_MAPS and not OUTPUT_MAPS[part].counts_images
    low, high = (0.0, 1.0) if is_share else bounds
    colormap = "gray" if is_share else "viridis" if part == "height" else "turbo"
    # napari takes no equal limits
    return {"contrast_limits": (low, high if high > low else low + 1), "colormap": colormap}


def color_sources(n_images: int) -> DirectLabelColormap:
    """Return the colors of the source index for the labels of the images, and none for what the engine decides."""
    colors: dict[int | None, Any] = {None: np.zeros(4), 0: np.zeros(4)}
    colors.update(enumerate(ensure_colormap("turbo").map(np.linspace(0, 1, n_images)), start=1))
    return DirectLabelColormap(color_dict=colors)


def describe_channel(
    series: StackSeries, number: int, parts: dict[str, Any], *, record: dict[str, Any], z_step: float = 1.0, run: int = 1
) -> list[LayerDataTuple]:
    """Return the layers of one channel: the fused image and, hidden above it, its maps, the source map on top.

    Parts are arrays, or lists of arrays from fine to coarse.
    """
    title, place, stack, described = series.titles[number], series.place(number), series.stacks[number][0], []
    for part in ("fused", *reversed([name for name in parts if name != "fused"])):
        name = name_part(title, part, run)
        if part == "fused":
            look = describe_fused(stack, name=name, part=part, record=record)
        else:
            bounds = sorted((0.0, (stack.n_images - 1) * (z_step if part == "height" else 1.0)))
            # nearest: between image 2 and image 4 there is no image 3 to be shown
            look = {"name": name, "rgb": False, "visible": False, "interpolation2d": "nearest"}
            look |= {"metadata": {METADATA_KEY: {**record, "part": part}}, **choose_colors(part, (bounds[0], bounds[1]))}
        samples = parts[part]
        described.append(LayerDataTuple((samples, {**look, **place, "multiscale": isinstance(samples, list)}, "image")))
    return described


def name_part(title: str, part: str, run: int = 1) -> str:
    """Return the name of a layer of a result: narrow lists leave out the middle, so that part and number stand at the end."""
    return f"{title}: {PART_NAMES.get(part, part.replace('_', ' '))}{f' {run}' if run > 1 else ''}"


def number_run(titles: Collection[str], *, taken: Collection[str]) -> int:
    """Return which run of a stack a result comes from, given the names of the layers that are there."""
    return next(run for run in count(1) if not any(name_part(title, "fused", run) in taken for title in titles))


def add_layers(viewer: Viewer, layers: Sequence[Any]) -> list[Layer]:
    """Add layers from a reader or a run, and select the topmost visible one: the maps of a result lie hidden on top."""
    added: list[Layer] = []
    for samples, attributes, _ in layers:
        made = viewer.add_image(samples, **attributes)
        # napari makes a layer per channel where there is a channel axis
        added += made if isinstance(made, list) else [made]
    for layer in added:
        if part_of(layer) in ("source_index", "height"):
            layer.colorbar.visible = True
    viewer.layers.selection = set([layer for layer in added if layer.visible][-1:])
    return added


@contextmanager
def selection_kept(viewer: Viewer) -> Iterator[None]:
    """Keep the selection while layers are added, which napari selects: what was selected is what a person works with."""
    selected = set(viewer.layers.selection)
    yield
    viewer.layers.selection = selected


def find_parts(fused: Layer, layers: Sequence[Layer]) -> dict[str, Layer]:
    """Return the layers that were added with a result, by the name of the part; the topmost of those that are there twice."""
    wanted = _shared_record(fused)
    found = {part: layer for layer in layers if (part := part_of(layer)) is not None and _shared_record(layer) == wanted}
    return found if wanted else {}


def find_sources(fused: Layer, layers: Sequence[Layer], *, place: Place = ()) -> ChosenStack | None:
    """Return the stack that a result was made from, according to its record, where those layers are still there.

    A result that was opened from files names none: then the only stack of its size is taken. The place names the image of a result that has
    several, such as one per time point.
    """
    record = read_record(fused)
    lengths = finest_level(fused).shape
    steps = {name: step for name, step, length in zip(list_axes(fused), place, lengths, strict=False) if length > 1}
    try:
        if "inputs" not in record:
            # one, no more and no less, or it is caught below
            (only,) = [layer for layer in layers if _may_be_source(layer, fused)]
            point = only.data_to_world([steps.get(name, 0) for name in list_axes(only)])
            return choose_series([only], point=point).first
        axis_name, position = record["axis"], {**record["position"], **steps}
        found = [next(layer for layer in layers if str(layer.unique_id) == entry["id"]) for entry in record["inputs"]]
        if axis_name is None:
            return choose_layers(found)
        names = list_axes(found[0])
        return choose_planes(found[0], names.index(axis_name), point=found[0].data_to_world([position.get(name, 0) for name in names]))
    except (QmcifError, KeyError, TypeError, ValueError, StopIteration):
        return None


def find_shown_sources(fused: Layer | None, viewer: Viewer) -> ChosenStack | None:
    """Return the stack behind the image of a result that the sliders show, where it is still there."""
    return None if fused is None else find_sources(fused, list(viewer.layers), place=find_place(fused, viewer.dims.point))


def choose_sources(fused: Layer, chosen: Sequence[Layer], viewer: Viewer) -> tuple[ChosenStack, bool]:
    """Return the stack that the shown image of a result was made from, and whether that is known from its record.

    A person may have chosen others than those of the record: images, or one layer, whose planes are taken where the sliders stand.
    """
    stack = find_shown_sources(fused, viewer)
    if stack is not None and stack.layers == chosen:
        return stack, True
    if not chosen:
        msg = "the images of this result are not there; two or more image layers, or one stack, are needed: open them or choose others"
        raise InvalidImageError(msg)
    return choose_series(chosen, point=viewer.dims.point).first, False


def read_settings(fused: Layer) -> tuple[FusionConfig, tuple[float, float] | None]:
    """Return the settings that a result was made with, and its focus range; the defaults and None where it does not record them."""
    record = read_record(fused)
    try:
        low, high = record["focus_range"]
        return FusionConfig.from_dict(record["settings"]), (float(low), float(high))
    except (QmcifError, KeyError, TypeError, ValueError):  # no record, or one of another version
        return FusionConfig(), None


def prepare_alike(stack: ChosenStack, fused: Layer) -> ChosenStack:
    """Return the stack with the images that a result was made of, aligned and evened out as they were.

    Refused where they were moved by a file of transforms that is gone: the result does not hold what stood in it.
    """
    record = read_record(fused)
    file = record.get("transforms_file")
    path = Path(file) if isinstance(file, str) else None
    if record.get("has_transforms") is True and (path is None or not path.is_file()):
        msg = f"the images of {fused.name!r} were moved by a file of transforms that is gone; it is needed: fuse again, or with Align"
        raise InvalidImageError(msg)
    if record.get("align") not in ALIGNMENTS:
        return stack
    left_out, reference = record.get("left_out"), record.get("reference")
    return replace(
        stack,
        align=record["align"],
        even_exposure=record.get("even_exposure") is True,
        left_out=tuple(left_out) if isinstance(left_out, list) else (),
        reference=reference if isinstance(reference, int) else None,
        transforms=None if path is None else load_transforms(path),
        transforms_file=path,
    )


def name_images(stack: ChosenStack) -> list[str]:
    """Return the names of the images: the files they come from where these are known, else layers, else planes counted from 1."""
    files, frames = [str(path) for layer in stack.layers for path in list_files(layer)], stack.frame_numbers
    # else they hold several images each, and do not name one
    if len(files) == stack.n_images + len(stack.left_out):
        return [Path(files[number]).name for number in frames]
    if stack.axis is None:
        return [str(stack.layers[number].name) for number in frames]
    axis = list_axes(stack.layers[0])[stack.axis]
    return [f"{'plane' if axis.isdigit() else axis} {number + 1}" for number in frames]


def find_place(layer: Layer | None, point: Sequence[float]) -> Place:
    """Return which image of a layer a point of the world lies in: the step along every axis before rows and columns."""
    if layer is None or layer.ndim == 2:
        return ()
    lengths = finest_level(layer).shape[: layer.ndim - 2]
    steps = np.rint(layer.world_to_data(point)).astype(int)
    return tuple(int(np.clip(step, 0, length - 1)) for step, length in zip(steps, lengths, strict=False))


def name_place(layer: Layer, place: Place) -> str:
    """Return a place in words, such as ``, t 3``; nothing for the only image of a layer."""
    known = zip(list_axes(layer), place, finest_level(layer).shape, strict=False)
    return "".join(f", {name} {step}" for name, step, length in known if length > 1)


def list_files(layer: Any) -> list[Any]:  # noqa: ANN401 - a layer
    """Return the files of a layer: those that our reader noted, else the one that napari did."""
    noted = read_record(layer).get("files")
    return noted if isinstance(noted, list) else [layer.source.path] * (layer.source.path is not None)


def find_recording(layer: Layer) -> tuple[str, ...]:
    """Return what the layers of one recording share: its files, and its name where these hold several; nothing where there are no files."""
    image = read_record(layer).get("image")
    return (*map(str, list_files(layer)), *([] if image is None else [str(image)]))


def _may_be_source(layer: Layer, fused: Any) -> bool:  # noqa: ANN401 - a layer
    if not isinstance(layer, Image) or layer.ndim < 3 or part_of(layer) is not None or layer.multiscale != fused.multiscale:
        return False
    n_behind = 2 + bool(fused.rgb)
    return bool(layer.rgb == fused.rgb and finest_level(layer).shape[-n_behind:][:2] == finest_level(fused).shape[-n_behind:][:2])


def _shared_record(layer: Layer) -> dict[str, Any]:
    return {name: value for name, value in read_record(layer).items() if name not in _OWN_TO_A_PART}

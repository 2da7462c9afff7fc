"""What belongs together: the layers of one result, the images it was made from, and what these are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Image, Layer
from napari.viewer import Viewer

from napari_qmcif.aligning import ALIGNMENTS
from napari_qmcif.chosen_stack import ChosenStack, choose_layers, choose_planes, finest_level, name_axis
from napari_qmcif.layer_box import part_of
from napari_qmcif.provenance import read_record
from napari_qmcif.stack_series import choose_series
from qmcif_engine import FusionConfig, InvalidImageError, QmcifError, load_transforms

Place = tuple[int, ...]
"""One image of a layer that has several: its step along every axis before rows and columns."""

_OWN_TO_A_PART = ("part", "is_retouched", "height", "n_channels", "of_result")
"""What the records of the layers of one result may differ in."""


def find_parts(fused: Layer, layers: Sequence[Layer]) -> dict[str, Layer]:
    """Return the layers that were added with a result, by the name of the part; the topmost of those that are there twice."""
    wanted = _shared_record(fused)
    found = {part: layer for layer in layers if (part := part_of(layer)) is not None and _shared_record(layer) == wanted}
    return found if wanted else {}


def find_sources(fused: Layer, layers: Sequence[Layer], *, place: Place = ()) -> ChosenStack | None:
    """Return the stack that a result was made from, according to its record, where those layers are still there.

    A result that was opened from files names none: then the only stack of its size is taken. The place says which image is meant of a
    result that has several, such as one per time point.
    """
    record = read_record(fused)
    steps = {name_axis(fused, axis): step for axis, step in enumerate(place) if finest_level(fused).shape[axis] > 1}
    try:
        if "inputs" not in record:
            # one, no more and no less, or it is caught below
            (only,) = [layer for layer in layers if _may_be_source(layer, fused)]
            return choose_sources([only], point=only.data_to_world([steps.get(name_axis(only, axis), 0) for axis in range(only.ndim)]))
        names = [entry["layer"] for entry in record["inputs"]]
        axis_name, position = record["axis"], {**record["position"], **steps}
        found = [next(layer for layer in layers if layer.name == name) for name in names]
        if axis_name is None:
            return choose_layers(found)
        axes = {name_axis(found[0], axis): axis for axis in range(found[0].ndim)}
        return choose_planes(found[0], axes[axis_name], point=found[0].data_to_world([position.get(name, 0) for name in axes]))
    except (QmcifError, KeyError, TypeError, ValueError, StopIteration):
        return None


def find_shown_sources(fused: Layer | None, viewer: Viewer) -> ChosenStack | None:
    """Return the stack behind the image of a result that the sliders show, where it is still there."""
    return None if fused is None else find_sources(fused, list(viewer.layers), place=find_place(fused, viewer.dims.point))


def choose_sources(layers: Sequence[Layer], *, point: Sequence[float]) -> ChosenStack:
    """Return images, or the planes of one layer along its focus axis where the sliders stand, as one stack."""
    if not layers:
        msg = "no source is chosen; two or more image layers, or one stack, are needed: select what the result was made from"
        raise InvalidImageError(msg)
    return choose_series(layers, point=point).first


def read_settings(fused: Layer) -> tuple[FusionConfig, tuple[float, float] | None]:
    """Return the settings that a result was made with, and its focus range; the defaults and None where it does not say them."""
    record = read_record(fused)
    try:
        low, high = record["focus_range"]
        return FusionConfig.from_dict(record["settings"]), (float(low), float(high))
    except (QmcifError, KeyError, TypeError, ValueError):  # no record, or one of another version
        return FusionConfig(), None


def prepare_alike(stack: ChosenStack, fused: Layer) -> ChosenStack:
    """Return the stack with the images that a result was made of, aligned and evened out as they were.

    Refused where they were moved as a file said that is not there any more: the result does not hold what stood in it.
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
    """Return what a person calls the images: the files they come from where these are known, else layers, else planes."""
    files, frames = [str(path) for layer in stack.layers for path in list_files(layer)], stack.frame_numbers
    # else they hold several images each, and do not name one
    if len(files) == stack.n_images + len(stack.left_out):
        return [Path(files[number]).name for number in frames]
    if stack.axis is None:
        return [str(stack.layers[number].name) for number in frames]
    axis = name_axis(stack.layers[0], stack.axis).removeprefix("axis ")
    return [f"{'plane' if axis.isdigit() else axis} {number}" for number in frames]


def find_place(layer: Layer | None, point: Sequence[float]) -> Place:
    """Return which image of a layer a point of the world lies in: the step along every axis before rows and columns."""
    if layer is None or layer.ndim == 2:
        return ()
    lengths = finest_level(layer).shape[: layer.ndim - 2]
    steps = np.rint(layer.world_to_data(point)).astype(int)
    return tuple(int(np.clip(step, 0, length - 1)) for step, length in zip(steps, lengths, strict=False))


def name_place(layer: Layer, place: Place) -> str:
    """Return a place in words, such as ``, t 3``; nothing for the only image of a layer."""
    lengths = finest_level(layer).shape
    names = [name_axis(layer, axis).removeprefix("axis ") for axis in range(len(place))]
    return "".join(f", {name} {step}" for name, step, length in zip(names, place, lengths, strict=False) if length > 1)


def list_files(layer: Any) -> list[Any]:  # noqa: ANN401 - a layer
    """Return the files of a layer: those that our reader noted, else the one that napari did."""
    noted = read_record(layer).get("files")
    return noted if isinstance(noted, list) else [layer.source.path] * (layer.source.path is not None)


def _may_be_source(layer: Layer, fused: Any) -> bool:  # noqa: ANN401 - a layer
    if not isinstance(layer, Image) or layer.ndim < 3 or part_of(layer) is not None or layer.multiscale != fused.multiscale:
        return False
    n_behind = 2 + bool(fused.rgb)
    return bool(layer.rgb == fused.rgb and finest_level(layer).shape[-n_behind:][:2] == finest_level(fused).shape[-n_behind:][:2])


def _shared_record(layer: Layer) -> dict[str, Any]:
    return {name: value for name, value in read_record(layer).items() if name not in _OWN_TO_A_PART}

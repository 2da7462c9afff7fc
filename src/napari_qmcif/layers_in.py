"""Layers as stacks that the engine fuses, and where they lie; no pixel is read here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from napari.layers import Image, Layer
from napari.utils.transforms import CompositeAffine

from qmcif_engine import InvalidImageError

FOCUS_AXIS_NAMES = ("z", "focus", "depth")
SUPPORTED_DTYPES = ("uint8", "uint16", "float32", "float64", "int8", "int16", "uint32", "bool")
WORKED_WITH = {"float16": "float32", "int32": "float64"}
"""Types that the engine does not take, each with one that holds every value of it."""

N_COLORS = 3
"""What comes behind them is opacity, which follows the decisions without taking part in them."""


def transform_of(layer: Layer) -> dict[str, Any]:
    """Return the keyword arguments that put a new layer of the same axes exactly where a layer lies."""
    names = ("scale", "translate", "rotate", "shear", "units", "axis_labels")
    return {**{name: getattr(layer, name) for name in names}, "affine": layer.affine.affine_matrix}


def compose_transform(layer: Layer) -> CompositeAffine:
    """Return what a layer does before its own affine: scale, shear, rotation and translation; napari's own is private."""
    names = ("scale", "translate", "rotate", "shear", "ndim", "units", "axis_labels")
    return CompositeAffine(**{name: getattr(layer, name) for name in names})


class Placement(NamedTuple):
    """Where the pixels of an image lie in the world: scale, translation, rotation and shear over two axes, and what comes on top of it."""

    transform: CompositeAffine
    affine: Any

    @classmethod
    def of_layer(cls, layer: Layer, axes: Sequence[int] = (-2, -1)) -> Placement:
        """Take two axes out of a layer's transform; the axis that is fused over is not among them."""
        chosen = [axis % layer.ndim for axis in axes]
        return cls(compose_transform(layer).set_slice(chosen), np.asarray(layer.affine.set_slice(chosen).affine_matrix))

    def is_close_to(self, other: Placement) -> bool:
        """Return whether both put the same pixel at the same place."""
        matrices = [place.affine @ place.transform.affine_matrix for place in (self, other)]
        return bool(np.allclose(*matrices)) and tuple(self.transform.units) == tuple(other.transform.units)

    def as_layer_arguments(self, corner_px: Sequence[float] = (0, 0)) -> dict[str, Any]:
        """Return the keyword arguments that put a new layer there: the whole, or a part whose first pixel is that (row, column) of it."""
        arguments = {name: np.asarray(getattr(self.transform, name)) for name in ("scale", "rotate", "shear")}
        names = {name: tuple(getattr(self.transform, name)) for name in ("units", "axis_labels")}
        return {**arguments, **names, "translate": self.transform(np.asarray(corner_px, dtype=float)), "affine": self.affine}

    def with_depth(self, step: float, *, start: float, unit: str, label: str) -> dict[str, Any]:
        """Return the keyword arguments that put a new layer there whose first axis is a depth of its own."""
        flat = self.as_layer_arguments()
        rotate, shear, affine = np.eye(3), np.eye(3), np.eye(4)
        rotate[1:, 1:], affine[1:, 1:] = flat["rotate"], flat["affine"]
        # napari gives the shear of two axes as one number
        shear[1:, 1:] = flat["shear"] if np.ndim(flat["shear"]) == 2 else [[1, np.ravel(flat["shear"])[0]], [0, 1]]
        before = {"scale": step, "translate": start, "units": unit, "axis_labels": label}
        return {**{name: (value, *flat[name]) for name, value in before.items()}, "rotate": rotate, "shear": shear, "affine": affine}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenStack:
    """What is to be fused: the images of several layers, or the planes of one layer along one axis.

    Arrays are one a layer, the finest level of a pyramid. `index` cuts an image out of each; its entry of `axis`, which is None for several
    layers, is replaced by the number of the image. `image_axes` are rows and columns. Before they are fused, images are moved to coincide
    as `align` or a file of transforms says, and evened out; the reference stays as it is, the middle one where none is given. Images that
    are left out are counted from 0. A note is something the user should know that does not stand in the way.
    """

    layers: tuple[Any, ...]
    arrays: tuple[Any, ...]
    axis: int | None
    index: tuple[int | slice, ...]
    image_axes: tuple[int, int]
    placement: Placement
    align: str = "none"
    even_exposure: bool = False
    reference: int | None = None
    transforms: Any = None
    transforms_file: Path | None = None
    left_out: tuple[int, ...] = ()
    note: str = ""

    @property
    def frame_numbers(self) -> tuple[int, ...]:
        """Which images of the layers are fused, 0-based."""
        n_frames = len(self.arrays) if self.axis is None else int(self.arrays[0].shape[self.axis])
        return tuple(number for number in range(n_frames) if number not in self.left_out)

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.frame_numbers)

    @property
    def is_prepared(self) -> bool:
        """Whether anything is done to its images before they are fused."""
        return self.align != "none" or self.even_exposure or self.transforms is not None

    @property
    def is_color(self) -> bool:
        """Whether the last axis holds channels."""
        return bool(self.layers[0].rgb)

    @property
    def size_px(self) -> tuple[int, int]:
        """Height and width."""
        rows, columns = (int(self.arrays[0].shape[axis]) for axis in self.image_axes)
        return rows, columns

    @property
    def n_channels(self) -> int:
        """Number of channels, 1 for gray."""
        return int(self.arrays[0].shape[-1]) if self.is_color else 1

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """Sample type of the layers, and of the result in memory."""
        dtype: np.dtype[Any] = np.dtype(self.arrays[0].dtype)
        return dtype

    @property
    def dtype(self) -> np.dtype[Any]:
        """Sample type that is worked with: that of the layers, or one that holds every value of it."""
        return np.dtype(WORKED_WITH.get(self.stored_dtype.name, self.stored_dtype))

    @property
    def z_step(self) -> tuple[float, str]:
        """Distance of neighboring images and its unit of length; without a unit images are counted."""
        if self.axis is None:
            return 1.0, ""
        step, unit = float(self.layers[0].scale[self.axis]), str(self.layers[0].units[self.axis])
        return step, "" if unit in ("pixel", "dimensionless") else unit

    @property
    def title(self) -> str:
        """What the layers of the result are named after."""
        first = str(self.layers[0].name)
        return first if len(self.layers) == 1 else f"{first} + {len(self.layers) - 1}"

    def cut_images(self, rows: slice = slice(None), columns: slice = slice(None)) -> list[Any]:
        """Return the images, or one rectangle of each: views of arrays in memory, lazy where a layer is lazy."""
        index = list(self.index)
        index[self.image_axes[0]], index[self.image_axes[1]] = rows, columns
        if self.axis is None:
            images = [self.arrays[number][tuple(index)] for number in self.frame_numbers]
        else:
            # a number takes its axis away: what is left of any layer is (Y, X) or (Y, X, C)
            cuts = [tuple({self.axis: number}.get(axis, item) for axis, item in enumerate(index)) for number in self.frame_numbers]
            images = [self.arrays[0][cut] for cut in cuts]
        return images if self.dtype == self.stored_dtype else [image.astype(self.dtype) for image in images]

    def restored(self, samples: Any) -> Any:  # noqa: ANN401 - any array
        """Return fused samples in the type of the layers; each is a sample of theirs, or lies in the range of those around it."""
        if self.stored_dtype == samples.dtype or self.stored_dtype.kind == "f":
            return samples.astype(self.stored_dtype)
        # worked with as floats, blended samples lie between two whole numbers
        return np.rint(samples).astype(self.stored_dtype)


def choose_layers(layers: Sequence[Any]) -> ChosenStack:
    """Take several layers for the images of one stack; refuse them as far as can be told without reading them."""
    for layer in layers:
        _check_is_image(layer)
        if layer.ndim != 2:
            msg = f"{layer.name!r} has {layer.ndim} axes; images with 2 are needed: choose it alone to fuse it along one of them"
            raise InvalidImageError(msg)
    if len(layers) < 2:
        msg = f"{len(layers)} image was given; at least 2 of one scene are needed: add the other focus positions"
        raise InvalidImageError(msg)
    arrays = tuple(lazy_level(layer) for layer in layers)
    _check_alike(layers, arrays)
    # napari shows moved layers apart, but the fusion goes by pixels: said, not refused
    places = [Placement.of_layer(layer, (0, 1)) for layer in layers]
    is_one_place = all(place.is_close_to(places[0]) for place in places)
    note = f"the layers lie at different places; they are fused pixel by pixel, at the place of {layers[0].name!r}"
    return ChosenStack(
        layers=tuple(layers),
        arrays=arrays,
        axis=None,
        index=(slice(None), slice(None)),
        image_axes=(0, 1),
        placement=places[0],
        note=_join("" if is_one_place else note, _describe_type(arrays[0])),
    )


def choose_planes(layer: Layer, axis: int, *, point: Sequence[float] | None = None) -> ChosenStack:
    """Take the planes of one layer along an axis for the images of a stack; rows and columns are the last two of its other axes.

    Further axes, such as time, are taken where the sliders stand in the world, at their start where no point is given.
    """
    _check_is_image(layer)
    array = lazy_level(layer)
    if array.shape[axis] < 2:
        label = name_axis(layer, axis)
        msg = f"{label} of {layer.name!r} has length {array.shape[axis]}; 2 or more planes are needed: choose another axis or layer"
        raise InvalidImageError(msg)
    _check_alike([layer], [array])
    others = [other for other in range(layer.ndim) if other != axis]
    rows, columns = others[-2:]
    # the nearest step, which is the one that napari shows
    position = np.zeros(layer.ndim, int) if point is None else np.rint(layer.world_to_data(point)).astype(int)
    # sliders may stand beyond this layer where another is longer; a color layer has a shape longer than its axes
    steps = [int(np.clip(step, 0, length - 1)) for step, length in zip(position, array.shape, strict=False)]
    index = [slice(None) if number in (rows, columns) else steps[number] for number in range(layer.ndim)]
    return ChosenStack(
        layers=(layer,),
        arrays=(array,),
        axis=axis,
        index=tuple(index),
        image_axes=(rows, columns),
        placement=Placement.of_layer(layer, (rows, columns)),
        note=_join(
            "" if point is None else _describe_position(layer, {other: steps[other] for other in others[:-2]}), _describe_type(array)
        ),
    )


def _join(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _describe_type(array: Any) -> str:  # noqa: ANN401 - any array
    name = np.dtype(array.dtype).name
    return f"{name} is worked with as {WORKED_WITH[name]}, without loss" if name in WORKED_WITH else ""


def _describe_position(layer: Layer, steps: Mapping[int, int]) -> str:
    places = [f"{name_axis(layer, axis)} at {step}" for axis, step in steps.items()]
    return f"taken where the sliders stand: {', '.join(places)}" if places else ""


def name_axis(layer: Layer, axis: int) -> str:
    """Return what a person calls an axis: its label where it has one."""
    label = str(layer.axis_labels[axis])
    # napari numbers unnamed axes from the last one: -3, -2, -1
    return f"axis {axis}" if label.lstrip("-").isdigit() or not label else f"axis {label}"


def guess_focus_axis(layer: Layer) -> int:
    """Return the axis named like a focus axis, else the last one before rows and columns."""
    named = [axis for axis, label in enumerate(layer.axis_labels) if str(label).lower() in FOCUS_AXIS_NAMES]
    return named[0] if named else max(int(layer.ndim) - 3, 0)


def _check_is_image(layer: Layer) -> None:
    if not isinstance(layer, Image):
        kind = type(layer).__name__.lower()
        msg = f"{layer.name!r} is a {kind} layer; image layers are needed: choose those with the images"
        raise InvalidImageError(msg)


def finest_level(layer: Any) -> Any:  # noqa: ANN401 - a layer, and any array
    """Return the samples of a layer, those of the finest level where it has several."""
    return layer.data[0] if layer.multiscale else layer.data


def drop_opacity(image: Any) -> Any:  # noqa: ANN401 - any array
    """Return an image without its opacity, lazy where it is lazy."""
    return image[..., :N_COLORS] if image.ndim == 3 else image


def lazy_level(layer: Layer) -> Any:  # noqa: ANN401 - any array
    """Return the finest level; arrays that read as soon as they are cut are wrapped so that nothing is read on the GUI thread."""
    array = finest_level(layer)
    if isinstance(array, np.ndarray) or hasattr(array, "dask"):
        return array
    from dask.array import from_array

    # a name of dask's own making would be a hash of all samples
    return from_array(array, name=False)


def _check_alike(layers: Sequence[Any], arrays: Sequence[Any]) -> None:
    """Refuse what the engine would refuse, before anything is read."""
    first = arrays[0]
    for layer, array in zip(layers, arrays, strict=True):
        if np.dtype(array.dtype).name not in (*SUPPORTED_DTYPES, *WORKED_WITH):
            known = ", ".join((*SUPPORTED_DTYPES, *WORKED_WITH))
            msg = f"{layer.name!r} has samples of type {array.dtype}; {known} are supported: convert it with astype"
            raise InvalidImageError(msg)
        if array.shape != first.shape:
            msg = (
                f"{layers[0].name!r} has shape {first.shape} and {layer.name!r} {array.shape}; all must be equal: crop or align them first"
            )
            raise InvalidImageError(msg)
        if array.dtype != first.dtype:
            msg = f"{layers[0].name!r} is {first.dtype} and {layer.name!r} {array.dtype}; all must be of one type: convert them first"
            raise InvalidImageError(msg)

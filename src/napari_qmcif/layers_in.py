"""What one run fuses of some layers: stacks, channels and points of further axes such as time, and where all lie; no pixel is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from napari.layers import Image, Layer
from napari.utils.transforms import CompositeAffine

from qmcif_engine import InvalidImageError

FOCUS_AXIS_NAMES = ("z", "focus", "depth")
CHANNEL_AXIS_NAMES = ("c", "channel", "channels")
SUPPORTED_DTYPES = ("uint8", "uint16", "float32", "float64", "int8", "int16", "uint32", "bool")
WORKED_WITH = {"float16": "float32", "int32": "float64"}
"""Types that the engine does not take, each with one that holds every value of it."""

N_COLORS = 3
"""What comes behind them is opacity, which follows the decisions without taking part in them."""

_TRANSFORM = ("scale", "translate", "rotate", "shear", "units", "axis_labels")


def transform_of(layer: Layer) -> dict[str, Any]:
    """Return the keyword arguments that put a new layer of the same axes exactly where a layer lies."""
    return {**{name: getattr(layer, name) for name in _TRANSFORM}, "affine": layer.affine.affine_matrix}


def compose_transform(layer: Layer) -> CompositeAffine:
    """Return what a layer does before its own affine: scale, shear, rotation and translation; napari's own is private."""
    return CompositeAffine(ndim=layer.ndim, **{name: getattr(layer, name) for name in _TRANSFORM})


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
    by `align` or by a file of transforms, and evened out; the reference stays as it is, the middle one where none is given. Images that
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
        return int(self.arrays[0].shape[self.image_axes[0]]), int(self.arrays[0].shape[self.image_axes[1]])

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
        images = []
        for number in self.frame_numbers:
            if self.axis is not None:
                # a number takes its axis away: what is left of any layer is (Y, X) or (Y, X, C)
                index[self.axis] = number
            images.append(self.arrays[number if self.axis is None else 0][tuple(index)])
        return images if self.dtype == self.stored_dtype else [image.astype(self.dtype) for image in images]

    def restored(self, samples: Any) -> Any:  # noqa: ANN401 - any array
        """Return fused samples in the type of the layers; each is a sample of theirs, or lies in the range of those around it."""
        is_exact = self.stored_dtype == samples.dtype or self.stored_dtype.kind == "f"
        # worked with as floats, blended samples lie between two whole numbers
        return (samples if is_exact else np.rint(samples)).astype(self.stored_dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSeries:
    """What one run fuses: for each channel, which `titles` name, a stack for each point of the further axes, the last one fastest.

    Results keep the axes of their sources, or are one image each; `kept_shape` has the lengths of the further axes, such as time. Channels
    may lie along an axis of the one layer, and may all follow the decisions of one of them.
    """

    titles: tuple[str, ...]
    stacks: tuple[tuple[ChosenStack, ...], ...]
    keeps_axes: bool = False
    kept_shape: tuple[int, ...] = ()
    channel_axis: int | None = None
    decided_by: int | None = None

    @classmethod
    def of_one(cls, stack: ChosenStack, *, title: str = "") -> StackSeries:
        """Return the series of one stack, whose result is one image."""
        return cls(titles=(title or stack.title,), stacks=((stack,),))

    @property
    def first(self) -> ChosenStack:
        """The stack that stands for all of them."""
        return self.stacks[0][0]

    @property
    def n_points(self) -> int:
        """Number of points of the further axes."""
        return len(self.stacks[0])

    @property
    def n_fusions(self) -> int:
        """How often is fused."""
        return self.n_points * (1 if self.decided_by is not None else len(self.stacks))

    def changed(self, **changes: Any) -> StackSeries:  # noqa: ANN401 - fields of a chosen stack
        """Return the series with every stack prepared in another way."""
        return replace(self, stacks=tuple(tuple(replace(stack, **changes) for stack in channel) for channel in self.stacks))

    def arrange(self, images: Sequence[Any]) -> Any:  # noqa: ANN401 - arrays, or pyramids
        """Put the images of all points together, along the axes of their sources; the axes that are gone keep a length of 1."""
        if not self.keeps_axes:
            return images[0]
        if isinstance(images[0], list):
            return [self.arrange(levels) for levels in zip(*images, strict=True)]
        joined: Any = stack_arrays(images).reshape(*self.kept_shape, *images[0].shape)
        # all at once, so that each axis gets its old number
        return np.expand_dims(joined, tuple(axis for axis in (self.first.axis, self.channel_axis) if axis is not None))

    def place(self, number: int) -> dict[str, Any]:
        """Return the layer arguments that put the results of one channel where they belong.

        Where further axes are kept, a result lies at its channel and fills the whole depth of its stack, so that it is seen wherever the
        slider of that axis stands.
        """
        stack = self.stacks[number][0]
        if not self.keeps_axes or stack.axis is None:
            return stack.placement.as_layer_arguments()
        layer, n_planes = stack.layers[0], int(stack.arrays[0].shape[stack.axis])
        corner, scale = np.zeros(layer.ndim), np.array(layer.scale, dtype=float)
        # one plane, n times as thick, with its middle where that of the stack is
        corner[stack.axis] = (n_planes - 1) / 2
        scale[stack.axis] *= n_planes
        if self.channel_axis is not None:
            corner[self.channel_axis] = number
        return {**transform_of(layer), "scale": scale, "translate": compose_transform(layer)(corner)}


def choose_series(layers: Sequence[Any], axis: str = "", *, decide_by: str = "", point: Sequence[float] | None = None) -> StackSeries:
    """Return what is to be fused of some layers: images of one scene; one stack; or several stacks of one size, each a channel.

    The axis that is fused along is named as `list_axes` does; without a name it is the axis that looks like focus. Channels decide for
    themselves unless one is named that decides for all. A point of the world takes the stack there instead of all points.
    """
    if not layers:
        msg = "nothing is chosen; one stack, or two or more images of one scene, are needed: open them, or select them in the layer list"
        raise InvalidImageError(msg)
    if any(not isinstance(layer, Image) or layer.ndim == 2 for layer in layers):
        return StackSeries.of_one(choose_layers(layers))
    number = list_axes(layers[0]).index(axis) if axis in list_axes(layers[0]) else guess_focus_axis(layers[0])
    _check_shapes(layers, "stacks that are fused together are channels of one size: choose them one by one")
    parts = [_split_layer(layer, number, point=point, is_channel=len(layers) > 1) for layer in layers]
    titles = tuple(title for part in parts for title in part.titles)
    series = replace(parts[0], titles=titles, stacks=tuple(stacks for part in parts for stacks in part.stacks))
    return replace(series, decided_by=titles.index(decide_by)) if decide_by in titles and len(titles) > 1 else series


def _split_layer(layer: Layer, axis: int, *, point: Sequence[float] | None, is_channel: bool) -> StackSeries:
    """Return the channels of one layer, each with its stacks at all points of the further axes, or the one stack at a point."""
    stack, names = choose_planes(layer, axis, point=point), list_axes(layer)
    shape = stack.arrays[0].shape
    further = [other for other in range(layer.ndim) if other not in (axis, *stack.image_axes)]
    if point is not None or not further:
        place = "".join(f", {names[other]} {stack.index[other]}" for other in further)
        return StackSeries.of_one(stack, title=f"{layer.name}{place}")
    # layers that are channels themselves have no further channel axis
    named = [other for other in further if names[other].lower() in CHANNEL_AXIS_NAMES and not is_channel]
    channel_axis = named[0] if named else None
    kept = [other for other in further if other != channel_axis]
    channels = [{}] if channel_axis is None else [{channel_axis: number} for number in range(shape[channel_axis])]

    def cut(place: dict[int, int]) -> ChosenStack:
        return replace(stack, index=tuple(place.get(other, item) for other, item in enumerate(stack.index)))

    points = [dict(zip(kept, steps, strict=True)) for steps in product(*(range(shape[other]) for other in kept))]
    return StackSeries(
        titles=tuple(f"{layer.name}{''.join(f', {names[other]} {step}' for other, step in own.items())}" for own in channels),
        stacks=tuple(tuple(cut({**steps, **own}) for steps in points) for own in channels),
        keeps_axes=True,
        kept_shape=tuple(shape[other] for other in kept),
        channel_axis=channel_axis,
    )


def choose_layers(layers: Sequence[Any]) -> ChosenStack:
    """Take several layers for the images of one stack; refuse them as far as can be known without reading them."""
    kinds = [_check_kind(layer) for layer in layers]
    for layer in layers:
        if layer.ndim != 2:
            msg = f"{layer.name!r} has {layer.ndim} axes; images with 2 are needed: choose it alone to fuse it along one of them"
            raise InvalidImageError(msg)
    if len(layers) < 2:
        msg = f"{len(layers)} image was given; at least 2 of one scene are needed: add the other focus positions"
        raise InvalidImageError(msg)
    _check_shapes(layers, "all must be equal: crop or align them first")
    arrays = tuple(lazy_level(layer) for layer in layers)
    for layer, array in zip(layers, arrays, strict=True):
        if array.dtype != arrays[0].dtype:
            msg = f"{layers[0].name!r} is {arrays[0].dtype} and {layer.name!r} {array.dtype}; all must be of one type: convert them first"
            raise InvalidImageError(msg)
    places = [Placement.of_layer(layer, (0, 1)) for layer in layers]
    is_one_place = all(place.is_close_to(places[0]) for place in places)
    # napari shows moved layers apart, but the fusion goes by pixels: noted, not refused
    note = f"the layers lie at different places; they are fused pixel by pixel, at the place of {layers[0].name!r}"
    return ChosenStack(
        layers=tuple(layers),
        arrays=arrays,
        axis=None,
        index=(slice(None), slice(None)),
        image_axes=(0, 1),
        placement=places[0],
        note="; ".join(filter(None, ["" if is_one_place else note, kinds[0]])),
    )


def choose_planes(layer: Layer, axis: int, *, point: Sequence[float] | None = None) -> ChosenStack:
    """Take the planes of one layer along an axis for the images of a stack; rows and columns are the last two of its other axes.

    Further axes, such as time, are taken where the sliders stand in the world, at their start where no point is given.
    """
    kind = _check_kind(layer)
    array, names = lazy_level(layer), list_axes(layer)
    if array.shape[axis] < 2:
        where = f"axis {names[axis]} of {layer.name!r}"
        msg = f"{where} has length {array.shape[axis]}; 2 or more planes are needed: choose another axis or layer"
        raise InvalidImageError(msg)
    *further, rows, columns = (other for other in range(layer.ndim) if other != axis)
    # the nearest step, which is the one that napari shows
    position = np.zeros(layer.ndim, int) if point is None else np.rint(layer.world_to_data(point)).astype(int)
    # sliders may stand beyond this layer where another is longer; a color layer has a shape longer than its axes
    steps = [int(np.clip(step, 0, length - 1)) for step, length in zip(position, array.shape, strict=False)]
    places = ", ".join(f"axis {names[other]} at {steps[other]}" for other in further)
    return ChosenStack(
        layers=(layer,),
        arrays=(array,),
        axis=axis,
        index=tuple(slice(None) if number in (rows, columns) else steps[number] for number in range(layer.ndim)),
        image_axes=(rows, columns),
        placement=Placement.of_layer(layer, (rows, columns)),
        note="; ".join(filter(None, [f"taken where the sliders stand: {places}" if point is not None and places else "", kind])),
    )


def list_axes(layer: Layer) -> list[str]:
    """Return what the axes of a layer are called: their labels, or their numbers where they have none."""
    # napari numbers unnamed axes from the last one: -3, -2, -1
    labels = [str(label) for label in layer.axis_labels]
    return [str(axis) if label.lstrip("-").isdigit() or not label else label for axis, label in enumerate(labels)]


def guess_focus_axis(layer: Layer) -> int:
    """Return the axis named like a focus axis, else the last one before rows and columns."""
    named = [axis for axis, label in enumerate(layer.axis_labels) if str(label).lower() in FOCUS_AXIS_NAMES]
    return named[0] if named else max(int(layer.ndim) - 3, 0)


def finest_level(layer: Any) -> Any:  # noqa: ANN401 - a layer, and any array
    """Return the samples of a layer, those of the finest level where it has several."""
    return layer.data[0] if layer.multiscale else layer.data


def lazy_level(layer: Layer) -> Any:  # noqa: ANN401 - any array
    """Return the finest level; arrays that read as soon as they are cut are wrapped so that nothing is read on the GUI thread."""
    array = finest_level(layer)
    if isinstance(array, np.ndarray) or hasattr(array, "dask"):
        return array
    from dask.array import from_array

    # a name of dask's own making would be a hash of all samples
    return from_array(array, name=False)


def stack_arrays(arrays: Sequence[Any], axis: int = 0) -> Any:  # noqa: ANN401 - any array
    """Return arrays as one with a new axis, lazy where one of them is lazy; dask is imported only then."""
    if all(isinstance(array, np.ndarray) for array in arrays):
        return np.stack(arrays, axis)
    from dask.array import stack

    return stack(arrays, axis)


def _check_shapes(layers: Sequence[Any], needed: str) -> None:
    shapes = [tuple(finest_level(layer).shape) for layer in layers]
    for layer, shape in zip(layers, shapes, strict=True):
        if shape != shapes[0]:
            msg = f"{layers[0].name!r} has shape {shapes[0]} and {layer.name!r} {shape}; {needed}"
            raise InvalidImageError(msg)


def _check_kind(layer: Layer) -> str:
    """Return which type samples are worked with as, where that is another one; refuse what the engine would refuse."""
    if not isinstance(layer, Image):
        msg = f"{layer.name!r} is a {type(layer).__name__.lower()} layer; image layers are needed: choose those with the images"
        raise InvalidImageError(msg)
    name, known = np.dtype(finest_level(layer).dtype).name, (*SUPPORTED_DTYPES, *WORKED_WITH)
    if name not in known:
        msg = f"{layer.name!r} has samples of type {name}; {', '.join(known)} are supported: convert it with astype"
        raise InvalidImageError(msg)
    return f"{name} is worked with as {WORKED_WITH[name]}, without loss" if name in WORKED_WITH else ""

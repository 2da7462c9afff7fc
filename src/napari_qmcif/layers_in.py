"""Layers as what the engine fuses: stacks, their channels and time points, and where all of them lie; no pixel is read here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One channel of a series: what its results are named after, and a stack for each point of the further axes, the last one fastest."""

    title: str
    stacks: tuple[ChosenStack, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSeries:
    """What one run fuses.

    Results keep the axes of their sources, or are one image each; `kept_shape` has the lengths of the further axes, such as time. Channels
    may lie along an axis of the one layer, and may all follow the decisions of one of them.
    """

    channels: tuple[Channel, ...]
    keeps_axes: bool = False
    kept_shape: tuple[int, ...] = ()
    channel_axis: int | None = None
    decided_by: int | None = None

    @classmethod
    def of_one(cls, stack: ChosenStack, *, title: str = "") -> StackSeries:
        """Return the series of one stack, whose result is one image."""
        return cls(channels=(Channel(title=title or stack.title, stacks=(stack,)),))

    @property
    def first(self) -> ChosenStack:
        """The stack that stands for all of them."""
        return self.channels[0].stacks[0]

    @property
    def n_points(self) -> int:
        """Number of points of the further axes."""
        return len(self.channels[0].stacks)

    @property
    def n_fusions(self) -> int:
        """How often is fused."""
        return self.n_points * (1 if self.decided_by is not None else len(self.channels))

    def changed(self, **changes: Any) -> StackSeries:  # noqa: ANN401 - fields of a chosen stack
        """Return the series with every stack prepared in another way."""
        channels = tuple(replace(channel, stacks=tuple(replace(stack, **changes) for stack in channel.stacks)) for channel in self.channels)
        return replace(self, channels=channels)

    def arrange(self, images: Sequence[Any]) -> Any:  # noqa: ANN401 - arrays, or pyramids
        """Put the images of all points together, along the axes of their sources; the axes that are gone keep a length of 1."""
        if not self.keeps_axes:
            return images[0]
        if isinstance(images[0], list):
            return [self.arrange(levels) for levels in zip(*images, strict=True)]
        if isinstance(images[0], np.ndarray):
            joined: Any = np.stack(images)
        else:
            import dask.array as da

            joined = da.stack(images)
        joined = joined.reshape(*self.kept_shape, *images[0].shape)
        for axis in sorted(axis for axis in (self.first.axis, self.channel_axis) if axis is not None):
            # from the first axis on, so that each gets its old number
            joined = np.expand_dims(joined, axis)
        return joined

    def place(self, number: int) -> dict[str, Any]:
        """Return the layer arguments that put the results of one channel where they belong.

        Where further axes are kept, a result lies at its channel and fills the whole depth of its stack, so that it is seen wherever the
        slider of that axis stands.
        """
        stack = self.channels[number].stacks[0]
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

    The axis that is fused along has a name of `list_axes`; without one it is the axis that looks like focus. Channels decide for themselves
    unless they are told to follow one. A point of the world takes the stack there instead of all points of the further axes.
    """
    if not layers:
        msg = "nothing is chosen; one stack, or two or more images of one scene, are needed: open them, or select them in the layer list"
        raise InvalidImageError(msg)
    if any(not isinstance(layer, Image) or layer.ndim == 2 for layer in layers):
        return StackSeries.of_one(choose_layers(layers))
    number = list_axes(layers[0]).index(axis) if axis in list_axes(layers[0]) else guess_focus_axis(layers[0])
    if len(layers) == 1:
        series = _split_layer(layers[0], number, point=point)
    else:
        _check_channels(layers)
        parts = [_split_layer(layer, number, point=point, is_channel=True) for layer in layers]
        series = replace(parts[0], channels=tuple(channel for part in parts for channel in part.channels))
    names = [channel.title for channel in series.channels]
    return replace(series, decided_by=names.index(decide_by)) if decide_by in names and len(names) > 1 else series


def list_stacks(
    sources: Sequence[Any], selected: Sequence[Any] = (), *, recording_of: Callable[[Layer], tuple[str, ...]]
) -> list[tuple[str, tuple[Any, ...]]]:
    """Return what may be fused, by the name that a person reads: single stacks, channels of one recording, visible images of one size.

    Several selected layers are offered as they are. Channels share a recording and a shape.
    """
    found: list[tuple[str, tuple[Any, ...]]] = []
    groups: dict[Any, list[Any]] = {}
    for layer in sources:
        shape, recording = tuple(finest_level(layer).shape), recording_of(layer)
        if layer.ndim > 2:
            found.append((str(layer.name), (layer,)))
            groups.setdefault(("channels", recording or id(layer), shape), []).append(layer)
        elif layer.visible:
            groups.setdefault(("images", layer.rgb, layer.dtype, shape), []).append(layer)
    for key, layers in groups.items():
        # images of one recording are its channels, not its focus positions
        is_stack = len(layers) > 1 and (key[0] == "channels" or len({recording_of(layer) for layer in layers} - {()}) != 1)
        if is_stack:
            *_, height, width = key[-1][: layers[0].ndim]
            common = str(layers[0].name).rpartition(": ")[0] or str(layers[0].name)
            name = f"{len(layers)} images, {width} x {height}" if key[0] == "images" else f"{common}: {len(layers)} channels"
            found.append((name, tuple(layers)))
    if len(selected) > 1 and not any(set(stack) == set(selected) for _, stack in found):
        found.append((f"{len(selected)} selected layers", tuple(selected)))
    names = [name for name, _ in found]
    repeats = [names[:number].count(name) for number, name in enumerate(names)]
    # a choice is found by its name
    return [(f"{name} ({repeat + 1})" if repeat else name, stack) for (name, stack), repeat in zip(found, repeats, strict=True)]


def list_axes(layer: Layer) -> list[str]:
    """Return what the axes of a layer are called, its numbers where they have no names."""
    return [name_axis(layer, axis).removeprefix("axis ") for axis in range(layer.ndim)]


def _split_layer(layer: Layer, axis: int, *, point: Sequence[float] | None, is_channel: bool = False) -> StackSeries:
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
    points = [dict(zip(kept, steps, strict=True)) for steps in product(*(range(shape[other]) for other in kept))]
    channels: list[Channel] = []
    for number in range(1 if channel_axis is None else shape[channel_axis]):
        own = {} if channel_axis is None else {channel_axis: number}
        place = "" if channel_axis is None else f", {names[channel_axis]} {number}"
        channels.append(Channel(title=f"{layer.name}{place}", stacks=tuple(_at(stack, {**steps, **own}) for steps in points)))
    return StackSeries(
        channels=tuple(channels), keeps_axes=True, kept_shape=tuple(shape[other] for other in kept), channel_axis=channel_axis
    )


def _at(stack: ChosenStack, place: dict[int, int]) -> ChosenStack:
    return replace(stack, index=tuple(place.get(axis, item) for axis, item in enumerate(stack.index)))


def _check_channels(layers: Sequence[Any]) -> None:
    shapes = [tuple(finest_level(layer).shape) for layer in layers]
    for layer, shape in zip(layers, shapes, strict=True):
        if shape != shapes[0]:
            msg = (
                f"{layers[0].name!r} has shape {shapes[0]} and {layer.name!r} {shape}; stacks that are fused together are channels of one "
                "size: choose them one by one"
            )
            raise InvalidImageError(msg)

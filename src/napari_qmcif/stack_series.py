"""What one run fuses of some layers: their stacks, channels and points of further axes, such as time; no pixel is read here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from napari.layers import Image, Layer

from napari_qmcif.layers_in import (
    ChosenStack,
    choose_layers,
    choose_planes,
    compose_transform,
    finest_level,
    guess_focus_axis,
    name_axis,
    transform_of,
)
from qmcif_engine import InvalidImageError

CHANNEL_AXIS_NAMES = ("c", "channel", "channels")


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

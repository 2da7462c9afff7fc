"""Axes of an acquisition: which one is the stack, which are channels, and which is time.

Axes are letters, as OME and tifffile write them: T time, C channel, Z focus, Y, X, and S for samples that belong to one pixel. Any
other letter is an axis of unstated meaning, such as the pages of a plain TIFF.

The rule: Z is the stack where there are several. Without it, the only axis that is left beside channels and has more than one image,
whether time or pages of unstated meaning, is the stack. Whatever is ambiguous is refused, until the user names the axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from string import ascii_uppercase

from qmcif_engine.errors import InvalidConfigError, InvalidImageError
from qmcif_engine.io.input.frame_source import FramePosition
from qmcif_engine.io.limits import LARGEST_SIDE_PX, MAX_CHANNELS, MAX_FRAMES, MAX_TIMES, MAX_WINDOWED_PIXELS
from qmcif_engine.stack.image_metadata import COLOR_NAMES

_PLANE_AXES = "YX"
_CHANNEL_AXES = "CS"
_KNOWN_AXES = "TCZYXS"


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """The meaning of every axis.

    Attributes
    ----------
    axes : str
        One letter an axis.
    shape : tuple of int
    stack_axis, time_axis : str
        A letter of `axes`, or empty where there is none.
    """

    axes: str
    shape: tuple[int, ...]
    stack_axis: str
    time_axis: str

    def __str__(self) -> str:
        """Return axes and lengths as messages give them."""
        return describe_axes(self.axes, self.shape)

    def name_frames(self, name: str) -> tuple[str, ...]:
        """Return what messages call the frames of an input of this name."""
        return tuple(f"image {number} of {name}" for number in range(1, self.n_frames + 1)) if self.n_frames > 1 else (name,)

    def length(self, axis: str) -> int:
        """Return the length of an axis, 1 where there is none."""
        return self.shape[self.axes.index(axis)] if axis and axis in self.axes else 1

    @property
    def n_frames(self) -> int:
        """Images along the stack axis."""
        return self.length(self.stack_axis)

    @property
    def n_times(self) -> int:
        """Time points; 1 where time itself is the stack."""
        return self.length(self.time_axis)

    @property
    def n_channels(self) -> int:
        """Channels times samples of a pixel."""
        return self.length("C") * self.length("S")

    def has_separate_channels(self, names: tuple[str, ...]) -> bool:
        """Return whether channels of these names were recorded one by one: along C, unless they are called red, green and blue.

        Samples of one pixel (S) are the colors of an image.
        """
        return self.length("C") > 1 and self.length("S") == 1 and tuple(name.lower() for name in names) not in COLOR_NAMES

    def locate(self, position: FramePosition, channel: int = 0) -> dict[str, int]:
        """Return the index along every axis but Y, X and S of one frame and one place along C."""
        known = {self.time_axis: position.time, self.stack_axis: position.number, "C": channel}
        return {axis: known.get(axis, 0) for axis in self.axes if axis not in _PLANE_AXES + "S"}

    def plane_number(self, position: FramePosition, channel: int = 0) -> int:
        """Return which plane (Y, X[, S]) of the acquisition this is, counted in the order the axes are stored."""
        number = 0
        for axis, index in self.locate(position, channel).items():
            # the last axis runs fastest
            number = number * self.length(axis) + index
        return number

    def planes_at(self, time: int) -> list[int]:
        """Return the numbers of all planes of one time point."""
        places = range(self.length("C"))
        return [self.plane_number(FramePosition(time, number), place) for number in range(self.n_frames) for place in places]

    @property
    def n_planes(self) -> int:
        """Planes (Y, X[, S]) of the whole acquisition."""
        return math.prod(length for axis, length in zip(self.axes, self.shape, strict=True) if axis not in _PLANE_AXES + "S")


def name_axes(name: str, *, shape: tuple[int, ...], found: str, wanted: str | None) -> tuple[str, tuple[int, ...]]:
    """Return axes and shape, as the user names them where they do so.

    Parameters
    ----------
    name : str
        What messages call the input.
    shape : tuple of int
    found : str
        Axes according to the input, one letter each.
    wanted : str, optional
        Axes according to the user: one letter for each axis, or for each that is longer than 1.
    """
    if wanted is None:
        return found, shape
    axes = wanted.upper()
    is_sound = axes.isascii() and axes.isalpha() and len(set(axes)) == len(axes) and set(_PLANE_AXES) <= set(axes)
    if not is_sound:
        msg = f"the axes {wanted!r} are not usable; each axis once, Y and X among them, is needed: give for example 'ZYX' or 'TCZYX'"
        raise InvalidConfigError(msg)
    if len(axes) == len(shape):
        return axes, shape
    is_named = [length > 1 or axis in _PLANE_AXES for length, axis in zip(shape, found, strict=True)]
    if len(axes) == sum(is_named):
        # those of length 1 stay, under letters that mean nothing: a block is read with all axes named
        named, unstated = iter(axes), iter(sorted(set(ascii_uppercase) - set(axes) - set(_KNOWN_AXES)))
        return "".join(next(named if is_it else unstated) for is_it in is_named), shape
    msg = f"{name} has shape {shape} and {wanted!r} names {len(axes)} axes; one letter for each axis is needed: name them all"
    raise InvalidConfigError(msg)


def plan_axes(name: str, axes: str, shape: tuple[int, ...]) -> AxisPlan:
    """Return the meaning of every axis.

    Parameters
    ----------
    name : str
        What messages call the input.
    axes : str
        One letter an axis.
    shape : tuple of int
    """
    if not set(_PLANE_AXES) <= set(axes) or len(set(axes)) != len(axes):
        raise _refuse_axes(name, axes, shape, "images along Y and X, each axis named once, are needed")
    if 0 in shape:
        raise _refuse_axes(name, axes, shape, "at least one sample is needed")
    # axes of length 1 decide nothing
    long = [axis for axis, length in zip(axes, shape, strict=True) if length > 1 and axis not in _PLANE_AXES + _CHANNEL_AXES]
    stack_axis, time_axis = long[0] if long else "", ""
    others = long[1:]
    # without Z, time or unnamed pages are what was recorded focus by focus
    if "Z" in long:
        stack_axis, time_axis = "Z", "T" if "T" in axes else ""
        others = [axis for axis in long if axis not in "ZT"]
    if others:
        raise _refuse_axes(name, axes, shape, "one axis to fuse along is needed")
    plan = AxisPlan(axes, shape, stack_axis, time_axis)
    # a few bytes of metadata can claim any length, of what would be listed image by image or pixel by pixel
    height, width = plan.length("Y"), plan.length("X")
    for length, largest, things in (
        (plan.n_frames, MAX_FRAMES, "images"),
        (plan.n_times, MAX_TIMES, "time points"),
        (plan.n_channels, MAX_CHANNELS, "channels"),
        (max(height, width), LARGEST_SIDE_PX, "pixels along a side"),
        (height * width, MAX_WINDOWED_PIXELS, "pixels an image"),
    ):
        if length > largest:
            msg = f"{name} has the axes {plan}; at most {largest} {things} are needed: export a part of it"
            raise InvalidImageError(msg)
    return plan


def describe_axes(axes: str, shape: tuple[int, ...]) -> str:
    """Return axes and lengths as messages give them."""
    return " x ".join(f"{axis} {length}" for axis, length in zip(axes, shape, strict=True))


def _refuse_axes(name: str, axes: str, shape: tuple[int, ...], needed: str) -> InvalidImageError:
    sizes = describe_axes(axes, shape)
    return InvalidImageError(f"{name} has the axes {sizes}; {needed}: name them with axes='ZYX' or such, on the command line --axes ZYX")

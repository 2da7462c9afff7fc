"""The frames of a source as a stack that can be fused: chosen frames, chosen channels, one time point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType

import numpy as np

from qmcif_engine.arrays import SampleArray
from qmcif_engine.errors import InvalidConfigError, InvalidImageError
from qmcif_engine.io.input.frame_source import FramePosition, FrameSource, SourceDescription
from qmcif_engine.io.input.segments import SegmentCache
from qmcif_engine.stack.deciding import EACH
from qmcif_engine.stack.stack import Stack
from qmcif_engine.stack.window import Window

ZERO_PLANE = -1
"""Stands in a list of channels for a plane of zeros."""

_N_COLORS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What of a source becomes a stack, all numbers counted from 0."""

    frames: tuple[int, ...]
    channels: tuple[int, ...]
    time: int
    memory_bytes: int
    decides_each: bool = False


def _read_frame(
    source: FrameSource,
    cache: SegmentCache,
    positions: Sequence[FramePosition],
    channels: Sequence[int],
    has_channel_axis: bool,
    number: int,
    window: Window,
) -> SampleArray:
    """Return the samples of one window of one image.

    Raises
    ------
    InvalidImageError
        For NaN or infinity, which no decision can be made on.
    ImageFileError
        For a file that turns out to be damaged there.
    """
    found, position = source.description, positions[number]
    # slices beyond the image would give fewer samples without an error
    if not (0 <= window.top <= window.bottom <= found.height and 0 <= window.left <= window.right <= found.width):
        msg = f"{window} was asked of images of {found.width} x {found.height} pixels; a window inside them is needed: correct it"
        raise InvalidImageError(msg)
    wanted = [channel for channel in channels if channel != ZERO_PLANE]
    samples = cache.read(source, position, window, wanted)
    if len(wanted) < len(channels):
        samples = np.concatenate([samples, np.zeros((*window.shape, len(channels) - len(wanted)), samples.dtype)], axis=-1)
    # here and not when opened: only now are the samples read
    if samples.dtype.kind == "f" and not np.isfinite(samples).all():
        msg = f"{found.names[position.number]} holds NaN or infinite samples; finite ones are needed: fill them first"
        raise InvalidImageError(msg)
    return samples if has_channel_axis else samples[:, :, 0]


@dataclass(frozen=True, kw_only=True, eq=False)
class FileStack(Stack):
    """The stack that `open_stack` returns: what is fused, and what goes with it.

    A context manager: leaving it removes scratch copies. It can be sent to another process, and used from several threads.

    Attributes
    ----------
    source : FrameSource
    cache : SegmentCache
    selection : Selection
    """

    source: FrameSource
    cache: SegmentCache
    selection: Selection

    @property
    def n_times(self) -> int:
        """Time points of the acquisition; the stack is one of them."""
        return self.source.description.n_times

    @property
    def axes(self) -> str:
        """Axes of the input and their lengths as it stores them; empty where there are none but height, width and colors."""
        return self.source.description.axes

    @property
    def time(self) -> int:
        """Which time point the stack is, counted from 0."""
        return self.selection.time

    def at_time(self, time: int) -> FileStack:
        """Return the stack of another time point, counted from 0; it shares decoded images with this one."""
        check_time(time, self.n_times)
        return select_frames(self.source, self.cache, replace(self.selection, time=time))

    def each_channel(self) -> FileStack:
        """Return the stack with all channels, to be decided on one by one; it shares decoded images with this one."""
        channels = choose_channels(self.source.description, EACH)
        return select_frames(self.source, self.cache, replace(self.selection, channels=channels, decides_each=True))

    def close(self) -> None:
        """Remove scratch copies; reading again makes new ones."""
        self.cache.close()

    def __enter__(self) -> FileStack:
        """Return the stack itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove scratch copies."""
        self.close()


def select_frames(source: FrameSource, cache: SegmentCache, selection: Selection) -> FileStack:
    """Return a selection of the frames and channels of a source as a stack, with its alpha and further channels."""
    found, chosen = source.description, selection.channels
    positions = tuple(FramePosition(selection.time, number) for number in selection.frames)
    everything = tuple(range(found.n_channels))
    n_deciding = len(chosen) - chosen.count(ZERO_PLANE)

    def show(channels: tuple[int, ...], *, has_channel_axis: bool) -> Stack:
        return Stack(
            names=tuple(found.names[number] for number in selection.frames),
            image_shape=(found.height, found.width, len(channels)) if has_channel_axis else (found.height, found.width),
            dtype=found.dtype,
            read=partial(_read_frame, source, cache, positions, channels, has_channel_axis),
        )

    stack = show(chosen, has_channel_axis=len(chosen) > 1).replaced(
        metadata=found.metadata,
        alpha=show((found.n_channels,), has_channel_axis=False) if found.has_alpha else None,
        companions=show(everything, has_channel_axis=True) if chosen != everything else None,
        deciding_channels=chosen,
        # a single channel is a gray image, however it was recorded
        n_separate_channels=n_deciding if found.has_separate_channels and n_deciding > 1 else 0,
        decides_each=selection.decides_each and len(chosen) > 1,
        sources=found.paths,
        frame_numbers=selection.frames,
        scratch_bytes=cache.expect(source, positions, memory_bytes=selection.memory_bytes),
        whole_bytes=max(source.member(position)[0].whole_bytes for position in positions),
        expect_all=partial(cache.expect_all, source, positions, memory_bytes=selection.memory_bytes),
    )
    return FileStack(**vars(stack), source=source, cache=cache, selection=selection)


def check_time(time: int, n_times: int) -> None:
    """Refuse a time point that there is none of."""
    if not 0 <= time < n_times:
        needed = f"a number from 0 to {n_times - 1} is needed, as there are {n_times} points: correct it"
        msg = f"time is {time}; {needed if n_times > 1 else 'there is one time point, which is 0: leave it out'}"
        raise InvalidConfigError(msg)


def choose_channels(found: SourceDescription, wanted: Sequence[int | str] | None) -> tuple[int, ...]:
    """Return one or three channels counted from 0, a missing third being a plane of zeros; or all where each decides by itself.

    One channel is a gray image, three are a color image. Two are a color image whose third plane is zero: a quaternion has room for
    three, and zeros take part in no decision. Of more than three, the user names up to three. Any number can be decided on one by one.

    Parameters
    ----------
    found : SourceDescription
    wanted : sequence of int or str, optional
        Numbers counted from 1, or names; all channels where left out. Or ``"each"``.
    """
    everything = tuple(range(found.n_channels))
    if wanted == EACH:
        # alpha belongs to all channels, and each would be taken from other images
        if found.has_alpha and found.n_channels > 1:
            msg = (
                f"{found.names[0]} has alpha, which belongs to all of its channels; none is needed to decide on each channel by itself: "
                "remove it, or leave out --channels each"
            )
            raise InvalidConfigError(msg)
        return everything
    if wanted is None:
        if found.n_channels > _N_COLORS:
            msg = (
                f"{found.names[0]} has {found.n_channels} channels{_list_names(found)}; up to {_N_COLORS} decide about focus: "
                "choose them with channels=[1, 2, 3], on the command line --channels 1,2,3, and all others follow their decision; "
                "or let every channel decide for itself with --channels each"
            )
            raise InvalidConfigError(msg)
        chosen = everything
    else:
        chosen = tuple(_find_channel(found, channel) for channel in wanted)
    if not 1 <= len(chosen) <= _N_COLORS or len(set(chosen)) < len(chosen):
        msg = f"the channels {wanted} were chosen; one to {_N_COLORS} different ones are needed: correct the choice"
        raise InvalidConfigError(msg)
    return (*chosen, ZERO_PLANE) if len(chosen) == _N_COLORS - 1 else chosen


def _find_channel(found: SourceDescription, channel: int | str) -> int:
    names = found.metadata.channel_names
    if isinstance(channel, str) and names.count(channel) == 1:
        return names.index(channel)
    if not isinstance(channel, str) and 1 <= channel <= found.n_channels:
        return channel - 1
    msg = f"there is no channel {channel!r}; a number from 1 to {found.n_channels} or a name is needed{_list_names(found)}: correct it"
    raise InvalidConfigError(msg)


def _list_names(found: SourceDescription) -> str:
    return f" ({', '.join(found.metadata.channel_names)})" if found.metadata.channel_names else ""

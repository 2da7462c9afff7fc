"""The frames of a source as a stack that can be fused: chosen frames, chosen channels, one time point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.errors import InvalidConfigError, InvalidImageError
from qmcif_engine.io.input.frame_source import FramePosition
from qmcif_engine.stack.separate_channels import EACH
from qmcif_engine.stack.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from qmcif_engine.arrays import SampleArray
    from qmcif_engine.io.input.frame_source import FrameSource, SourceDescription
    from qmcif_engine.io.input.scratch_transcoding import ScratchStore
    from qmcif_engine.stack.window import Window

ZERO_PLANE = -1
"""Stands in a list of channels for a plane of zeros."""

_N_COLORS = 3


class FrameView(Stack):
    """Chosen channels of chosen frames of a source, as a stack.

    Parameters
    ----------
    source : FrameSource
    positions : sequence of FramePosition
    channels : sequence of int
        Channels of the source, or `ZERO_PLANE`.
    has_channel_axis : bool
        Whether windows have shape (h, w, C) rather than (h, w).
    """

    def __init__(self, source: FrameSource, *, positions: Sequence[FramePosition], channels: Sequence[int], has_channel_axis: bool) -> None:
        self._source, self._positions, self._channels = source, tuple(positions), tuple(channels)
        self._has_channel_axis = has_channel_axis

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self._positions)

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of each image."""
        found = self._source.description
        return (found.height, found.width, len(self._channels)) if self._has_channel_axis else (found.height, found.width)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Sample type."""
        return self._source.description.dtype

    @property
    def names(self) -> tuple[str, ...]:
        """What messages call the images."""
        names = self._source.description.names
        return tuple(names[position.number] for position in self._positions)

    def read(self, number: int, window: Window) -> SampleArray:
        """Return the samples of one window of one image.

        Raises
        ------
        InvalidImageError
            For NaN or infinity, which no decision can be made on.
        ImageFileError
            For a file that turns out to be damaged there.
        """
        height, width = self.image_shape[:2]
        # slices beyond the image would give fewer samples without a word
        if not (0 <= window.top <= window.bottom <= height and 0 <= window.left <= window.right <= width):
            msg = f"{window} was asked of images of {width} x {height} pixels; a window inside them is needed: correct it"
            raise InvalidImageError(msg)
        wanted = [channel for channel in self._channels if channel != ZERO_PLANE]
        samples = self._source.read(self._positions[number], window, wanted)
        if len(wanted) < len(self._channels):
            samples = np.concatenate([samples, np.zeros((*window.shape, len(self._channels) - len(wanted)), samples.dtype)], axis=-1)
        # here and not when opened: only now are the samples read
        if samples.dtype.kind == "f" and not np.isfinite(samples).all():
            msg = f"{self.names[number]} holds NaN or infinite samples; finite ones are needed: fill them first"
            raise InvalidImageError(msg)
        return samples if self._has_channel_axis else samples[:, :, 0]


class FileStack(FrameView):
    """The stack that `open_stack` returns: what is fused, and what goes with it.

    A context manager: leaving it removes scratch copies. It can be sent to another process, and used from several threads.

    Attributes
    ----------
    n_times : int
        Time points of the acquisition; the stack is one of them.
    """

    alpha: FrameView | None

    def __init__(self, source: FrameSource, store: ScratchStore, selection: Selection) -> None:
        found = source.description
        positions = [FramePosition(selection.time, number) for number in selection.frames]
        chosen = selection.channels
        super().__init__(source, positions=positions, channels=chosen, has_channel_axis=len(chosen) > 1)
        self._store, self._selection = store, selection
        everything = range(found.n_channels)
        self.alpha = (
            FrameView(source, positions=positions, channels=[found.n_channels], has_channel_axis=False) if found.has_alpha else None
        )
        self.companions = (
            FrameView(source, positions=positions, channels=everything, has_channel_axis=True) if list(chosen) != list(everything) else None
        )
        self.metadata, self.sources = found.metadata, found.paths
        self.deciding_channels = chosen
        self.decides_each = selection.decides_each and len(chosen) > 1
        n_deciding = len(chosen) - chosen.count(ZERO_PLANE)
        # a single channel is a gray image, however it was recorded
        self.n_separate_channels = n_deciding if found.has_separate_channels and n_deciding > 1 else 0
        self.n_times = found.n_times
        self.frame_numbers = selection.frames
        # all images, read by window or not: then keeping them is free
        self._fits_memory = len(positions) * found.frame_bytes <= selection.memory_bytes
        # only images of which copies are made
        decoded_bytes = sum(source.transcoded_bytes(position) for position in positions)
        self.whole_bytes = source.whole_bytes
        self.scratch_bytes = store.expect(decoded_bytes, memory_bytes=selection.memory_bytes)

    @property
    def axes(self) -> str:
        """Axes of the input and their lengths as it stores them; empty where there are none but height, width and colors."""
        return self._source.description.axes

    @property
    def time(self) -> int:
        """Which time point the stack is, counted from 0."""
        return self._selection.time

    def at_time(self, time: int) -> FileStack:
        """Return the stack of another time point, counted from 0; it shares the scratch store with this one."""
        check_time(time, self.n_times)
        return FileStack(self._source, self._store, replace(self._selection, time=time))

    def each_channel(self) -> FileStack:
        """Return the stack with all channels, to be decided on one by one; it shares the scratch store with this one."""
        channels = choose_channels(self._source.description, EACH)
        return FileStack(self._source, self._store, replace(self._selection, channels=channels, decides_each=True))

    def expect_all(self) -> None:
        """Keep every image decoded from its first read on, in memory or else in the scratch folder: each is then decoded once."""
        self._store.keep(all_images=self._fits_memory, n_bytes=self.scratch_bytes)

    def close(self) -> None:
        """Remove scratch copies; reading again makes new ones."""
        self._store.close()

    def __enter__(self) -> FileStack:
        """Return the stack itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove scratch copies."""
        self.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What of a source becomes a stack, all numbers counted from 0."""

    frames: tuple[int, ...]
    channels: tuple[int, ...]
    time: int
    memory_bytes: int
    decides_each: bool = False


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
    if wanted == EACH:
        _check_separable(found)
        return tuple(range(found.n_channels))
    if wanted is None:
        chosen = list(range(found.n_channels))
        if len(chosen) > _N_COLORS:
            msg = (
                f"{found.names[0]} has {found.n_channels} channels{_list_names(found)}; up to {_N_COLORS} decide about focus: "
                "choose them with channels=[1, 2, 3], on the command line --channels 1,2,3, and all others follow their decision; "
                "or let every channel decide for itself with --channels each"
            )
            raise InvalidConfigError(msg)
    else:
        chosen = [_find_channel(found, channel) for channel in wanted]
    if not 1 <= len(chosen) <= _N_COLORS or len(set(chosen)) < len(chosen):
        msg = f"the channels {wanted} were chosen; one to {_N_COLORS} different ones are needed: correct the choice"
        raise InvalidConfigError(msg)
    return (*chosen, ZERO_PLANE) if len(chosen) == _N_COLORS - 1 else tuple(chosen)


def _check_separable(found: SourceDescription) -> None:
    """Refuse alpha beside several channels: it belongs to all of them, and each would be taken from other images."""
    if found.has_alpha and found.n_channels > 1:
        msg = (
            f"{found.names[0]} has alpha, which belongs to all of its channels; none is needed to decide on each channel by itself: "
            "remove it, or leave out --channels each"
        )
        raise InvalidConfigError(msg)


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

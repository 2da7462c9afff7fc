"""What every kind of input offers to the stack built on it: frames of one kind, read by window and channel."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.metadata.exif import UPRIGHT
from qmcif_engine.io.remote_path import Location
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.window import Window


class FramePosition(NamedTuple):
    """One image of an acquisition, both numbers counted from 0."""

    time: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDescription:
    """What all frames of a source have in common; known before any sample is read.

    Attributes
    ----------
    names : tuple of str
        What messages call the frames, in order.
    height, width : int
        Size of a frame, upright.
    orientation : int
        EXIF orientation (1 to 8) that frames are stored in.
    n_channels : int
        Channels without alpha; alpha, where there is one, is the channel behind the last.
    has_alpha : bool
    has_separate_channels : bool
        Whether the channels were recorded one by one, as dyes are, rather than being the colors of one image.
    dtype : dtype
        Native byte order.
    n_times : int
        Time points, each with as many frames as there are names.
    metadata : ImageMetadata
    paths : tuple of Path or RemotePath
        Files and folders the samples come from.
    axes : str
        Axes and their lengths, for messages; empty where there are none but height, width and colors.
    """

    names: tuple[str, ...]
    height: int
    width: int
    n_channels: int
    dtype: np.dtype[Any]
    has_alpha: bool = False
    has_separate_channels: bool = False
    n_times: int = 1
    orientation: int = UPRIGHT
    metadata: ImageMetadata = field(default_factory=ImageMetadata)
    paths: tuple[Location, ...] = ()
    axes: str = ""

    @property
    def n_frames(self) -> int:
        """Number of frames at each time point."""
        return len(self.names)

    @property
    def stored_shape(self) -> tuple[int, int, int]:
        """Shape of a frame with alpha among its channels."""
        return self.height, self.width, self.n_channels + self.has_alpha

    @property
    def frame_bytes(self) -> int:
        """What a decoded frame takes, alpha included."""
        return math.prod(self.stored_shape) * self.dtype.itemsize

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Shape of a frame without alpha, as messages give it: (H, W) or (H, W, C)."""
        return (self.height, self.width) if self.n_channels == 1 else (self.height, self.width, self.n_channels)


class Copying(Enum):
    """Whether decoded copies of whole frames of a source are made."""

    NEVER = "windows can be read as they are"
    WORTHWHILE = "windows are decoded from pieces, again and again where they overlap"
    NEEDED = "frames can only be decoded as a whole"


class FrameSource(ABC):
    """Frames read by window; safe to use from several threads and to send to another process."""

    description: SourceDescription
    copying: Copying = Copying.NEVER

    @abstractmethod
    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return the samples of one window, shape (h, w, number of channels), in native byte order."""

    @property
    def whole_bytes(self) -> int:
        """What must be in memory at once while a frame is decoded that can only be decoded as a whole, else 0."""
        return self.description.frame_bytes if self.copying is Copying.NEEDED else 0

    def decode(self, position: FramePosition) -> NDArray[Any]:
        """Return a frame with all its channels, shape (H, W, C)."""
        height, width, n_channels = self.description.stored_shape
        return self.read(position, Window(0, 0, height, width), range(n_channels))

    def member(self, position: FramePosition) -> tuple[FrameSource, FramePosition]:
        """Return the source that a frame comes from, and its position there."""
        return self, position


class FrameSequence(FrameSource):
    """The single frames of several sources, such as the files of a folder, as one source.

    Parameters
    ----------
    sources : sequence of FrameSource
        One frame each, all of one size and type; the first gives the metadata.
    """

    def __init__(self, sources: Sequence[FrameSource]) -> None:
        self._sources = list(sources)
        self.description = _join([source.description for source in self._sources])

    def member(self, position: FramePosition) -> tuple[FrameSource, FramePosition]:
        """Return the source of a frame."""
        return self._sources[position.number], FramePosition(0, 0)

    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return one window of some channels of a frame."""
        source, first = self.member(position)
        return source.read(first, window, channels)


def _join(found: Sequence[SourceDescription]) -> SourceDescription:
    """Return the common description, or say by name which input differs."""
    first = found[0]
    name = first.names[0]
    for other in found:
        if other.n_frames > 1 or other.n_times > 1:
            # "image 1 of 'stack.tif'" becomes the file
            name = other.names[0].partition(" of ")[2]
            msg = f"{name} holds {other.n_frames * other.n_times} images; one image in each of several inputs is needed: pass it alone"
            raise InvalidImageError(msg)
        if other.frame_shape != first.frame_shape:
            msg = (
                f"{name} has shape {first.frame_shape} and {other.names[0]} {other.frame_shape}; "
                "all must be equal: crop or align them first"
            )
            raise InvalidImageError(msg)
        if other.dtype != first.dtype:
            msg = f"{name} is {first.dtype} and {other.names[0]} {other.dtype}; all must be of one type: convert them first"
            raise InvalidImageError(msg)
    if len({other.has_alpha for other in found}) > 1:
        without = next(other.names[0] for other in found if not other.has_alpha)
        msg = f"{without} has no alpha while others have; all or none is needed: add or remove the alpha channel"
        raise ImageFileError(msg)
    # files that differ in their depth have none in common: the range of the type is used then
    bits = {other.metadata.significant_bits for other in found}
    return replace(
        first,
        names=tuple(other.names[0] for other in found),
        metadata=replace(first.metadata, significant_bits=bits.pop() if len(bits) == 1 else None),
        # in order and each once, since one file may hold several of the frames
        paths=tuple(dict.fromkeys(path for other in found for path in other.paths)),
    )

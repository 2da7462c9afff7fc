"""Name what every kind of input offers to the stack built on it: frames of one kind, read by window and channel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from qmcif_engine.stack.picture_metadata import PictureMetadata

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from qmcif_engine.stack.window import Window


class FramePosition(NamedTuple):
    """Name one image of an acquisition, both numbers counted from 0."""

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
    n_channels : int
        Channels without alpha; alpha, where there is one, is the channel behind the last.
    has_alpha : bool
    has_separate_channels : bool
        Whether the channels were recorded one by one, as dyes are, rather than being the colors of one picture.
    dtype : dtype
        Native byte order.
    n_times : int
        Points in time, each with as many frames as there are names.
    metadata : PictureMetadata
    paths : tuple of Path
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
    metadata: PictureMetadata = field(default_factory=PictureMetadata)
    paths: tuple[Path, ...] = ()
    axes: str = ""

    @property
    def n_frames(self) -> int:
        """Number of frames at each point in time."""
        return len(self.names)

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Shape of a frame without alpha, as messages give it: (H, W) or (H, W, C)."""
        return (self.height, self.width) if self.n_channels == 1 else (self.height, self.width, self.n_channels)


def fit_metadata(metadata: PictureMetadata, n_channels: int) -> PictureMetadata:
    """Return the metadata without names and colors of channels where these are not as many as the channels."""
    names, colors = (given if len(given) == n_channels else () for given in (metadata.channel_names, metadata.channel_colors))
    return replace(metadata, channel_names=names, channel_colors=colors)


class FrameSource(Protocol):
    """Give frames window by window; implementations are safe to use from several threads and to send to another process."""

    @property
    def description(self) -> SourceDescription:
        """What the frames have in common."""

    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return the samples of one window, shape (h, w, number of channels), in native byte order."""

    def prepare(self, position: FramePosition) -> None:
        """Do now what the first read of a frame would have to do."""

    def transcoded_bytes(self, position: FramePosition) -> int:
        """Return what a decoded copy of the frame takes where it cannot be read by window, else 0."""

"""Offer the picture of a file that can only be decoded as a whole: PNG, JPEG, camera raw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.io.input.frame_source import FrameSource, SourceDescription
from qmcif_engine.io.input.image_file import refuse_damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.io.input.frame_source import FramePosition
    from qmcif_engine.io.input.image_file import PictureHeader
    from qmcif_engine.io.input.scratch_transcoding import ScratchStore
    from qmcif_engine.stack.window import Window


class WholeFileSource(FrameSource):
    """Read one frame by window from its decoded copy.

    Parameters
    ----------
    path : Path
    header : PictureHeader
        From the file, which is not decoded before a window is asked for.
    store : ScratchStore
        Holds the copy.
    decode : callable
        A module's function that takes a path and returns the picture upright, shape (H, W, C).
    """

    def __init__(self, path: Path, header: PictureHeader, *, store: ScratchStore, decode: Callable[[Path], NDArray[Any]]) -> None:
        self._path, self._location, self._store, self._decode = path, path.absolute(), store, decode
        height, width = header.upright_size
        n_channels = 1 if header.n_samples < 3 else 3
        self.description = SourceDescription(
            names=(repr(str(path)),),
            height=height,
            width=width,
            n_channels=n_channels,
            dtype=header.dtype,
            has_alpha=header.n_samples > n_channels,
            metadata=header.metadata,
            paths=(path,),
        )

    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return one window of some channels."""
        del position
        samples = self._store.read((str(self._location), 0), window, decode=self._decode_file)
        return samples if list(channels) == list(range(samples.shape[2])) else np.ascontiguousarray(samples[:, :, list(channels)])

    def transcoded_bytes(self, position: FramePosition) -> int:
        """Return what the decoded picture takes."""
        del position
        found = self.description
        return found.height * found.width * (found.n_channels + found.has_alpha) * found.dtype.itemsize

    def _decode_file(self) -> NDArray[Any]:
        channels = self._decode(self._location)
        found = self.description
        expected = (found.height, found.width, found.n_channels + found.has_alpha)
        if channels.shape != expected or channels.dtype != found.dtype:
            raise refuse_damaged(self._path, "it was changed after it was opened")
        return channels

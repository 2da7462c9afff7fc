"""The images of one TIFF file, whatever their order in it: plain pages, OME-TIFF, ImageJ stacks."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.input.frame_source import Copying, FramePosition, FrameSource
from qmcif_engine.io.input.image_file import refuse_damaged, translate_failures
from qmcif_engine.io.input.segments import SegmentCache
from qmcif_engine.io.metadata.exif import UPRIGHT, turn_upright
from qmcif_engine.io.remote_path import Location
from qmcif_engine.io.tiff.tiff_series import TiffAcquisition, read_acquisition
from qmcif_engine.io.tiff.tiff_windows import TiffPlane
from qmcif_engine.stack.window import Window


class TiffSource(FrameSource):
    """The frames of one TIFF file, read by window.

    Its directory is read once a process and time point; the file stays open with the cache, among the files used last.

    Parameters
    ----------
    path : Path
    cache : SegmentCache
        Shared by all files of a stack.
    axes : str, optional
        Names of the axes where the file does not say them, or says them wrongly.
    """

    def __init__(self, path: Location, *, cache: SegmentCache, axes: str | None = None) -> None:
        self._path, self._location, self._cache, self._axes = path, path.absolute(), cache, axes
        # one thread reads a directory, the others wait for what it found
        self._lock = threading.Lock()
        acquisition = self._load(0)
        self._plan, self._planes, self._stamp = acquisition.plan, acquisition.planes, acquisition.stamp
        self.description = acquisition.description
        plane = next(iter(acquisition.planes.values()))  # all are alike
        is_whole = self.description.orientation != UPRIGHT or not plane.is_windowed
        self.copying = Copying.NEEDED if is_whole else Copying.NEVER if plane.has_plain_rows else Copying.WORTHWHILE

    def __getstate__(self) -> dict[str, Any]:
        """Leave the layout behind: the other process reads the directory again."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_planes")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Start without any layout."""
        self.__dict__.update(state, _lock=threading.Lock(), _planes={})

    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return one window of some channels of a frame."""
        if self.description.orientation != UPRIGHT:
            return self._decode_whole(position)[window.slices][:, :, list(channels)]
        n_samples = self._plan.length("S")
        # each plane once, however many of its samples are asked for
        places = {channel // n_samples for channel in channels}
        planes = {place: self._plane(position, place).read(window, self._cache) for place in places}
        if list(channels) == list(range(n_samples)):
            return planes[0]
        return np.stack([planes[channel // n_samples][:, :, channel % n_samples] for channel in channels], axis=-1)

    def decode(self, position: FramePosition) -> NDArray[Any]:
        """Return a frame with all its channels."""
        return self._decode_whole(position) if self.copying is Copying.NEEDED else super().decode(position)

    def _decode_whole(self, position: FramePosition) -> NDArray[Any]:
        planes = [self._plane(position, place) for place in range(self._plan.length("C"))]
        decoded = [plane.read(Window.whole(plane.shape[1:3]), self._cache) for plane in planes]
        return turn_upright(decoded[0] if len(decoded) == 1 else np.concatenate(decoded, axis=2), self.description.orientation)

    def _plane(self, position: FramePosition, place: int) -> TiffPlane:
        number = self._plan.plane_number(position, place)
        with self._lock:
            if number not in self._planes:
                acquisition = self._load(position.time)
                if acquisition.stamp != self._stamp:
                    raise refuse_damaged(self._path, "it was changed after it was opened")
                self._planes |= acquisition.planes
            return self._planes[number]

    def _load(self, time: int) -> TiffAcquisition:
        return translate_failures(
            lambda path: read_acquisition(
                self._cache.files.open(self._location), path, location=self._location, axes=self._axes, time=time
            ),
            self._path,
        )

"""The images of one TIFF file, whatever their order in it: plain pages, OME-TIFF, ImageJ stacks."""

from __future__ import annotations

import logging
import re
import threading
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from tifffile import TiffPage

from qmcif_engine.io.input.frame_source import Copying, FrameSource
from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged, translate_failures
from qmcif_engine.io.input.open_files import file_stamp
from qmcif_engine.io.input.segment_cache import SegmentCache
from qmcif_engine.io.limits import MOST_REDUCED_PAGES
from qmcif_engine.io.metadata.exif import UPRIGHT, turn_upright
from qmcif_engine.io.tiff.tiff_checks import check_colors, claimed_bits, page_orientation
from qmcif_engine.io.tiff.tiff_series import TiffAcquisition, lay_out_checked, open_checked, read_acquisition
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from tifffile import TiffFile

    from qmcif_engine.io.input.frame_source import FramePosition
    from qmcif_engine.io.input.open_files import OpenFile
    from qmcif_engine.io.remote.remote_file import RemoteFile
    from qmcif_engine.io.remote.remote_path import Location
    from qmcif_engine.io.tiff.tiff_windows import TiffPlane

logging.getLogger("tifffile").addHandler(logging.NullHandler())
# Its complaints about broken tags reach whoever configured logging, but are not printed beside our one line that says the same.


TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

_VIRTUAL_STACK = re.compile(r"^ImageJ=.*?^images=(\d{1,9})$", re.DOTALL | re.MULTILINE)


def check_signature(file: OpenFile | RemoteFile, path: Location) -> None:
    """Refuse a file on a server that is no TIFF: others can only be decoded as a whole."""
    start = file.read(0, 8)
    if not start.startswith(TIFF_SIGNATURES):
        raise refuse_content(
            path,
            given=f"a file that begins with {start!r}",
            needed="a TIFF file, or the folder of an OME-Zarr, where it lies on a server",
            remedy="download it and pass its name",
        )


class TiffSource(FrameSource):
    """The frames of one TIFF file, read by window.

    Its directory is read once a process and time point; for samples the file stays open with the cache, among the files used last.

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
        # a cache of nothing: every strip is needed once
        decoded = [plane.read(Window.whole(plane.shape[1:3]), SegmentCache(0)) for plane in planes]
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
            lambda path: read_acquisition(path, location=self._location, axes=self._axes, time=time),
            self._path,
        )


def read_tiff(stream: BinaryIO, path: Location) -> tuple[NDArray[Any], int | None]:
    """Return the image of a TIFF file, upright, shape (H, W, C), and its claim of significant bits.

    Smaller copies of it (previews, pyramid levels) are left alone.
    Only the first page is ever decoded, through the page itself: the library's notion of a series follows metadata to other files.
    """
    with open_checked(stream, path) as tiff:
        page = tiff.pages.first
        _refuse_more_pages(tiff, path)
        check_colors(page, path)
        plane = lay_out_checked(page, path, path.absolute(), stamp=file_stamp(stream.fileno()), is_whole=True)
        orientation, significant_bits = page_orientation(page), claimed_bits(page)
    return turn_upright(plane.read(Window.whole(plane.shape[1:3]), SegmentCache(0)), orientation), significant_bits


def _refuse_more_pages(tiff: TiffFile, path: Location) -> None:
    page = tiff.pages.first
    virtual = _VIRTUAL_STACK.match(page.description)
    # ImageJ may keep many images behind a single page
    is_stack = page.imagedepth > 1 or page.is_reduced or (virtual is not None and int(virtual[1]) > 1)
    if is_stack or _has_second_image(tiff):
        raise refuse_content(path, given="more than one image", needed="one image a file", remedy="open it as a stack with open_stack")


def _has_second_image(tiff: TiffFile) -> bool:
    """Return whether a page behind the first is more than a smaller copy; only so many are looked at, since a chain may be a circle."""
    for index in range(1, MOST_REDUCED_PAGES):
        try:
            page = tiff.pages.get(index)
        except IndexError:
            return False
        if not (isinstance(page, TiffPage) and page.is_reduced):
            return True
    return False

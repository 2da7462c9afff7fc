"""The images of one TIFF file, whatever their order in it: plain pages, OME-TIFF, ImageJ stacks."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from tifffile import COMPRESSION, TiffFile, TiffPage, TiffPageSeries

from qmcif_engine.io.input.array_source import describe_frames
from qmcif_engine.io.input.frame_source import Copying, FramePosition, FrameSource, SourceDescription
from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged, translate_failures
from qmcif_engine.io.input.segments import OpenFile, SegmentCache
from qmcif_engine.io.limits import MAX_PIXELS, MAX_PLANES, MAX_WINDOWED_PIXELS
from qmcif_engine.io.metadata.axes import AxisPlan, name_axes, plan_axes
from qmcif_engine.io.metadata.exif import ORIENTATION_TAG, UPRIGHT, known_orientation, turn_upright
from qmcif_engine.io.metadata.ome_xml import check_description, parse_ome
from qmcif_engine.io.remote import RemoteFile
from qmcif_engine.io.remote_path import Location
from qmcif_engine.io.tiff.tiff_checks import check_content, check_pages, check_segments, is_multichannel
from qmcif_engine.io.tiff.tiff_metadata import N_PALETTE_COLORS, find_palette, read_metadata
from qmcif_engine.io.tiff.tiff_pages import TiffPlane, lay_out_page
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
        self._plan, self.description, self._planes, self._stamp = self._load(0)
        plane = next(iter(self._planes.values()))  # all are alike
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
            return self.decode(position)[window.slices][:, :, list(channels)]
        n_samples = self._plan.length("S")
        # each plane once, however many of its samples are asked for
        places = {channel // n_samples for channel in channels}
        planes = {place: self._read_plane(position, place, window) for place in places}
        if list(channels) == list(range(n_samples)):
            return planes[0]
        return np.stack([planes[channel // n_samples][:, :, channel % n_samples] for channel in channels], axis=-1)

    def decode(self, position: FramePosition) -> NDArray[Any]:
        """Return a frame with all its channels."""
        whole = Window(0, 0, self._plan.length("Y"), self._plan.length("X"))
        planes = [self._read_plane(position, place, whole) for place in range(self._plan.length("C"))]
        return turn_upright(planes[0] if len(planes) == 1 else np.concatenate(planes, axis=2), self.description.orientation)

    def _read_plane(self, position: FramePosition, place: int, window: Window) -> NDArray[Any]:
        number = self._plan.plane_number(position, place)
        with self._lock:
            if number not in self._planes:
                self._planes |= self._load(position.time).planes
            plane = self._planes[number]
        return translate_failures(lambda _: plane.read(window, file=self._open(), cache=self._cache), self._path)

    def _open(self) -> OpenFile | RemoteFile:
        file = self._cache.files.open(self._location)
        if file.stamp() != self._stamp:
            raise refuse_damaged(self._path, "it was changed after it was opened")
        return file

    def _load(self, time: int) -> _Acquisition:
        return translate_failures(
            lambda path: _read_acquisition(self._cache.files.open(self._location), path, axes=self._axes, time=time),
            self._path,
        )


class _Acquisition(NamedTuple):
    """The layout of one file: all planes of one time point, by their number; and the size and time of change that it had."""

    plan: AxisPlan
    description: SourceDescription
    planes: dict[int, TiffPlane]
    stamp: tuple[int, int]


def _read_acquisition(file: OpenFile | RemoteFile, path: Location, *, axes: str | None, time: int) -> _Acquisition:
    """Read the directory of a file, and nothing of its samples; files that its description names are never followed.

    Parameters
    ----------
    file : OpenFile or RemoteFile
    path : Location
        What messages call the file.
    axes : str, optional
        Names of the axes according to the user.
    time : int
        The time point whose planes are laid out: all of them, so that a truncated file is refused before anything is computed.
    """
    stamp = file.stamp()
    with open_checked(cast("BinaryIO", FileStream(file)), path) as tiff:
        described = parse_ome(tiff.pages.first.description, path)
        series = _choose_series(tiff, path)
        # one page needs no description: sets of one plane a file all carry that of the whole set
        if series.kind != "ome" and described is not None and axes is None and tiff.pages.is_multipage:
            raise refuse_content(
                path,
                given="OME metadata that do not fit its pages or tell of other files",
                needed="one complete OME-TIFF file",
                remedy="export the stack as one file, or name the axes of this file's pages with axes=",
            )
        plan = _plan_series(series, path, axes)
        keyframe = series.keyframe
        first = _lay_out_checked(keyframe, path, file_bytes=stamp[0])
        description = describe_frames(
            plan,
            repr(str(path)),
            dtype=first.dtype,
            metadata=read_metadata(tiff, described),
            paths=(path,),
            has_alpha=not is_multichannel(keyframe) and plan.length("S") in (2, 4),
            orientation=_find_orientation(keyframe),
        )
        numbers = plan.planes_at(time)
        planes = {number: _find_plane(series, first, number, n_planes=plan.n_planes, file_bytes=stamp[0]) for number in numbers}
        return _Acquisition(plan, description, planes, stamp)


class FileStream(io.RawIOBase):
    """A file that is read at any position, as a stream for tifffile."""

    def __init__(self, file: OpenFile | RemoteFile) -> None:
        self._file, self._position, self._n_bytes = file, 0, file.stamp()[0]

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position, and return it."""
        self._position = max(offset + (0, self._position, self._n_bytes)[whence], 0)
        return self._position

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - whatever holds bytes
        """Fill a buffer with the next bytes, and return how many there were."""
        view = memoryview(buffer).cast("B")
        content = self._file.read(self._position, len(view))
        view[: len(content)] = content
        self._position += len(content)
        return len(content)


def open_checked(stream: BinaryIO, path: Location) -> TiffFile:
    """Return the file as the library reads it, once its pages, tags and description are checked."""
    check_pages(stream, path)
    stream.seek(0)  # the library takes the current position for the start of the file
    # the two kinds of series that are disabled read an index from other files of the folder
    tiff = TiffFile(stream, _multifile=False, is_mmstack=False, is_ndtiff=False)
    check_description(tiff.pages.first.description, path)
    return tiff


def _find_orientation(page: TiffPage) -> int:
    return known_orientation(page.tags.valueof(ORIENTATION_TAG))


def _choose_series(tiff: TiffFile, path: Location) -> TiffPageSeries:
    """Return the images of the file, leaving smaller copies of them alone."""
    listed: Any = tiff.series
    # since 2026.5 tifffile drops axes of length 1 unless the file is asked for all; before, each series could be asked (`_full_axes`)
    found: list[TiffPageSeries] = list(listed(squeeze=False) if callable(listed) else listed)
    if not found:
        raise refuse_content(path, given="pages without pixels", needed="at least one sample", remedy="export it again")
    series, *others = found
    # tifffile falls back to plain pages where ImageJ's stack does not fit into the file
    if tiff.is_imagej and series.kind not in ("imagej", "ome", "shaped"):
        raise refuse_damaged(path, "it is shorter than ImageJ's description of it")
    # smaller copies are series of their own to the library
    if any(not other.keyframe.is_reduced for other in others):
        raise refuse_content(
            path, given=f"{len(found)} series of images", needed="one series a file", remedy="save the wanted one as a file of its own"
        )
    if series.transform is not None or series.keyframe.imagedepth > 1:
        raise refuse_content(
            path, given="volumes or images stored in pieces", needed="one page per image", remedy="export it as a plain or OME-TIFF stack"
        )
    return series


def _full_axes(series: Any) -> tuple[str, tuple[int, ...]]:  # noqa: ANN401 - its methods differ between versions of the library
    """Return the axes of a series and their lengths, those of length 1 too."""
    try:
        return series.get_axes(squeeze=False), tuple(series.get_shape(squeeze=False))
    except AttributeError:
        return series.axes, tuple(series.shape)


def _plan_series(series: TiffPageSeries, path: Location, axes: str | None) -> AxisPlan:
    name, page = repr(str(path)), series.keyframe
    found, shape = _full_axes(series)
    named, lengths = name_axes(name, shape=shape, found=found, wanted=axes)
    n_samples, sizes = page.samplesperpixel, list(zip(named, lengths, strict=True))
    if find_palette(page) is not None:
        # the samples of a pixel are those of the color that its number stands for; the number itself is none
        n_samples = N_PALETTE_COLORS
        sizes = [size for size in sizes if size != ("S", 1)] + [("S", n_samples)]
    elif n_samples > 1 and ("C", n_samples) in sizes and all(length == 1 for axis, length in sizes if axis == "S"):
        # channels are samples where every page holds all of them: some programs, and users, name such an axis C
        sizes = [("S" if axis == "C" else axis, length) for axis, length in sizes if axis != "S"]
    plan = plan_axes(name, "".join(axis for axis, _ in sizes), tuple(length for _, length in sizes))
    stored = (page.imagelength, page.imagewidth, n_samples)
    if tuple(plan.length(axis) for axis in "YXS") != stored or plan.n_planes > MAX_PLANES:
        raise refuse_content(
            path,
            given=f"pages of {stored[1]} x {stored[0]} pixels with {stored[2]} samples, which the axes {named} {lengths} do not fit",
            needed="Y, X and S as in a page",
            remedy="name the axes with axes=",
        )
    return plan


def _lay_out_checked(page: TiffPage, path: Location, *, file_bytes: int) -> TiffPlane:
    """Return where the samples of a page are, once it passed every check; fewer may be claimed of one that will be decoded as a whole."""
    check_content(page, path)
    plane = lay_out_page(page, path)
    is_whole = _find_orientation(page) != UPRIGHT or not plane.is_windowed
    check_segments(page, path, file_bytes=file_bytes, max_pixels=MAX_PIXELS if is_whole else MAX_WINDOWED_PIXELS)
    return plane


def _find_plane(series: TiffPageSeries, first: TiffPlane, number: int, *, n_planes: int, file_bytes: int) -> TiffPlane:
    """Return the layout of one plane of a series, whether it has a directory of its own or lies behind the first."""
    keyframe, path = series.keyframe, first.path
    # ImageJ describes one page and lets all others follow its samples without directories
    if series.dataoffset is not None and keyframe.compression == COMPRESSION.NONE:
        n_bytes = keyframe.nbytes
        if series.dataoffset + n_planes * n_bytes > file_bytes:
            raise refuse_damaged(path, f"{n_planes} images do not fit into it")
        start = series.dataoffset - int(first.offsets[0])
        return first.shifted(start + number * n_bytes, number=number)
    frame = series[number] if len(series) == n_planes else None
    if frame is None:
        raise refuse_damaged(path, f"image {number + 1} of {n_planes} is missing")
    # tifffile keeps most pages as light frames, which lack the tags that are checked
    page = keyframe if frame is keyframe else keyframe.parent.pages.get(frame.index, aspage=True)
    # the hash covers size, type, compression and layout
    if not isinstance(page, TiffPage) or page.hash != keyframe.hash:
        raise refuse_damaged(path, f"page {number + 1} is not of the same kind as the others")
    plane = _lay_out_checked(page, path, file_bytes=file_bytes)
    # color tables are not part of the hash
    if plane.dtype != first.dtype or (plane.palette is None) != (first.palette is None):
        raise refuse_damaged(path, f"page {number + 1} has a color table of another kind than the others")
    return replace(plane, number=number)

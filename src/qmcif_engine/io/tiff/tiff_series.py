"""Pages of a TIFF file that are the images of its stack, and their order."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

from tifffile import COMPRESSION, PHOTOMETRIC, TiffFile, TiffPage, TiffPageSeries

from qmcif_engine.io.input.array_source import describe_frames
from qmcif_engine.io.input.frame_source import SourceDescription
from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged
from qmcif_engine.io.input.segments import OpenFile
from qmcif_engine.io.limits import MAX_PIXELS, MAX_PLANES, MAX_WINDOWED_PIXELS
from qmcif_engine.io.metadata.acquisition import AxisPlan, name_axes, plan_axes
from qmcif_engine.io.metadata.exif import UPRIGHT
from qmcif_engine.io.metadata.ome_xml import check_description, parse_ome
from qmcif_engine.io.remote import RemoteFile
from qmcif_engine.io.remote_path import Location
from qmcif_engine.io.tiff.color_tables import N_PALETTE_COLORS, find_palette
from qmcif_engine.io.tiff.tiff_checks import check_colors, check_pages, check_sample_type, check_segments, page_orientation
from qmcif_engine.io.tiff.tiff_metadata import read_metadata
from qmcif_engine.io.tiff.tiff_windows import TiffPlane, lay_out_page


@dataclass(frozen=True, slots=True, eq=False)
class TiffAcquisition:
    """The layout of one file.

    Attributes
    ----------
    plan : AxisPlan
    description : SourceDescription
    planes : dict
        All planes of one time point, by their number.
    stamp : tuple of int
        Size and time of change of the file.
    """

    plan: AxisPlan
    description: SourceDescription
    planes: dict[int, TiffPlane]
    stamp: tuple[int, int]


def read_acquisition(file: OpenFile | RemoteFile, path: Location, *, location: Location, axes: str | None, time: int) -> TiffAcquisition:
    """Read the directory of a file, and nothing of its samples.

    Files that the description of this one names are never followed.

    Parameters
    ----------
    file : OpenFile or RemoteFile
    path, location : Location
        What messages call the file, and where it is.
    axes : str, optional
        Names of the axes according to the user.
    time : int
        The time point whose planes are laid out: all of them, so that a truncated file is refused before anything is computed.
    """
    stamp = file.stamp()
    with open_checked(cast("BinaryIO", FileStream(file)), path) as tiff:
        image = parse_ome(tiff.pages.first.description, path)
        series = _choose_series(tiff, path)
        # one page needs no description: sets of one plane a file all carry that of the whole set
        if series.kind != "ome" and image is not None and axes is None and tiff.pages.is_multipage:
            raise refuse_content(
                path,
                given="OME metadata that do not fit its pages or tell of other files",
                needed="one complete OME-TIFF file",
                remedy="export the stack as one file, or name the axes of this file's pages with axes=",
            )
        plan = _plan_series(series, path, axes)
        keyframe = series.keyframe
        # several channels marked as gray, as microscopes write them
        is_mixed = _is_multichannel(keyframe)
        if not is_mixed:
            check_colors(keyframe, path)
        first = _lay_out_checked(keyframe, path, location, stamp=stamp)
        description = describe_frames(
            plan,
            repr(str(path)),
            dtype=first.dtype,
            metadata=read_metadata(tiff, image),
            paths=(path,),
            has_alpha=not is_mixed and plan.length("S") in (2, 4),
            orientation=page_orientation(keyframe),
        )
        planes = {number: _find_plane(series, first, number=number, n_planes=plan.n_planes) for number in plan.planes_at(time)}
        return TiffAcquisition(plan, description, planes, first.stamp)


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
        self._position = max(offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._n_bytes}[whence], 0)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes."""
        n_bytes = self._n_bytes - self._position if size is None or size < 0 else size
        content = self._file.read(self._position, n_bytes)
        self._position += len(content)
        return content

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - whatever holds bytes
        """Fill a buffer with the next bytes, and return how many there were."""
        view = memoryview(buffer).cast("B")
        content = self.read(len(view))
        view[: len(content)] = content
        return len(content)


def open_checked(stream: BinaryIO, path: Location) -> TiffFile:
    """Return the file as the library reads it, once its pages, tags and description are checked."""
    check_pages(stream, path)
    stream.seek(0)  # the library takes the current position for the start of the file
    # the two kinds of series that are disabled read an index from other files of the folder
    tiff = TiffFile(stream, _multifile=False, is_mmstack=False, is_ndtiff=False)
    check_description(tiff.pages.first.description, path)
    return tiff


def _is_multichannel(page: TiffPage) -> bool:
    """Return whether the samples of a pixel are channels of a microscope rather than colors."""
    return bool(page.photometric == PHOTOMETRIC.MINISBLACK and page.samplesperpixel > 2)


def _choose_series(tiff: TiffFile, path: Location) -> TiffPageSeries:
    """Return the images of the file, leaving smaller copies of them alone."""
    found = _list_series(tiff)
    if not found:
        raise refuse_content(path, given="pages without pixels", needed="at least one sample", remedy="export it again")
    series, *others = found
    # tifffile falls back to plain pages where ImageJ's stack does not fit into the file
    if tiff.is_imagej and series.kind not in ("imagej", "ome", "shaped"):
        raise refuse_damaged(path, "it is shorter than ImageJ's description of it")
    # smaller copies are series of their own to the library
    if any(not other.keyframe.is_reduced for other in others):
        raise refuse_content(
            path, given=f"{1 + len(others)} series of images", needed="one series a file", remedy="save the wanted one as a file of its own"
        )
    if series.transform is not None or series.keyframe.imagedepth > 1:
        raise refuse_content(
            path, given="volumes or images stored in pieces", needed="one page per image", remedy="export it as a plain or OME-TIFF stack"
        )
    return series


def _list_series(tiff: TiffFile) -> list[TiffPageSeries]:
    """Return the series of a file."""
    series: Any = tiff.series
    # since 2026.5 tifffile drops axes of length 1 unless the file is asked for all; before, each series could be asked (`_full_axes`)
    return list(series(squeeze=False) if callable(series) else series)


def _full_axes(series: TiffPageSeries) -> tuple[str, tuple[int, ...]]:
    """Return the axes of a series and their lengths, those of length 1 too."""
    asked: Any = series
    try:
        return asked.get_axes(squeeze=False), tuple(asked.get_shape(squeeze=False))
    except AttributeError:
        return series.axes, tuple(series.shape)


def _plan_series(series: TiffPageSeries, path: Location, axes: str | None) -> AxisPlan:
    name, page = repr(str(path)), series.keyframe
    found, shape = _full_axes(series)
    named, lengths = name_axes(name, shape=shape, found=found, wanted=axes)
    if find_palette(page) is not None:
        named, lengths = _replace_numbers_by_colors(named, lengths)
    n_samples = page.samplesperpixel if find_palette(page) is None else N_PALETTE_COLORS
    plan = plan_axes(name, *_move_channels_into_page(named, lengths, n_samples))
    stored = (page.imagelength, page.imagewidth, n_samples)
    if tuple(plan.length(axis) for axis in "YXS") != stored or plan.n_planes > MAX_PLANES:
        raise refuse_content(
            path,
            given=f"pages of {stored[1]} x {stored[0]} pixels with {stored[2]} samples, which the axes {named} {lengths} do not fit",
            needed="Y, X and S as in a page",
            remedy="name the axes with axes=",
        )
    return plan


def _replace_numbers_by_colors(axes: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Give a pixel the samples of the color that its number stands for; the number itself is no sample."""
    kept = [(axis, length) for axis, length in zip(axes, shape, strict=True) if (axis, length) != ("S", 1)]
    return "".join(axis for axis, _ in kept) + "S", (*(length for _, length in kept), N_PALETTE_COLORS)


def _move_channels_into_page(axes: str, shape: tuple[int, ...], n_samples: int) -> tuple[str, tuple[int, ...]]:
    """Call channels samples where every page holds all of them: some programs, and users, name such an axis C."""
    lengths = dict(zip(axes, shape, strict=True))
    if n_samples > 1 and lengths.get("S", 1) == 1 and lengths.get("C") == n_samples:
        kept = axes.replace("S", "")
        return kept.replace("C", "S"), tuple(lengths[axis] for axis in kept)
    return axes, shape


def _lay_out_checked(page: TiffPage, path: Location, location: Location, *, stamp: tuple[int, int]) -> TiffPlane:
    """Return where the samples of a page are, once it passed every check; fewer may be claimed of one that will be decoded as a whole."""
    check_sample_type(page, path)
    check_segments(page, path, file_bytes=stamp[0], max_pixels=MAX_WINDOWED_PIXELS)
    plane = lay_out_page(page, path=path, location=location, stamp=stamp)
    if page_orientation(page) != UPRIGHT or not plane.is_windowed:
        check_segments(page, path, file_bytes=stamp[0], max_pixels=MAX_PIXELS)
    return plane


def _find_plane(series: TiffPageSeries, first: TiffPlane, *, number: int, n_planes: int) -> TiffPlane:
    """Return the layout of one plane of a series, whether it has a directory of its own or lies behind the first."""
    keyframe, path = series.keyframe, first.path
    # ImageJ describes one page and lets all others follow its samples without directories
    if series.dataoffset is not None and keyframe.compression == COMPRESSION.NONE:
        n_bytes = keyframe.nbytes
        if series.dataoffset + n_planes * n_bytes > first.stamp[0]:
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
    plane = _lay_out_checked(page, path, first.location, stamp=first.stamp)
    # color tables are not part of the hash
    if plane.dtype != first.dtype or (plane.palette is None) != (first.palette is None):
        raise refuse_damaged(path, f"page {number + 1} has a color table of another kind than the others")
    return replace(plane, number=number)

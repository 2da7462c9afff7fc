"""Decode single-image TIFF: integers to 16 bits, floats, gray or RGB, strips or tiles, interleaved or planar."""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING, BinaryIO

from tifffile import TiffFile, TiffPage

from qmcif_engine.io.input.image_file import StoredPicture, refuse_content
from qmcif_engine.io.input.segment_cache import SegmentCache
from qmcif_engine.io.tiff.tiff_checks import check_colors, check_sample_type, check_segments, claimed_bits, page_orientation
from qmcif_engine.io.tiff.tiff_windows import file_stamp, lay_out_page
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from pathlib import Path

logging.getLogger("tifffile").addHandler(logging.NullHandler())
# Its complaints about broken tags reach whoever configured logging, but are not printed beside our one line that says the same.

TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

_LARGEST_N_REDUCED_PAGES = 32
_VIRTUAL_STACK = re.compile(r"^ImageJ=.*?^images=(\d{1,9})$", re.DOTALL | re.MULTILINE)


def read_tiff(stream: BinaryIO, path: Path) -> StoredPicture:
    """Return the picture of a TIFF file; smaller copies of it (previews, pyramid levels) are left alone.

    Only the first page is ever decoded, through the page itself: the library's notion of a series follows metadata to other files.
    """
    stream.seek(0)  # the library takes the current position for the start of the file
    with TiffFile(stream) as tiff:
        page = tiff.pages.first
        _refuse_more_pages(tiff, path)
        check_colors(page, path)
        check_sample_type(page, path)
        check_segments(page, path, file_bytes=os.fstat(stream.fileno()).st_size)
        plane = lay_out_page(page, path=path, location=path.absolute(), stamp=file_stamp(stream))
        orientation, significant_bits = page_orientation(page), claimed_bits(page)
    return StoredPicture(plane.read(Window.whole(plane.shape[1:3]), SegmentCache(0)), orientation, significant_bits)


def _refuse_more_pages(tiff: TiffFile, path: Path) -> None:
    page = tiff.pages.first
    virtual = _VIRTUAL_STACK.match(page.description)
    is_stack = page.imagedepth > 1 or page.is_reduced or (virtual is not None and int(virtual[1]) > 1)
    if is_stack or _has_second_picture(tiff):
        raise refuse_content(path, given="more than one image", needed="one image a file", remedy="open it as a stack with open_stack")


def _has_second_picture(tiff: TiffFile) -> bool:
    """Tell whether a page behind the first is more than a smaller copy; only so many are looked at, since a chain may be a circle."""
    for index in range(1, _LARGEST_N_REDUCED_PAGES):
        try:
            page = tiff.pages.get(index)
        except IndexError:
            return False
        if not (isinstance(page, TiffPage) and page.is_reduced):
            return True
    return False

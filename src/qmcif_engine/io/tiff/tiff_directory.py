"""Walk the pages of a TIFF file before anything trusts their chain."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged
from qmcif_engine.io.metadata.ome_xml import MAX_PLANES

if TYPE_CHECKING:
    from pathlib import Path

    from tifffile import TiffFile


def check_directories(tiff: TiffFile, path: Path) -> None:
    """Refuse a chain of pages that runs in a circle or leaves the file.

    tifffile follows most circles without end, and drops the pages of a truncated file without a word to its caller.
    """
    layout, handle = tiff.tiff, tiff.filehandle
    seen: set[int] = set()
    offset = tiff.pages.first.offset
    while offset:
        if offset in seen:
            raise refuse_damaged(path, f"its pages run in a circle after page {len(seen)}")
        if len(seen) >= MAX_PLANES:
            raise refuse_content(path, given="too many pages", needed=f"at most {MAX_PLANES}", remedy="split the file")
        seen.add(offset)
        try:
            handle.seek(offset)
            (n_tags,) = struct.unpack(layout.tagnoformat, handle.read(layout.tagnosize))
            handle.seek(offset + layout.tagnosize + n_tags * layout.tagsize)
            (offset,) = struct.unpack(layout.offsetformat, handle.read(layout.offsetsize))
        except struct.error as error:
            raise refuse_damaged(path, f"the directory of page {len(seen)} lies behind the end of the file") from error

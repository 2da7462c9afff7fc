"""The largest sizes, counts and lengths that a file may claim, format by format, and the reading of small files within them.

Whatever claims more is refused before memory is taken for it.
"""

from __future__ import annotations

import json
import stat
from typing import Any

from qmcif_engine.io.remote_path import Location, RemotePath

MAX_PIXELS = 2**30
"""Pixels of an image that is decoded as a whole."""

MAX_WINDOWED_PIXELS = 2**36
"""Pixels of a page of which only windows are ever read."""

LARGEST_SIDE_PX = 2**30
"""Height or width of any image: a longer one would be cut into millions of tiles."""

MAX_EXPANSION = 4096
"""Decoded bytes per stored byte beyond which a size claim is a lie: LZW stays below 2600."""

MAX_PNG_EXPANSION = 1100
"""The same for Deflate alone, which ends at 1032."""

MAX_JPEG_EXPANSION = 1300
"""The same for JPEG: each block of 8 x 8 takes a bit at least, and colors at half or a quarter of the size have few blocks."""

MAX_FRAMES = 2**16 - 1
"""Images of a stack: what a map of 16-bit numbers of images has room for."""

MAX_TIMES = 2**16
"""Time points, each of which has outputs with names of their own."""

MAX_CHANNELS = 2**12

MAX_PLANES = 2**18
"""Pages of a TIFF file, or planes that its description promises, for which lists are made."""

MOST_IMAGES = 2**16
"""Images of an acquisition of which one is chosen."""

MOST_TAGS = 2**10
"""Tags of a TIFF page."""

LARGEST_TAG_BYTES = 2**25
"""The value of a tag, the positions of strips and tiles apart; the library reads it as a whole."""

MOST_SEGMENTS = 2**21
"""Strips or tiles of a page: their positions are kept in memory."""

LARGEST_XML_CHARACTERS = 2**25

MOST_XML_ELEMENTS = 2**20

MOST_JSON_ITEMS = 2**21
"""Elements, items of lists and entries of tables in one text: each takes some 100 bytes of memory, and as few as 2 in the text."""

LARGEST_IMAGE_OVERHEAD_BYTES = 2**26
"""What a PNG or JPEG file may take beyond twice its samples; a larger PNG, or what lies behind that in a JPEG, is not read."""

LARGEST_PNG_SIDE_PX = 1_000_000
"""The largest side libpng reads without being told otherwise."""

LARGEST_JPEG_SIDE_PX = 65500
"""The largest side libjpeg writes."""

MOST_JPEG_SEGMENTS = 2**12
"""Segments in front of the samples: 255 hold the largest color profile."""

LARGEST_PROFILE_BYTES = 2**24

LARGEST_EXIF_BYTES = 2**16 - 64
"""What one segment of a JPEG file has room for."""

MOST_CODED_CHANNELS = 4
"""Channels of a strip or tile that is an image with a header of its own."""

LARGEST_CHUNK_BYTES = 2**29
"""A Zarr chunk is the least that can be decoded, so it bounds the memory a window takes."""

MAX_ZARR_EXPANSION = 2**16

LARGEST_UNSTORED_BYTES = 2**26
"""Decoded bytes of an array for each byte that is stored of it, beyond so many: not almost all chunks of a large one are left out."""

SMALLEST_CHUNK_COST_BYTES = 2**14
"""What a chunk counts at least when it is left out: looking for a small one takes as long as decoding so many bytes."""

MOST_CHUNKS_IN_SHARD = 2**20

LARGEST_NODE_BYTES = 2**24
"""Metadata of a Zarr group or array."""

LARGEST_TRANSFORMS_BYTES = 2**25
"""A file of the transforms of the largest number of images is smaller."""

LARGEST_SETTINGS_BYTES = 2**14
"""A TOML file of settings: reading names of many parts takes time and memory that grow with the square of their number."""

MAX_RAW_EXPANSION = 256
"""Developed bytes per stored byte of a camera raw file: 6 bytes of a pixel, of which even lossy compression stores more than a bit."""

MAX_MOSAIC_GAPS = 1000
"""Pixels of a scene for each that its pieces have, beyond so many as a Zarr array may leave out: black is computed like anything else."""

LARGEST_SMOOTH_BYTES = 2**26
"""The same for HEIC and AVIF beyond so many bytes: a smooth image may become nearly nothing."""


def read_bounded(path: Location, *, largest_bytes: int) -> bytes:
    """Return the bytes of a regular file, or of one on a server.

    Raises
    ------
    OSError
        When it cannot be opened.
    ValueError
        When it is a folder, pipe or device, or too large.
    """
    if isinstance(path, RemotePath):
        from qmcif_engine.io.remote import read_object

        content = read_object(path)
    else:
        # asked before it is opened: a pipe would be waited for, and so would a file that the system makes up, which claims to be empty
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            msg = "it is a folder, pipe or device and no file"
            raise ValueError(msg)
        with path.open("rb") as stream:
            content = stream.read(min(status.st_size, largest_bytes + 1))
    if len(content) > largest_bytes:
        msg = f"it is larger than {largest_bytes} bytes"
        raise ValueError(msg)
    return content


def parse_json(text: bytes) -> Any:  # noqa: ANN401 - whatever the text says
    """Return what a JSON text says, once its items are known to be few: an empty list takes two bytes here and sixty in memory.

    Raises
    ------
    ValueError
        For what is no JSON, is nested too deeply, or has too many items.
    """
    if sum(text.count(mark) for mark in (b",", b"[", b"{")) > MOST_JSON_ITEMS:
        msg = f"it has more than {MOST_JSON_ITEMS} items"
        raise ValueError(msg)
    try:
        return json.loads(text)
    except RecursionError as error:
        msg = "it is nested too deeply"
        raise ValueError(msg) from error

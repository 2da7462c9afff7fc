"""What is believed of a file before a library reads it: the largest sizes, counts and lengths, format by format.

Whatever claims more is refused before memory is taken on its word; `qmcif_engine.io.input.image_file` words the refusals.
"""

MAX_PIXELS = 2**30
"""Pixels of a picture that is decoded as a whole."""

MAX_WINDOWED_PIXELS = 2**36
"""Pixels of a page of which only windows are ever read."""

MAX_EXPANSION = 4096
"""Decoded bytes per stored byte beyond which a size claim is a lie: Deflate ends at 1032, LZW below 2600, ordinary JPEG at 1024."""

MAX_FRAMES = 2**16 - 1
"""Images of a stack: what a map of 16-bit numbers of images has room for."""

MAX_PLANES = 2**20
"""Pages of a TIFF file, or planes that its description promises, for which lists are made."""

MOST_REDUCED_PAGES = 32
"""Pages behind a single picture that are looked at: a chain may be a circle."""

LARGEST_XML_CHARACTERS = 2**25

LARGEST_SEGMENT_OVERHEAD_BYTES = 2**20
"""What a packed strip, tile or chunk may take beyond twice its samples."""

LARGEST_PICTURE_OVERHEAD_BYTES = 2**26
"""What a PNG or JPEG file may take beyond twice its samples; a larger PNG, or what lies behind that in a JPEG, is not read."""

LARGEST_PNG_SIDE_PX = 1_000_000
"""The largest side libpng reads without being told otherwise."""

LARGEST_JPEG_SIDE_PX = 65500
"""The largest side libjpeg writes."""

LARGEST_JPEG_HEADER_BYTES = 2**26
LARGEST_PROFILE_BYTES = 2**24
LARGEST_EXIF_BYTES = 2**16 - 64
"""What one segment of a JPEG file has room for."""

MOST_EXIF_ENTRIES = 4096

MOST_CODED_CHANNELS = 4
"""Channels of a strip or tile that is an image with a header of its own."""

LARGEST_CHUNK_BYTES = 2**29
"""A Zarr chunk is the least that can be decoded, so it bounds the memory a window takes."""

MOST_CHUNKS_IN_SHARD = 2**20
LARGEST_NODE_BYTES = 2**24
"""Metadata of a Zarr group or array."""

LARGEST_TRANSFORMS_BYTES = 2**25
"""A file of the transforms of the largest number of images is smaller."""

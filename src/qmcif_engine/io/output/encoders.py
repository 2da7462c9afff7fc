"""Turn the content of a picture into the bytes of each format."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

from qmcif_engine.io.metadata.embedding import prepare_embedding
from qmcif_engine.io.output.picture import count_blocks, read_whole
from qmcif_engine.io.png_jpeg.jpeg import write_jpeg
from qmcif_engine.io.png_jpeg.jpeg_segments import embed_in_jpeg
from qmcif_engine.io.png_jpeg.png import write_png
from qmcif_engine.io.png_jpeg.png_chunks import embed_in_png
from qmcif_engine.io.tiff.tiff_exif import attach_exif
from qmcif_engine.io.tiff.tiff_image import write_tiff
from qmcif_engine.io.tiff.tiled_tiff import count_tiles, describe_tags, has_planes, write_tiled_tiff

if TYPE_CHECKING:
    from qmcif_engine.io.output.picture import PictureContent, WriteRun

LARGEST_STRIPPED_BYTES = 2**26
"""Pictures up to this size are read whole and written as TIFF strips, which every reader knows; larger ones as tiles."""


def encode_png(stream: BinaryIO, content: PictureContent, *, run: WriteRun) -> None:
    """Write a picture as PNG, held whole."""
    encoded = io.BytesIO()
    write_png(encoded, read_whole(content.picture, run))
    stream.write(embed_in_png(encoded.getvalue(), prepare_embedding(content)))


def encode_jpeg(stream: BinaryIO, content: PictureContent, *, run: WriteRun) -> None:
    """Write a picture as JPEG, held whole."""
    encoded = io.BytesIO()
    write_jpeg(encoded, read_whole(content.picture, run))
    stream.write(embed_in_jpeg(encoded.getvalue(), prepare_embedding(content)))


def encode_tiff(stream: BinaryIO, content: PictureContent, *, run: WriteRun) -> None:
    """Write a picture as TIFF: in strips while it is small, in tiles where it is large or has a page per channel."""
    if _is_tiled(content):
        write_tiled_tiff(stream, content, run=run)
        return
    embedding = prepare_embedding(content)
    tags = describe_tags(embedding, is_big=False) | {"description": embedding.comment}
    write_tiff(stream, read_whole(content.picture, run), tags=tags)
    if embedding.exif is not None:
        attach_exif(stream, embedding.exif)


def count_whole_blocks(content: PictureContent) -> int:
    """Return how many blocks of a picture are read for a format that is written whole."""
    return count_blocks(content.picture.shape)


def count_tiff_blocks(content: PictureContent) -> int:
    """Return how many blocks of a picture are read for TIFF."""
    return count_tiles(content, n_levels=1) if _is_tiled(content) else count_whole_blocks(content)


def _is_tiled(content: PictureContent) -> bool:
    shape = content.picture.shape
    n_bytes = shape[0] * shape[1] * content.n_channels * content.picture.dtype.itemsize
    return has_planes(content) or n_bytes > LARGEST_STRIPPED_BYTES

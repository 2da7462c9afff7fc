"""Turn the content of a picture into the bytes of a PNG or JPEG file."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import imagecodecs

from qmcif_engine.io.metadata.embedding import prepare_embedding
from qmcif_engine.io.output.picture import count_blocks, read_whole
from qmcif_engine.io.png_jpeg.jpeg_segments import embed_in_jpeg
from qmcif_engine.io.png_jpeg.png_chunks import embed_in_png

if TYPE_CHECKING:
    from qmcif_engine.io.output.picture import PictureContent, WriteRun

_QUALITY = 95


def encode_png(stream: BinaryIO, content: PictureContent, *, run: WriteRun) -> None:
    """Write a picture as PNG, held whole."""
    encoded = bytes(imagecodecs.png_encode(read_whole(content.picture, run)))
    stream.write(embed_in_png(encoded, prepare_embedding(content)))


def encode_jpeg(stream: BinaryIO, content: PictureContent, *, run: WriteRun) -> None:
    """Write a picture as JPEG, held whole, at high quality and with full color resolution."""
    encoded = bytes(imagecodecs.jpeg8_encode(read_whole(content.picture, run), level=_QUALITY, subsampling="444"))
    stream.write(embed_in_jpeg(encoded, prepare_embedding(content)))


def count_whole_blocks(content: PictureContent) -> int:
    """Return how many blocks of a picture are read for a format that is written whole."""
    return count_blocks(content.picture.shape)

"""Turn the content of a picture into the bytes of a PNG or JPEG file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

from qmcif_engine.io.metadata.embedding import prepare_embedding
from qmcif_engine.io.output.picture import count_blocks, read_whole
from qmcif_engine.io.png_jpeg.jpeg import write_jpeg
from qmcif_engine.io.png_jpeg.jpeg_segments import embed_in_jpeg
from qmcif_engine.io.png_jpeg.png import write_png
from qmcif_engine.io.png_jpeg.png_chunks import embed_in_png

if TYPE_CHECKING:
    from qmcif_engine.io.output.picture import PictureContent, WriteRun


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


def count_whole_blocks(content: PictureContent) -> int:
    """Return how many blocks of a picture are read for a format that is written whole."""
    return count_blocks(content.picture.shape)

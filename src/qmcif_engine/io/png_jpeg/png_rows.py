"""A large PNG decoded by rows, as they are copied to where windows can be read: it is never in memory as a whole."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.io.input.image_file import refuse_damaged
from qmcif_engine.io.metadata.exif import UPRIGHT
from qmcif_engine.io.png_jpeg.png import PNG_SIGNATURE, read_png_header, walk_chunks
from qmcif_engine.io.png_jpeg.png_filters import undo_filters

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.io.input.frame_source import SourceDescription

SMALLEST_BY_ROWS_BYTES = 2**26
"""Smaller images are decoded as a whole, which is faster."""

_PIECE_BYTES = 2**16
_WHOLE_BYTES = (8, 16)


def is_read_by_rows(found: SourceDescription, path: Path) -> bool:
    """Return whether an image is a large PNG whose rows are stored from top to bottom, and as they are shown."""
    if found.frame_bytes < SMALLEST_BY_ROWS_BYTES or found.orientation != UPRIGHT:
        return False
    with path.open("rb") as stream:
        if stream.read(len(PNG_SIGNATURE)) != PNG_SIGNATURE:
            return False
        header = read_png_header(stream, path)
    return header.interlace_method == 0 and header.bit_depth in _WHOLE_BYTES and not header.has_palette


class PngRows:
    """The rows of an image, to be asked for from top to bottom.

    Parameters
    ----------
    path : Path
        What messages call the file.
    location : Path
        The file, absolute.
    found : SourceDescription
        For which `is_read_by_rows` holds.
    """

    def __init__(self, path: Path, location: Path, found: SourceDescription) -> None:
        self._path, self._location = path, location
        self.shape, self.dtype = found.stored_shape, found.dtype
        self._row_bytes = self.shape[1] * self.shape[2] * self.dtype.itemsize
        self._next_row = 0
        self._samples = self._unpack()
        next(self._samples)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Decode some rows, shape (n, W, C); those above are decoded on the way where they were not asked for."""
        top, bottom, _ = rows.indices(self.shape[0])
        # deflate cannot go back: from the beginning again
        if top < self._next_row:
            self._samples, self._next_row = self._unpack(), 0
            next(self._samples)
        # in small steps: rows that nobody asked for are not held
        while self._next_row < top:
            self._decode(min(top - self._next_row, 256))
        return self._decode(bottom - top)

    def _decode(self, n_rows: int) -> NDArray[Any]:
        self._next_row += n_rows
        # PNG stores the higher byte first
        stored = self._samples.send(n_rows).view(self.dtype.newbyteorder(">"))
        return stored.reshape(n_rows, *self.shape[1:]).astype(self.dtype, copy=False)

    def _unpack(self) -> Generator[NDArray[np.uint8], int, None]:
        """Yield the bytes of as many rows as are sent, shape (n, bytes of a row); first of none."""
        # the row above the first counts as zeros
        above = np.zeros(self._row_bytes, np.uint8)
        stream, pieces = zlib.decompressobj(), self._read_pieces()
        n_rows = yield np.empty((0, self._row_bytes), np.uint8)
        while True:
            # each row begins with the number of its filter
            rows = np.empty((n_rows, 1 + self._row_bytes), np.uint8)
            self._fill(rows.reshape(-1), stream, pieces)
            if undo_filters(rows, above, self.shape[2] * self.dtype.itemsize) < n_rows:
                raise refuse_damaged(self._path, "a row has a filter that does not exist")
            n_rows = yield np.ascontiguousarray(rows[:, 1:])

    def _fill(self, target: NDArray[np.uint8], stream: Any, pieces: Iterator[bytes]) -> None:  # noqa: ANN401 - zlib does not name its type
        """Unpack exactly as many bytes as the target has room for."""
        n_filled = 0
        while n_filled < target.size:
            packed = stream.unconsumed_tail or next(pieces, b"")
            try:
                # bounded: a few packed bytes may unpack to a thousand times as many
                unpacked = stream.decompress(packed, target.size - n_filled)
            except zlib.error as error:
                raise refuse_damaged(self._path, str(error)) from error
            if not packed and not unpacked:
                raise refuse_damaged(self._path, "its samples are not complete")
            target[n_filled : n_filled + len(unpacked)] = np.frombuffer(unpacked, np.uint8)
            n_filled += len(unpacked)

    def _read_pieces(self) -> Iterator[bytes]:
        """Yield the packed samples in small pieces, chunk by chunk, each checked by its sum."""
        with self._location.open("rb") as stream:
            for kind, length in walk_chunks(stream, self._path):
                if kind != b"IDAT":
                    continue
                checksum = zlib.crc32(kind)
                for start in range(0, length, _PIECE_BYTES):
                    piece = stream.read(min(_PIECE_BYTES, length - start))
                    checksum = zlib.crc32(piece, checksum)
                    yield piece
                # after its samples were handed over, so that no chunk is held; damage still ends the run
                if stream.read(4) != checksum.to_bytes(4, "big"):
                    raise refuse_damaged(self._path, "a chunk of samples is damaged")

"""One file on a server, read at any place by any thread: large parts as they are, small ones out of blocks that are kept."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged
from qmcif_engine.io.remote.object_requests import describe_object, read_object
from qmcif_engine.io.remote.remote_path import RemotePath

BLOCK_BYTES = 2**16
MOST_BLOCKS = 256
"""Blocks that are kept: directories of a file lie apart, and each is read in many small pieces."""


class RemoteFile:
    """A file whose server sends parts of it.

    Parameters
    ----------
    path : RemotePath
    """

    read_at_once_bytes, read_through_bytes = 2**23, 2**19
    """A request costs more than the bytes between rows; see `qmcif_engine.io.tiff.tiff_pages`."""

    def __init__(self, path: RemotePath) -> None:
        self._path = path
        sends_parts = len(read_object(path, start=0, end=1)) <= 1
        described = describe_object(path)
        if not sends_parts or described.get("size") is None:
            raise refuse_content(
                path,
                given="a file that its server sends only as a whole",
                needed="a server that sends parts (range requests)",
                remedy="download the file and pass its name",
            )
        version = str(described.get("ETag") or described.get("Last-Modified") or described.get("LastModified"))
        # a number in the place of the time of change that a file on disk has
        self._stamp = int(described["size"]), int.from_bytes(hashlib.sha256(version.encode()).digest()[:7], "big")
        self._block = lru_cache(MOST_BLOCKS)(self._read_block)

    def stamp(self) -> tuple[int, int]:
        """Return size and version of the file, as its server said when it was opened."""
        return self._stamp

    def read(self, start: int, n_bytes: int) -> bytes:
        """Return the bytes from a position on; fewer where the file ends."""
        end = min(start + n_bytes, self._stamp[0])
        if end <= start:
            return b""
        first, last = start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        # more than two blocks are samples, which are kept decoded elsewhere; less may be a directory
        if last - first > 1:
            return self._fetch(start, end)
        blocks = b"".join(self._block(number) for number in range(first, last + 1))
        return blocks[start - first * BLOCK_BYTES : end - first * BLOCK_BYTES]

    def _read_block(self, number: int) -> bytes:
        return self._fetch(number * BLOCK_BYTES, min((number + 1) * BLOCK_BYTES, self._stamp[0]))

    def _fetch(self, start: int, end: int) -> bytes:
        content = read_object(self._path, start=start, end=end)
        if len(content) != end - start:
            raise refuse_damaged(self._path, f"its server sent {len(content)} instead of {end - start} bytes")
        return content

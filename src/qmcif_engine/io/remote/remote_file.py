"""One file on a server, read at any place by any thread: large parts as they are, small ones out of blocks that are kept."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged
from qmcif_engine.io.remote.object_requests import read_object

if TYPE_CHECKING:
    from qmcif_engine.io.remote.remote_path import RemotePath

BLOCK_BYTES = 2**16
MOST_BLOCKS = 256
"""Blocks that are kept: directories of a file lie apart, and each is read in many small pieces."""


class RemoteFile:
    """A file whose server sends parts of it; its size and version are those of the first answer.

    Parameters
    ----------
    path : RemotePath
    """

    read_at_once_bytes, read_through_bytes = 2**23, 2**19
    """A request costs more than the bytes between rows; see `qmcif_engine.io.tiff.tiff_windows`."""

    def __init__(self, path: RemotePath) -> None:
        self._path = path
        answer = read_object(path, part=f"0-{BLOCK_BYTES - 1}", largest_bytes=BLOCK_BYTES)
        if not answer.is_part or answer.n_bytes is None:
            raise refuse_content(
                path,
                given="a file that its server sends only as a whole",
                needed="a server that sends parts (range requests)",
                remedy="download the file and pass its name",
            )
        self._n_bytes, self._version = answer.n_bytes, answer.version
        self._blocks: OrderedDict[int, bytes] = OrderedDict({0: answer.content})
        self._lock = threading.Lock()

    def stamp(self) -> tuple[int, int]:
        """Return what tells that the file was changed: its size, and a number made of what the server says of its version."""
        # in the place of the time of change that a file on disk has
        return self._n_bytes, int.from_bytes(hashlib.sha256(self._version.encode()).digest()[:7], "big")

    def read(self, start: int, n_bytes: int) -> bytes:
        """Return the bytes from a position on; fewer where the file ends."""
        end = min(start + n_bytes, self._n_bytes)
        if end <= start:
            return b""
        first, last = start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        # more than two blocks are samples, which are kept decoded elsewhere; less may be a directory
        if last - first > 1:
            return self._fetch(start, end)
        content = b"".join(self._fetch_block(number) for number in range(first, last + 1))
        return content[start - first * BLOCK_BYTES : end - first * BLOCK_BYTES]

    def _fetch_block(self, number: int) -> bytes:
        with self._lock:
            if number in self._blocks:
                self._blocks.move_to_end(number)
                return self._blocks[number]
        start = number * BLOCK_BYTES
        # outside the lock: requests of several threads go on side by side
        block = self._fetch(start, min(start + BLOCK_BYTES, self._n_bytes))
        with self._lock:
            self._blocks[number] = block
            while len(self._blocks) > MOST_BLOCKS:
                self._blocks.popitem(last=False)
        return block

    def _fetch(self, start: int, end: int) -> bytes:
        answer = read_object(self._path, part=f"{start}-{end - 1}", largest_bytes=end - start)
        # parts of two versions must not be put together
        if (answer.n_bytes, answer.version) != (self._n_bytes, self._version):
            raise refuse_damaged(self._path, "it was changed after it was opened")
        if len(answer.content) != end - start:
            raise refuse_damaged(self._path, f"its server sent {len(answer.content)} instead of {end - start} bytes")
        return answer.content


class RemoteStream(io.RawIOBase):
    """A file on a server as a stream, for libraries that want one."""

    def __init__(self, file: RemoteFile) -> None:
        self._file, self._position, self._n_bytes = file, 0, file.stamp()[0]

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position, and return it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._n_bytes}[whence]
        if start + offset < 0:
            msg = f"a position {start + offset} before the start of a file"
            raise ValueError(msg)
        self._position = start + offset
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

    def readinto(self, buffer: object, /) -> int:
        """Fill a buffer with the next bytes, and return how many there were."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        content = self.read(len(view))
        view[: len(content)] = content
        return len(content)

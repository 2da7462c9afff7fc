"""Files that stay open between reads: windows are many, and every opening is a round trip on a network drive."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from qmcif_engine.io.remote_path import RemotePath

if TYPE_CHECKING:
    from pathlib import Path

    from qmcif_engine.io.remote import RemoteFile
    from qmcif_engine.io.remote_path import Location

MOST_OPEN_FILES = 64
"""Far fewer than systems allow a process to have."""

READS_ANYWHERE = sys.platform != "win32"
"""Whether the system reads at a position without moving the one that all threads share."""


def file_stamp(descriptor: int) -> tuple[int, int]:
    """Return what tells that an open file was changed: its size and the time of its last change."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns


class OpenFile:
    """One file, read at any place by any thread; it is closed when nobody holds it any more."""

    read_at_once_bytes, read_through_bytes = 2**20, 2**15
    """Rows are read together up to so many bytes, where no more than so many lie between them: to copy these costs less than a call."""

    def __init__(self, path: Path) -> None:
        # set first: __del__ runs also where opening fails
        self._descriptor = -1
        flags = os.O_RDONLY
        if sys.platform == "win32":
            # else line ends are translated
            flags |= os.O_BINARY
        self._descriptor = os.open(path, flags)
        self._lock = threading.Lock()

    def __del__(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def stamp(self) -> tuple[int, int]:
        """Return the stamp of the file now."""
        return file_stamp(self._descriptor)

    def read(self, start: int, n_bytes: int) -> bytes:
        """Return the bytes from a position on; fewer where the file ends."""
        pieces: list[bytes] = []
        while n_bytes > 0 and (piece := self._read_once(start, n_bytes)):  # systems return at most 2 GB at a time
            pieces.append(piece)
            start, n_bytes = start + len(piece), n_bytes - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read_once(self, start: int, n_bytes: int) -> bytes:
        if READS_ANYWHERE:
            return os.pread(self._descriptor, n_bytes, start)
        with self._lock:
            os.lseek(self._descriptor, start, os.SEEK_SET)
            return os.read(self._descriptor, n_bytes)


class OpenFiles:
    """The files used last, of which one that is asked for again need not be opened again; threads may share it."""

    def __init__(self) -> None:
        self._files: OrderedDict[Location, OpenFile | RemoteFile] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: Location) -> OpenFile | RemoteFile:
        """Return a file, opened where it is not open yet; whoever reads it keeps it open, also when others take its place."""
        with self._lock:
            if path not in self._files:
                self._files[path] = _open_remote(path) if isinstance(path, RemotePath) else OpenFile(path)
            self._files.move_to_end(path)
            while len(self._files) > MOST_OPEN_FILES:
                self._files.popitem(last=False)
            return self._files[path]


def _open_remote(path: RemotePath) -> RemoteFile:
    from qmcif_engine.io.remote import RemoteFile  # asks the server for its first bytes

    return RemoteFile(path)

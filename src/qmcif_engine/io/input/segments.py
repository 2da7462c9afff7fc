"""Files that stay open, and what was decoded of them: strips, tiles and chunks in a fixed number of bytes, and whole images.

Windows are many, and every opening is a round trip on a network drive.

PNG, JPEG and camera raw files can only be decoded as a whole, and so can turned pages and pages of one large compressed strip. Each is
decoded once, one at a time. Where all of them are too large for memory, they are written uncompressed to a scratch folder, from where any
window can be read. So are TIFF pages and Zarr images that are compressed in pieces, where all of them will be read: windows overlap, and
pieces would be decoded again and again.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.errors import OutputError
from qmcif_engine.io.input.frame_source import Copying, FramePosition, FrameSource
from qmcif_engine.io.output.leftovers import name_scratch, temporary_in
from qmcif_engine.io.output.moves import sweep
from qmcif_engine.io.remote import RemoteFile
from qmcif_engine.io.remote_path import Location, RemotePath
from qmcif_engine.stack.window import Window

DEFAULT_CACHE_BYTES = 64 * 2**20
"""Room for a few full-width strips of a large image, so that neighboring windows do not decode them again."""

DEFAULT_MEMORY_BYTES = 256 * 2**20
"""Stacks whose decoded images take no more than this together stay in memory."""

LARGEST_COPY_PIXELS = 2**28
"""A larger image is read by window, where it can be, whatever that costs: its copy would fill a disk."""

_COPIED_ROWS = 512

MOST_OPEN_FILES = 64
"""Far fewer than systems allow a process to have."""

READS_ANYWHERE = sys.platform != "win32"
"""Whether the system reads at a position without moving the one that all threads share."""


class OpenFile:
    """One file, read at any place by any thread; it is closed when nobody holds it any more."""

    read_at_once_bytes, read_through_bytes = 2**20, 2**15
    """Rows are read together up to so many bytes, where no more than so many lie between them: to copy these costs less than a call."""

    def __init__(self, path: Path) -> None:
        # set first: __del__ runs also where opening fails
        self._descriptor = -1
        # else Windows translates line ends
        flags = os.O_RDONLY
        if sys.platform == "win32":
            flags |= os.O_BINARY
        self._descriptor = os.open(path, flags)
        self._lock = threading.Lock()

    def __del__(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def stamp(self) -> tuple[int, int]:
        """Return what changes when the file does: its size and the time of its last change."""
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

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
    """The files used last, which need not be opened again; whoever reads one keeps it open, also when others take its place."""

    def __init__(self) -> None:
        self.open: Callable[[Location], OpenFile | RemoteFile] = lru_cache(MOST_OPEN_FILES)(_open_file)


def _open_file(path: Location) -> OpenFile | RemoteFile:
    return RemoteFile(path) if isinstance(path, RemotePath) else OpenFile(path)


def fill_from_segments(
    samples: NDArray[Any], bounds: Sequence[slice], *, lengths: Sequence[int], fetch: Callable[[tuple[int, ...]], NDArray[Any]]
) -> None:
    """Fill an array from the segments of a regular grid that it touches.

    Parameters
    ----------
    samples : ndarray
        Receives what lies within `bounds`, which are those of its first axes.
    bounds : sequence of slice
    lengths : sequence of int
        Of a segment, along the same axes.
    fetch : callable
        Returns the segment that begins at an index, cut where the grid ends.
    """
    steps = [range(side.start // length * length, side.stop, length) for side, length in zip(bounds, lengths, strict=True)]
    for corner in itertools.product(*steps):
        segment = fetch(corner)
        overlaps = [
            (max(first, side.start), min(first + length, side.stop), first, side.start)
            # segments may have further axes, such as samples, which are taken whole
            for first, length, side in zip(corner, segment.shape, bounds, strict=False)
        ]
        taken = segment[tuple(slice(start - first, end - first) for start, end, first, _ in overlaps)]
        samples[tuple(slice(start - origin, end - origin) for start, end, _, origin in overlaps)] = taken


class SegmentCache:
    """The segments, images and files used last; threads may share it.

    A copy in another process starts empty. It uses the scratch folder of the original while that exists, else one of its own.

    Parameters
    ----------
    limit_bytes : int
        What all held segments may take together. A segment larger than that is returned but not held.
    scratch_folder : Path, optional
        Where a folder for decoded images is made when the first is written; the system's folder for such files where left out.

    Attributes
    ----------
    files : OpenFiles
    """

    def __init__(self, limit_bytes: int = DEFAULT_CACHE_BYTES, *, scratch_folder: Path | None = None) -> None:
        self.limit_bytes, self.files = limit_bytes, OpenFiles()
        self._scratch_folder = scratch_folder
        self._segments: OrderedDict[Hashable, NDArray[Any]] = OrderedDict()
        # in this process also all segments of a stack that fits into memory and will be read as a whole
        self._held_bytes = self._further_bytes = 0
        self._images: dict[Hashable, NDArray[Any]] = {}
        self._is_on_disk = self._copies_pieces = False
        self._lock = threading.Lock()
        # reentrant: the folder is made while an image is held
        self._image_lock = threading.RLock()
        self._folder: Path | None = None
        self._removal: weakref.finalize[Any, SegmentCache] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the limits, and the name of the folder, so that the other process finds what is decoded already."""
        # made now, so that all processes share one folder instead of decoding each for itself
        folder = self._make_folder() if self._is_on_disk else None
        return {"limit": self.limit_bytes, "scratch_folder": self._scratch_folder, "folder": folder, "copies_pieces": self._copies_pieces}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Use the folder of the original while it exists; the original removes it."""
        self.__init__(state["limit"], scratch_folder=state["scratch_folder"])  # type: ignore[misc]
        self._folder = state["folder"]
        self._is_on_disk = self._folder is not None
        self._copies_pieces = state["copies_pieces"] and self._folder is not None and self._folder.is_dir()

    @property
    def _parent(self) -> Path:
        # another machine may have another folder for temporary files
        return self._scratch_folder or Path(tempfile.gettempdir())

    def fetch(self, key: Hashable, decode: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return the segment of this key, decoding it where it is not held. Callers must not write into it."""
        with self._lock:
            if key in self._segments:
                self._segments.move_to_end(key)
                return self._segments[key]
        segment = decode()  # outside the lock: decoding in several threads at once is the point of having them
        limit_bytes = self.limit_bytes + self._further_bytes
        with self._lock:
            # another thread may have decoded the same meanwhile
            if key not in self._segments and segment.nbytes <= limit_bytes:
                self._segments[key] = segment
                self._held_bytes += segment.nbytes
            while self._held_bytes > limit_bytes:
                self._held_bytes -= self._segments.popitem(last=False)[1].nbytes
        return segment

    def expect(self, source: FrameSource, positions: Sequence[FramePosition], *, memory_bytes: int) -> int:
        """Choose whether decoded images go to memory or to disk, and return what they will take on disk."""
        n_bytes = sum(member.description.frame_bytes for member in _members(source, positions) if _may_be_copied(member))
        self._is_on_disk = n_bytes > memory_bytes
        return n_bytes if self._is_on_disk else 0

    def expect_all(self, source: FrameSource, positions: Sequence[FramePosition], *, memory_bytes: int) -> None:
        """Keep decoded also what could be read by window: in memory where all images fit, else on disk where there is room."""
        members = _members(source, positions)
        n_bytes = sum(member.description.frame_bytes for member in members)
        piece_bytes = sum(member.description.frame_bytes for member in members if member.copying is Copying.WORTHWHILE)
        self._further_bytes = piece_bytes if n_bytes <= memory_bytes else 0
        scratch_bytes = self.expect(source, positions, memory_bytes=memory_bytes)
        try:
            # copies may take half of what is free
            self._copies_pieces = self._is_on_disk and shutil.disk_usage(self._parent).free > 2 * scratch_bytes
        except OSError as error:
            raise _refuse_scratch(self._parent, error) from error

    def read(self, source: FrameSource, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return one window of some channels of a frame, from a decoded copy of the frame where one is needed or worthwhile."""
        member, place = source.member(position)
        if not (member.copying is Copying.NEEDED or (self._copies_pieces and _may_be_copied(member))):
            return member.read(place, window, channels)
        # a copy: a map into the file must not outlive the folder
        samples = np.array(self._hold(member, place)[window.slices])
        return samples if list(channels) == list(range(samples.shape[2])) else np.ascontiguousarray(samples[:, :, list(channels)])

    def _hold(self, source: FrameSource, position: FramePosition) -> NDArray[Any]:
        """Return a whole frame, in memory or mapped from the scratch folder."""
        location = source.description.paths[0].absolute()
        # a digest in place of an address, whose password must not become part of a name
        key = (location.key if isinstance(location, RemotePath) else str(location), *position)
        with self._image_lock:  # one image at a time, whatever the number of threads
            if not self._is_on_disk:
                if key not in self._images:
                    self._images[key] = np.ascontiguousarray(source.decode(position))
                return self._images[key]
            # names of inputs may be too long for a name, or hold any character
            file = self._make_folder() / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.npy"
            # it gets its name when it is whole, so another process may have written it meanwhile
            if not file.exists():
                _write_copy(file, source, position)
            image: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
        return image

    def _make_folder(self) -> Path:
        with self._image_lock:
            if self._folder is None or not self._folder.is_dir():
                sweep(self._parent)
                try:
                    self._folder = Path(tempfile.mkdtemp(prefix=name_scratch(), dir=self._parent))
                except OSError as error:
                    raise _refuse_scratch(self._parent, error) from error
                # also at the end of the program, where close was not called
                self._removal = weakref.finalize(self, _remove_folder, self._folder, os.getpid())
            return self._folder

    def close(self) -> None:
        """Remove what is decoded; reading afterwards decodes again."""
        with self._lock:
            self._segments.clear()
            self._held_bytes = self._further_bytes = 0
        with self._image_lock:
            self._images.clear()
            if self._removal is not None:
                self._removal()
            self._folder = self._removal = None


def _members(source: FrameSource, positions: Sequence[FramePosition]) -> list[FrameSource]:
    return [source.member(position)[0] for position in positions]


def _may_be_copied(source: FrameSource) -> bool:
    """Return whether decoded copies of the frames are made; what can only be decoded whole is copied whatever its size."""
    n_pixels = source.description.height * source.description.width
    return source.copying is Copying.NEEDED or (source.copying is Copying.WORTHWHILE and n_pixels <= LARGEST_COPY_PIXELS)


def _remove_folder(folder: Path, owner: int) -> None:
    """Remove a scratch folder in the process that made it; a forked child holds the same object, but not the same right."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _write_copy(file: Path, source: FrameSource, position: FramePosition) -> None:
    """Write a frame in bands of rows, so that a turned one is never copied as a whole; it appears whole or not at all.

    Plain writes, not a memory map: on a full disk those fail with an error, while a map would kill the process.
    """
    found = source.description
    header = {"descr": np.lib.format.dtype_to_descr(found.dtype), "fortran_order": False, "shape": found.stored_shape}
    try:
        # in the same folder, so that renaming is one step
        with temporary_in(file.parent) as unfinished:
            with unfinished.open("xb") as stream:
                np.lib.format.write_array_header_1_0(stream, header)
                for rows in _decode_bands(source, position):
                    stream.write(np.ascontiguousarray(rows).data)
            unfinished.replace(file)
    except OSError as error:
        raise _refuse_scratch(file.parent, error) from error


def _decode_bands(source: FrameSource, position: FramePosition) -> Iterator[NDArray[Any]]:
    """Yield a frame from top to bottom; one that can be read by window is never in memory as a whole."""
    height, width, n_channels = source.description.stored_shape
    whole = source.decode(position) if source.copying is Copying.NEEDED else None
    for top in range(0, height, _COPIED_ROWS):
        bottom = min(top + _COPIED_ROWS, height)
        yield source.read(position, Window(top, 0, bottom, width), range(n_channels)) if whole is None else whole[top:bottom]


def _refuse_scratch(folder: Path, error: OSError) -> OutputError:
    refusal = OutputError(
        f"decoded images cannot be stored in {str(folder)!r} ({error.strerror or error}); free space there is needed; "
        "name another folder with scratch_folder= (on the command line --scratch)"
    )
    refusal.errno = error.errno
    return refusal

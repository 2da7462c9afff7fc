"""Decoded copies of images that cannot be read by window: in memory where they are few, else in a scratch folder.

PNG, JPEG and camera raw files can only be decoded as a whole, and so can turned pages and pages of one large compressed strip. Each is
decoded once, one at a time, and its samples are laid down uncompressed, row by row, from where any window can be read. So are TIFF pages
and Zarr images that are compressed in pieces, where all of them will be read: windows overlap, and pieces would be decoded again and again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import weakref
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.errors import OutputError
from qmcif_engine.io.input.frame_source import Copying, FrameSource
from qmcif_engine.io.output.leftovers import name_scratch
from qmcif_engine.io.output.moves import sweep
from qmcif_engine.io.remote.remote_path import RemotePath

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qmcif_engine.io.input.frame_source import FramePosition, RowsOnDemand
    from qmcif_engine.stack.window import Window

DEFAULT_MEMORY_BYTES = 256 * 2**20
"""Stacks whose decoded images take no more than this together stay in memory."""

LARGEST_COPY_PIXELS = 2**28
"""A larger image is read by window, where it can be, whatever that costs: its copy would fill a disk."""

_COPIED_ROWS = 512


class CopiedSource(FrameSource):
    """A source whose frames are read from decoded copies where these are needed, or made because all will be read."""

    def __init__(self, source: FrameSource, store: ScratchStore) -> None:
        self._source, self._store = source, store
        self.description = source.description
        location = source.description.paths[0].absolute()
        # a digest in place of an address, whose password must not become part of a name
        self._location = location.key if isinstance(location, RemotePath) else str(location)
        n_pixels = self.description.height * self.description.width
        # what can only be decoded whole is copied whatever its size
        is_worthwhile = source.copying is Copying.WORTHWHILE and n_pixels <= LARGEST_COPY_PIXELS
        self.copying = source.copying if is_worthwhile or source.copying is Copying.NEEDED else Copying.NEVER

    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return one window of some channels of a frame."""
        if not self._is_kept():
            return self._source.read(position, window, channels)
        samples = self._store.read((self._location, *position), window, decode=partial(self._source.decode, position))
        return samples if list(channels) == list(range(samples.shape[2])) else np.ascontiguousarray(samples[:, :, list(channels)])

    @property
    def whole_bytes(self) -> int:
        """What must be in memory at once while a frame is decoded as a whole, else 0."""
        return self._source.whole_bytes

    def transcoded_bytes(self, position: FramePosition) -> int:
        """Return what a decoded copy of the frame takes where one is made because all of it will be read, else 0."""
        del position
        return 0 if self.copying is Copying.NEVER else self.description.frame_bytes

    def _is_kept(self) -> bool:
        store = self._store
        return self.copying is Copying.NEEDED or (self.copying is Copying.WORTHWHILE and (store.keeps_all or store.keeps_decoded))


class ScratchStore:
    """Decoded images, shape (H, W, C) each, out of which windows are cut.

    Threads may share it. A copy in another process uses the same folder while that exists, else one of its own.

    Parameters
    ----------
    parent : Path, optional
        Where the scratch folder is made when the first image is laid down; the system's folder for such files where left out.

    Attributes
    ----------
    keeps_all : bool
        Whether compressed images that can be read by window are kept here too, because all of them fit into memory and all will be read.
        A copy in another process, which may see a few windows only, keeps none of them. Plain samples are read where they lie.
    keeps_decoded : bool
        Whether those of them are kept that are compressed, because all will be read and there is room for them on disk. A copy in
        another process does so where it sees the folder of the original.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self._folder: Path | None = None
        self._is_in_memory = self._is_on_disk = False
        self.keeps_all = self.keeps_decoded = False
        self._images: dict[tuple[str | int, ...], NDArray[Any]] = {}
        # reentrant: `hold` makes the folder while it has the lock
        self._lock = threading.RLock()
        self._removal: weakref.finalize[Any, ScratchStore] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Name the folder, so that the other process finds what is decoded already."""
        # made now, so that all processes share one folder instead of decoding each for itself
        folder = self._make_folder() if self._is_on_disk else None
        return {"parent": self._parent, "folder": folder, "memory": self._is_in_memory, "decoded": self.keeps_decoded}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Use the folder of the original while it exists; it is not ours to remove."""
        self.__init__(state["parent"])  # type: ignore[misc]
        self._is_in_memory = state["memory"]
        self._is_on_disk = state["folder"] is not None
        self._folder = state["folder"]
        self.keeps_decoded = state["decoded"] and self._folder is not None and self._folder.is_dir()

    def expect(self, n_bytes: int, *, memory_bytes: int) -> int:
        """Settle where images go, given what all of them take together, and return what they will take on disk."""
        self._is_in_memory = n_bytes <= memory_bytes
        self._is_on_disk = n_bytes > memory_bytes
        return n_bytes if self._is_on_disk else 0

    def keep(self, *, all_images: bool, n_bytes: int) -> None:
        """Keep also compressed images that could be read by window: in memory where all fit, or else on disk, if these bytes have room."""
        self.keeps_all = all_images
        try:
            # they may take half of what is free
            self.keeps_decoded = self._is_on_disk and shutil.disk_usage(self._parent or tempfile.gettempdir()).free > 2 * n_bytes
        except OSError as error:
            raise _refuse_scratch(self._parent or Path(tempfile.gettempdir()), error) from error

    def read(self, key: tuple[str | int, ...], window: Window, *, decode: Callable[[], NDArray[Any] | RowsOnDemand]) -> NDArray[Any]:
        """Return one window of the image of this key, shape (h, w, C), decoding it where that was not done yet.

        Parameters
        ----------
        key : tuple of str and int
            Absolute path of the file, and what tells the image from others in it.
        window : Window
        decode : callable
            Returns the whole image, shape (H, W, C), or what gives it by slices of rows.
        """
        image = self.hold(key, decode)
        # a copy: a map into the file must not outlive the folder
        return np.array(image[window.slices])

    def hold(self, key: tuple[str | int, ...], decode: Callable[[], NDArray[Any] | RowsOnDemand]) -> NDArray[Any]:
        """Return the image of this key, in memory or mapped from the scratch folder."""
        with self._lock:  # one image at a time, whatever the number of threads
            if self._is_in_memory:
                if key not in self._images:
                    self._images[key] = np.ascontiguousarray(decode()[:])
                return self._images[key]
            # names of inputs may be too long for a name, or hold any character
            file = self._make_folder() / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.npy"
            # it gets its name when it is whole, so another process may have laid it down meanwhile
            if not file.exists():
                _lay_down(file, decode())
            image: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
        return image

    def _make_folder(self) -> Path:
        with self._lock:
            if self._folder is None or not self._folder.is_dir():
                sweep(self._parent or Path(tempfile.gettempdir()))
                try:
                    self._folder = Path(tempfile.mkdtemp(prefix=name_scratch(), dir=self._parent))
                except OSError as error:
                    raise _refuse_scratch(self._parent or Path(tempfile.gettempdir()), error) from error
                # also at the end of the program, where nobody called close
                self._removal = weakref.finalize(self, _remove_folder, self._folder, os.getpid())
            return self._folder

    def close(self) -> None:
        """Remove what was made; reading afterwards decodes again."""
        with self._lock:
            self._images.clear()
            if self._removal is not None:
                self._removal()
            self._folder = self._removal = None


def _remove_folder(folder: Path, owner: int) -> None:
    """Remove a scratch folder in the process that made it; a forked child holds the same object, but not the same right."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _lay_down(file: Path, image: NDArray[Any] | RowsOnDemand) -> None:
    """Write an image in bands of rows, so that a turned one is never copied as a whole; it appears whole or not at all.

    Plain writes, not a memory map: on a full disk those fail with an error, while a map would kill the process.
    """
    partial: Path | None = None
    try:
        # in the same folder, so that renaming is one step
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as stream:
            partial = Path(stream.name)
            header = {"descr": np.lib.format.dtype_to_descr(image.dtype), "fortran_order": False, "shape": image.shape}
            np.lib.format.write_array_header_1_0(stream, header)
            for top in range(0, image.shape[0], _COPIED_ROWS):
                stream.write(np.ascontiguousarray(image[top : top + _COPIED_ROWS]).data)
        partial.replace(file)
    except OSError as error:
        if partial is not None:
            partial.unlink(missing_ok=True)
        raise _refuse_scratch(file.parent, error) from error


def _refuse_scratch(folder: Path, error: OSError) -> OutputError:
    refusal = OutputError(
        f"decoded images cannot be stored in {str(folder)!r} ({error.strerror or error}); free space there is needed; "
        "name another folder with scratch_folder= (on the command line --scratch)"
    )
    refusal.errno = error.errno
    return refusal

"""Files of finished tiles: the samples of their planes, a receipt of what they were made of and by which run, and a checksum."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qmcif_engine.errors import ExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.stack.window import Window
    from qmcif_engine.tiles.plan import Tile, TilePlan

# of the digest of the input, of a session in hexadecimal, and of `checksum`
DIGEST_BYTES = 32
SESSION_BYTES = 16
CHECKSUM_BYTES = 16
# numbers in receipts have one byte order, whatever machine writes them
EXTREME_DTYPE = np.dtype("<f8")
_COUNT_DTYPE = np.dtype("<u4")


@dataclass(frozen=True, slots=True)
class PlaneKind:
    """What the samples of one plane of the result are: their type, and the channels behind height and width, if any."""

    dtype: np.dtype[Any]
    channels: tuple[int, ...] = ()

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel."""
        return int(self.dtype.itemsize * np.prod(self.channels, dtype=int))


class StoredPart(NamedTuple):
    """What the receipt of a tile says of its part of a store: least and largest samples, (2, number of colors), and a checksum."""

    extremes: NDArray[np.float64]
    checksum: bytes


class TileReceipt(NamedTuple):
    """What a finished tile was made of, and by whom.

    Attributes
    ----------
    input_digest : bytes
        Of all samples that the tile depends on.
    pixels_by_image : ndarray of int
        How many of its pixels each image gave.
    session : str
        The run that wrote it: one that goes on with an unfinished run is another session.
    stored : StoredPart or None
        None unless the image of the tile went into a store.
    """

    input_digest: bytes
    pixels_by_image: NDArray[np.int64]
    session: str
    stored: StoredPart | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TileFormat:
    """How the files of the tiles of a job are laid out.

    Attributes
    ----------
    planes : mapping of str to PlaneKind
        Kept in this order.
    n_images : int
    n_stored_colors : int
        Colors of an image that goes into a store, of which receipts tell; 0 where there is none.
    """

    planes: Mapping[str, PlaneKind]
    n_images: int
    n_stored_colors: int

    def count_bytes(self, tile: Tile) -> int:
        """Return the size of the file of a tile."""
        height, width = tile.core.shape
        return height * width * sum(kind.pixel_bytes for kind in self.planes.values()) + self.receipt_bytes

    @property
    def receipt_bytes(self) -> int:
        """Size of what is behind the planes."""
        stored = 2 * self.n_stored_colors * EXTREME_DTYPE.itemsize + CHECKSUM_BYTES if self.n_stored_colors else 0
        # in the order of `encode`: counts, extremes with their checksum, digest, session, checksum
        return self.n_images * _COUNT_DTYPE.itemsize + stored + DIGEST_BYTES + SESSION_BYTES + CHECKSUM_BYTES

    def encode(
        self, planes: Mapping[str, NDArray[Any]], source_index: NDArray[Any], *, input_digest: bytes, session: str, stored: bytes, key: str
    ) -> bytes:
        """Return the content of a file; the key, of run and tile, goes into the checksum."""
        samples = (np.ascontiguousarray(planes[name], kind.dtype).tobytes() for name, kind in self.planes.items())
        counts = np.bincount(source_index.reshape(-1), minlength=self.n_images).astype(_COUNT_DTYPE)
        content = b"".join((*samples, counts.tobytes(), stored, input_digest, session.encode()))
        return content + checksum(content, key=key)

    def read_receipt(self, path: Path) -> TileReceipt:
        """Return the receipt of a file."""
        with path.open("rb") as stream:
            # from the end: planes come first, and their size depends on the tile
            stream.seek(-self.receipt_bytes, os.SEEK_END)
            content = stream.read()
        # whether the file is whole is checked where its samples are used (`is_intact`), not for every look at a receipt
        content = content[:-CHECKSUM_BYTES]
        numbers, digest, session = (
            content[: -DIGEST_BYTES - SESSION_BYTES],
            content[-DIGEST_BYTES - SESSION_BYTES : -SESSION_BYTES],
            content[-SESSION_BYTES:],
        )
        counts = np.frombuffer(numbers, _COUNT_DTYPE, self.n_images).astype(np.int64)
        stored = None
        if self.n_stored_colors:
            # least and largest sample of each color, then the checksum of the chunks
            known = numbers[counts.size * _COUNT_DTYPE.itemsize :]
            extremes = np.frombuffer(known[:-CHECKSUM_BYTES], EXTREME_DTYPE).astype(np.float64).reshape(2, -1)
            stored = StoredPart(extremes, known[-CHECKSUM_BYTES:])
        return TileReceipt(digest, counts, session.decode(errors="replace"), stored)

    def is_intact(self, path: Path, *, key: str) -> bool:
        """Return whether a file holds what was written for this run and tile."""
        content = path.read_bytes()
        return content[-CHECKSUM_BYTES:] == checksum(content[:-CHECKSUM_BYTES], key=key)


def checksum(*contents: bytes, key: str = "") -> bytes:
    """Return a checksum of bytes, which is another one for every key."""
    # keyed: a whole file that was copied from another tile or run does not pass
    digest = hashlib.blake2b(digest_size=CHECKSUM_BYTES, key=key.encode())
    for content in contents:
        digest.update(content)
    return digest.digest()


class JobImage:
    """One plane of a finished job, read from its tiles window by window.

    Parameters
    ----------
    path_of : callable
        Returns the file of a tile.
    key_of : callable
        Returns the key of its checksum.
    plan : TilePlan
    tile_format : TileFormat
    name : str
        The plane.
    """

    def __init__(
        self, path_of: Callable[[Tile], Path], key_of: Callable[[Tile], str], plan: TilePlan, tile_format: TileFormat, name: str
    ) -> None:
        planes = tile_format.planes
        self._path_of, self._key_of, self._plan, self._format, self._kind = path_of, key_of, plan, tile_format, planes[name]
        before = list(planes)[: list(planes).index(name)]
        # planes lie one behind the other, each with all pixels of its tile
        self._bytes_before = sum(planes[other].pixel_bytes for other in before)
        self._checked: set[int] = set()
        self.shape: tuple[int, ...] = (*plan.shape, *self._kind.channels)
        self.dtype = self._kind.dtype

    def read(self, window: Window) -> NDArray[Any]:
        """Return the samples of a window."""
        samples = np.empty((*window.shape, *self._kind.channels), self.dtype)
        for tile in self._plan.tiles_in(window):
            common = window.common(tile.core)
            samples[common.relative_to(window).slices] = self._opened(tile)[common.relative_to(tile.core).slices]
        return samples

    def _opened(self, tile: Tile) -> NDArray[Any]:
        """Map the plane of one tile, once its checksum was compared; only the pages that are asked for are read again."""
        path = self._path_of(tile)
        # once for each tile: an output is read row of blocks by row of blocks, and comes back to it
        if tile.number not in self._checked:
            if not self._format.is_intact(path, key=self._key_of(tile)):
                msg = (
                    f"the finished tile {str(path)!r} changed on the disk after it was written; it is needed as it was: "
                    "start the run again with --resume, which computes it again, and check the disk"
                )
                raise ExecutionError(msg)
            self._checked.add(tile.number)
        height, width = tile.core.shape
        offset, shape = self._bytes_before * height * width, (height, width, *self._kind.channels)
        return np.memmap(path, self.dtype, mode="r", offset=offset, shape=shape)

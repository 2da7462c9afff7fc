"""Keep the finished tiles of a run on disk, so that an interrupted run can go on where it stopped.

A job is a folder beside the target. Every tile is one file: the samples of its planes, and a receipt that says what they were made of.
Where the target is an OME-Zarr, the picture itself goes into a store in the folder, chunk by chunk, and the tile's file holds the rest.
It is written last, and what has its name is whole. When all tiles are there, the store is moved into place or the tiles are put together,
and the folder goes.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qmcif_engine.errors import OutputError
from qmcif_engine.io.output.placement import refusing
from qmcif_engine.io.output.stores import write_durably

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from distributed import Client
    from numpy.typing import NDArray

    from qmcif_engine.io.output.picture import Picture
    from qmcif_engine.io.zarr.growing_picture import GrowingPicture
    from qmcif_engine.stack.window import Window
    from qmcif_engine.tiles.plan import Tile, TilePlan
    from qmcif_engine.tiles.task import FusedTile

DIGEST_BYTES = 32
_COUNT_DTYPE = np.dtype("<u4")
_EXTREME_DTYPE = np.dtype("<f8")
_DESCRIPTION = "job.json"
_LARGEST_DESCRIPTION_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class PlaneKind:
    """What the samples of one plane of the result are: their type, and the channels behind height and width, if any."""

    dtype: np.dtype[Any]
    channels: tuple[int, ...] = ()

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel."""
        return int(self.dtype.itemsize * np.prod(self.channels, dtype=int))


class TileReceipt(NamedTuple):
    """What a finished tile was made of: a digest of its samples, and how many of its pixels each image gave.

    `extremes` are the least and largest color sample of a tile whose picture went into a store.
    """

    input_digest: bytes
    pixels_by_image: NDArray[np.int64]
    extremes: tuple[float, float] | None


class Job:
    """Tiles of one run in a folder, where the tasks that compute them put them.

    Parameters
    ----------
    folder : Path
    plan : TilePlan
    planes : mapping of str to PlaneKind
        The planes of a `FusedTile` that are kept in the files of the tiles, in order.
    n_images : int
    store : GrowingPicture, optional
        Where the picture goes instead, if the target is an OME-Zarr; the job gives it a folder.
    stored_planes : tuple of str
        The planes of a `FusedTile` that are the picture: channels, or colors and alpha.
    """

    def __init__(
        self,
        folder: Path,
        plan: TilePlan,
        planes: Mapping[str, PlaneKind],
        *,
        n_images: int,
        store: GrowingPicture | None = None,
        stored_planes: tuple[str, ...] = (),
    ) -> None:
        self.folder, self._plan, self._planes, self._n_images = folder, plan, dict(planes), n_images
        self.store, self._stored_planes = store, stored_planes
        self._run = ""

    def is_reached_by(self, client: Client | None) -> bool:
        """Return whether workers can put their tiles here: other processes of this machine, or all of a client that sees the folder."""
        if client is None:
            return True
        from qmcif_engine.run.cluster import share_folder

        return share_folder(client, self.folder)

    def begin(self, identity: str, *, resume: bool, overwrite: bool) -> None:
        """Make the folder, or go on with it.

        Parameters
        ----------
        identity : str
            Names settings and kind of input; tiles of another identity are not used.
        resume : bool
            Go on with an unfinished run, if there is one.
        overwrite : bool
            Throw an unfinished run away instead.

        Raises
        ------
        OutputError
            When an unfinished run is there that may be neither used nor thrown away.
        """
        if self.folder.exists() and not resume:
            if not overwrite:
                msg = (
                    f"an unfinished run lies in {str(self.folder)!r}; its tiles are needed or not: "
                    "go on with it (resume=True, --resume) or throw it away (overwrite=True, --overwrite)"
                )
                raise OutputError(msg)
            self.remove()
        if self.folder.exists():
            self._check_identity(identity)
            with refusing(self.folder):
                self._begin_store()
            return
        self._run = secrets.token_hex(6)
        with refusing(self.folder):
            self.folder.mkdir()
            try:
                self._write(_DESCRIPTION, json.dumps({"identity": identity, "run": self._run}).encode())
                self._begin_store()
            except BaseException:
                shutil.rmtree(self.folder, ignore_errors=True)
                raise

    def _begin_store(self) -> None:
        if self.store is not None:
            self.store = replace(self.store, folder=self.folder / f"picture-{self._run}.zarr")
            self.store.begin()

    def _check_identity(self, identity: str) -> None:
        try:
            with (self.folder / _DESCRIPTION).open("rb") as stream:
                description = json.loads(stream.read(_LARGEST_DESCRIPTION_BYTES))
            known, self._run = description["identity"], _checked_token(description["run"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            msg = f"{str(self.folder)!r} is no unfinished run of ours ({error}); one is needed to go on: start anew with --overwrite"
            raise OutputError(msg) from error
        if known != identity:
            raise self.refuse_other_input()

    def refuse_other_input(self) -> OutputError:
        """Return the error for tiles that were made of something else."""
        return OutputError(
            f"the unfinished run in {str(self.folder)!r} has other images, settings or another version; the same are needed to go on: "
            "restore them, or start anew with --overwrite"
        )

    def is_finished(self, tile: Tile) -> bool:
        """Return whether a tile is on the disk."""
        height, width = tile.core.shape
        n_bytes = height * width * sum(kind.pixel_bytes for kind in self._planes.values()) + self._receipt_bytes
        with suppress(OSError):
            return self._path(tile).stat().st_size == n_bytes and (self.store is None or self.store.full_level.has(tile.core))
        return False

    def write(self, tile: Tile, result: FusedTile) -> None:
        """Put a tile on the disk."""
        planes = (np.ascontiguousarray(getattr(result, name), kind.dtype).tobytes() for name, kind in self._planes.items())
        counts = np.bincount(result.source_index.reshape(-1), minlength=self._n_images).astype(_COUNT_DTYPE)
        with refusing(self.folder):
            extremes = b"" if self.store is None else self._store_tile(self.store, tile, result)
            self._write(self._path(tile).name, b"".join((*planes, counts.tobytes(), extremes, result.input_digest)))

    def _store_tile(self, store: GrowingPicture, tile: Tile, result: FusedTile) -> bytes:
        """Write the picture of a tile, and return its extremes as the receipt holds them."""
        shown = [getattr(result, name) for name in self._stored_planes]
        extremes = store.write(tile.core, shown[0] if len(shown) == 1 else np.dstack(shown))
        return np.array(extremes, _EXTREME_DTYPE).tobytes()

    def _write(self, name: str, content: bytes) -> None:
        write_durably({self.folder / name: content}, scratch_folder=self.folder)

    @property
    def _extreme_bytes(self) -> int:
        return 0 if self.store is None else 2 * _EXTREME_DTYPE.itemsize

    @property
    def _receipt_bytes(self) -> int:
        return self._n_images * _COUNT_DTYPE.itemsize + self._extreme_bytes + DIGEST_BYTES

    def _path(self, tile: Tile) -> Path:
        """Return the file of a tile; it names the run too, since a worker may finish a tile after another run took the folder over."""
        return self.folder / f"tile-{self._run}-{tile.number:06d}"

    def receipt(self, tile: Tile) -> TileReceipt:
        """Return what a finished tile was made of."""
        with self._path(tile).open("rb") as stream:
            stream.seek(-self._receipt_bytes, os.SEEK_END)
            content = stream.read()
        numbers, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
        end_of_counts = len(numbers) - self._extreme_bytes
        counts = np.frombuffer(numbers[:end_of_counts], _COUNT_DTYPE).astype(np.int64)
        extremes = np.frombuffer(numbers[end_of_counts:], _EXTREME_DTYPE)
        return TileReceipt(digest, counts, (float(extremes[0]), float(extremes[1])) if extremes.size else None)

    def picture(self, name: str) -> Picture:
        """Return one plane of the whole result, to be read by window."""
        if self.store is not None and name in self._stored_planes:
            return self.store.colors
        return JobPicture(self._path, self._plan, self._planes, name)

    def remove(self) -> None:
        """Delete the folder, once it is known to be a job."""
        if (self.folder / _DESCRIPTION).is_file() or not any(self.folder.iterdir()):
            with refusing(self.folder):
                shutil.rmtree(self.folder)
            return
        msg = f"{str(self.folder)!r} is no unfinished run of ours; its name is needed for this run: move it away"
        raise OutputError(msg)


def _checked_token(token: object) -> str:
    """Return the name of a run, which must not lead out of the folder."""
    if isinstance(token, str) and token.isalnum():
        return token
    msg = f"its run is called {token!r}"
    raise ValueError(msg)


class JobPicture:
    """One plane of a finished job, read from its tiles window by window."""

    def __init__(self, path_of: Callable[[Tile], Path], plan: TilePlan, planes: Mapping[str, PlaneKind], name: str) -> None:
        self._path_of, self._plan, self._kind = path_of, plan, planes[name]
        before = list(planes)[: list(planes).index(name)]
        self._bytes_before = sum(planes[other].pixel_bytes for other in before)
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
        """Map the plane of one tile; only the pages that are asked for are read."""
        height, width = tile.core.shape
        return np.memmap(
            self._path_of(tile),
            self.dtype,
            mode="r",
            offset=self._bytes_before * height * width,
            shape=(height, width, *self._kind.channels),
        )

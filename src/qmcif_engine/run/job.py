"""Keep the finished tiles of a run on disk, so that an interrupted run can go on where it stopped.

A job is a folder beside the target. Every tile is one file of plain samples, which gets its name only when its bytes are on the disk:
what has its name is whole, after a crash, a full disk or a loss of power too. When all tiles are there they are put together and the
folder goes.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qmcif_engine.errors import OutputError
from qmcif_engine.io.output.placement import refusing
from qmcif_engine.io.output.stores import sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from distributed import Client
    from numpy.typing import NDArray

    from qmcif_engine.stack.window import Window
    from qmcif_engine.tiles.plan import Tile, TilePlan
    from qmcif_engine.tiles.task import FusedTile

DIGEST_BYTES = 32
_COUNT_DTYPE = np.dtype("<u4")
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
    """What a finished tile was made of: a digest of its samples, and how many of its pixels each image gave."""

    input_digest: bytes
    pixels_by_image: NDArray[np.int64]


class Job:
    """Tiles of one run in a folder, where the tasks that compute them put them.

    Parameters
    ----------
    folder : Path
    plan : TilePlan
    planes : mapping of str to PlaneKind
        The planes of a `FusedTile` that are kept, in order.
    n_images : int
    """

    def __init__(self, folder: Path, plan: TilePlan, planes: Mapping[str, PlaneKind], *, n_images: int) -> None:
        self.folder, self._plan, self._planes, self._n_images = folder, plan, dict(planes), n_images
        self._identity = ""

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
        self._identity = identity
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
            return
        with refusing(self.folder):
            self.folder.mkdir()
            try:
                self._write(_DESCRIPTION, json.dumps({"identity": identity}).encode())
            except BaseException:
                shutil.rmtree(self.folder, ignore_errors=True)
                raise

    def _check_identity(self, identity: str) -> None:
        try:
            with (self.folder / _DESCRIPTION).open("rb") as stream:
                known = json.loads(stream.read(_LARGEST_DESCRIPTION_BYTES))["identity"]
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
            return self._path(tile).stat().st_size == n_bytes
        return False

    def write(self, tile: Tile, result: FusedTile) -> None:
        """Put a tile on the disk."""
        planes = (np.ascontiguousarray(getattr(result, name), kind.dtype).tobytes() for name, kind in self._planes.items())
        counts = np.bincount(result.source_index.reshape(-1), minlength=self._n_images).astype(_COUNT_DTYPE)
        content = b"".join((*planes, counts.tobytes(), result.input_digest))
        with refusing(self.folder):
            self._write(self._path(tile).name, content)

    def _write(self, name: str, content: bytes) -> None:
        unfinished = self.folder / f"{name}.unfinished"
        try:
            with unfinished.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(self.folder / name)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise
        sync_folder(self.folder)

    @property
    def _receipt_bytes(self) -> int:
        return self._n_images * _COUNT_DTYPE.itemsize + DIGEST_BYTES

    def _path(self, tile: Tile) -> Path:
        """Return the file of a tile; it names the run too, since a worker may finish a tile after another run took the folder over."""
        return self.folder / f"tile-{self._identity[:12]}-{tile.number:06d}"

    def receipt(self, tile: Tile) -> TileReceipt:
        """Return what a finished tile was made of."""
        with self._path(tile).open("rb") as stream:
            stream.seek(-self._receipt_bytes, os.SEEK_END)
            content = stream.read()
        return TileReceipt(content[-DIGEST_BYTES:], np.frombuffer(content[:-DIGEST_BYTES], _COUNT_DTYPE).astype(np.int64))

    def picture(self, name: str) -> JobPicture:
        """Return one plane of the whole result, to be read by window."""
        return JobPicture(self._path, self._plan, self._planes, name)

    def remove(self) -> None:
        """Delete the folder, once it is known to be a job."""
        if (self.folder / _DESCRIPTION).is_file() or not any(self.folder.iterdir()):
            with refusing(self.folder):
                shutil.rmtree(self.folder)
            return
        msg = f"{str(self.folder)!r} is no unfinished run of ours; its name is needed for this run: move it away"
        raise OutputError(msg)


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

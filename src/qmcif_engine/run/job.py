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
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.errors import OutputError
from qmcif_engine.io.output.placement import refusing
from qmcif_engine.io.output.stores import sync_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.stack.window import Window
    from qmcif_engine.tiles.plan import Tile, TilePlan
    from qmcif_engine.tiles.task import FusedTile

DIGEST_BYTES = 32
_DESCRIPTION = "job.json"
_LARGEST_DESCRIPTION_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class PlaneKind:
    """Say what the samples of one plane of the result are: their type, and the channels behind height and width, if any."""

    dtype: np.dtype[Any]
    channels: tuple[int, ...] = ()

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel."""
        return int(self.dtype.itemsize * np.prod(self.channels, dtype=int))


class Job:
    """Hold the tiles of one run in a folder.

    Parameters
    ----------
    folder : Path
    plan : TilePlan
    planes : mapping of str to PlaneKind
        The planes of a `FusedTile` that are kept, in order.
    """

    def __init__(self, folder: Path, plan: TilePlan, planes: Mapping[str, PlaneKind]) -> None:
        self.folder, self._plan, self._planes = folder, plan, dict(planes)

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

    def missing(self) -> tuple[Tile, ...]:
        """Return the tiles that are not on the disk yet."""
        return tuple(tile for tile in self._plan.tiles if not self._is_whole(tile))

    def keep(self, tile: Tile, result: FusedTile) -> None:
        """Put a tile on the disk."""
        planes = (np.ascontiguousarray(getattr(result, name), kind.dtype).tobytes() for name, kind in self._planes.items())
        content = b"".join((*planes, result.input_digest))
        with refusing(self.folder):
            self._write(_file_name(tile), content)

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

    def _is_whole(self, tile: Tile) -> bool:
        height, width = tile.core.shape
        n_bytes = height * width * sum(kind.pixel_bytes for kind in self._planes.values()) + DIGEST_BYTES
        with suppress(OSError):
            return (self.folder / _file_name(tile)).stat().st_size == n_bytes
        return False

    def input_digest(self, tile: Tile) -> bytes:
        """Return what a finished tile was made of."""
        with (self.folder / _file_name(tile)).open("rb") as stream:
            stream.seek(-DIGEST_BYTES, os.SEEK_END)
            return stream.read()

    def picture(self, name: str) -> JobPicture:
        """Return one plane of the whole result, to be read by window."""
        return JobPicture(self.folder, self._plan, self._planes, name)

    def remove(self) -> None:
        """Delete the folder, once it is known to be a job."""
        if (self.folder / _DESCRIPTION).is_file() or not any(self.folder.iterdir()):
            with refusing(self.folder):
                shutil.rmtree(self.folder)
            return
        msg = f"{str(self.folder)!r} is no unfinished run of ours; its name is needed for this run: move it away"
        raise OutputError(msg)


class JobPicture:
    """Offer one plane of a finished job, read from its tiles window by window."""

    def __init__(self, folder: Path, plan: TilePlan, planes: Mapping[str, PlaneKind], name: str) -> None:
        self._folder, self._plan, self._kind = folder, plan, planes[name]
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
            self._folder / _file_name(tile),
            self.dtype,
            mode="r",
            offset=self._bytes_before * height * width,
            shape=(height, width, *self._kind.channels),
        )


def _file_name(tile: Tile) -> str:
    return f"tile-{tile.number:06d}"

"""Finished tiles of a run on disk, so that an interrupted run can go on where it stopped.

A job is a folder beside the target. Its fusions (one image, or time points and slabs) share a plan of tiles. Every plane of a result is a
Zarr array in the folder; where the target is an OME-Zarr, the image itself goes into the store that becomes it, chunk by chunk. Of every
tile there is a receipt, which is written last: what it was made of, and a checksum of its samples. When all tiles are there, the store is
moved into place or the planes are written in the formats that were asked for, and the folder goes.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.errors import ExecutionError, OutputError
from qmcif_engine.io.output.moves import write_durably
from qmcif_engine.io.output.placement import refusing
from qmcif_engine.io.output.windowed_image import BLOCK_SIDE_PX, ArrayImage, ImageContent, JoinedImage, WindowedImage
from qmcif_engine.io.remote import RemoteStore
from qmcif_engine.io.remote_path import Location, RemotePath
from qmcif_engine.io.zarr.zarr_writer import Extremes, ImageArray, ImageStore, measure_extremes
from qmcif_engine.run.job_folder import JobFolder, digest
from qmcif_engine.stack.window import Window, multiple_above
from qmcif_engine.tiles.plan import GRID_PX, Tile, TilePlan
from qmcif_engine.tiles.task import FusedTile

_LARGEST_RECEIPT_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class PlaneKind:
    """What the samples of one plane of the result are: their type, and the channels behind height and width, if any."""

    dtype: np.dtype[Any]
    channels: tuple[int, ...] = ()

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel."""
        return int(self.dtype.itemsize * np.prod(self.channels, dtype=int))


class PartKind(NamedTuple):
    """One fusion of a job: how many images it has, which planes are kept, and which image of the store its result is, if any."""

    n_images: int
    planes: tuple[str, ...]
    stored_as: int | None = None


class TileReceipt(NamedTuple):
    """What a finished tile was made of, and by whom.

    Attributes
    ----------
    input_digest : str
        Of all samples that the tile depends on.
    pixels_by_image : tuple of int
        How many of its pixels each image gave.
    session : str
        The run that wrote it: one that continues an unfinished run is another session.
    extremes : list of list of float, or None
        The least and the largest sample of every color, where the image of the tile went into a store.
    """

    input_digest: str
    pixels_by_image: tuple[int, ...]
    session: str
    extremes: list[list[float]] | None = None


class EncodedTile(NamedTuple):
    """What of a tile is to be written into the folder: its files, and then the receipt."""

    files: dict[Path, bytes]
    receipt: bytes


@dataclass(frozen=True, slots=True)
class StoredPlane:
    """One plane of one fusion of a job as an image."""

    array: ImageArray
    image: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Height and width, and the number of channels where there is a channel axis."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the samples."""
        return self.array.dtype

    def read(self, window: Window) -> NDArray[Any]:
        """Return the samples of a window."""
        return self.array.read(window, self.image)


class Job(JobFolder):
    """The tiles of one run in a folder, where the tasks that compute them put them.

    Parameters
    ----------
    folder : Path
    plan : TilePlan
        Of each fusion.
    planes : mapping of str to PlaneKind
        The planes of a `FusedTile` that are kept, in order.
    parts : sequence of PartKind
        The fusions.
    chunk_px : int
        Cores of tiles begin on multiples of it.
    store : ImageStore, optional
        What becomes the target, if that is an OME-Zarr; the job gives it a folder.
    stored_planes : tuple of str
        The planes of a `FusedTile` that are the image: channels, or colors and alpha.
    """

    def __init__(
        self,
        folder: Path,
        plan: TilePlan,
        planes: Mapping[str, PlaneKind],
        *,
        parts: Sequence[PartKind],
        chunk_px: int = BLOCK_SIDE_PX,
        store: ImageStore | None = None,
        stored_planes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(folder)
        self.plan, self._planes, self.parts = plan, dict(planes), tuple(parts)
        self._chunk_px, self.store, self._stored_planes = chunk_px, store, stored_planes
        self._bucket = RemoteStore(store.folder) if store is not None and isinstance(store.folder, RemotePath) else None
        self._arrays: dict[str, ImageArray] = {}
        # the planes of each fusion that arrays of the folder hold
        self._kept = [
            tuple(name for name in planes if name in part.planes and not (part.stored_as is not None and name in stored_planes))
            for part in self.parts
        ]
        # the only tile there is stays in memory: a run that was interrupted has nothing to go on with
        self.is_held = len(plan) == len(self.parts) == 1 and store is None
        self._held: FusedTile | None = None
        # whether the metadata of a store in a bucket is written: from then on readers find it
        self._is_shown = False

    def prepare(self, *, is_new: bool) -> None:
        """Make the arrays, ready for tiles."""
        if self.is_held:
            return
        core = self.plan[0].core.shape
        # a small image need not be padded to a chunk
        chunk = min(self._chunk_px, multiple_above(max(core), GRID_PX))
        shard = multiple_above(core[0], chunk), multiple_above(core[1], chunk)
        for name, kind in self._planes.items():
            if not any(name in kept for kept in self._kept):
                continue
            self._arrays[name] = ImageArray(
                folder=self.folder / f"{name}-{self.run}.zarr",
                scratch_folder=self.folder,
                shape=(*self.plan.shape, *kind.channels),
                dtype=kind.dtype,
                chunk_px=chunk,
                shard_px=None if shard == (chunk, chunk) else shard,
                axis="T",
                n_images=len(self.parts),
                is_kept=False,
            )
            self._arrays[name].create()
        if self.store is None:
            return
        if self._bucket is None:
            # in the folder, hence on the disk of the target: at the end it is moved by a single renaming
            self.store = replace(self.store, folder=self.folder / f"image-{self.run}.zarr", scratch_folder=self.folder)
        else:
            with refusing(self._bucket.folder):
                # nothing can be renamed there: chunks go to their final names, under a claim
                self._bucket.claim(self.run, is_new=is_new)
        self.store.begin()

    @property
    def reaches_bucket(self) -> bool:
        """Whether the image goes to a bucket."""
        return self._bucket is not None

    def begin_part(self, number: int, description: object) -> None:
        """Note what a fusion is made of, or refuse to continue one of other images; its samples are compared tile by tile."""
        if self.is_held:
            return
        path, identity = self.folder / f"part-{self.run}-{number}", digest(description).encode()
        with self._needing_folder():
            if not path.exists():
                write_durably({path: identity}, scratch_folder=self.folder)
            elif path.read_bytes() != identity:
                raise self.refuse_other_input()

    def is_finished(self, part: int, tile: Tile) -> bool:
        """Return whether a tile is on the disk, as it was written."""
        try:
            known = json.loads(self._read_receipt(part, tile))
            content = json.dumps(known["tile"])
            is_intact = known["checksum"] == self._checksum(part, tile, self._list_contents(part, tile), content)
            # a bucket checks what it keeps, and is asked only whether it has it
            return is_intact and (self.store is None or self._bucket is None or self.store.levels[0].is_stored(tile.core))
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def check_finished(self, part: int, tile: Tile) -> None:
        """Refuse to write outputs from a tile that changed on the disk."""
        if not self.is_held and not self.is_finished(part, tile):
            msg = (
                f"the finished tile {str(self._path(part, tile))!r} changed on the disk after it was written; it is needed as it was: "
                "start the run again with --resume, which computes it again, and check the disk"
            )
            raise ExecutionError(msg)

    def write(self, part: int, tile: Tile, result: FusedTile | EncodedTile) -> None:
        """Put a tile on the disk, or what a worker that wrote its chunks to a bucket sent back of it."""
        if self.is_held and isinstance(result, FusedTile):
            self._held = result
            return
        with self._needing_folder():
            encoded = result if isinstance(result, EncodedTile) else self.encode(part, tile, result)
            write_durably(encoded.files, scratch_folder=self.folder)
            # samples are on the disk before the receipt that speaks of them
            write_durably({self._path(part, tile): encoded.receipt}, scratch_folder=self.folder)

    def encode(self, part: int, tile: Tile, result: FusedTile) -> EncodedTile:
        """Return what of a tile is to be written into the folder; chunks of a bucket are written."""
        files: dict[Location, bytes] = {}
        extremes = None
        number = self.parts[part].stored_as
        if self.store is not None and number is not None:
            shown = [getattr(result, name) for name in self._stored_planes]
            block = shown[0] if len(shown) == 1 else np.dstack(shown)
            extremes = measure_extremes(block, self.store.n_colors).tolist()
            files |= self.store.levels[0].encode(tile.core, block, number)
        for name in self._kept[part]:
            files |= self._arrays[name].encode(tile.core, getattr(result, name), part)
        remote: dict[Location, bytes] = {path: content for path, content in files.items() if isinstance(path, RemotePath)}
        with refusing(self._bucket.folder) if self._bucket is not None else nullcontext():
            write_durably(remote, scratch_folder=self.folder)
        local = {path: content for path, content in files.items() if isinstance(path, Path)}
        counts = np.bincount(result.source_index.reshape(-1), minlength=self.parts[part].n_images).tolist()
        content = json.dumps(TileReceipt(result.input_digest.hex(), tuple(counts), self.session, extremes))
        known = {"tile": json.loads(content), "checksum": self._checksum(part, tile, local.values(), content)}
        return EncodedTile(local, json.dumps(known).encode())

    def receipt(self, part: int, tile: Tile) -> TileReceipt:
        """Return what a finished tile was made of."""
        if self._held is not None:
            counts = np.bincount(self._held.source_index.reshape(-1), minlength=self.parts[part].n_images)
            return TileReceipt(self._held.input_digest.hex(), tuple(counts.tolist()), self.session)
        with self._needing_folder():
            return TileReceipt(*json.loads(self._read_receipt(part, tile))["tile"])

    def image(self, part: int, name: str) -> WindowedImage:
        """Return one plane of the whole result of a fusion, to be read by window."""
        if self._held is not None:
            return ArrayImage(getattr(self._held, name))
        if self.store is None or name in self._kept[part]:
            return StoredPlane(self._arrays[name], part)
        stored: WindowedImage = StoredPlane(self.store.levels[0], self.parts[part].stored_as or 0)
        if len(self.store.shape) < 3 or self.store.shape[2] == self.store.n_colors:
            return stored
        # colors first, alpha last
        return JoinedImage([stored], slice(self.store.n_colors) if name == self._stored_planes[0] else -1)

    def finish_store(self, content: ImageContent, extremes: Extremes) -> None:
        """Describe the image in the store, which makes one in a bucket a store."""
        if self.store is not None:
            self._is_shown = True
            self.store.finish(content, extremes)

    def holds_results(self) -> bool:
        """Return whether a tile is finished; whether it is whole is looked at by who continues."""
        return not self.is_held and super().holds_results()

    def abort(self) -> None:
        """End without a result; see `JobFolder.abort`."""
        if self._bucket is not None and self._is_shown and self._ended is None:
            # readers find a store by its metadata, which must not outlive a failed run
            self._bucket.hide()
        super().abort()

    def remove(self) -> None:
        """Delete the folder, once it is known to be a job, and what a run that is not over put into a bucket."""
        if self._bucket is not None and self._ended is not None:
            self._bucket.release()
        elif self._bucket is not None and self.run:
            with refusing(self._bucket.folder):
                self._bucket.discard(self.run)
        super().remove()

    def _list_contents(self, part: int, tile: Tile) -> Iterator[bytes]:
        """Yield what the files of a tile hold, in the order in which they are encoded."""
        number = self.parts[part].stored_as
        if self.store is not None and number is not None:
            yield from self.store.levels[0].contents(tile.core, number)
        for name in self._kept[part]:
            yield from self._arrays[name].contents(tile.core, part)

    def _read_receipt(self, part: int, tile: Tile) -> bytes:
        with self._path(part, tile).open("rb") as stream:
            return stream.read(_LARGEST_RECEIPT_BYTES)

    def _path(self, part: int, tile: Tile) -> Path:
        """Return the receipt of a tile, which names the run: a worker may finish a tile after another run took the folder over."""
        return self.folder / f"tile-{self.run}-{part}-{tile.number}"

    def _checksum(self, part: int, tile: Tile, contents: Iterable[bytes], receipt: str) -> str:
        # keyed: whole files that were copied from another tile or run do not pass
        digest = hashlib.blake2b(digest_size=16, key=f"{self.run}-{part}-{tile.number}".encode())
        for content in contents:
            digest.update(content)
        digest.update(receipt.encode())
        return digest.hexdigest()

    @contextmanager
    def _needing_folder(self) -> Iterator[None]:
        """Report what the system refuses inside the block, and a folder that was removed as such."""
        try:
            with refusing(self.folder):
                yield
        except OutputError as error:
            # removed by hand, or by a run that took this one for dead
            if error.errno == errno.ENOENT:
                msg = (
                    f"the folder {str(self.folder)!r} was removed while a run was putting its tiles there; it is needed until the run has "
                    "ended: start the run again"
                )
                raise ExecutionError(msg) from error
            raise

"""Finished tiles of a run on disk, so that an interrupted run can go on where it stopped.

A job is a folder beside the target. Every tile is one file: the samples of its planes, and a receipt that says what they were made of.
Where the target is an OME-Zarr, the image itself goes into a store in the folder, chunk by chunk, and the tile's file holds the rest.
It is written last, and what has its name is whole. When all tiles are there, the store is moved into place or the tiles are put together,
and the folder goes.
"""

from __future__ import annotations

import errno
import json
import secrets
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.errors import ExecutionError, OutputError
from qmcif_engine.io.output.leftovers import Kind, Leftover, name_temporary, temporary_in
from qmcif_engine.io.output.moves import Journal, roll_back
from qmcif_engine.io.output.placement import refusing
from qmcif_engine.io.output.stores import sync_folder, write_durably
from qmcif_engine.io.output.sweeping import JOURNAL_NAME, settle
from qmcif_engine.io.remote.remote_path import RemotePath
from qmcif_engine.io.remote.remote_store import RemoteStore
from qmcif_engine.run.job_folders import DESCRIPTION_NAME, LOCK_NAME, checked_token, holds_job, read_description, recover
from qmcif_engine.run.lock import RunLock
from qmcif_engine.run.tile_files import EXTREME_DTYPE, JobImage, TileFormat, checksum

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from distributed import Client

    from qmcif_engine.io.output.windowed_image import ImageContent, WindowedImage
    from qmcif_engine.io.zarr.growing_image import GrowingImage
    from qmcif_engine.io.zarr.ome_attributes import Extremes
    from qmcif_engine.run.tile_files import PlaneKind, TileReceipt
    from qmcif_engine.tiles.plan import Tile, TilePlan
    from qmcif_engine.tiles.task import FusedTile


class Job:
    """Tiles of one run in a folder, where the tasks that compute them put them.

    Parameters
    ----------
    folder : Path
    plan : TilePlan
    planes : mapping of str to PlaneKind
        The planes of a `FusedTile` that are kept in the files of the tiles, in order.
    n_images : int
    store : GrowingImage, optional
        Where the image goes instead, if the target is an OME-Zarr; the job gives it a folder.
    stored_planes : tuple of str
        The planes of a `FusedTile` that are the image: channels, or colors and alpha.
    """

    def __init__(
        self,
        folder: Path,
        plan: TilePlan,
        planes: Mapping[str, PlaneKind],
        *,
        n_images: int,
        store: GrowingImage | None = None,
        stored_planes: tuple[str, ...] = (),
    ) -> None:
        self.folder, self._plan, self._n_images = folder, plan, n_images
        self.store, self._stored_planes = store, stored_planes
        self._format = TileFormat(planes=dict(planes), n_images=n_images, n_stored_colors=0 if store is None else store.n_colors)
        self._lock = RunLock(folder / LOCK_NAME)
        self._bucket = RemoteStore(store.folder) if store is not None and isinstance(store.folder, RemotePath) else None
        self.is_partly_reached = self._bucket is not None
        self._run = ""
        self._ended: Path | None = None
        # whether the metadata of a store in a bucket is written: from then on readers find it
        self._is_shown = False

    @property
    def session(self) -> str:
        """What tells tiles that this run wrote from those of the runs it goes on with."""
        return self._lock.session

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
        with refusing(self.folder):
            is_new = not self.folder.exists() or self._take_up(identity, resume=resume, overwrite=overwrite)
            try:
                if is_new:
                    self._create(identity, overwrite=overwrite)
                self._begin_store(is_new=is_new)
            except BaseException:
                if is_new and self._lock.is_held():  # another run may have been faster
                    self.remove()
                self._lock.release()
                raise

    def _take_up(self, identity: str, *, resume: bool, overwrite: bool) -> bool:
        """Take the lock of an unfinished run to go on with it, or throw that run away; return whether a new one is needed."""
        self._lock.take()
        try:
            # a run that was killed while it placed its outputs: all are as they were before, whatever comes next
            roll_back(self.folder / JOURNAL_NAME)
            if resume:
                self._check_identity(identity)
                return False
            self._throw_away(overwrite=overwrite)
        except BaseException:
            self._lock.release()
            raise
        return True

    def _throw_away(self, *, overwrite: bool) -> None:
        if not overwrite:
            msg = (
                f"an unfinished run is in {str(self.folder)!r}: "
                "continue it (resume=True, --resume) or discard it (overwrite=True, --overwrite)"
            )
            raise OutputError(msg)
        with suppress(OSError, ValueError, KeyError, TypeError):  # then what it left in a bucket stays there
            self._run = checked_token(read_description(self.folder)["run"])
        self.remove()

    def _create(self, identity: str, *, overwrite: bool) -> None:
        """Make the folder, which gets its name with the lock and the description in it: nobody sees half a job."""
        # in the names of its tiles, so that those of a run before are never taken for its own
        self._run = secrets.token_hex(6)
        description = {"identity": identity, "run": self._run, "overwrite": overwrite}
        with temporary_in(self.folder.parent) as made:
            made.mkdir()
            contents = {made / LOCK_NAME: self._lock.describe(), made / DESCRIPTION_NAME: json.dumps(description).encode()}
            write_durably(contents, scratch_folder=made)
            try:
                # the folder of another run is not empty, and therefore not replaced: one of two runs fails here
                made.rename(self.folder)
            except OSError:
                recover(self.folder)  # says so where another run was faster
                raise
        sync_folder(self.folder.parent)

    def _begin_store(self, *, is_new: bool) -> None:
        if self.store is None:
            return
        if self._bucket is None:
            # in the folder, hence on the disk of the target: at the end it is moved by a single renaming
            self.store = replace(self.store, folder=self.folder / f"image-{self._run}.zarr")
        else:
            with refusing(self._bucket.folder):
                # nothing can be renamed there: chunks go to their final names, under a claim
                self._bucket.claim(self._run, is_new=is_new)
        self.store.begin()

    def _check_identity(self, identity: str) -> None:
        try:
            description = read_description(self.folder)
            known, self._run = description["identity"], checked_token(description["run"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            msg = f"{str(self.folder)!r} is not an unfinished run of this program ({error}); one is needed: start over with --overwrite"
            raise OutputError(msg) from error
        if known != identity:
            raise self.refuse_other_input()

    def refuse_other_input(self) -> OutputError:
        """Return the error for tiles that were made of something else."""
        return OutputError(
            f"the unfinished run in {str(self.folder)!r} has other images, settings or another version; the same are needed to continue: "
            "restore them, or start over with --overwrite"
        )

    def is_finished(self, tile: Tile) -> bool:
        """Return whether a tile is on the disk, as it was written."""
        path = self._path(tile)
        with suppress(OSError):
            # the size first: it costs no reading, and a tile of other planes has another one
            if path.stat().st_size != self._format.count_bytes(tile) or not self._format.is_intact(path, key=self._key(tile)):
                return False
            stored = self.receipt(tile).stored
            return stored is None or (self.store is not None and self._is_stored(self.store, tile, stored.checksum))
        return False

    def _is_stored(self, store: GrowingImage, tile: Tile, known: bytes) -> bool:
        """Return whether the store has the chunks of a tile; a bucket checks what it keeps, and is asked only whether it has them."""
        if self._bucket is not None:
            return store.full_level.is_stored(tile.core)
        return checksum(*store.full_level.contents(tile.core)) == known

    def write(self, tile: Tile, result: FusedTile | bytes) -> None:
        """Put a tile on the disk, or what a worker that wrote its chunks sent back of it."""
        with self._needing_folder():
            # chunks are on the disk before the receipt that speaks of them
            content = result if isinstance(result, bytes) else self._encode(tile, result)
            write_durably({self._path(tile): content}, scratch_folder=self.folder)

    def hand_over(self, tile: Tile, result: FusedTile) -> FusedTile | bytes:
        """Return what the client has to write of a tile, in a worker that does not see the folder; chunks of a bucket are written there."""
        return result if self._bucket is None else self._encode(tile, result)

    def _encode(self, tile: Tile, result: FusedTile) -> bytes:
        """Write the image of a tile where it goes into a store, and return what its file holds."""
        return self._format.encode(
            {name: getattr(result, name) for name in self._format.planes},
            result.source_index,
            input_digest=result.input_digest,
            session=self.session,
            stored=b"" if self.store is None else self._store_tile(self.store, tile, result),
            key=self._key(tile),
        )

    @contextmanager
    def _needing_folder(self) -> Iterator[None]:
        """Report what the system refuses inside the block, and a folder that was removed as such."""
        try:
            with refusing(self.folder):
                yield
        except OutputError as error:
            # removed by hand, or by a run that took this one for dead
            if error.errno == errno.ENOENT and not self.folder.exists():
                msg = (
                    f"the folder {str(self.folder)!r} was removed while a run was putting its tiles there; it is needed until the run has "
                    "ended: start the run again"
                )
                raise ExecutionError(msg) from error
            raise

    def _store_tile(self, store: GrowingImage, tile: Tile, result: FusedTile) -> bytes:
        """Write the image of a tile, and return its extremes and checksum as the receipt holds them."""
        shown = [getattr(result, name) for name in self._stored_planes]
        with refusing(self._bucket.folder) if self._bucket is not None else nullcontext():
            extremes, contents = store.write(tile.core, shown[0] if len(shown) == 1 else np.dstack(shown))
        return extremes.astype(EXTREME_DTYPE).tobytes() + checksum(*contents)

    def _path(self, tile: Tile) -> Path:
        """Return the file of a tile, which names the run: a worker may finish a tile after another run took the folder over."""
        return self.folder / f"tile-{self._run}-{tile.number:06d}"

    def _key(self, tile: Tile) -> str:
        return f"{self._run}-{tile.number}"

    def receipt(self, tile: Tile) -> TileReceipt:
        """Return what a finished tile was made of."""
        with self._needing_folder():
            return self._format.read_receipt(self._path(tile))

    def image(self, name: str) -> WindowedImage:
        """Return one plane of the whole result, to be read by window."""
        if self.store is not None and name in self._stored_planes:
            return self.store.colors
        return JobImage(self._path, self._key, self._plan, self._format, name)

    def beat(self) -> None:
        """Give other runs a sign of life, if one is due; raises where this run has lost its folder."""
        self._lock.beat()

    def journal(self) -> Journal:
        """Return where the moves of the outputs are noted; the job is over when all of them have arrived."""
        # the last moment at which a run that lost its folder can stop without harm
        self._lock.check()
        return Journal(self.folder / JOURNAL_NAME, commit=self._end)

    def _end(self) -> None:
        """Give the folder the name of something left behind: what is in it is not needed any more."""
        self._ended = self.folder.with_name(name_temporary())
        with refusing(self.folder):
            # one step, and the commit of the journal: before it all moves are taken back, after it none
            self.folder.rename(self._ended)
        self._lock.forget()
        sync_folder(self.folder.parent)

    def finish_store(self, content: ImageContent, extremes: Extremes) -> None:
        """Describe the image in the store, which makes one in a bucket a store."""
        if self.store is not None:
            self._is_shown = True
            self.store.finish(content, extremes)

    def release(self) -> None:
        """Leave the tiles to a later run."""
        self._lock.release()

    def give_up(self) -> None:
        """End without a result: leave the tiles to a later run, or remove the folder where none is finished and it is still ours."""
        # the outputs are in place; only the folder is left to be removed
        is_over = self._ended is not None
        is_kept = self.is_finished if self._bucket is None else lambda tile: self._path(tile).exists()  # the server may be what failed
        if self._bucket is not None and self._is_shown and not is_over:
            # readers find a store by its metadata, which must not outlive a failed run
            self._bucket.hide()
        with suppress(OSError, ExecutionError):  # what led here is the failure to report
            if is_over or (self._lock.is_held() and not any(map(is_kept, self._plan.tiles))):
                self.remove()
        self._lock.release()

    def remove(self) -> None:
        """Delete the folder, once it is known to be a job."""
        if self._ended is None:
            if self._bucket is not None and self._run:
                with refusing(self._bucket.folder):
                    self._bucket.discard(self._run)
            with refusing(self.folder):
                if not holds_job(self.folder):
                    msg = f"{str(self.folder)!r} is not an unfinished run of this program; its name is needed for this run: move it away"
                    raise OutputError(msg)
            self._end()
        elif self._bucket is not None:
            self._bucket.release()
        if self._ended is not None:
            with suppress(OSError):  # the next run will remove the rest
                settle(Leftover(self._ended, Kind.UNFINISHED, is_abandoned=True))
            self._ended = None

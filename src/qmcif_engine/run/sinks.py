"""Where the tiles of a job go, whoever computes them: a fusion of the job, or the smaller levels of its store."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from qmcif_engine.io.remote_path import RemotePath
from qmcif_engine.io.zarr.zarr_writer import ImageArray, ImageStore, halve_window
from qmcif_engine.run.execution import Steps, run_tiles
from qmcif_engine.run.job import EncodedTile, Job
from qmcif_engine.tiles.plan import Tile, TileGrid
from qmcif_engine.tiles.task import FusedTile

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True, slots=True)
class PartSink:
    """One fusion of a job as the place where tiles go."""

    job: Job
    part: int

    @property
    def is_partly_reached(self) -> bool:
        """Whether others reach a bucket, if not the folder."""
        return self.job.reaches_bucket

    def is_reached_by(self, client: Client | None) -> bool:
        """Return whether workers can put their tiles here: other processes of this machine, or all of a client that sees the folder."""
        if client is None or self.job.is_held:
            return not self.job.is_held
        from qmcif_engine.run.cluster import share_folder

        return share_folder(client, self.job.folder)

    def write(self, tile: Tile, result: FusedTile | EncodedTile) -> None:
        """Put a tile on the disk."""
        self.job.write(self.part, tile, result)

    def hand_over(self, tile: Tile, result: FusedTile) -> FusedTile | EncodedTile:
        """Return what the client has to write of a tile, in a worker that does not see the folder; chunks of a bucket are written there."""
        return self.job.encode(self.part, tile, result) if self.job.reaches_bucket else result


@dataclass(frozen=True, slots=True)
class HalvingTask:
    """What makes a window of a level of the one before; it can be sent to another process."""

    larger: ImageArray
    image: int

    def __call__(
        self, tile: Tile, *, check_cancelled: Callable[[], None] = lambda: None, report_image: Callable[[], None] = lambda: None
    ) -> NDArray[Any]:
        """Return the means of the samples that a window stands for."""
        return halve_window(self.larger, tile.core, self.image)


@dataclass(frozen=True, slots=True)
class LevelSink:
    """One image of a level as the place where tiles go."""

    level: ImageArray
    image: int

    def write(self, tile: Tile, result: NDArray[Any]) -> None:
        """Write the window of a tile."""
        self.level.write(tile.core, result, self.image)

    def is_reached_by(self, client: Client | None) -> bool:
        """Return whether workers can write here."""
        if client is None or isinstance(self.level.scratch_folder, RemotePath):
            return True
        from qmcif_engine.run.cluster import share_folder

        return share_folder(client, self.level.scratch_folder)


def grow_smaller_levels(store: ImageStore, *, tiles_at_once: int, client: Client | None, is_cancelled: Callable[[], bool] | None) -> None:
    """Make the smaller levels of images whose full level is complete."""
    # one level after the other: each is made of the chunks of the one before
    for larger, smaller in itertools.pairwise(store.levels):
        smaller.create()
        rows, columns = (
            [(start, min(start + block, side)) for start in range(0, side, block)]
            for side, block in zip(smaller.shape[:2], store.block_px, strict=True)
        )
        tiles = TileGrid((smaller.shape[0], smaller.shape[1]), 0, rows=rows, columns=columns)
        for image in range(store.n_images):
            steps = Steps(n_tiles=len(tiles), steps_a_tile=1, is_cancelled=is_cancelled)
            sink = LevelSink(smaller, image)
            run_tiles(HalvingTask(larger, image), tiles, sink=sink, tiles_at_once=tiles_at_once, steps=steps, client=client)

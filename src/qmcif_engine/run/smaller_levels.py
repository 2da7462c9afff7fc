"""Smaller levels of an image in a Zarr store, each made of the one before by whoever computes the tiles."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qmcif_engine.io.output.pyramid import halve
from qmcif_engine.io.remote.remote_path import RemotePath
from qmcif_engine.run.execution import run_tiles
from qmcif_engine.run.steps import Steps
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.plan import TileGrid

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributed import Client
    from numpy.typing import NDArray

    from qmcif_engine.io.zarr.growing_image import GrowingImage, GrowingLevel
    from qmcif_engine.tiles.plan import Tile


@dataclass(frozen=True, slots=True)
class HalvingTask:
    """What makes a window of a level of the one before; it can be sent to another process."""

    larger: GrowingLevel

    def __call__(
        self, tile: Tile, *, check_cancelled: Callable[[], None] = lambda: None, report_image: Callable[[], None] = lambda: None
    ) -> NDArray[Any]:
        """Return the means of the samples that a window stands for."""
        # at the lower and right border an odd side has no second sample: the window is cut there
        doubled = Window(*(2 * side for side in tile.core))
        return halve(self.larger.read(doubled.common(Window.whole(self.larger.shape))), is_index=False)


@dataclass(frozen=True, slots=True)
class LevelSink:
    """A level as the place where tiles go."""

    level: GrowingLevel

    def write(self, tile: Tile, result: NDArray[Any]) -> None:
        """Write the window of a tile."""
        self.level.write(tile.core, result)

    def is_reached_by(self, client: Client | None) -> bool:
        """Return whether workers can write here."""
        if client is None or isinstance(self.level.scratch_folder, RemotePath):
            return True
        from qmcif_engine.run.cluster import share_folder

        return share_folder(client, self.level.scratch_folder)


def grow_smaller_levels(image: GrowingImage, *, tiles_at_once: int, client: Client | None, is_cancelled: Callable[[], bool] | None) -> None:
    """Make the smaller levels of an image whose full level is complete."""
    for larger, smaller in itertools.pairwise(image.levels):
        # one level after the other: each is made of the chunks of the one before
        smaller.create()
        spans = (
            [(start, min(start + block, side)) for start in range(0, side, block)]
            for side, block in zip(smaller.shape[:2], image.block_px, strict=True)
        )
        tiles = TileGrid((smaller.shape[0], smaller.shape[1]), 0, rows=next(spans), columns=next(spans))
        steps = Steps(n_tiles=len(tiles), steps_a_tile=1, is_cancelled=is_cancelled)
        run_tiles(HalvingTask(larger), tiles, sink=LevelSink(smaller), tiles_at_once=tiles_at_once, steps=steps, client=client)

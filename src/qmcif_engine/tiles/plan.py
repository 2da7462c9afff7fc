"""Cut an image into tiles: cores that cover it once, each with a halo that holds what its decisions look at.

The plan is geometry alone. It follows from the shape of the image and the settings and from nothing else, so that chunks, schedulers,
workers, memory and interruptions cannot change a byte of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from qmcif_engine.method.patches import detail_patch_side
from qmcif_engine.stack.window import Window, cut_side, multiple_above
from qmcif_engine.tiles.stage_list import derive_halo

if TYPE_CHECKING:
    from qmcif_engine.config.fusion_config import FusionConfig


class Tile(NamedTuple):
    """Hold one unit of work: `core` is what it gives, `padded` what it reads."""

    number: int
    core: Window
    padded: Window


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Hold the tiles of an image, in row-major order.

    Attributes
    ----------
    shape : tuple of int
        Height and width of the image.
    halo_px : int
        How far a tile looks beyond its core, where the image goes on.
    tiles : tuple of Tile
    grid : tuple of int
        Rows and columns of tiles.
    """

    shape: tuple[int, int]
    halo_px: int
    tiles: tuple[Tile, ...]
    grid: tuple[int, int]

    @property
    def largest_padded_px(self) -> int:
        """Pixels of the largest padded window."""
        return max(height * width for height, width in (tile.padded.shape for tile in self.tiles))

    def tiles_in(self, window: Window) -> tuple[Tile, ...]:
        """Return the tiles whose cores a window touches."""
        return tuple(
            tile
            for tile in self.tiles
            if tile.core.top < window.bottom
            and window.top < tile.core.bottom
            and tile.core.left < window.right
            and window.left < tile.core.right
        )


def plan_tiles(shape: tuple[int, int], config: FusionConfig) -> TilePlan:
    """Return the tiles of an image of this shape.

    Cores start on multiples of the base patch side and are as equal as that allows. An image of no more pixels than the square of
    `tile_px` is one tile.
    """
    patch = config.decomposition.base_patch_px
    halo = multiple_above(derive_halo(config, detail_patch_px=detail_patch_side(shape, config.focus)), patch)
    rows, columns = (cut_side(side, shape=shape, tile_px=config.tiling.tile_px, multiple_of=patch) for side in shape)
    cores = [Window(top, left, bottom, right) for top, bottom in rows for left, right in columns]
    tiles = tuple(Tile(number, core, core.grown(halo, shape)) for number, core in enumerate(cores))
    return TilePlan(shape, halo, tiles, (len(rows), len(columns)))

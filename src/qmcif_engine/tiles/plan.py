"""The plan of tiles: cores that cover an image once, each with an overlap that holds what its decisions look at.

The plan is geometry alone. It follows from the shape of the image and the settings and from nothing else, so that chunks, schedulers,
workers, memory and interruptions cannot change a byte of the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from qmcif_engine.config.fusion_config import FusionConfig, RuleName
from qmcif_engine.rules import Rule
from qmcif_engine.stack.window import Window, cut_side, multiple_above

GRID_PX = 16
"""Side of the largest cells that decisions are made on."""

FEWEST_LARGE_TILES = 4
"""An image that would have fewer tiles than this is cut into smaller ones."""


def find_rule(config: FusionConfig) -> Rule:
    """Return the rule that the settings name; the other one is not loaded."""
    if config.decision.rule is RuleName.PAPER:
        from qmcif_engine.method.paper import RULE

        return RULE
    from qmcif_engine.decision import energy

    return energy.RULE


class Tile(NamedTuple):
    """One unit of work: `core` is what it gives, `padded` what it reads."""

    number: int
    core: Window
    padded: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class TilePlan(Sequence[Tile]):
    """Tiles of an image in row-major order, each made when it is asked for: a slide has hundreds of thousands.

    Attributes
    ----------
    shape : tuple of int
        Height and width of the image.
    overlap_px : int
        How far a tile looks beyond its core, where the image goes on.
    rows, columns : tuple of (int, int)
        Where rows and columns of tiles begin and end.
    """

    shape: tuple[int, int]
    overlap_px: int
    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        """Return the number of tiles."""
        return len(self.rows) * len(self.columns)

    @overload
    def __getitem__(self, number: int) -> Tile: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[Tile, ...]: ...

    def __getitem__(self, number: int | slice) -> Tile | tuple[Tile, ...]:
        """Return one tile, or those of a slice."""
        if isinstance(number, slice):
            return tuple(self[one] for one in range(*number.indices(len(self))))
        # a range knows negative numbers, and ends an iteration by its IndexError
        number = range(len(self))[number]
        row, column = divmod(number, len(self.columns))
        (top, bottom), (left, right) = self.rows[row], self.columns[column]
        core = Window(top, left, bottom, right)
        return Tile(number, core, core.grown(self.overlap_px, self.shape))

    @property
    def padded_px(self) -> int:
        """Pixels of all padded windows together."""
        # rows and columns are independent, so sums over tiles are products of sums over sides
        return math.prod(sum(sides) for sides in self._padded_sides())

    @property
    def largest_padded_px(self) -> int:
        """Pixels of the largest padded window."""
        return math.prod(max(sides) for sides in self._padded_sides())

    def _padded_sides(self) -> list[list[int]]:
        return [
            [min(stop + self.overlap_px, side) - max(start - self.overlap_px, 0) for start, stop in spans]
            for spans, side in zip((self.rows, self.columns), self.shape, strict=True)
        ]


def plan_tiles(shape: tuple[int, int], config: FusionConfig) -> TilePlan:
    """Return the tiles of an image of this shape.

    Cores start on multiples of the chunk side, and so of the grid of decisions, and are as equal as that allows. An image of no more
    pixels than a quarter of the square of `tile_px` is one tile.
    """
    chunk, tile_px = chunk_side(config), tile_side(shape, config)
    overlap = multiple_above(find_rule(config).reach_px(config, shape), grid_side(config))
    # an image of one tile need not be a multiple of the chunk; all others are cut along the grid of chunks
    longest = tile_px if shape[0] * shape[1] <= tile_px**2 else max(tile_px // chunk, 1) * chunk
    rows, columns = (tuple(cut_side(side, shape=shape, tile_px=longest, multiple_of=chunk)) for side in shape)
    return TilePlan(shape=shape, overlap_px=overlap, rows=rows, columns=columns)


def tile_side(shape: tuple[int, int], config: FusionConfig) -> int:
    """Return the side that tiles of an image of this shape have at most: `tile_px`, or half of it where there would be few of them.

    Large tiles spend less on their overlaps; several are needed for all cores to have work.
    """
    side = config.tiling.tile_px
    # rounded up along each side
    n_tiles = math.prod(-(-length // side) for length in shape)
    return side if n_tiles >= FEWEST_LARGE_TILES else side // 2


def chunk_side(config: FusionConfig) -> int:
    """Return the side of the chunks that cores are made of: no larger than a tile, and a multiple of the grid of decisions."""
    return multiple_above(min(config.tiling.chunk_px, config.tiling.tile_px), grid_side(config))


def grid_side(config: FusionConfig) -> int:
    """Return what the sides of cores and of overlaps are multiples of: cells of the decision, or base patches of the paper."""
    return config.method.base_patch_px if config.decision.rule is RuleName.PAPER else GRID_PX

"""Cut an image into tiles: cores that cover it once, each with a halo that holds what its decisions look at.

The plan is geometry alone. It follows from the shape of the image and the settings and from nothing else, so that chunks, schedulers,
workers, memory and interruptions cannot change a byte of the result.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, overload

from qmcif_engine.cleanup.blend_reach import reach_of_blend
from qmcif_engine.cleanup.regularization import REACH_PX
from qmcif_engine.method.patches import detail_patch_side
from qmcif_engine.stack.noise import LONGEST_BLUR_REACH_PX
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qmcif_engine.config.fusion_config import FusionConfig

SOLVE_MARGIN_PX = 24
"""The screened solve forgets what is this far away: the detail layer then changes by less than a hundredth of a gray level."""


class Tile(NamedTuple):
    """Hold one unit of work: `core` is what it gives, `padded` what it reads."""

    number: int
    core: Window
    padded: Window


class TileGrid(Sequence[Tile]):
    """Tiles in row-major order, each made when it is asked for: a slide has hundreds of thousands.

    Parameters
    ----------
    shape : tuple of int
        Height and width of the image.
    halo_px : int
        How far a tile looks beyond its core.
    rows, columns : sequence of (int, int)
        Where rows and columns of tiles begin and end.
    """

    def __init__(
        self, shape: tuple[int, int], halo_px: int, *, rows: Sequence[tuple[int, int]], columns: Sequence[tuple[int, int]]
    ) -> None:
        self._shape, self._halo_px = shape, halo_px
        self.rows, self.columns = tuple(rows), tuple(columns)

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
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        number %= len(self)
        row, column = divmod(number, len(self.columns))
        (top, bottom), (left, right) = self.rows[row], self.columns[column]
        core = Window(top, left, bottom, right)
        return Tile(number, core, core.grown(self._halo_px, self._shape))

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same tiles."""
        return isinstance(other, Sequence) and len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def touched_by(self, window: Window) -> tuple[Tile, ...]:
        """Return the tiles whose cores a window touches, without looking at the others."""
        rows, columns = _touched(self.rows, window.top, window.bottom), _touched(self.columns, window.left, window.right)
        return tuple(self[row * len(self.columns) + column] for row in rows for column in columns)


def _touched(spans: Sequence[tuple[int, int]], start: int, stop: int) -> range:
    """Return which of the spans, which ascend and meet, share something with another one."""
    first = bisect_right(spans, start, key=lambda span: span[1])
    return range(first, bisect_left(spans, stop, key=lambda span: span[0]))


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Tiles of an image, in row-major order.

    Attributes
    ----------
    shape : tuple of int
        Height and width of the image.
    halo_px : int
        How far a tile looks beyond its core, where the image goes on.
    tiles : TileGrid
    """

    shape: tuple[int, int]
    halo_px: int
    tiles: TileGrid

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return len(self.tiles.rows), len(self.tiles.columns)

    @property
    def padded_px(self) -> int:
        """Pixels of all padded windows together."""
        return self._padded_sides(0, sum) * self._padded_sides(1, sum)

    @property
    def largest_padded_px(self) -> int:
        """Pixels of the largest padded window."""
        return self._padded_sides(0, max) * self._padded_sides(1, max)

    def _padded_sides(self, axis: int, joined: Callable[[Iterable[int]], int]) -> int:
        spans, side = (self.tiles.rows, self.tiles.columns)[axis], self.shape[axis]
        return joined(min(stop + self.halo_px, side) - max(start - self.halo_px, 0) for start, stop in spans)

    def tiles_in(self, window: Window) -> tuple[Tile, ...]:
        """Return the tiles whose cores a window touches."""
        return self.tiles.touched_by(window)


def plan_tiles(shape: tuple[int, int], config: FusionConfig) -> TilePlan:
    """Return the tiles of an image of this shape.

    Cores start on multiples of the base patch side and are as equal as that allows. An image of no more pixels than the square of
    `tile_px` is one tile.
    """
    patch = config.decomposition.base_patch_px
    halo = _multiple_above(derive_halo(config, detail_patch_px=detail_patch_side(shape, config.focus)), patch)
    rows, columns = (cut_side(side, shape=shape, tile_px=config.tiling.tile_px, multiple_of=patch) for side in shape)
    return TilePlan(shape, halo, TileGrid(shape, halo, rows=rows, columns=columns))


def cut_side(side_px: int, *, shape: tuple[int, int], tile_px: int, multiple_of: int) -> list[tuple[int, int]]:
    """Cut one side of an image into spans of about `tile_px` that start on multiples; small images stay whole."""
    if shape[0] * shape[1] <= tile_px**2:
        return [(0, side_px)]
    n_parts = -(-side_px // tile_px)
    length = _multiple_above(-(-side_px // n_parts), multiple_of)
    return [(start, min(start + length, side_px)) for start in range(0, side_px, length)]


def derive_halo(config: FusionConfig, *, detail_patch_px: int) -> int:
    """Return how far beyond its core a tile looks.

    The sum of what the stages reach that act on every pixel, and the largest of those that act far: evidence of large windows, pixels
    without evidence, decisions made to fit together. All that the document lists would add up to nearly three times as much; what it adds
    are chains of rare events, one beginning where the other ends, and the outskirts of the largest window. `benchmarks/seams.py` shows how
    little they matter.
    """
    side, decision = detail_patch_px, config.decision
    on_every_pixel = (
        (LONGEST_BLUR_REACH_PX if config.focus.adapts_to_noise else 0)
        + SOLVE_MARGIN_PX
        + config.focus.amplification_radius_px
        + 1  # gradient
        + side // 2  # the detail patch itself
        + side // 2  # votes
        + side - 1  # similarity, and votes on it
        + decision.edge_band_px
        + reach_of_blend(decision)
    )  # fmt: skip
    fitting = REACH_PX if decision.consistency else 0
    return on_every_pixel + max(reach_of_evidence(config, detail_patch_px=side), decision.follow_reach_px, fitting)


def reach_of_evidence(config: FusionConfig, *, detail_patch_px: int) -> int:
    """Return half the side of the largest window but one whose focus levels count; the largest has little weight and much area."""
    n_windows = config.focus.evidence_scales - 1
    return 2 ** (n_windows - 2) * (detail_patch_px + 1) - 1 if n_windows > 1 else 0


def _multiple_above(length_px: int, unit_px: int) -> int:
    return -(-length_px // unit_px) * unit_px

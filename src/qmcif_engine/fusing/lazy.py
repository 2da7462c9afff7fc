"""Lazy fusion: dask arrays whose tiles are computed when, and only if, somebody asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import dask.array as da
import numpy as np
from dask.delayed import delayed

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.stack.guide import settle_guide
from qmcif_engine.stack.noise import settle_range_and_noise
from qmcif_engine.stack.separate_channels import channel_planes, settle_channels
from qmcif_engine.stack.stack import check_number, companions_of
from qmcif_engine.tiles.plan import plan_tiles
from qmcif_engine.tiles.task import TileTask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dask.delayed import Delayed
    from numpy.typing import DTypeLike

    from qmcif_engine.kernels.array_types import SampleArray
    from qmcif_engine.stack.samples import FocusRanges, GivenRanges
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.tiles.plan import TilePlan
    from qmcif_engine.tiles.task import FusedTile


@dataclass(frozen=True, slots=True)
class LazyFusion:
    """What `FusionResult` holds, not yet computed: one chunk a tile, all planes of a tile from one computation.

    Attributes
    ----------
    fused : dask array, shape (Y, X) or (Y, X, C)
    source_index, base_map, detail_map : dask array of uint16, shape (Y, X), or (Y, X, C) where each channel was decided on by itself
    confidence : dask array of float32, of the same shape
    config : FusionConfig
        The settings used.
    focus_range : FocusRange, or tuple of one a channel
        The samples that stand for 0 and 255 in the decisions.
    companions : dask array, shape (Y, X) or (Y, X, c), or None
        Alpha or further channels of the stack, composed by the same decisions; None for a stack without.
    position : dask array of float32, of the shape of `source_index`, or None
        Where along the stack each pixel is sharpest, where it was asked for.
    """

    fused: da.Array
    source_index: da.Array
    base_map: da.Array
    detail_map: da.Array
    confidence: da.Array
    config: FusionConfig
    focus_range: FocusRanges
    companions: da.Array | None = None
    position: da.Array | None = None


def fuse_lazily(
    stack: Stack,
    config: FusionConfig | None = None,
    *,
    guide: Stack | None = None,
    focus_range: GivenRanges | None = None,
    with_position: bool = False,
    channels: str | None = None,
) -> LazyFusion:
    """Return the fusion of a stack as dask arrays, for previews and pipelines.

    Only the samples that settle the focus range and the noise are read at once. The bytes are those of `qmcif_engine.fuse`, whose
    `guide`, `focus_range`, `with_position` and `channels` these are, whatever scheduler computes them; alpha and further channels of the
    stack are composed too. A chunk that is asked for twice is computed twice: for a whole large result use `qmcif_engine.fuse_to_file`.
    """
    settings = FusionConfig() if config is None else config
    stack = settle_channels(stack, channels)
    check_number(stack)
    companions = companions_of(stack)
    decided = settle_guide(guide, stack)
    bounds, noise_levels = settle_range_and_noise(stack if decided is None else decided, focus_range)
    plan = plan_tiles((stack.image_shape[0], stack.image_shape[1]), settings)
    task = delayed(
        TileTask(stack, settings, bounds, companions, with_position=with_position, noise_levels=noise_levels, guide=decided), pure=False
    )
    arrange = _Arrangement(plan, [task(tile) for tile in plan.tiles])
    maps = channel_planes(stack)
    return LazyFusion(
        fused=arrange(lambda tile: tile.fused, stack.dtype, stack.image_shape[2:]),
        source_index=arrange(lambda tile: tile.source_index, np.uint16, maps),
        base_map=arrange(lambda tile: tile.base_map, np.uint16, maps),
        detail_map=arrange(lambda tile: tile.detail_map, np.uint16, maps),
        confidence=arrange(lambda tile: tile.confidence, np.float32, maps),
        config=settings,
        focus_range=bounds,
        companions=None if companions is None else arrange(lambda tile: tile.companions, companions.dtype, companions.image_shape[2:]),
        position=arrange(lambda tile: tile.position, np.float32, maps) if with_position else None,
    )


class _Arrangement:
    """Fused tiles, not yet computed, and how a plane of them is put together."""

    def __init__(self, plan: TilePlan, tiles: Sequence[Delayed]) -> None:
        self._plan, self._tiles = plan, tiles

    def __call__(self, plane_of: Callable[[FusedTile], SampleArray | None], dtype: DTypeLike, channels: tuple[int, ...]) -> da.Array:
        """Return one plane as an array with a chunk for each tile."""
        take, cores = delayed(plane_of, pure=False), [tile.core.shape for tile in self._plan.tiles]
        chunks = [da.from_delayed(take(tile), (*core, *channels), dtype=dtype) for tile, core in zip(self._tiles, cores, strict=True)]
        n_columns = self._plan.grid[1]
        rows = [da.concatenate(chunks[start : start + n_columns], axis=1) for start in range(0, len(chunks), n_columns)]
        whole: da.Array = da.concatenate(rows, axis=0)
        return whole
